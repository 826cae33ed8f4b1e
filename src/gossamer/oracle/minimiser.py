"""The second door: the minimiser of a linear model's regularised risk, released once.

    J(w) = Σ f_i(w) + (nλ/2)‖w‖² + ⟨b, w⟩,   b ~ N(0, tilt²I);   answer ŵ + N(0, spread²I),   ‖∇J(ŵ)‖ ≤ γ

It reads all records at once and asks no mean query, so it has a proof of its own.

*What one record can do.* A row longer than `row_norm` is shortened to it, and the slope ∂ℓ/∂score is cut at the loss's
`lipschitz`. The slope of a convex ℓ rises with the score, and so it does when cut: f_i stays convex, with no more
curvature than before. So, whatever a record holds, f_i is convex and ‖∇f_i‖ ≤ G.

*Stability.* J is nλ-strongly convex, whatever the table and b, so ‖w − argmin J‖ ≤ ‖∇J(w)‖/(nλ) for every w. At the
minimiser of a neighbour's J' (with the same b and the same public n) ∇J = ∇J − ∇J' has norm at most G when a record is
absent, 2G when it is replaced: the two minimisers are at most G/(nλ), or 2G/(nλ), apart.

*Approximation.* ŵ is at most γ/(nλ) from the minimiser. So one record moves ŵ by at most C = (G + 2γ)/(nλ) when it is
absent and 2C when it is replaced: with tilt = 0 and spread = σC the answer is a Gaussian query.

*With a tilt.* The exact minimiser w is a perturbed objective (`gossamer.privacy.perturbed`). Given w, which fixes b on
either table, ŵ lies within γ/(nλ) of w on both: at most C' = 2γ/(nλ) apart. So with spread = σ'C' the answer is a
Gaussian query asked after w was released.

*In bits.* The answer is a whole number K + J of lattice points u, u a power of two between 2^-30 and 2^-29 of `spread`:
K = rint(ŵ/u), whose division is exact, and J = rint((spread/u) Z). The theorem of `gossamer.oracle.lattice` applies:
rounding moves two minimisers apart by √d·u at most, which must be less than ι times what a record may do. The tilt is
drawn in float64, with an error of at most `FIRST_ERROR` in each entry: as if the solver had left so much more of a
gradient, on the same exact tilt.

A quarter of γ is left to that error and another to the rounding of ∇J in float64. That quarter is no bound: if all
roundings pointed in one direction, n terms of norm G could be off by n·2^-53·G each when they are added up, and more
where scores are large. It is what n ≤ 10^7 roundings reach if their directions are unrelated, and 10^3 times as much;
larger tables are refused. The certificate says that this is assumed.

A solver that does not reach γ/2, a
tilt too large for its quarter, and a minimiser of more than 2^62 points or with too many entries answer NaN, and the
caller refuses: this speaks to the owner of the data, like an input check, and is outside the guarantee.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossamer.base.generator import check_key
from gossamer.base.trees import PyTree
from gossamer.oracle import locality
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.integer_noise import FIRST_ERROR, integers, normals
from gossamer.privacy.arithmetic import INFLATION

_TOLERANCE = 1e-8
"""γ/G: the solver's error is this small a part of what one record may do."""
_LATTICE_BITS = 30
_MOST_RECORDS = 10**7
"""Beyond, roundings of ∇J could matter even if their directions are unrelated."""
_MOST_STEPS = 200
_SMALLEST_STEP = 2.0**-40


@dataclass(frozen=True)
class RidgeRisk:
    """The regularised risk of a linear model with one score, and what one record can do to its minimiser.

    Args:
      loss: convex in the score, with known `lipschitz`.
      strength: λ > 0, on all parameters.
      row_norm: longer rows are shortened to it.
      intercept: whether there is one; it is a column of ones beside the row.
    """

    loss: LinearLoss
    strength: float
    row_norm: float
    intercept: bool

    def gradient_bound(self) -> float:
        """Return G."""
        return self.loss.lipschitz_constant(self.row_norm, self.intercept)

    def solver_bound(self) -> float:
        """Return γ."""
        return _TOLERANCE * self.gradient_bound()

    def stability(self, n: int) -> float:
        """Return C = (G + 2γ)/(nλ): how far one record moves the computed minimiser."""
        return (self.gradient_bound() + 2 * self.solver_bound()) / (n * self.strength)

    def inaccuracy(self, n: int) -> float:
        """Return C' = 2γ/(nλ): how far apart two computed minimisers are whose exact ones coincide."""
        return 2 * self.solver_bound() / (n * self.strength)


class Deviations(NamedTuple):
    """The standard deviations of the noise in the objective and in its minimiser."""

    tilt: float
    spread: float
    apart: float
    """How far one record may move what `spread` hides."""


def perturbed_minimiser(risk: RidgeRisk, n: int, data: PyTree, deviations: Deviations, key: jax.Array) -> PyTree:
    """Return noisy parameters of a linear model, in float32; NaN if the solver failed.

    Args:
      risk: what to minimise, and the bounds of the proof.
      n: the public number of records that the regulariser is multiplied by.
      data: rows of shape (·, d) and as many targets.
      deviations: of the noise, as the proof demands.
      key: of the noise.
    """
    check_key("key", key)
    if n > _MOST_RECORDS:
        raise ValueError(
            f"data has n = {n} records; the gradient of their risk is known well enough for at most {_MOST_RECORDS}. "
            "Use gs.methods.GD, or a random part of the records that is chosen without looking at them."
        )
    locality.check(
        lambda z: jax.value_and_grad(jax.grad(risk.loss.pointwise))(*z), score_and_target(data), len(data[1])
    )
    with jax.enable_x64(True):
        numbers = _Numbers(*map(jnp.float64, (risk.row_norm, n * risk.strength, risk.solver_bound(), *deviations)))
        return _perturbed_minimiser(risk.loss, risk.intercept, data, numbers, key)


def score_and_target(data: PyTree) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Return the shapes of what the loss sees of one record."""
    return jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((), data[1].dtype)


class _Numbers(NamedTuple):
    """What may change without compiling again."""

    row_norm: jax.Array
    ridge: jax.Array
    """nλ."""
    tolerance: jax.Array
    """γ."""
    tilt: jax.Array
    spread: jax.Array
    apart: jax.Array


@functools.partial(jax.jit, static_argnames=("loss", "intercept"))
def _perturbed_minimiser(loss: LinearLoss, intercept: bool, data: PyTree, numbers: _Numbers, key: jax.Array) -> PyTree:
    rows, targets = data
    rows = _shortened(rows.astype(jnp.float64), numbers.row_norm)
    if intercept:
        rows = jnp.concatenate([rows, jnp.ones((rows.shape[0], 1))], axis=1)
    tilt_key, spread_key = jax.random.split(key)
    tilt = numbers.tilt * normals(tilt_key, rows[0].shape)
    exact = _minimise(loss, rows, targets, tilt=tilt, ridge=numbers.ridge, tolerance=numbers.tolerance)
    drawn_well = numbers.tilt * FIRST_ERROR * math.sqrt(len(tilt)) <= numbers.tolerance / 4
    noisy = jnp.where(drawn_well, _released(exact, numbers, spread_key), jnp.nan)
    return {"weights": noisy[:-1], "intercept": noisy[-1]} if intercept else {"weights": noisy}


def _released(exact: jax.Array, numbers: _Numbers, key: jax.Array) -> jax.Array:
    """Return ŵ + N(0, spread²I) in float32, as a whole number of lattice points; without noise ŵ itself."""
    spread = numbers.spread
    _, exponent = jnp.frexp(spread)
    unit = jnp.ldexp(jnp.ones_like(spread), exponent - 1 - _LATTICE_BITS)
    points = jnp.rint(exact / unit)
    fine = unit * math.sqrt(len(exact)) <= INFLATION * numbers.apart
    inside = fine & (jnp.abs(points) < 2.0**62)  # also false where it is NaN
    whole = jnp.where(inside, points, 0.0).astype(jnp.int64) + integers(key, exact.shape, spread / unit)
    noisy = jnp.where(inside, whole.astype(jnp.float64) * unit, jnp.nan)
    return jnp.where(spread > 0, noisy, exact).astype(jnp.float32)


def _shortened(rows: jax.Array, row_norm: jax.Array) -> jax.Array:
    norms = jnp.sqrt(jnp.sum(jnp.square(rows), axis=1, keepdims=True))
    return rows * (row_norm / jnp.maximum(norms, row_norm))


class _Iterate(NamedTuple):
    w: jax.Array
    gradient: jax.Array
    steps: jax.Array
    least: jax.Array
    """The smallest norm of a gradient so far."""


def _minimise(
    loss: LinearLoss, rows: jax.Array, targets: jax.Array, tilt: jax.Array, ridge: jax.Array, tolerance: jax.Array
) -> jax.Array:
    """Newton's method with halved steps until the gradient's norm is at most γ/2; NaN if it never is.

    A step d of size t is taken if it halves the smallest gradient so far, which happens a few dozen times at most, or
    if J still falls at its end, ⟨∇J(w + td), d⟩ ≤ 0: the largest such power of ½ brings at least half of what the best
    step along d brings, since J is convex. So J falls until Newton's steps take over, also where slopes have kinks.
    """
    bound = loss.lipschitz_constant(1.0, intercept=False)

    def slope(score: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.clip(jax.grad(loss.pointwise)(score, target), -bound, bound)

    def gradient(w: jax.Array) -> jax.Array:
        return rows.T @ jax.vmap(slope)(rows @ w, targets) + ridge * w + tilt

    def newton(here: _Iterate) -> jax.Array:
        curvatures = jax.vmap(jax.grad(slope))(rows @ here.w, targets)
        hessian = (rows.T * curvatures) @ rows + ridge * jnp.eye(here.w.size)
        return -jax.scipy.linalg.solve(hessian, here.gradient, assume_a="pos")

    def step(here: _Iterate) -> _Iterate:
        along = newton(here)

        def too_long(size: jax.Array) -> jax.Array:
            there = gradient(here.w + size * along)
            good = (there @ along <= 0) | (jnp.linalg.norm(there) <= 0.5 * here.least)
            return ~good & (size > _SMALLEST_STEP)

        w = here.w + along * jax.lax.while_loop(too_long, lambda size: 0.5 * size, jnp.float64(1.0))
        after = gradient(w)
        return _Iterate(w, after, here.steps + 1, jnp.minimum(here.least, jnp.linalg.norm(after)))

    def unfinished(here: _Iterate) -> jax.Array:
        return (jnp.linalg.norm(here.gradient) > 0.5 * tolerance) & (here.steps < _MOST_STEPS)

    origin = jnp.zeros(rows.shape[1])
    first = gradient(origin)
    end = jax.lax.while_loop(unfinished, step, _Iterate(origin, first, jnp.int32(0), jnp.linalg.norm(first)))
    return jnp.where(jnp.linalg.norm(end.gradient) <= 0.5 * tolerance, end.w, math.nan)
