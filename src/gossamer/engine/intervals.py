"""Intervals of a linear model's coefficients, bought after the training: one more step, and how far off it may be.

    name here     symbol   meaning
    weights …     u        the trained coefficients, of x
                  x        a record's row with a constant beside it, (row, s): ‖x‖ ≤ ρ = √(1 + s²)
    cut           L        largest slope of the loss; of one without a bound it is asked for
                  e, w     slope and curvature of a record's loss at u; beyond L the slope is ±L and the curvature 0
                  κ        bound on w
    products      H, M     means of w·xxᵀ and e²·xxᵀ: the curvature at u, and the variance of a record's gradient
    gradient      g        mean of e·x
    noise         τ, σ     deviations of an entry of H on its diagonal (τ/√2 off it), and of one of g

    θ = u − H⁻¹g,   V = H⁻¹(σ²I + M/n + (τ²/2)(‖δ‖²I + δδᵀ))H⁻¹,   δ = H⁻¹g:   θ_j ± 1.96·√V_jj

Why. θ is one step of Newton's method from u to the point where the mean gradient is 0. Whatever the training left
undone is made up for by it, up to the square of the distance: neither cut gradients nor an early stop bias it. What is
left is what g is off by: noise, σ²I, and sampling, M/n; H off by a symmetric matrix E moves the step by H⁻¹Eδ, and
Cov(Eδ) = (τ²/2)(‖δ‖²I + δδᵀ). M is asked for and not derived, so that V holds for a model that is wrong, too (White's
sandwich). Its noise may make it indefinite; it is replaced by the nearest matrix that is not. M is that
at u, where errors are larger than at θ: where the training left much undone, intervals are wider as a rule.

*Estimand.* The minimiser of the population's mean loss, over rows as the model sees them: shortened to the bound that
was declared. Of a squared loss it is Huber's regression: errors beyond L pull as hard as those at L. L is the least of
the grid √2^k beyond which no record is seen, up to four deviations of the noise, so that with more records it is least
squares. Where errors are independent of the row, all its coefficients but the intercept are those of least squares.

*Refused.* H⁻¹ is of no use if the smallest eigenvalue of H may be noise. Noise has eigenvalues up to about τ√(2d).
Unless the smallest of H is `RESOLVED` times that, the model stays as it was trained and intervals are NaN.

Privacy. Three full-pass queries at points that are earlier answers. *spread*, of losses without a bound on their slope:
one of a few counts, each record in one of them (`Nonnegative`, norm 1). *products*: `OuterProducts` of √(w/κ)·x and
√β·(e/L)·x, acute whatever the records are, of norm at most ρ²√(1 + β²), since w ≤ κ and |e| ≤ L; so that no record is
cut. *gradient*: e·x, of norm at most Lρ. Clipping does not rely on these bounds. All else is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.stages import Answers, Posed, Stage
from gossamer.methods.base import Method, Report, declare
from gossamer.methods.fields import Count, Output
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Nonnegative, OuterProducts, Value
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.queries import symmetric
from gossamer.privacy.schedule import Query, Schedule
from gossamer.privacy.stages import TRAINING

INTERVALS = "intervals of coefficients"
"""What is bought: the name of the stage, and of its queries on certificates."""
SHARE_OF_BUDGET = 0.5
RESOLVED = 1.5
"""On simulated tables, others than those of `gossamer reproduce intervals`, those with less covered more than 97 %."""
Z = 1.959964
"""Of a standard normal, 95 % is within it."""
_CONSTANT = 0.35
"""s. Less hides columns that are not centred behind the intercept; more makes every row longer."""
_SHARES = {"spread": 0.06, "products": 0.44, "gradient": 0.5}
"""Of the stage's budget, under add_remove."""
_MEAT = 1 / 3
"""β: how much of a record's norm the second product may have."""
_FLOAT = 1e-6
"""Of the largest curvature: what float32 resolves."""
_FINEST, _COARSEST = -16, 2
"""L is a power of √2 between these: from 1/256 to 2, where targets and sensible scores are at most 1."""


Seen = dict[str, Any]
"""Trained parameters, and beside them what was answered about them, by the names above; public."""


class Estimate(NamedTuple):
    """Corrected parameters, and their deviations: trees alike."""

    params: dict[str, np.ndarray]
    deviations: dict[str, np.ndarray]


@dataclass(frozen=True)
class OneStep(Method[ERM]):
    """Asks what a step of Newton's method takes, and what its deviation does. It starts at a trained linear model.

    Args:
      steps: one.
      bounded: whether the loss has a bound on its slope; else what takes its place is asked for.
    """

    steps: Count = 1
    bounded: bool = True
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return one full pass for each thing that is asked for."""
        asked = [
            Query("products", count=1, clip="what no record exceeds", acute=True),
            Query("gradient", count=1, clip="what no record exceeds"),
        ]
        if not self.bounded:
            asked.insert(0, Query("spread", count=1, clip="1", acute=True))
        return declare(tuple(_SHARES[query.name] ** -0.5 for query in asked), *asked)

    def init(self, problem: ERM, params: Seen) -> Seen:
        """Begin with the trained coefficients, and no answers."""
        return params

    def step(self, problem: ERM, ask: Ask, state: Seen, t: jax.Array) -> tuple[Seen, Report]:
        """Ask for the products and the gradient at u, and before that, if need be, how large errors are."""
        loss: Any = problem.loss
        u, intercept = _joined(state), "intercept" in state
        reach = math.hypot(1.0, _CONSTANT) if intercept else 1.0

        def seen(record: PyTree) -> tuple[jax.Array, jax.Array, jax.Array]:
            """Return x, and slope and curvature of the loss."""
            row, target = record
            row = (row if loss.row is None else loss.row(row)).astype(jnp.float32)
            x = jnp.append(row, jnp.float32(_CONSTANT)) if intercept else row
            slope = jax.grad(loss.pointwise)
            return x, *jax.value_and_grad(slope)(x @ u, target)

        cut = jnp.float32(loss.lipschitz) if self.bounded else _largest(ask, lambda record: seen(record)[1])

        def vectors(record: PyTree) -> jax.Array:
            x, slope, curvature = seen(record)
            share = jnp.where(jnp.abs(slope) <= cut, jnp.clip(curvature / loss.curvature, 0.0, 1.0), 0.0)
            return jnp.stack([jnp.sqrt(share) * x, math.sqrt(_MEAT) * jnp.clip(slope / cut, -1.0, 1.0) * x])

        def gradient(record: PyTree) -> jax.Array:
            x, slope, _ = seen(record)
            return jnp.clip(slope, -cut, cut) * x

        longest = reach**2 * math.sqrt(1 + _MEAT**2)
        answer = ask("products", OuterProducts(vectors), clip=longest)
        products = answer * jnp.stack([jnp.float32(loss.curvature), cut**2 / _MEAT])[:, None]
        g = ask("gradient", Value(gradient), clip=cut * reach)
        noise = jnp.stack(
            [ask.deviation("products") * longest * loss.curvature, ask.deviation("gradient") * cut * reach]
        )
        seen_now = {**state, "cut": cut, "products": products, "gradient": g, "noise": noise}
        return seen_now, Report(state, jnp.linalg.norm(g))

    def params(self, state: Seen) -> Seen:
        """Return all answers."""
        return state


def _largest(ask: Ask, error: Callable[[PyTree], jax.Array]) -> jax.Array:
    """Return the least L = √2^k beyond which no record's error is seen, up to four deviations of the noise."""
    bins = _COARSEST - _FINEST + 2  # the first is up to the finest, the last beyond the coarsest

    def counted(record: PyTree) -> jax.Array:
        place = jnp.ceil(2 * jnp.log2(jnp.abs(error(record)))) - _FINEST
        return jax.nn.one_hot(jnp.clip(place, 0, bins - 1).astype(jnp.int32), bins)

    shares = ask("spread", Nonnegative(counted), clip=1.0)
    beyond = jnp.cumsum(shares[::-1])[:-1]  # the coarsest L first
    nobody = beyond <= 4 * ask.deviation("spread") * jnp.sqrt(jnp.arange(1, bins))
    return jnp.sqrt(2.0) ** (_COARSEST - jnp.maximum(jnp.sum(jnp.cumprod(nobody)) - 1, 0))


def interval_stage(loss: LinearLoss, pose: Callable[[Answers], tuple[PyTree, PyTree]]) -> Stage:
    """Return the stage that buys intervals, for the records and the trained parameters that `pose` makes of answers."""
    method = OneStep(bounded=loss.lipschitz is not None)

    def posed(answers: Answers) -> Posed:
        data, trained = pose(answers)
        return Posed(ERM(loss), data, unseen(trained), method)

    return Stage(INTERVALS, method, SHARE_OF_BUDGET, posed)


def unseen(trained: PyTree) -> Seen:
    """Return where `OneStep` starts: a trained model, about which nothing was asked yet."""
    size = len(_joined(trained))
    products, gradient = jnp.zeros((2, size * (size + 1) // 2)), jnp.zeros(size)
    return {**trained, "cut": jnp.float32(1), "products": products, "gradient": gradient, "noise": jnp.zeros(2)}


def estimate(seen: Seen, n: int) -> Estimate | None:
    """Return θ and the roots of V's diagonal, as trees of parameters; None where the curvature is not resolved."""
    u, g, (tau, sigma) = (np.asarray(x, np.float64) for x in (_joined(seen), seen["gradient"], seen["noise"]))
    size, unit = len(u), np.eye(len(u))
    with jax.enable_x64(True):
        H, M = (np.asarray(symmetric(jnp.asarray(x, jnp.float64), size)) for x in seen["products"])
    curvatures = np.linalg.eigvalsh(H)
    if not curvatures[0] > max(RESOLVED * tau * math.sqrt(2 * size), _FLOAT * curvatures[-1]):
        return None
    values, vectors = np.linalg.eigh(M)
    M = (vectors * np.maximum(values, 0.0)) @ vectors.T
    inverse = np.linalg.inv(H)
    step = inverse @ g
    wrong = 0.5 * tau**2 * (step @ step * unit + np.outer(step, step))
    V = inverse @ (sigma**2 * unit + M / n + wrong) @ inverse
    return Estimate(*(_tree(x, "intercept" in seen) for x in (u - step, np.sqrt(np.diag(V)))))


def corrected(answers: Answers, n: int) -> tuple[PyTree, PyTree | None]:
    """Return the parameters that a run found, corrected if intervals were bought, and their deviations if resolved."""
    trained = answers[TRAINING]
    found = estimate(answers[INTERVALS], n) if INTERVALS in answers else None
    return (trained, None) if found is None else found


def _joined(params: PyTree) -> jax.Array:
    """Return u."""
    if "intercept" not in params:
        return params["weights"]
    return jnp.append(params["weights"], params["intercept"] / _CONSTANT)


def _tree(joined: np.ndarray, intercept: bool) -> dict[str, np.ndarray]:
    return {"weights": joined[:-1], "intercept": _CONSTANT * joined[-1]} if intercept else {"weights": joined}
