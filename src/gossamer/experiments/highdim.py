"""AccMD on the L1 ball against projected GD at equal privacy, as the dimension grows past the number of records.

In theory: on the L1 ball the noise enters AccMD's excess risk by its largest entry, √(ln d), and projected GD's by its
length, √d. Logistic loss, rows of norm 1 whose first five features carry the signal and share 80 % of the length
whatever d is; every method and number of steps gets the same budget.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import sweep

ROWS = 1_000
DIMENSIONS = (100, 1_000, 10_000)
BALL = gs.L1Ball(5.0)
BUDGET = gs.Budget(1.0, 1e-5)
PROBLEM = gs.ERM(gs.objectives.logistic, constraint=BALL)
SMOOTHNESS = gs.objectives.logistic.smoothness_constant(1.0, intercept=False)
STEPS = (2, 4, 6)
CANDIDATES: dict[str, list[gs.methods.Method]] = {
    "AccMD": [gs.methods.AccMD(t, smoothness) for t in STEPS for smoothness in (0.1, 0.03, 0.01)],
    "projected GD": [gs.methods.GD(t, rate / SMOOTHNESS) for t in STEPS for rate in (1.0, 3.0, 10.0)],
    "projected GD, η = 1/L": [gs.methods.GD(t, 1 / SMOOTHNESS) for t in STEPS],
}
"""Each method's number of steps and step size are chosen by the excess risk itself, for all alike."""


def table(d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm 1 and labels of a logistic model in the first five features."""
    rng = np.random.default_rng(seed)
    signal, rest = rng.normal(size=(ROWS, 5)), rng.normal(size=(ROWS, d - 5))
    signal *= 0.8 / np.linalg.norm(signal, axis=1, keepdims=True)
    rest *= 0.6 / np.linalg.norm(rest, axis=1, keepdims=True)
    y = signal @ np.array([4.0, -4.0, 3.0, -3.0, 2.0]) + rng.logistic(size=ROWS) > 0
    return np.hstack([signal, rest]).astype(np.float32), y.astype(np.float32)


def excess_risks(method: gs.methods.Method, data: Any, optimum: float, seed: int, runs: int) -> np.ndarray:
    """Return the excess risk of each run over the best value in the ball."""
    init = {"weights": jnp.zeros(data[0].shape[1])}
    found = sweep(PROBLEM, data, method, BUDGET, init=init, seed=seed, runs=runs, batch=5)
    scores = np.asarray(found["weights"], np.float64) @ data[0].T.astype(np.float64)
    return np.mean(np.logaddexp(0, scores) - data[1] * scores, axis=1) - optimum


def best_value(data: Any) -> float:
    """Return the least risk in the ball, by AccMD without noise."""
    method = gs.methods.AccMD(steps=2_000, smoothness=0.03)
    init = {"weights": jnp.zeros(data[0].shape[1])}
    result = gs.solve(PROBLEM, data, method, gs.Budget(np.inf, 1e-5), init=init, seed=0, progress=False)
    return float(PROBLEM.objective(result.params, data))


def main(settings: Settings) -> None:
    """Write the table and the figure: the best setting of each method at each dimension."""
    dimensions = DIMENSIONS[:1] if settings.quick else DIMENSIONS
    runs = 2 if settings.quick else 10
    rows: list[list[Any]] = []
    curves: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for d in dimensions:
        data = table(d, settings.seed)
        optimum = best_value(data)
        for name, methods in CANDIDATES.items():
            risks = [excess_risks(method, data, optimum, settings.seed, runs) for method in methods]
            mean, method, found = min(zip([r.mean() for r in risks], methods, risks, strict=True), key=lambda c: c[0])
            size = getattr(method, "smoothness", None) or 1 / method.learning_rate  # type: ignore[attr-defined]
            rows.append([d, name, method.steps, 1 / size, mean, found.std(ddof=1) / np.sqrt(runs)])
            curves[name].append(mean)
    write_table(
        settings.out / "highdim",
        "AccMD against projected GD on the L1 ball",
        ["d", "method", "best steps", "best step size", "mean excess risk", "standard error"],
        rows,
        settings.command("highdim"),
        notes=[
            f"n = {ROWS}, L1 ball of radius {BALL.radius:g}, ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, replace "
            f"one, {runs} runs of every setting. L = {SMOOTHNESS:g}. The zero model has an excess risk of 0.21.",
            "The best of 2, 4 and 6 steps; step sizes 10, 33 and 100 for AccMD (1/smoothness), 4, 12 and 40 "
            "for GD. Both are chosen by the excess risk itself.",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, means in curves.items():
            axes.loglog(dimensions, means, marker="o", label=name)
        axes.set_xlabel("dimension d")
        axes.set_ylabel("mean excess risk")
        axes.legend()

    save_figure(settings.out / "highdim", draw)
