"""DP-SVRG++: epochs of doubling length, for convex losses that need not be strongly convex (paper ERM, Algorithm 2).

    name here        paper   meaning
    steps            T       epochs; epoch s = 1, …, T has 2^s·m inner steps
    inner_steps      m       Θ(L) in Theorem 4.4
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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients, trees
from gossamer.budget import Budget
from gossamer.methods.base import Method, Report, declare, sampling_rate
from gossamer.oracle import Ask, Gradient
from gossamer.schedule import Query, Schedule

PyTree = Any


class SVRGppState(NamedTuple):
    """The anchor x̃ and the iterate x from which the next epoch starts."""

    anchor: PyTree
    x: PyTree


@dataclass(frozen=True)
class SVRGpp(Method):
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

    steps: int = 8
    inner_steps: int = 4
    learning_rate: float = 0.5
    clip: float = 1.0
    smoothness: float = 1.0
    batch_size: int = 256
    noise: tuple[float, ...] | None = None
    output: str = "last"

    def check(self) -> None:
        """Refuse a number of epochs whose inner steps no machine would finish."""
        super().check()
        if self.steps > 24:
            raise ValueError(f"steps = {self.steps} is too many: the last epoch would make 2^{self.steps} inner steps.")

    @classmethod
    def for_problem(
        cls, n: int, d: int, smoothness: float, budget: Budget, *, lipschitz: float = 1.0, batch_size: int = 256
    ) -> "SVRGpp":
        """Return the parameters of Theorem 4.4: η = 1/(L(1 + 12/b)), m = Θ(L), 2^T = nε/(4·lipschitz·√(d ln(1/δ))).

        The printed η = 1/(13L) is this one for samples of one record: the sampling variance falls with b.
        """
        batch = min(batch_size, n)
        signal = n * min(budget.epsilon, 1e3) / (lipschitz * math.sqrt(d * -math.log(budget.delta)))
        return cls(
            steps=max(2, round(math.log2(max(signal / 4, 1.0)))),
            inner_steps=max(1, math.ceil(smoothness)),
            learning_rate=1 / (smoothness * (1 + 12 / batch)),
            clip=lipschitz,
            smoothness=smoothness,
            batch_size=batch,
        )

    def schedule(self, n: int) -> Schedule:
        """Return one full pass an epoch and a sample an inner step."""
        rate = sampling_rate(self.batch_size, n)
        return declare(
            self.noise,
            Query("anchor", count=self.steps, clip=f"{self.clip:g}"),
            Query(
                "difference",
                count=(2 ** (self.steps + 1) - 2) * self.inner_steps,
                rate=rate,
                clip=f"min({2 * self.clip:g}, {self.smoothness:g}·distance to the anchor)",
                weight=1 / (rate**2 * 2**self.steps * self.inner_steps),
            ),
        )

    def init(self, problem: Any, params: PyTree) -> SVRGppState:
        """Start at the first anchor."""
        return SVRGppState(params, params)

    def step(self, problem: Any, ask: Ask, state: SVRGppState, t: jax.Array) -> tuple[SVRGppState, Report]:
        """Run epoch s = t + 1."""
        gradient = ask("anchor", Gradient(problem.loss, state.anchor), clip=self.clip)
        count = self.inner_steps * jnp.left_shift(2, t)
        eta = jnp.float32(self.learning_rate)
        x, mean = gradients.epoch(problem, ask, state.x, state.anchor, gradient, count, eta, self.clip, self.smoothness)
        return SVRGppState(mean, x), Report(state.anchor, trees.norm(gradient))

    def params(self, state: SVRGppState) -> PyTree:
        """Return x̃."""
        return state.anchor
