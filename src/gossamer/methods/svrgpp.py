"""DP-SVRG++: epochs of doubling length, for convex losses that need not be strongly convex (paper ERM, Algorithm 2).

    name here        paper   meaning
    steps            T       epochs; epoch s = 1, …, T has 2^s·m inner steps
    inner_steps      m       Θ(L) in Theorem 4.4, LD²/F₀ in any unit
    learning_rate    η       step size; 1/(13L) there, with one record per step
    clip             G       bound on one record's gradient norm (an assumption in print, enforced here)
    smoothness       L       bound on how fast one record's gradient changes; sets the threshold of differences
    batch_size       (1)     expected size of the sample of an inner step
    anchor           x̃       the mean of the last epoch's iterates
    x                x_0^s   where the next epoch starts: at the last iterate, not at the anchor

Privacy. As for SVRG: T queries "anchor", each noised once instead of once per inner step, and (2^{T+1} − 2)·m queries
"difference" with the threshold min(2C, L‖x − x̃‖).

Split. As for SVRG, with the inner steps of the last epoch, whose mean is returned.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, sampling_rate
from gossamer.methods.fields import Clip, Count, FixedRate, Noise, Output, Smoothness, Whole
from gossamer.methods.theory import positive
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class SVRGppState(NamedTuple):
    """The anchor x̃ and the iterate x from which the next epoch starts."""

    anchor: PyTree
    x: PyTree


@dataclass(frozen=True)
class SVRGpp(Method[ERM]):
    """DP-SVRG++: SVRG with epochs of doubling length, for losses that are merely convex.

    Args:
      steps: epochs T; epoch s has 2^s·inner_steps steps.
      inner_steps: m.
      learning_rate: η.
      clip: bound on one record's gradient.
      smoothness: L, bound on how fast one record's gradient changes.
      batch_size: expected number of records in an inner step.
      noise: relative noise of ("anchor", "difference"); None splits it automatically.
      output: "last", "average", "random" or "smallest_gradient", among the anchors.
    """

    steps: Annotated[int, Whole(1, 24, because="epoch s makes 2^s·inner_steps inner steps")] = 8
    inner_steps: Count = 4
    learning_rate: FixedRate = 0.5
    clip: Clip = 1.0
    smoothness: Smoothness = 1.0
    batch_size: Count = 256
    noise: Noise = None
    output: Output = "last"

    @classmethod
    def for_problem(
        cls, n: int, d: int, budget: Budget, *, smoothness: float, distance: float = 1.0, **options: Any
    ) -> "SVRGpp":
        """Return the parameters of Theorem 4.4: η = 1/(L(1 + 12/b)), m = LD/G, 2^T = nε/(4√(d ln(1/δ))).

        The printed η = 1/(13L) is this one for samples of one record: the sampling variance falls with b. After T
        epochs the bound is of the order (F₀ + LD²/m)/2^T, with F₀ ≤ GD what is left to descend at the start. So more
        inner steps than LD/G bring nothing. (The theorem prints Θ(L), and nε/(G√(d ln(1/δ))) for 2^T, which are these
        where G and D are 1.) There the bound is of the order of the noise's part, GD√(d ln(1/δ))/(nε).

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent.
          smoothness: L, of one record's loss.
          distance: D, how far the start is from a minimiser.
          options: other settings, such as the clip G, which should bound one record's gradient.
        """
        positive(smoothness=smoothness, distance=distance)
        clip, batch = options.pop("clip", cls.clip), min(options.pop("batch_size", cls.batch_size), n)
        signal = n * min(budget.epsilon, 1e3) / math.sqrt(d * -math.log(budget.delta))
        theory = dict(
            steps=max(2, round(math.log2(max(signal / 4, 1.0)))),
            inner_steps=math.ceil(smoothness * distance / clip),
            learning_rate=1 / (smoothness * (1 + 12 / batch)),
            clip=clip,
            smoothness=smoothness,
            batch_size=batch,
        )
        return cls(**{**theory, **options})

    def schedule(self, n: int) -> Schedule:
        """Return one full pass an epoch and a sample an inner step."""
        rate = sampling_rate(self.batch_size, n)
        return declare(
            self.noise,
            Query("anchor", count=self.steps, clip=f"{self.clip:g}"),
            Query(
                "difference",
                count=(2 ** (self.steps + 1) - 2) * self.inner_steps,
                sampling=Poisson(rate),
                clip=f"min({2 * self.clip:g}, {self.smoothness:g}·distance to the anchor)",
                weight=1 / (rate**2 * 2**self.steps * self.inner_steps),
                gradients=2,
            ),
        )

    def init(self, problem: ERM, params: PyTree) -> SVRGppState:
        """Start at the first anchor."""
        return SVRGppState(params, params)

    def step(self, problem: ERM, ask: Ask, state: SVRGppState, t: jax.Array) -> tuple[SVRGppState, Report]:
        """Run epoch s = t + 1."""
        gradient = ask("anchor", Gradient(problem.loss, state.anchor), clip=self.clip)
        x, mean = gradients.epoch(
            problem,
            ask,
            start=state.x,
            anchor=state.anchor,
            anchor_gradient=gradient,
            count=self.inner_steps * jnp.left_shift(2, t),
            eta=jnp.float32(self.learning_rate),
            clip=self.clip,
            smoothness=self.smoothness,
        )
        return SVRGppState(mean, x), Report(state.anchor, trees.norm(gradient))

    def params(self, state: SVRGppState) -> PyTree:
        """Return x̃."""
        return state.anchor
