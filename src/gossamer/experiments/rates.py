"""Do the methods keep their theorems' promise? Excess risk against n, with the theorems' parameter choices.

Least squares, whose optimum is known exactly. Theory at fixed ε and d: the excess risk falls like log(n)/n² for SVRG on
a strongly convex problem (Theorem 4.2 of paper ERM), and like 1/n for SVRG++ and AccMD on one that is merely convex
(Theorems 4.4 and 5.4). A slope is fitted to the logarithm of the mean excess risk; its interval is a bootstrap over
seeds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import sweep

BUDGET = gs.Budget(1.0, 1e-6)
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
RUNS = 64
_BOOTSTRAPS = 2_000


@dataclass(frozen=True)
class Case:
    """A method on a problem, and the slope that theory promises."""

    name: str
    promised: float
    spectrum: tuple[float, ...]
    """The standard deviation of each feature before rows are scaled to norm 1."""
    method: Callable[[int], gs.methods.Method]
    constraint: Any = None


FLAT = (1.0,) * 5
DECAYING = tuple(1.0 / j for j in range(1, 21))
BALL = gs.L2Ball(1.0)
CASES = (
    Case(
        "SVRG, strongly convex",
        -2.0,
        FLAT,
        lambda n: gs.methods.SVRG.for_problem(n, 5, BUDGET, smoothness=1.0, strong_convexity=0.19, gap=1.0),
    ),
    Case("SVRG++, convex", -1.0, DECAYING, lambda n: gs.methods.SVRGpp.for_problem(n, 20, BUDGET, smoothness=1.0)),
    Case(
        "AccMD, convex",
        -1.0,
        DECAYING,
        lambda n: gs.methods.AccMD.for_problem(n, 20, BUDGET, smoothness=1.0, constraint=BALL),
        BALL,
    ),
)


def table(n: int, spectrum: tuple[float, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm 1 with this spectrum and targets of size at most 1 from a linear model with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(spectrum))) * np.array(spectrum)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights = rng.choice([-0.8, 0.8], size=len(spectrum)) / np.sqrt(len(spectrum))
    y = X @ weights + rng.uniform(-0.2, 0.2, size=n)
    return X.astype(np.float32), y.astype(np.float32)


def excess_risks(case: Case, n: int, seed: int, runs: int) -> np.ndarray:
    """Return F(x) − F(x*) of each run, exactly: ½(x − x*)ᵀH(x − x*) in float64."""
    X, y = table(n, case.spectrum, seed)
    problem = gs.ERM(gs.objectives.squared, constraint=case.constraint)
    init = {"weights": jnp.zeros(X.shape[1])}
    found = sweep(problem, (X, y), case.method(n), BUDGET, init=init, seed=seed, runs=runs)
    wide = X.astype(np.float64)
    hessian = wide.T @ wide / n
    optimum = np.linalg.solve(hessian, wide.T @ y / n)
    if case.constraint is not None:
        assert np.linalg.norm(optimum) < case.constraint.radius
    error = np.asarray(found["weights"], np.float64) - optimum
    return 0.5 * np.einsum("ri,ij,rj->r", error, hessian, error)


def slope(sizes: tuple[int, ...], risks: list[np.ndarray], seed: int = 0) -> tuple[float, float, float]:
    """Return the slope of log mean risk against log n, and the 2.5 % and 97.5 % quantiles of its bootstrap."""
    rng = np.random.default_rng(seed)

    def fitted(means: list[float]) -> float:
        return float(np.polyfit(np.log(sizes), np.log(means), 1)[0])

    draws = [fitted([rng.choice(r, len(r)).mean() for r in risks]) for _ in range(_BOOTSTRAPS)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return fitted([r.mean() for r in risks]), float(low), float(high)


def main(settings: Settings) -> None:
    """Write the table of slopes and the figure."""
    sizes = SIZES[:3] if settings.quick else SIZES
    runs = 20 if settings.quick else RUNS
    rows, curves = [], {}
    for case in CASES:
        risks = [excess_risks(case, n, settings.seed + i, runs) for i, n in enumerate(sizes)]
        fitted, low, high = slope(sizes, risks)
        curves[case.name] = [r.mean() for r in risks]
        rows.append([case.name, case.promised, fitted, f"[{low:.2f}, {high:.2f}]", *curves[case.name]])
    write_table(
        settings.out / "rates",
        "Excess risk against the number of records",
        ["method", "promised slope", "slope", "95 % interval", *(f"n = {n}" for n in sizes)],
        rows,
        settings.command("rates"),
        notes=[
            f"Mean excess risk of {runs} runs at ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, replace one, with the "
            "parameters of `for_problem`.",
            "Least squares on rows of norm 1: 5 features of equal variance (strongly convex), or 20 whose variance "
            "falls like 1/j² with an optimum that weighs all of them alike (convex: the curvature of a direction is as "
            "small as the number of steps can tell).",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, means in curves.items():
            axes.loglog(sizes, means, marker="o", label=name)
        axes.set_xlabel("records n")
        axes.set_ylabel("mean excess risk")
        axes.legend()

    save_figure(settings.out / "rates", draw)
