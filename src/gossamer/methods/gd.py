"""DP-GD: gradient descent with full-batch noisy gradients (paper ERM, Algorithm 4).

    name here        paper   meaning
    steps            T       iterations
    learning_rate    η       step size; 1/L in the theorems
    clip             G       bound on one record's gradient norm (an assumption in print, enforced here)
    output                   "last" for PL objectives (Thm 6.2), "random" for non-convex ones (Thm 6.3)

Privacy. One query per step, Q(∇f(x_t), C, q = 1): T full-pass Gaussian queries. In print the noise comes from a
bound with hidden constants; here it is calibrated numerically, and the regulariser enters by its proximal operator.
An optimiser's update is post-processing of the answers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Report, rate_at
from gossamer.methods.fields import Clip, Count, LearningRate, Optimizer, Output
from gossamer.methods.optimizers import Optimized
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
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
