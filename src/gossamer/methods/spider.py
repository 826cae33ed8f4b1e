"""DP-SPIDER: a gradient estimate carried along by differences, for non-convex losses (Arora et al., 2023, Algorithm 1).

    name here            there   meaning
    steps                T       iterations
    period               q       steps between refreshes
    learning_rate        η       step size
    clip                 L0      bound on one record's gradient norm (an assumption there, enforced here)
    smoothness           L1      bound on how fast one record's gradient changes; sets the threshold of differences
    refresh_batch_size   b1      expected size of the sample of a refresh; None: all records
    batch_size           b2      expected size of the sample of a difference

Privacy. Every step asks one query: at a refresh "gradient", Q(∇f(x_t), C, b1/n), and else "difference",
Q(∇f(x_t) − ∇f(x_{t−1}), C_t, b2/n) with C_t = min(2C, L‖x_t − x_{t−1}‖), a function of private outputs.

Split. k steps after a refresh the estimate carries one refresh's noise and k differences', k about (period − 1)/2. A
step moves by at most ηC, or thereabouts, so C_t is taken as min(2, Lη)·C.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, rate_at, sampling_rate, typical_rate
from gossamer.methods.fields import Clip, Count, LearningRate, Noise, Output, Smoothness
from gossamer.methods.theory import batch_for, signal, walk
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Difference, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class SpiderState(NamedTuple):
    """The iterate, the one before it, and the gradient estimate v."""

    x: PyTree
    before: PyTree
    estimate: PyTree


@dataclass(frozen=True)
class Spider(Method[ERM]):
    """DP-SPIDER: a refreshed gradient now and then, differences between.

    Args:
      steps: iterations T.
      period: steps between refreshes.
      learning_rate: η_t, a number or a function of the step.
      clip: bound on one record's gradient.
      smoothness: L, bound on how fast one record's gradient changes.
      batch_size: expected number of records in a difference.
      refresh_batch_size: expected number of records in a refresh; None asks all of them.
      noise: relative noise of ("gradient", "difference"); None splits it automatically.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 200
    period: Count = 10
    learning_rate: LearningRate = 0.5
    clip: Clip = 1.0
    smoothness: Smoothness = 1.0
    batch_size: Count = 256
    refresh_batch_size: Count | None = None
    noise: Noise = None
    output: Output = "last"

    @classmethod
    def for_problem(cls, n: int, d: int, budget: Budget, *, smoothness: float, gap: float, **options: Any) -> "Spider":
        """Return the settings of Arora et al.'s Theorem 4.2: T = (LF₀/G²)^(1/3) s^(4/3), q = s²/T, b1 = n, η = 1/(2L).

        With s = nε/√(d ln(1/δ)). A difference asks max(s²/T, n/√T) records, or more where accounting needs it
        (`theory.batch_for`); the theorem's other arm, T ≥ s, binds only where LF₀ < G²/s. The gradient of a random
        iterate is then of the order (LF₀G)^(1/3) s^(−2/3). Constants that the theorem hides are 1.

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent; ε must be finite.
          smoothness: L, of one record's loss.
          gap: F₀, how far the objective is above its minimum at the start.
          options: other settings, such as the clip G, which should bound one record's gradient.
        """
        bound = options.get("clip", cls.clip)
        steps, period, batch, _ = walk(n, signal(n, d, budget), smoothness=smoothness, gap=gap, bound=bound)
        carried = max(1, gradients.refreshes(steps, period)[1])
        theory = dict(
            steps=steps,
            period=period,
            learning_rate=1 / (2 * smoothness),
            smoothness=smoothness,
            batch_size=batch_for(batch, carried, n, budget),
            output="random",
        )
        return cls(**{**theory, **options})

    def schedule(self, n: int) -> Schedule:
        """Return the refreshes and the differences."""
        fresh, carried = gradients.refreshes(self.steps, self.period)
        refresh_rate = 1.0 if self.refresh_batch_size is None else sampling_rate(self.refresh_batch_size, n)
        rate = sampling_rate(self.batch_size, n)
        gradient = Query("gradient", fresh, Poisson(refresh_rate), clip=f"{self.clip:g}", weight=1 / refresh_rate**2)
        if not carried:
            return declare(self.noise, gradient)
        shrink = min(2.0, self.smoothness * typical_rate("learning_rate", self.learning_rate, self.steps))
        difference = Query(
            "difference",
            carried,
            Poisson(rate),
            clip=f"min({2 * self.clip:g}, {self.smoothness:g}·distance to the last iterate)",
            weight=max(1, self.period - 1) / 2 * (shrink / rate) ** 2,
            gradients=2,
        )
        return declare(self.noise, gradient, difference)

    def init(self, problem: ERM, params: PyTree) -> SpiderState:
        """Start with no estimate: the first step refreshes it."""
        return SpiderState(params, params, trees.zeros_like(params))

    def step(self, problem: ERM, ask: Ask, state: SpiderState, t: jax.Array) -> tuple[SpiderState, Report]:
        """v ← Q(∇f(x)) or v + Q(∇f(x) − ∇f(x′));  x ← prox_{ηr}(x − ηv)."""
        eta = rate_at(self.learning_rate, t)
        threshold = gradients.difference_clip(self.clip, self.smoothness, state.x, state.before)
        v = gradients.carried_along(
            ask,
            gradients.is_refresh(t, self.steps, self.period),
            fresh=lambda ask: ask("gradient", Gradient(problem.loss, state.x), self.clip),
            change=lambda ask: ask("difference", Difference(problem.loss, state.x, state.before), threshold),
            estimate=state.estimate,
        )
        after = problem.prox(trees.add(state.x, v, -eta), eta)
        return SpiderState(after, state.x, v), Report(state.x, trees.norm(v))

    def params(self, state: SpiderState) -> PyTree:
        """Return x."""
        return state.x
