"""Training from values alone: noise of running sums, stationarity against n, and O2NC against the naive oracle.

The loss is that of a network with one hidden layer of rectifiers and an absolute error: not smooth, not convex. Its
values are all that the methods see; its gradients are used here alone, to measure how stationary a point is.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments.curves import iterates
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.rates import slope
from gossamer.experiments.settings import Settings
from gossamer.oracle.correlation import running_noise

LENGTHS = (1, 2, 4, 8, 16, 64, 256, 1024)
SIZES = (2_000, 7_000, 25_000, 100_000)
SHAPES = {10: (5, 2), 100: (10, 10)}
"""Features and hidden units of the networks with these numbers of parameters."""
RADIUS = {10: 0.1, 100: 0.3}
DIRECTIONS = {10: None, 100: 25}
ROUNDS = (8, 288)
BUDGET = gs.Budget(1.0, 1e-6)
NETWORKS = 5
_TEST_ROWS = 10_000


def loss(x: jax.Array, record: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return |network(x; a) − b|; x holds the hidden layer, one row per feature. Its gradients are at most ‖a‖ long."""
    a, b = record
    signs = jnp.where(jnp.arange(x.shape[1]) % 2 == 0, 1.0, -1.0) / jnp.sqrt(x.shape[1])
    return jnp.abs(jax.nn.relu(a @ x) @ signs - b)


PROBLEM = gs.BlackBox(loss)


def table(n: int, shape: tuple[int, int], rng: np.random.Generator, teacher: np.ndarray) -> tuple[Any, Any]:
    """Return rows of norm 1, and a teacher network's output for them."""
    a = rng.normal(size=(n, shape[0])).astype(np.float32)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    signs = np.where(np.arange(shape[1]) % 2 == 0, 1.0, -1.0) / np.sqrt(shape[1])
    return jnp.asarray(a), jnp.asarray(np.maximum(a @ teacher, 0.0) @ signs, jnp.float32)


def stationarity(method: gs.methods.O2NC, n: int, d: int, budget: gs.Budget, seed: int, runs: int) -> np.ndarray:
    """Return for each run the mean over its blocks of the Goldstein estimate at radius 2δ, on fresh records.

    The theorem is about the expectation over a uniform block, which this averages instead of drawing.
    """
    shape, rng = SHAPES[d], np.random.default_rng(seed)
    teacher, init = 0.3 * rng.normal(size=(2, *shape))
    data, test = table(n, shape, rng, teacher), table(_TEST_ROWS, shape, rng, teacher)
    found = iterates(
        PROBLEM,
        data,
        method,
        [budget],
        init=jnp.asarray(init, jnp.float32),
        seeds=range(runs),
        looks=range(1, method.steps + 1),
    )
    norms = [
        [gs.diagnostics.goldstein(PROBLEM, x, test, 2 * method.radius, samples=d + 20) for x in block]
        for block in found
    ]
    return np.mean(norms, axis=0)


def growing(n: int) -> gs.methods.O2NC:
    """Return the method of the non-private regime: K ∝ n^⅓ blocks of 2TB ∝ n^⅔ records."""
    third = n ** (1 / 3)
    return gs.methods.O2NC(
        steps=round(0.7 * third),
        inner_steps=round(3 * third),
        radius=RADIUS[10],
        learning_rate=20.0,
        clip=4.0,
        smoothness=1e3,
    )


def private(d: int, rounds: int, variance_reduction: bool) -> gs.methods.O2NC:
    """Return the method at a given number of rounds, with or without variance reduction."""
    return gs.methods.O2NC(
        steps=16,
        inner_steps=rounds,
        radius=RADIUS[d],
        learning_rate=5.0,
        smoothness=0.5 / RADIUS[d],
        directions=DIRECTIONS[d],
        variance_reduction=variance_reduction,
    )


def main(settings: Settings) -> None:
    """Write the three tables and the figure."""
    _noise_table(settings)
    _rates_table(settings)
    _naive_table(settings)


def _noise_table(settings: Settings) -> None:
    rows = []
    for length in LENGTHS[:5] if settings.quick else LENGTHS:
        tree, factorization = (
            float(np.sqrt(np.mean(running_noise(strategy, length) ** 2))) for strategy in ("tree", "factorization")
        )
        alone = float(np.sqrt((length + 1) / 2))
        rows.append([length, alone, tree, factorization, f"{100 * (1 - factorization / tree):.0f} %"])
    write_table(
        settings.out / "noise",
        "Noise in running sums",
        ["T", "independent", "binary tree", "factorization", "less than the tree"],
        rows,
        settings.command("zeroth"),
        notes=[
            "Root mean square over t = 1, …, T of the deviation of the noise in the sum of the first t answers, in "
            "units of σ times the threshold; exact.",
        ],
    )


def _rates_table(settings: Settings) -> None:
    sizes, networks = (SIZES[:2], 2) if settings.quick else (SIZES, NETWORKS)
    budget = gs.Budget(np.inf, 1e-6)
    seeds = range(settings.seed, settings.seed + networks)
    measured = [
        np.concatenate([stationarity(growing(n), n, 10, budget, seed, runs=1) for seed in seeds]) for n in sizes
    ]
    fitted, low, high = slope(sizes, measured)
    means = [float(m.mean()) for m in measured]
    write_table(
        settings.out / "rates",
        "Stationarity against the number of records, without noise",
        ["d", "promised slope", "slope", "95 % interval", *(f"n = {n}" for n in sizes)],
        [[10, -1 / 3, fitted, f"[{low:.2f}, {high:.2f}]", *means]],
        settings.command("zeroth"),
        notes=[
            f"Mean over all blocks of a run of the Goldstein estimate at radius 2δ = {2 * RADIUS[10]:g} on fresh "
            f"records (not private), for {networks} teachers and starts; the interval is a bootstrap over these.",
            "K = 0.7 n^⅓ blocks of T = 3 n^⅓ rounds; in print T ∝ n^⅔ rounds of one record, here of several.",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.loglog(sizes, means, marker="o", label=f"O2NC, slope {fitted:.2f}")
        promised = means[0] * (np.array(sizes) / sizes[0]) ** (-1 / 3)
        axes.loglog(sizes, promised, linestyle=":", label="slope −1/3")
        axes.set_xlabel("records n")
        axes.set_ylabel("Goldstein estimate, mean over blocks")
        axes.legend()

    save_figure(settings.out / "rates", draw)


def _naive_table(settings: Settings) -> None:
    n, dimensions, rounds = (4_000, (10,), ROUNDS[:1]) if settings.quick else (100_000, (10, 100), ROUNDS)
    rows = []
    for d in dimensions:
        for T in rounds:
            ours, naive = (
                stationarity(private(d, T, reduced), n, d, BUDGET, settings.seed, runs=1) for reduced in (True, False)
            )
            rows.append([d, T, ours.mean(), naive.mean()])
    write_table(
        settings.out / "naive",
        "O2NC against the naive oracle at equal privacy",
        ["d", "T", "O2NC", "naive"],
        rows,
        settings.command("zeroth"),
        notes=[
            "Mean over the 16 blocks of one run of the Goldstein estimate at radius 2δ on fresh records (not private).",
            f"n = {n}, (ε, δ) = ({BUDGET.epsilon:g}, {BUDGET.delta:g}), replace one; both meet each record once, with "
            "the same clip, directions and learning rate.",
        ],
    )
