"""A full run of DP-SVRG: 15 epochs of 5000 inner steps on 200 000 rows of 100 features, samples of 256.

    python benchmarks/svrg.py

Printed are the seconds of a whole `gs.solve` after a first one (compiled loop and calibrated noise are found again),
and beside it the same loop without privacy: plain JAX, uniform batches of 256, two gradients a step, a full pass an
epoch. The two take turns.
"""

import time
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs

ROWS, FEATURES, BATCH, EPOCHS, INNER, ROUNDS = 200_000, 100, 256, 15, 5_000, 3
METHOD = gs.methods.SVRG(steps=EPOCHS, inner_steps=INNER, learning_rate=0.5, smoothness=0.5, batch_size=BATCH)
PROBLEM = gs.ERM(gs.objectives.logistic, gs.L2(1e-2))
INIT = {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}


def make_table() -> tuple[jax.Array, jax.Array]:
    numbers = np.random.default_rng(0)
    rows = numbers.normal(size=(ROWS, FEATURES)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = (rows @ numbers.normal(size=FEATURES) > 0).astype(np.float32)
    return jnp.asarray(rows), jnp.asarray(targets)


def private(table: Any) -> Any:
    return gs.solve(PROBLEM, table, METHOD, gs.Budget(1.0, 1e-6), init=INIT, progress=False).params


@jax.jit
def plain(table: Any) -> Any:
    def mean_loss(params: Any, batch: Any) -> jax.Array:
        return jnp.mean(jax.vmap(gs.objectives.logistic, (None, 0))(params, batch))

    gradient = jax.grad(mean_loss)

    def epoch(s: jax.Array, anchor: Any) -> Any:
        full = gradient(anchor, table)

        def inner(t: jax.Array, carry: Any) -> Any:
            x, total = carry
            chosen = jax.random.randint(jax.random.fold_in(jax.random.key(0), s * INNER + t), (BATCH,), 0, ROWS)
            batch = jax.tree.map(lambda leaf: leaf[chosen], table)
            here, there = gradient(x, batch), gradient(anchor, batch)
            x = jax.tree.map(lambda x, a, b, c: (x - 0.5 * (a - b + c)) / 1.005, x, here, there, full)
            return x, jax.tree.map(jnp.add, total, x)

        _, total = jax.lax.fori_loop(0, INNER, inner, (anchor, jax.tree.map(jnp.zeros_like, anchor)))
        return jax.tree.map(lambda leaf: leaf / INNER, total)

    return jax.lax.fori_loop(0, EPOCHS, epoch, INIT)


def main() -> None:
    table = make_table()
    times: dict[str, list[float]] = {"gs.solve": [], "plain JAX, not private": []}
    jax.block_until_ready((private(table), plain(table)))
    for _ in range(ROUNDS):
        for name, run in (("gs.solve", private), ("plain JAX, not private", plain)):
            begun = time.perf_counter()
            jax.block_until_ready(run(table))
            times[name].append(time.perf_counter() - begun)
    for name, seconds in times.items():
        print(f"{name}: {median(seconds):.1f} s (from {min(seconds):.1f} to {max(seconds):.1f})")
    print(f"ratio {median(times['gs.solve']) / median(times['plain JAX, not private']):.2f}")


if __name__ == "__main__":
    main()
