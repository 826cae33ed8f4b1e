"""DP-GD: gradient descent with full-batch noisy gradients (paper ERM, Algorithm 4).

    name here        paper   meaning
    steps            T       iterations
    learning_rate    η       step size; 1/L in the theorems
    clip             G       bound on one record's gradient norm (an assumption in print, enforced here)
    output                   "last" for PL objectives (Thm 6.2), "random" for non-convex ones (Thm 6.3); `for_problem`

Privacy. One query per step, Q(∇f(x_t), C, q = 1): T full-pass Gaussian queries. In print the noise comes from a
bound with hidden constants; here it is calibrated numerically, and the regulariser enters by its proximal operator.
An optimiser's update is post-processing of the answers.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Report, rate_at
from gossamer.methods.fields import Clip, Count, LearningRate, Optimizer, Output
from gossamer.methods.optimizers import Optimized
from gossamer.methods.theory import condition_number, positive, signal, whole
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.schedule import Query, Schedule


class GDState(NamedTuple):
    """The iterate, and what the optimiser remembers."""

    x: PyTree
    memory: PyTree


@dataclass(frozen=True, repr=False)
class GD(Optimized):
    """DP gradient descent: every step asks all records.

    Args:
      steps: iterations T. The noise of each grows with √T.
      learning_rate: η; near 1/L for an L-smooth loss. With an optimiser, only the step size of the penalty's prox.
      clip: bound on one record's gradient.
      output: "last", "average", "random" or "smallest_gradient".
      optimizer: any optax optimiser to move x by the private gradient instead, before prox; post-processing.
    """

    steps: Count = 100
    learning_rate: LearningRate = 1.0
    clip: Clip = 1.0
    output: Output = "last"
    optimizer: Optimizer = None

    @classmethod
    def for_problem(
        cls,
        n: int,
        d: int,
        budget: Budget,
        *,
        smoothness: float,
        strong_convexity: float | None = None,
        gap: float | None = None,
        **options: Any,
    ) -> "GD":
        """Return the settings of Theorem 6.2 if the objective is PL, else those of Theorem 6.3, with η = 1/L.

        With s = nε/√(d ln(1/δ)), T queries of all records have noise of squared length 8TG²/s², to leading order
        (2TG²/s² for neighbours by adding or removing).

        * PL (each strongly convex objective is): the excess risk falls from F₀ by 1 − μ/L in a step (proof of Theorem
          6.2, eq. 80), so that T = (L/μ) ln(F₀μs²/G²) steps take it to G²/(μs²), the order of the noise's part; the
          last iterate. A gradient of length G at most leaves F₀ ≤ G²/(2μ).
        * Else the mean of ‖∇F‖² along the run is at most 2LF₀/T + 8TG²/s² (eq. 86): T = s√(LF₀)/(2G) is best; a random
          iterate. The theorem prints T = √L·s/G, for F₀ of the order of 1.

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent; ε must be finite.
          smoothness: L, of the mean loss.
          strong_convexity: μ, of the mean loss, or the constant of its Polyak–Łojasiewicz inequality.
          gap: F₀, how far the objective is above its minimum at the start; it may be left out if μ is given.
          options: other settings, such as the clip G, which should bound one record's gradient.
        """
        s, bound = signal(n, d, budget), options.get("clip", cls.clip)
        if strong_convexity is not None:
            condition = condition_number(smoothness, strong_convexity, name="strong_convexity")
            gap = bound**2 / (2 * strong_convexity) if gap is None else gap
            positive(gap=gap)
            steps, output = condition * math.log(max(1.0, gap * strong_convexity * s**2 / bound**2)), "last"
        elif gap is None:
            raise ValueError("give gap, or strong_convexity: the number of steps follows from what is to be descended.")
        else:
            positive(smoothness=smoothness, gap=gap)
            noise = math.sqrt(8 if budget.neighbors == "replace_one" else 2)
            steps, output = math.sqrt(2 * smoothness * gap) * s / (noise * bound), "random"
        theory: dict[str, Any] = dict(steps=whole(steps), learning_rate=1 / smoothness, output=output)
        return cls(**{**theory, **options})

    def schedule(self, n: int) -> Schedule:
        """Return `steps` full passes."""
        return Schedule((Query("gradient", count=self.steps, clip=f"{self.clip:g}"),))

    def init(self, problem: ERM, params: PyTree) -> GDState:
        """Start with an optimiser that has seen nothing."""
        return GDState(params, self.memory(params))

    def step(self, problem: ERM, ask: Ask, state: GDState, t: jax.Array) -> tuple[GDState, Report]:
        """x ← prox_{ηr}(x − η Q(∇f(x), C, 1))."""
        eta = rate_at(self.learning_rate, t)
        gradient = ask("gradient", Gradient(problem.loss, state.x), clip=self.clip)
        moved, memory = self.descend(state.x, gradient, eta, state.memory)
        return GDState(problem.prox(moved, eta), memory), Report(state.x, trees.norm(gradient))

    def params(self, state: GDState) -> PyTree:
        """Return x."""
        return state.x
