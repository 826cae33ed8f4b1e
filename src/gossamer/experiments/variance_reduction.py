"""When do differences of gradients beat DP-SGD with momentum? A phase diagram over n, d, ε and the condition number.

Methods are compared on quadratics by their expected excess risk, which is computed (`noise_model`), and on logistic
regression by simulation; three points are checked by runs through the door. Noise is that of `gs.plan` for the schedule
that a method would ask, at (ε, 1e-8), replace-one. All may look at as many gradients as 300 full passes do. Each point
has the best of 96 settings of SGD, with and without momentum, with steps that stay or become shorter; of 96 of SPIDER,
with steps that stay or become shorter; and of 96 of SVRG.
"""

import csv
import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments import noise_model as model
from gossamer.experiments import noisy_logistic
from gossamer.experiments.noise_model import Points, Setting
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import sweep

DELTA = 1e-8
SIZES = tuple(round(10 ** (k / 2)) for k in range(6, 15))
DIMENSIONS, EPSILONS, CONDITIONS = (10, 100, 1000), (0.3, 1.0, 3.0), (10.0, 100.0, 1000.0)
DIFFERENCES = ("Spider", "SVRG")
_N = 10**6
"""Rates alone decide about noise: schedules are planned for so many records."""
_STEPS = {
    "SGD": ((10, 0, 1.0), (30, 0, 1.0), (100, 0, 1.0), (300, 0, 1.0), (3000, 0, 0.1), (10_000, 0, 0.01)),
    "Spider": (
        *((10, 10, 1.0), (30, 30, 1.0), (100, 10, 1.0), (100, 100, 1.0)),
        *((1000, 100, 0.1), (10_000, 1000, 0.01)),
    ),
    "SVRG": ((2, 5, 1.0), (3, 30, 1.0), (10, 10, 1.0), (3, 300, 0.1), (10, 100, 0.1), (10, 1000, 0.01)),
}
_MORE: dict[str, tuple[tuple[float, ...], tuple[bool, ...]]] = {
    "SGD": ((0.0, 0.9), (False, True)),
    "Spider": ((2.0, 5.0), (False, True)),
    "SVRG": ((1.0, 2.0, 5.0, 10.0), (False,)),
}
"""`Setting.extra` and `Setting.decays`."""
_LENGTHS = tuple(10 ** (-2 * k / 3) for k in range(4))
"""Of steps, from 1 to 0.01, in units of 1/(largest curvature)."""
CHECKED = (("alike", 1_000, 10, 100.0), ("alike", 10_000, 10, 100.0), ("alike", 100_000, 10, 100.0))
"""Points that are run through the door, at ε = 1."""


def settings_of(method: str) -> list[Setting]:
    """Return what is tried."""
    choices = itertools.product(_STEPS[method], _LENGTHS, *_MORE[method])
    return [Setting(method, *shape, step, extra, shortens) for shape, step, extra, shortens in choices]


def as_method(setting: Setting, n: int, largest: float = 1.0) -> gs.methods.Method:
    """Return the method that a setting stands for, on n records whose mean has this largest curvature."""
    kind, steps, length, rate, step, extra, decays = setting
    options: dict[str, Any] = {"learning_rate": step / largest, "clip": model.CLIP, "batch_size": round(rate * n)}
    if decays:
        options["learning_rate"] = lambda t: step / largest * (1 - t / steps)
    if kind == "SGD":
        return gs.methods.SGD(steps=steps, momentum=extra, **options)
    options["smoothness"] = model.SMOOTHNESS
    if kind == "SVRG":
        return gs.methods.SVRG(
            steps=steps, inner_steps=length, noise=(1.0, extra * rate * math.sqrt(length)), **options
        )
    fresh = -(-steps // length)
    return gs.methods.Spider(
        steps=steps, period=length, noise=(1.0, extra * rate * math.sqrt((steps - fresh) / fresh)), **options
    )


def noise_of(setting: Setting, epsilon: float, cache: dict[Any, dict[str, float]]) -> dict[str, float]:
    """Return the noise multipliers of a setting's queries."""
    key = (*setting[:4], setting.extra if setting.method != "SGD" else None, epsilon)
    if key not in cache:
        found = gs.plan(as_method(setting, _N), _N, gs.Budget(epsilon, DELTA)).noise()
        cache[key] = {"gradient" if name == "anchor" else name: float(value) for name, value in found.items()}
    return cache[key]


def search(points: Points, epsilons: np.ndarray, cache: dict[Any, dict[str, float]]) -> dict[str, Any]:
    """Return, for each method, the least expected excess risk at each point, and the setting that has it."""
    found: dict[str, Any] = {}
    for method in _STEPS:
        tried = settings_of(method)
        risks = []
        for setting in tried:
            by_epsilon = {epsilon: noise_of(setting, epsilon, cache) for epsilon in np.unique(epsilons)}
            noise = {name: np.array([by_epsilon[e][name] for e in epsilons]) for name in by_epsilon[epsilons[0]]}
            risks.append(model.excess(points, setting, noise))
        best = np.argmin(risks, axis=0)
        found[method] = (np.min(risks, axis=0), [tried[i] for i in best])
    return found


def checked(points: Points, place: int, setting: Setting, seeds: int) -> np.ndarray:
    """Return the excess risk of runs through the door, at a point of the family whose records are alike."""
    n, d = int(points.n[place]), int(points.d[place])
    h = np.repeat(points.curvatures()[place], d // model.GROUPS)
    rng = np.random.default_rng(0)
    pulls = rng.normal(size=(n, d))
    pulls -= pulls.mean(axis=0)
    pulls *= model.SPREAD * model.CLIP / np.linalg.norm(pulls, axis=1).mean()
    records = (pulls / h).astype(np.float32)
    curvature = jnp.asarray(h, jnp.float32)

    def loss(x: jax.Array, record: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum(curvature * jnp.square(x - record))

    init = jnp.full(d, model.START / math.sqrt(d), jnp.float32)
    method = as_method(setting, n, float(h.max()))
    found = sweep(gs.ERM(loss), records, method, gs.Budget(1.0, DELTA), init=init, seed=1, runs=seeds)
    errors = np.asarray(found, np.float64) - records.astype(np.float64).mean(axis=0)
    return 0.5 * (h * errors**2).sum(axis=1)


def main(settings: Settings) -> None:
    """Write the phase diagram, its figure, and the checks."""
    few = slice(2) if settings.quick else slice(None)
    epsilon = EPSILONS[1:2] if settings.quick else EPSILONS
    axes: list[Any] = [model.FAMILIES, SIZES[few], DIMENSIONS[few], CONDITIONS[few], epsilon]
    grid = list(itertools.product(*axes))
    family, n, d, condition, epsilons = map(np.array, zip(*grid, strict=True))
    points = Points(family, n.astype(float), d.astype(float), condition)
    cache: dict[Any, dict[str, float]] = {}
    found = search(points, epsilons, cache)
    start, largest = points.start_risk(), points.curvatures().max(axis=1)
    rows = []
    for i, at in enumerate(grid):
        least = {method: found[method][0][i] for method in found}
        ratio = min(least[method] for method in DIFFERENCES) / least["SGD"]
        told = [_told(found[method][1][i]) for method in found]
        signal = largest[i] * at[1] * at[4] / math.sqrt(at[2])
        rows.append([*at, signal, start[i], *least.values(), ratio, *told])
    columns = ["family", "n", "d", "condition", "epsilon", "signal", "start", *found, "ratio"]
    columns += [f"{method}: setting" for method in found]
    _write_runs(settings.out / "runs.csv", columns, rows)
    write_summary(settings, rows)
    _write_checks(settings, points, grid, found)
    _write_logistic(settings, cache)


def _told(setting: Setting) -> str:
    told = f"{setting.steps}x{setting.length} q={setting.rate:g} step={setting.step:.3g} extra={setting.extra:g}"
    return f"{told} decays" if setting.decays else told


def _write_runs(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def _write_checks(settings: Settings, points: Points, grid: list[Any], found: dict[str, Any]) -> None:
    """Run the best settings of three points through the door, and compare with what was computed."""
    seeds = 2 if settings.quick else 20
    rows = []
    for family, n, d, condition in CHECKED[:1] if settings.quick else CHECKED:
        place = grid.index((family, n, d, condition, 1.0))
        for method in found:
            setting = found[method][1][place]
            runs = checked(points, place, setting, seeds)
            error = runs.std(ddof=1) / math.sqrt(seeds)
            rows.append([n, d, condition, method, _told(setting), found[method][0][place], runs.mean(), error])
    write_table(
        settings.out / "checks",
        "Three points of the phase diagram, run through the door",
        ["n", "d", "condition", "method", "setting", "computed", "measured", "standard error"],
        rows,
        settings.command("variance-reduction"),
        notes=[f"Excess risk at ε = 1, δ = {DELTA:g}; means of {seeds} runs of `gs.solve`'s own loop on real records."],
    )


def _write_logistic(settings: Settings, cache: dict[Any, dict[str, float]]) -> None:
    """Simulate all settings on logistic regression at ε = 1; choose by some seeds, and judge by others."""
    sizes, (development, judged) = (SIZES[:1], (1, 2)) if settings.quick else (SIZES[::4], (3, 10))
    problem = noisy_logistic.made(settings.seed)
    rows = []
    for n in sizes:
        row: list[Any] = [n]
        for method in _STEPS:
            tried = settings_of(method)
            risks = simulated(problem, tried, n, cache, seed=(settings.seed, 0), runs=development).mean(axis=1)
            best = int(np.argmin(risks))
            told = simulated(problem, [tried[best]], n, cache, seed=(settings.seed, 1), runs=judged)[0]
            row += [float(told.mean()), float(told.std(ddof=1) / math.sqrt(judged)), _told(tried[best])]
        rows.append([*row, min(row[4], row[7]) / row[1]])
    write_table(
        settings.out / "logistic",
        "Differences against SGD with momentum on logistic regression, simulated",
        ["n", *(f"{method}{what}" for method in _STEPS for what in ("", " ±", ": setting")), "ratio"],
        rows,
        settings.command("variance-reduction"),
        notes=[
            f"Excess risk at ε = 1, δ = {DELTA:g}, d = {noisy_logistic.COLUMNS}; ± is a standard error over {judged} "
            f"seeds. The setting is the best on {development} other seeds.",
        ],
    )


def simulated(
    problem: noisy_logistic.Problem, tried: list[Setting], n: int, cache: Any, seed: tuple[int, int], runs: int
) -> np.ndarray:
    """Return the excess risk of each setting, a row of `runs` each; settings of one shape go at once."""
    out = np.empty((len(tried), runs))
    for k, shape in enumerate(dict.fromkeys(setting[:4] for setting in tried)):
        own = [i for i, setting in enumerate(tried) if setting[:4] == shape]
        noise = [noise_of(tried[i], 1.0, cache) for i in own]
        columns = (
            [float(n)] * len(own),
            [each["gradient"] for each in noise],
            [each.get("difference", 0.0) for each in noise],
            [tried[i].step for i in own],
            [tried[i].extra for i in own],
            [tried[i].decays for i in own],
        )
        lanes = noisy_logistic.Lanes(*(jnp.repeat(jnp.asarray(column, jnp.float32), runs) for column in columns))
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed[0]), seed[1]), k)
        found = noisy_logistic.excess(problem, shape, lanes, jax.random.fold_in(key, n))
        out[own] = np.asarray(found).reshape(len(own), runs)
    return out


def write_summary(settings: Settings, rows: list[list[Any]]) -> None:
    """Write where differences win, by family and condition number, and the figure."""
    summary = []
    for family, condition in dict.fromkeys((row[0], row[3]) for row in rows):
        own = learnt(row for row in rows if (row[0], row[3]) == (family, condition))
        wins = [signal for signal, ratio in own if ratio < 1]
        losses = [signal for signal, ratio in own if ratio >= 1]
        summary.append(
            [
                family,
                condition,
                f"{len(wins)} of {len(own)}",
                boundary(own),
                min(wins, default=None),
                max(losses, default=None),
                min(ratio for _, ratio in own),
                float(np.median([ratio for _, ratio in own])),
                max(ratio for _, ratio in own),
            ]
        )
    write_table(
        settings.out / "variance_reduction",
        "Where differences beat SGD with momentum",
        [
            *("curvature of records", "condition number", "differences win", "from a signal of about"),
            *("least that wins", "largest that loses", "least ratio", "median ratio", "largest ratio"),
        ],
        summary,
        settings.command("variance-reduction"),
        notes=[
            "The ratio is the least expected excess risk of SPIDER and SVRG, over that of SGD with momentum.",
            "The signal is hnε/√d, where h is the largest curvature of the mean over that of a record: 1 where records "
            "are alike, and 2.5/d to 6/d where they are rows.",
            "Points at which nobody takes away half of the excess risk of the start are left out.",
            "The boundary is the signal above which calling differences better, and below which worse, is wrong least "
            "often; empty if that is best said of nowhere.",
        ],
    )
    save_figure(settings.out / "variance_reduction", lambda figure: _draw(figure, rows), (8.0, 4.2))


def learnt(rows: Iterable[list[Any]]) -> list[tuple[float, float]]:
    """Return (signal, ratio) of the points at which the best method takes away half of the excess risk or more."""
    return sorted((row[5], row[10]) for row in rows if min(row[7:10]) < 0.5 * row[6])


def boundary(points: list[tuple[float, float]]) -> float | None:
    """Return the signal that best separates points (signal, ratio) at which differences win from the others."""
    signals = sorted({signal for signal, _ in points})
    cuts = [*signals, math.inf]
    wrong = [sum((signal >= cut) != (ratio < 1) for signal, ratio in points) for cut in cuts]
    best = cuts[int(np.argmin(wrong))]
    return None if math.isinf(best) else best


def _draw(figure: Any, rows: list[list[Any]]) -> None:
    panels = figure.subplots(1, len(model.FAMILIES), sharey=True)
    titles = {"alike": "all records curved alike", "rows": "records are rows of a linear model"}
    for panel, family in zip(panels, model.FAMILIES, strict=True):
        for condition, marker in zip(CONDITIONS, "o^s", strict=True):
            own = learnt(row for row in rows if (row[0], row[3]) == (family, condition))
            if own:
                panel.plot(*zip(*own, strict=True), marker, markersize=4, label=f"condition number {condition:g}")
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set(xscale="log", yscale="log", xlabel="signal hnε/√d", title=titles[family])
        panel.grid(True, alpha=0.3)
    panels[0].set_ylabel("excess risk: differences / SGD")
    panels[0].legend(fontsize=8)
