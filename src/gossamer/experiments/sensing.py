"""Matrix sensing: Table 2 of paper SOSP under sound accounting, and what it takes to learn anything there.

The setting is the paper's: 20 × 20 matrices of rank 3, ε = 2, δ = 10⁻⁶, T = 400 steps, a refresh of half of the records
every 10 steps, differences of an eighth, C = 1, and the printed step sizes. What is not printed is chosen here. The
matrix is scaled so that a measurement has unit variance (‖X*‖_F = √(pq)). Escapes start at a gradient of 0.005, a third
of that at the start (at 0.1, the first choice, the start itself is stationary, and RGDA and AdaSpider return it), by a
perturbation of 0.1. An escape's step size is 4, since curvatures are of the order of 0.04. The per-record y is
eliminated within each record, see `gossamer.objectives.sensing`. Each seed has a table, a start and noise of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.experiments.outputs import write_certificates, write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import iterates
from gossamer.privacy.certificate import certify
from gossamer.privacy.planning import plan

ROWS, COLUMNS, RANK = 20, 20, 3
NOISE = 0.01
BUDGET = gs.Budget(2.0, 1e-6)
FREE = gs.Budget(np.inf, 1e-6)
STEPS, PERIOD = 400, 10
RUNS = 10
PUBLISHED = {
    "RGDA": (0.9119, 0.4251, -0.0485),
    "StoSpider": (13.7046, 3.4505, -0.2186),
    "AdaSpider": (8.0751, 2.2753, -0.1438),
    "PrivateDiff": (0.6546, 0.3344, -0.0436),
}
ERM, GAME = gs.objectives.sensing(), gs.objectives.sensing_game()


def table(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return n measurements (A, b) of one random matrix of unit variance."""
    matrix = rng.normal(size=(ROWS, RANK)) @ rng.normal(size=(RANK, COLUMNS))
    matrix *= np.sqrt(ROWS * COLUMNS) / np.linalg.norm(matrix)
    a = rng.normal(size=(n, ROWS, COLUMNS)) / np.sqrt(ROWS * COLUMNS)
    b = np.einsum("nij,ij->n", a, matrix) + NOISE * rng.normal(size=n)
    return a.astype(np.float32), b.astype(np.float32)


def start(rng: np.random.Generator) -> dict[str, jax.Array]:
    """Return factors with entries of deviation 0.1."""
    u, v = 0.1 * rng.normal(size=(ROWS, RANK)), 0.1 * rng.normal(size=(COLUMNS, RANK))
    return {"u": jnp.asarray(u, jnp.float32), "v": jnp.asarray(v, jnp.float32)}


def methods(n: int, steps: int) -> dict[str, gs.methods.Method]:
    """Return the four methods of the table with the printed settings."""
    escape: dict[str, Any] = dict(tolerance=0.005, radius=0.1, escape_steps=20)
    common: dict[str, Any] = dict(steps=steps, period=PERIOD)
    sizes: dict[str, Any] = dict(batch_size=n // 8, refresh_batch_size=n // 2)

    def spider(kind: Any, rate: float, **options: Any) -> gs.methods.Method:
        # As much drift as ten steps of a gradient of norm C make.
        return kind(**common, **sizes, **escape, learning_rate=rate, drift=PERIOD * rate**2, **options)

    return {
        "RGDA": gs.methods.RGDA(
            **common,
            **sizes,
            **escape,
            inner_steps=5,
            learning_rate_x=0.2,
            learning_rate_y=0.8,
            escape_rate=4.0,
            movement=(4.0 * 0.005) ** 2,
            ascent="public",
        ),
        "StoSpider": spider(gs.methods.StoSpider, 0.005),
        "AdaSpider": spider(gs.methods.AdaSpider, 0.02),
        "PrivateDiff": gs.methods.PrivateDiff(
            **common,
            learning_rate_x=0.2,
            learning_rate_y=0.8,
            batch_size=n // 2,
            difference_batch_size=n // 8,
            inner_steps=5,
            ascent="public",
        ),
    }


def outcome(method: gs.methods.Method | None, budget: gs.Budget, n: int, seed: int) -> tuple[float, float, float]:
    """Return Φ, ‖∇Φ‖ and λ_min after one run, or at the start if there is no method."""
    rng = np.random.default_rng([seed, n])
    data, x = table(n, rng), start(rng)
    if method is not None:
        game = gs.Minimax in method.problems
        init = (x, jnp.zeros(())) if game else x
        problem, key = GAME if game else ERM, new_key(seed)
        (last,) = iterates(problem, data, method, budget, init, key=key, stops=[method.steps])
        x = last[0] if game else last
    found = gs.diagnostics.curvature(ERM, x, data)
    return found.value, found.gradient_norm, found.smallest_eigenvalue


def gradient_noise(method: gs.methods.Method, budget: gs.Budget, n: int) -> float:
    """Return the norm of the noise in one refreshed gradient of C = 1."""
    query = plan(method, n, budget).schedule["gradient"]
    return query.calibrated_noise() * np.sqrt((ROWS + COLUMNS) * RANK) / query.sampling.size(n)


def main(settings: Settings) -> None:
    """Write the table and the certificates of its private runs."""
    steps, runs = (20, 2) if settings.quick else (STEPS, RUNS)
    # The paper's table, and one with 25 times as many records.
    cells: list[tuple[int, int, tuple[gs.Budget, ...]]] = [(400, runs, (BUDGET, FREE))]
    cells += [] if settings.quick else [(10_000, 3, (BUDGET,))]
    rows, certificates = [], {}
    for n, count, budgets in cells:
        seeds = range(settings.seed, settings.seed + count)
        rows.append(_row("start", n, None, count, [outcome(None, BUDGET, n, seed) for seed in seeds]))
        for name, method in methods(n, steps).items():
            for budget in budgets:
                found = [outcome(method, budget, n, seed) for seed in seeds]
                noise = gradient_noise(method, budget, n)
                rows.append(
                    _row(
                        name,
                        n,
                        budget.epsilon,
                        count,
                        found,
                        noise=noise,
                        printed=PUBLISHED[name] if n == 400 else None,
                    )
                )
            problem = GAME if gs.Minimax in method.problems else ERM
            certificates[f"{name}-{n}"] = certify(plan(method, n, BUDGET), problem, settings.seed, True)
    columns = ["method", "n", "ε", "seeds", "Φ", "± sd", "‖∇Φ‖", "λ_min", "noise of a refresh"]
    write_table(
        settings.out / "sensing",
        "Matrix sensing: stationarity of the last iterate",
        [*columns, "Φ in print", "‖∇Φ‖ in print", "λ_min in print"],
        rows,
        settings.command("sensing"),
        notes=[
            f"Means over seeds, each with a table, start and noise of its own; δ = {BUDGET.delta:g}, replace one, "
            f"{steps} steps. Printed figures are for one seed and ε = 2, by the paper's own accounting.",
            "Noise of a refresh: σ·C·√d/(qn) for C = 1 and d = 120, to be compared with ‖∇Φ‖ at the start.",
            "Φ, ‖∇Φ‖ and λ_min are exact and not private.",
        ],
    )
    write_certificates(settings.out / "certificates", certificates)


def _row(
    name: str,
    n: int,
    epsilon: float | None,
    count: int,
    found: list[tuple[float, float, float]],
    noise: float | None = None,
    printed: tuple[float, ...] | None = None,
) -> list[Any]:
    value, norm, smallest = np.mean(found, axis=0)
    shown = printed if printed is not None and epsilon == BUDGET.epsilon else (None, None, None)
    return [name, n, epsilon, count, value, np.std([f[0] for f in found], ddof=1), norm, smallest, noise, *shown]
