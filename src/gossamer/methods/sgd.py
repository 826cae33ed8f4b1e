"""DP-SGD: noisy gradients of Poisson samples, with momentum (Abadi et al., 2016).

    name here        there   meaning
    steps            T       iterations
    batch_size       L       expected size of a sample ("lot"); its rate is L/n
    learning_rate    η_t     a number or an optax schedule
    clip             C       bound on one record's gradient norm
    momentum                 heavy-ball weight of the previous direction

Privacy. One query per step, Q(∇f(x_t), C, q = batch_size/n): T Poisson-sampled Gaussian queries. There the sum is
divided by the expected size of the sample, as here; many implementations divide by the realised size or shuffle
epochs while they account for Poisson samples, and the audit's controls catch both. An optimiser's
update is post-processing of the answers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Report, rate_at, sampling_rate
from gossamer.methods.fields import Clip, Count, LearningRate, Momentum, Optimizer, Output
from gossamer.methods.optimizers import Optimized
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class SGDState(NamedTuple):
    """The iterate, the direction, a decaying sum of private gradients, and what the optimiser remembers."""

    x: PyTree
    direction: PyTree
    memory: PyTree


@dataclass(frozen=True, repr=False)
class SGD(Optimized):
    """DP stochastic gradient descent: every step asks a Poisson sample.

    Args:
      steps: iterations T.
      learning_rate: η_t, a number or a function of the step such as an optax schedule. With an optimiser, only the
        step size of the penalty's prox.
      clip: bound on one record's gradient.
      batch_size: expected number of records in a sample.
      momentum: in [0, 1); 0 is plain SGD.
      output: "last", "average", "random" or "smallest_gradient".
      optimizer: any optax optimiser to move x by the private gradient instead, before prox; post-processing.
    """

    steps: Count = 1000
    learning_rate: LearningRate = 0.5
    clip: Clip = 1.0
    batch_size: Count = 256
    momentum: Momentum = 0.0
    output: Output = "last"
    optimizer: Optimizer = None

    def check(self) -> None:
        """Also refuse momentum next to an optimiser."""
        super().check()
        if self.optimizer is not None and self.momentum:
            raise ValueError(f"momentum = {self.momentum:g} does not go with an optimizer. Give the optimiser its own.")

    def schedule(self, n: int) -> Schedule:
        """Return `steps` Poisson samples."""
        rate = sampling_rate(self.batch_size, n)
        return Schedule((Query("gradient", count=self.steps, sampling=Poisson(rate), clip=f"{self.clip:g}"),))

    def init(self, problem: ERM, params: PyTree) -> SGDState:
        """Start at rest."""
        return SGDState(params, trees.zeros_like(params), self.memory(params))

    def step(self, problem: ERM, ask: Ask, state: SGDState, t: jax.Array) -> tuple[SGDState, Report]:
        """v ← βv + Q(∇f(x), C, q);  x ← prox_{ηr}(x − ηv)."""
        eta = rate_at(self.learning_rate, t)
        gradient = ask("gradient", Gradient(problem.loss, state.x), clip=self.clip)
        direction = trees.add(gradient, state.direction, self.momentum)
        moved, memory = self.descend(state.x, direction, eta, state.memory)
        return SGDState(problem.prox(moved, eta), direction, memory), Report(state.x, trees.norm(gradient))

    def params(self, state: SGDState) -> PyTree:
        """Return x."""
        return state.x
