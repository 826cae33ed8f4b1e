"""Noisy methods on logistic regression, simulated: a table of a few records stands for n, and noise is drawn for n.

An answer has the mean over the table, and an error as in `noise_model`: noise, and sampling, spread evenly over the
coordinates. All lanes (step sizes, momenta, sizes, seeds) of one shape of run go at once.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

RECORDS, COLUMNS, CLIP, SMOOTHNESS = 1000, 20, 1.0, 0.25
"""Rows have norm 1, so that a record's gradient is at most 1 long and changes by a quarter of the distance."""


class Lanes(NamedTuple):
    """Runs beside one another; of SGD `extra` is the momentum."""

    n: jax.Array
    gradient: jax.Array
    difference: jax.Array
    """Noise multipliers."""
    step: jax.Array
    extra: jax.Array
    decays: jax.Array
    """1 where steps become shorter, in a line that ends at 0."""


class Problem(NamedTuple):
    """A table, its best risk, and the largest curvature of the mean."""

    rows: jax.Array
    labels: jax.Array
    least: float
    largest: float

    def gradient(self, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the mean gradient of each lane, and residuals."""
        residuals = jax.nn.sigmoid(w @ self.rows.T) - self.labels
        return residuals @ self.rows / len(self.rows), residuals

    def excess(self, w: jax.Array) -> jax.Array:
        """Return F(w) − min F of each lane."""
        scores = w @ self.rows.T
        return jnp.mean(jax.nn.softplus(scores) - self.labels * scores, axis=-1) - self.least


def made(seed: int = 0) -> Problem:
    """Return a problem whose features have deviations 1, 1/2, …, before rows are scaled to norm 1."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(RECORDS, COLUMNS)) / np.arange(1, COLUMNS + 1) ** 0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = (rng.random(RECORDS) < 1 / (1 + np.exp(-3 * rows @ rng.normal(size=COLUMNS)))).astype(float)

    def risk(w: np.ndarray) -> tuple[float, np.ndarray]:
        scores = rows @ w
        slope = rows.T @ (1 / (1 + np.exp(-scores)) - labels) / RECORDS
        return float(np.mean(np.logaddexp(0, scores) - labels * scores)), slope

    least = minimize(risk, np.zeros(COLUMNS), jac=True, method="BFGS", options={"gtol": 1e-9})
    largest = float(np.linalg.eigvalsh(rows.T @ rows / RECORDS).max()) / 4
    return Problem(jnp.asarray(rows, jnp.float32), jnp.asarray(labels, jnp.float32), float(least.fun), largest)


@partial(jax.jit, static_argnames=("shape",))
def excess(problem: Problem, shape: tuple[str, int, int, float], lanes: Lanes, key: jax.Array) -> jax.Array:
    """Return each lane's excess risk at the end of a run of this shape: method, steps, length, sampling rate."""
    method, steps, length, rate = shape
    n, eta = lanes.n[:, None], (lanes.step / problem.largest)[:, None]

    def error(key: jax.Array, noise: jax.Array, threshold: jax.Array, q: float, square: jax.Array) -> jax.Array:
        variance = (noise[:, None] * threshold / (q * n)) ** 2 + (1 - q) / (q * n) * square[:, None] / COLUMNS
        return jnp.sqrt(variance) * jax.random.normal(key, (len(lanes.n), COLUMNS))

    def asked(key: jax.Array, w: jax.Array, q: float) -> jax.Array:
        mean, residuals = problem.gradient(w)
        return mean + error(key, lanes.gradient, CLIP * jnp.ones_like(n), q, jnp.mean(residuals**2, axis=1))

    def changed(key: jax.Array, w: jax.Array, before: jax.Array) -> jax.Array:
        (here, new), (there, old) = problem.gradient(w), problem.gradient(before)
        apart = jnp.linalg.norm(w - before, axis=1, keepdims=True)
        threshold = jnp.minimum(2 * CLIP, SMOOTHNESS * apart)
        return here - there + error(key, lanes.difference, threshold, rate, jnp.mean((new - old) ** 2, axis=1))

    def shortened(t: int) -> jax.Array:
        return (1 - lanes.decays * t / steps)[:, None] * eta

    zero = jnp.zeros((len(lanes.n), COLUMNS))

    def sgd(t: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        w, m = carry
        m = lanes.extra[:, None] * m + asked(jax.random.fold_in(key, t), w, rate)
        return w - shortened(t) * m, m

    def spider(t: int, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        w, before, v = carry
        own = jax.random.fold_in(key, t)
        v = jax.lax.cond(t % length == 0, lambda: asked(own, w, 1.0), lambda: v + changed(own, w, before))
        return w - shortened(t) * v, w, v

    def svrg(t: int, anchor: jax.Array) -> jax.Array:
        own = jax.random.fold_in(key, t)
        whole = asked(own, anchor, 1.0)

        def inner(j: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            w, total = carry
            w = w - eta * (whole + changed(jax.random.fold_in(own, j + 1), w, anchor))
            return w, total + w

        return jax.lax.fori_loop(0, length, inner, (anchor, zero))[1] / length

    if method == "SGD":
        w = jax.lax.fori_loop(0, steps, sgd, (zero, zero))[0]
    elif method == "Spider":
        w = jax.lax.fori_loop(0, steps, spider, (zero, zero, zero))[0]
    else:
        w = jax.lax.fori_loop(0, steps, svrg, zero)
    found = problem.excess(w)
    return jnp.where(jnp.isfinite(found), found, jnp.inf)
