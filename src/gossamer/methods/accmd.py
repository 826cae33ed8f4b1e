"""DP-AccMD: accelerated mirror descent on a ball or the simplex, for high dimension (paper ERM, Algorithm 3).

    name here    paper     meaning
    steps        T         iterations; T² of the order L·nε in Theorem 5.4
    smoothness   L‖𝒞‖₂²    bound on how fast the gradient changes, in the norm of the set: ‖·‖₂ on the L2 ball, ‖·‖₁
                           on the L1 ball and the simplex (a loss L-smooth in ‖·‖₂ is L-smooth in ‖·‖₁ too)
    clip         G         bound on one record's gradient, in ‖·‖₂ (an assumption in print, enforced here)
    weight       r_k       2/(k + 2)
    alpha        α_{k+1}   (k + 2)/(4L)

Privacy. One query per step, Q(∇f(x_{k+1}), C, 1): T full-pass Gaussian queries. *Changed:* in print the z-step has
noise but the y-step uses the exact ∇F(x_{k+1}), and y_T is the output: not private, and the proof of Theorem 5.3 covers
only ∇F + noise. Here one noisy g serves both steps.

Norms. The paper writes the steps in the Minkowski norm ‖·‖_𝒞, whose unit ball is 𝒞, with the *diameter* ‖𝒞‖₂. For a
ball of radius R, ‖v‖₂ ≤ R‖v‖_𝒞 already holds with the radius, and L·R²·‖v‖_𝒞² = L‖v‖² in the set's own norm: so the
radius cancels, and L is four times smaller than with the diameter. `geometry/descent.py` has both steps, exactly.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import geometry
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report
from gossamer.methods.fields import Clip, Count, Output, Smoothness
from gossamer.methods.theory import positive
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.schedule import Query, Schedule


class AccMDState(NamedTuple):
    """The two sequences: y by steepest descent, z by mirror descent."""

    y: PyTree
    z: PyTree


@dataclass(frozen=True)
class AccMD(Method[ERM]):
    """DP accelerated mirror descent on `gs.L2Ball`, `gs.L1Ball` or `gs.Simplex`: every step asks all records.

    Args:
      steps: iterations T.
      smoothness: L, in the norm of the set.
      clip: bound on one record's gradient.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 50
    smoothness: Smoothness = 1.0
    clip: Clip = 1.0
    output: Output = "last"

    @classmethod
    def for_problem(
        cls,
        n: int,
        d: int,
        budget: Budget,
        *,
        smoothness: float,
        constraint: geometry.Constraint,
        **options: Any,
    ) -> "AccMD":
        """Return the parameters of Theorem 5.4: T² = 4L·R·√B·nε/(G·√ln(1/δ)·(width + R)).

        R is the set's radius, 4R² the squared diameter, `width` the Gaussian width (√d·R on the L2 ball, √(2 ln 2d)·R
        on the L1 ball and the simplex), and B the largest divergence from the centre: R²/2 on the L2 ball, at most
        (e²/2)·ln d·R² on the L1 ball, ln d·R² on the simplex. Options are fields, such as the clip G.
        """
        positive(smoothness=smoothness)
        _check_set(constraint)
        clip, radius = options.pop("clip", cls.clip), constraint.norm_bound(d)
        logarithm = math.log(max(d, 3))
        width = radius * (math.sqrt(d) if isinstance(constraint, geometry.L2Ball) else math.sqrt(2 * math.log(2 * d)))
        constants = {geometry.L2Ball: 0.5, geometry.L1Ball: math.e**2 / 2 * logarithm, geometry.Simplex: logarithm}
        divergence = radius**2 * constants[type(constraint)]
        signal = n * min(budget.epsilon, 1e3) / (clip * math.sqrt(-math.log(budget.delta)))
        squared = 4 * smoothness * radius * math.sqrt(divergence) * signal / (width + radius)
        theory = dict(steps=max(2, round(math.sqrt(squared))), smoothness=smoothness, clip=clip)
        return cls(**{**theory, **options})

    def check_problem(self, problem: ERM) -> None:
        """The steps are closed forms on three sets, without a regulariser."""
        _check_set(problem.constraint)
        if not isinstance(problem.regularizer, geometry.Zero):
            raise ValueError(
                f"regularizer = {problem.regularizer!r}: AccMD takes none, the constraint does its work. "
                "Leave it out, or use GD, SVRG or SVRGpp."
            )

    def schedule(self, n: int) -> Schedule:
        """Return `steps` full passes."""
        return Schedule((Query("gradient", count=self.steps, clip=f"{self.clip:g}"),))

    def init(self, problem: ERM, params: PyTree) -> AccMDState:
        """Start both at the nearest point of the set; on the simplex z starts in the middle, for zeros stay zeros."""
        constraint = problem.constraint
        assert constraint is not None  # check_problem
        y = constraint.project(params)
        if not isinstance(constraint, geometry.Simplex):
            return AccMDState(y, y)
        middle = constraint.total / trees.count(params)
        return AccMDState(y, jax.tree.map(lambda leaf: jnp.full_like(leaf, middle), y))

    def step(self, problem: ERM, ask: Ask, state: AccMDState, t: jax.Array) -> tuple[AccMDState, Report]:
        """Make step k = t."""
        assert problem.constraint is not None  # check_problem
        weight, alpha = 2.0 / (t + 2.0), (t + 2.0) / (4.0 * self.smoothness)
        x = jax.tree.map(lambda z, y: weight * z + (1 - weight) * y, state.z, state.y)
        g = ask("gradient", Gradient(problem.loss, x), clip=self.clip)
        y = geometry.steepest_descent(problem.constraint, x, g, self.smoothness)
        z = geometry.mirror_descent(problem.constraint, state.z, jax.tree.map(lambda leaf: alpha * leaf, g))
        return AccMDState(y, z), Report(x, trees.norm(g))

    def params(self, state: AccMDState) -> PyTree:
        """Return y."""
        return state.y


def _check_set(constraint: geometry.Constraint | None) -> None:
    """Refuse a set on which the steps have no closed form."""
    if not isinstance(constraint, geometry.descent.SETS):
        raise ValueError(
            f"constraint = {constraint!r}: AccMD works on gs.L2Ball(radius), gs.L1Ball(radius) or gs.Simplex(). Give "
            "the problem one of them, or use GD or SVRG."
        )
