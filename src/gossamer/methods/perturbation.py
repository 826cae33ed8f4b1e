"""Output and objective perturbation of linear models (Chaudhuri, Monteleoni and Sarwate, 2011), with Gaussian noise.

The baselines that train without privacy and add noise once, to the minimiser or to the objective. Both minimise

    F(w) = (1/n) Σ ℓ(⟨x_i, w⟩ + intercept, y_i) + (λ/2)‖w‖²        over all w, intercept included.

    name here     there   meaning
    strength      Λ       λ of the L2 regulariser, which must act on every parameter
    row_norm      1       bound on a row's norm (an assumption there, enforced here by shortening)
    jacobian              c = ln(1 + β/(nλ)), β the smoothness of one record's loss (2 ln(1 + c/(nΛ)) there)

Privacy. Output perturbation releases the minimiser by one Gaussian query of sensitivity (G + 2γ)/(nλ), G the bound on
one record's gradient and γ the solver's tolerance. Objective perturbation adds ⟨b, w⟩ to n·F with b ~ N(0, (σG)²I) and
releases the minimiser with a trace of noise that hides the solver's error: in print the minimiser is exact, which no
solver's is (Iyengar et al., 2019). Noise is calibrated numerically; in print it is Gamma noise for pure ε. The proofs
are in `gossamer.oracle.minimiser` and `gossamer.privacy.perturbed`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.entropy import new_key
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.geometry import L2
from gossamer.methods.result import Result
from gossamer.objectives.erm import ERM
from gossamer.oracle import locality
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.minimiser import Deviations, RidgeRisk, perturbed_minimiser, score_and_target
from gossamer.oracle.people import People
from gossamer.oracle.records import check_records
from gossamer.privacy.budget import Budget, check_budget
from gossamer.privacy.certificate import certify
from gossamer.privacy.facts import LossBounds
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.planning import plan
from gossamer.privacy.schedule import Query, Schedule

_RELEASE_NOISE = 100.0
"""Noise multiplier of the release of a perturbed objective's minimiser, relative to the objective's own: both
together cost what one with 0.005 % less noise costs, and its deviation is 2·10⁻⁶ of σG/(nλ)."""


@dataclass(frozen=True)
class OutputPerturbation(RidgeRisk):
    """The minimiser plus noise."""

    def schedule(self, n: int) -> Schedule:
        """Return one Gaussian query."""
        return Schedule((Query("minimiser", 1, clip=f"(G + 2γ)/(nλ) = {self.stability(n):.6g}"),))

    def deviations(self, n: int, noise: Mapping[str, Any]) -> Deviations:
        """Return the deviations that the schedule's noise multipliers stand for."""
        apart = self.stability(n)
        return Deviations(tilt=0.0, spread=float(noise["minimiser"]) * apart, apart=apart)

    def loss_bounds(self) -> LossBounds:
        """Return what the guarantee rests on; it needs no bound on curvature."""
        return LossBounds(self.row_norm, self.loss.lipschitz_constant(1.0, intercept=False))


@dataclass(frozen=True)
class ObjectivePerturbation(RidgeRisk):
    """The minimiser of a noisy objective."""

    def schedule(self, n: int) -> Schedule:
        """Return the perturbed objective and the release of its minimiser."""
        smoothness = self.loss.smoothness_constant(self.row_norm, self.intercept)
        jacobian = math.log1p(smoothness / (n * self.strength))
        return Schedule(
            (
                Query(
                    "objective",
                    1,
                    PerturbedObjective(jacobian),
                    clip=f"G = {self.gradient_bound():.6g}, Jacobian {jacobian:.4g}",
                    noise=1.0,
                ),
                Query("minimiser", 1, clip=f"2γ/(nλ) = {self.inaccuracy(n):.6g}", noise=_RELEASE_NOISE),
            )
        )

    def deviations(self, n: int, noise: Mapping[str, Any]) -> Deviations:
        """Return the deviations that the schedule's noise multipliers stand for."""
        return Deviations(
            tilt=float(noise["objective"]) * self.gradient_bound(),
            spread=float(noise["minimiser"]) * self.inaccuracy(n),
            apart=self.inaccuracy(n),
        )

    def loss_bounds(self) -> LossBounds:
        """Return what the guarantee rests on."""
        slope, bend = self.loss.lipschitz_constant, self.loss.smoothness_constant
        return LossBounds(self.row_norm, slope(1.0, intercept=False), bend(1.0, intercept=False))


def output_perturbation(
    problem: ERM, data: PyTree, budget: Budget, *, row_norm: float, intercept: bool = True, seed: int | None = None
) -> Result:
    """Minimise a linear model's regularised risk exactly, then add Gaussian noise to the minimiser.

    The noise has deviation σG/(nλ), G = lipschitz·√(row_norm² + 1): it needs a strong regulariser or many records.

    Args:
      problem: `gs.ERM(loss, regularizer=gs.L2(strength))`; the loss a `LinearLoss` of one score, convex in it, with
        known `lipschitz`, such as `gs.objectives.logistic`.
      data: (rows, targets), of shapes (n, d) and (n,).
      budget: what may be spent.
      row_norm: a public bound; longer rows are shortened to it.
      intercept: whether to train one; it is regularised like the weights.
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.

    Example:
      >>> import gossamer as gs, numpy as np
      >>> data = (np.ones((1000, 3)), np.ones(1000))
      >>> problem = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(0.1))
      >>> result = gs.methods.output_perturbation(problem, data, gs.Budget(1.0, 1e-5), row_norm=2.0)
      >>> sorted(result.params)
      ['intercept', 'weights']
    """
    risk = OutputPerturbation(*_risk_of(problem, row_norm, intercept))
    return _run(risk, problem, data, budget, seed)


def objective_perturbation(
    problem: ERM, data: PyTree, budget: Budget, *, row_norm: float, intercept: bool = True, seed: int | None = None
) -> Result:
    """Add a random linear term to a linear model's regularised risk, and minimise.

    The noise is shaped by the risk's own curvature, which serves the directions in which the data is rich: much less
    noise than output perturbation's wherever the risk bends more than its regulariser.

    Args:
      problem: as for `output_perturbation`; the loss also with known `curvature`. Its `strength` λ must be such that
        ln(1 + β/(nλ)) < ε, β = curvature·(row_norm² + 1).
      data: (rows, targets), of shapes (n, d) and (n,).
      budget: what may be spent.
      row_norm: a public bound; longer rows are shortened to it.
      intercept: whether to train one; it is regularised like the weights.
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.
    """
    risk = ObjectivePerturbation(*_risk_of(problem, row_norm, intercept))
    if risk.loss.curvature is None:
        raise ValueError(
            "objective perturbation needs a loss with curvature, a bound on its second derivative: give it as "
            "LinearLoss(..., curvature=...), smooth the loss, or use output_perturbation."
        )
    return _run(risk, problem, data, budget, seed)


def _risk_of(problem: Any, row_norm: float, intercept: bool) -> tuple[LinearLoss, float, float, bool]:
    """Return the fields of the risk, or refuse a problem that has no bound on what one record can do."""
    if not (isinstance(problem, ERM) and isinstance(problem.loss, LinearLoss)):
        raise TypeError(
            f"problem = {shown(problem)} must be a gs.ERM with a LinearLoss such as gs.objectives.logistic: these "
            "methods perturb the minimiser of a linear model's risk. Iterative ones, as gs.methods.GD, take any loss."
        )
    loss, ridge = problem.loss, problem.regularizer
    if loss.row is not None:
        raise ValueError(
            "the loss is linear in a function of the records' x (row is not None), and row_norm bounds x alone. Pass "
            "the rows themselves as the records."
        )
    if loss.lipschitz is None:
        raise ValueError(
            "the loss has lipschitz = None: with an unbounded derivative one record could move the minimiser anywhere. "
            "Use a loss such as gs.objectives.huber(), or gs.methods.GD, which clips."
        )
    two_scores, target = jax.ShapeDtypeStruct((2,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
    if jax.eval_shape(loss.pointwise, two_scores, target).shape == ():
        raise ValueError("the loss takes several scores; perturbation is for one score. Use gs.methods.GD.")
    if not (isinstance(ridge, L2) and ridge.strength > 0):
        raise ValueError(
            f"regularizer = {ridge!r} must be gs.L2(strength) with strength above 0: without strong convexity one "
            "record could move the minimiser anywhere."
        )
    free = {"weights", *(["intercept"] if intercept else [])} & set(ridge.exclude)
    if free:
        raise ValueError(
            f"regularizer = {ridge!r} leaves {', '.join(sorted(free))} without a penalty, so one record could move it "
            "anywhere. Regularise every parameter, or train without an intercept (intercept=False)."
        )
    if problem.constraint is not None:
        raise ValueError(
            f"constraint = {problem.constraint!r} must be None: the proof needs a minimiser without one. Project the "
            "result instead, which costs no privacy."
        )
    if not (isinstance(row_norm, int | float) and 0 < row_norm < math.inf):
        raise ValueError(f"row_norm = {row_norm!r} must be a finite number above 0: longer rows are shortened to it.")
    return loss, ridge.strength, float(row_norm), bool(intercept)


def _run(
    risk: OutputPerturbation | ObjectivePerturbation, problem: ERM, data: PyTree, budget: Budget, seed: int | None
) -> Result:
    check_budget(budget)
    if isinstance(data, People):
        raise TypeError(
            "data is by persons, and the proof of these methods is about a record of one row. Use gs.methods.GD, which "
            "clips what a person adds."
        )
    table, n = check_records(data)
    shapes = [leaf.shape for leaf in jax.tree.leaves(table)]
    if not (isinstance(data, tuple | list) and len(shapes) == 2 and [len(shape) for shape in shapes] == [2, 1]):
        raise ValueError(f"data has shapes {shapes}; it must be (rows, targets), of shapes (n, d) and (n,).")
    _check_jacobian(risk, n, budget)
    planned = plan(risk, n, budget)
    deviations = risk.deviations(n, planned.noise())
    params = perturbed_minimiser(risk, n, tuple(table), deviations, new_key(seed))
    if not bool(trees.all_finite(params)):
        raise ArithmeticError(
            f"the minimiser was not found to a gradient of norm {risk.solver_bound():.3g}; nothing was released. "
            f"Use a strength above {risk.strength:g} or scale the rows to a smaller row_norm than {risk.row_norm:g}."
        )
    trusted = locality.reasons(risk.loss.pointwise, *score_and_target(table))
    certificate = certify(planned, problem, seed, False, trusted, loss_bounds=risk.loss_bounds())
    return Result(params=params, certificate=certificate, history={})


def _check_jacobian(risk: OutputPerturbation | ObjectivePerturbation, n: int, budget: Budget) -> None:
    """Refuse a regulariser so weak that the Jacobian alone costs more than ε, naming what would do."""
    jacobian = risk.schedule(n).surcharge(budget.neighbors).epsilon
    if jacobian >= budget.epsilon:
        least = risk.loss.smoothness_constant(risk.row_norm, risk.intercept) / (n * math.expm1(budget.epsilon))
        raise ValueError(
            f"strength = {risk.strength:g} is too small for objective perturbation of n = {n} records: its Jacobian "
            f"alone costs {jacobian:.4g}, and epsilon = {budget.epsilon:g}. It must be above {least:.4g}, better twice "
            "that; or use output_perturbation."
        )
