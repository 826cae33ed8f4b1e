"""DP-GD: gradient descent with full-batch noisy gradients (paper ERM, Algorithm 4).

    name here        paper   meaning
    steps            T       iterations
    learning_rate    η       step size; 1/L in the theorems
    clip             G       bound on one record's gradient norm (an assumption in print, enforced here)
    output                   "last" for PL objectives (Thm 6.2), "random" for non-convex ones (Thm 6.3)

Privacy. One query per step, Q(∇f(x_t), C, q = 1): T full-pass Gaussian queries. In print the noise comes from a
bound with hidden constants; here it is calibrated numerically, and the regulariser enters by its proximal operator.
"""

from dataclasses import dataclass
from typing import Any

import jax

from gossamer import trees
from gossamer.methods.base import LearningRate, Method, Report, rate_at
from gossamer.oracle import Ask, Gradient
from gossamer.schedule import Query, Schedule

PyTree = Any


@dataclass(frozen=True)
class GD(Method):
    """DP gradient descent: every step asks all records.

    Args:
      steps: iterations T. The noise of each grows with √T.
      learning_rate: η; near 1/L for an L-smooth loss.
      clip: bound on one record's gradient.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: int = 100
    learning_rate: LearningRate = 1.0
    clip: float = 1.0
    output: str = "last"

    def schedule(self, n: int) -> Schedule:
        """Return `steps` full passes."""
        return Schedule((Query("gradient", count=self.steps, clip=f"{self.clip:g}"),))

    def init(self, problem: Any, params: PyTree) -> PyTree:
        """The state is the iterate."""
        return params

    def step(self, problem: Any, ask: Ask, state: PyTree, t: jax.Array) -> tuple[PyTree, Report]:
        """x ← prox_{ηr}(x − η Q(∇f(x), C, 1))."""
        eta = rate_at(self.learning_rate, t)
        gradient = ask("gradient", Gradient(problem.loss, state), clip=self.clip)
        after = problem.prox(trees.add(state, gradient, -eta), eta)
        return after, Report(state, trees.norm(gradient))

    def params(self, state: PyTree) -> PyTree:
        """The state is the iterate."""
        return state
