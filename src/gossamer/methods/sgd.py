"""DP-SGD: noisy gradients of Poisson samples, with momentum (Abadi et al., 2016).

    name here        there   meaning
    steps            T       iterations
    batch_size       L       expected size of a sample ("lot"); its rate is L/n
    learning_rate    η_t     a number or an optax schedule
    clip             C       bound on one record's gradient norm
    momentum                 heavy-ball weight of the previous direction

Privacy. One query per step, Q(∇f(x_t), C, q = batch_size/n): T Poisson-sampled Gaussian queries. There the sum is
divided by the expected size of the sample, as here; many implementations divide by the realised size or shuffle
epochs while they account for Poisson samples, and the audit's controls catch both.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from gossamer import trees
from gossamer.methods.base import LearningRate, Method, Report, rate_at, sampling_rate
from gossamer.oracle import Ask, Gradient
from gossamer.schedule import Query, Schedule

PyTree = Any


class SGDState(NamedTuple):
    """The iterate and the direction, a decaying sum of private gradients."""

    x: PyTree
    direction: PyTree


@dataclass(frozen=True)
class SGD(Method):
    """DP stochastic gradient descent: every step asks a Poisson sample.

    Args:
      steps: iterations T.
      learning_rate: η_t, a number or a function of the step such as an optax schedule.
      clip: bound on one record's gradient.
      batch_size: expected number of records in a sample.
      momentum: in [0, 1); 0 is plain SGD.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: int = 1000
    learning_rate: LearningRate = 0.5
    clip: float = 1.0
    batch_size: int = 256
    momentum: float = 0.0
    output: str = "last"

    def check(self) -> None:
        """Refuse a momentum outside [0, 1) besides what every method refuses."""
        super().check()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum = {self.momentum!r} must be in [0, 1).")

    def schedule(self, n: int) -> Schedule:
        """Return `steps` Poisson samples."""
        rate = sampling_rate(self.batch_size, n)
        return Schedule((Query("gradient", count=self.steps, rate=rate, clip=f"{self.clip:g}"),))

    def init(self, problem: Any, params: PyTree) -> SGDState:
        """Start at rest."""
        return SGDState(params, trees.zeros_like(params))

    def step(self, problem: Any, ask: Ask, state: SGDState, t: jax.Array) -> tuple[SGDState, Report]:
        """v ← βv + Q(∇f(x), C, q);  x ← prox_{ηr}(x − ηv)."""
        eta = rate_at(self.learning_rate, t)
        gradient = ask("gradient", Gradient(problem.loss, state.x), clip=self.clip)
        direction = trees.add(gradient, state.direction, self.momentum)
        after = problem.prox(trees.add(state.x, direction, -eta), eta)
        return SGDState(after, direction), Report(state.x, trees.norm(gradient))

    def params(self, state: SGDState) -> PyTree:
        """Return x."""
        return state.x
