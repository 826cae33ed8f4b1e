"""Do the minimax methods keep their theorems' promise? ‖∇Φ‖ against n, with the settings of `for_problem`.

Φ(x) = max_y of the mean loss is known in closed form. With x = (w, u), and a point b, weights a and a weight c of each
record,

    f(x, y; a, b, c) = 0.45 Σ_j r_j²/(1 + r_j²) − (c/2) ln(1 + u²) + coupling(w, y) − (μ/2)‖y‖²,     r = w − b

is 1-smooth, not convex in x and μ-strongly concave in y. The first term is a bowl with flat walls, where noise shows.
The second is a valley without an end: after t steps of size η its gradient is still of order (ηt)^(−1/2), so too few
steps show. A good method must balance the two, as the theorems do. (No valley is slower. The theorems want Φ bounded
below, and this one falls like a logarithm; but no run comes beyond u = 400, and Φ might as well be constant there.)

The coupling is γ⟨y, w⟩, which no record enters, or γ⟨y, a∘w⟩, and then all that is known of y is bought from records.
Theory at fixed ε and d: ‖∇Φ‖ of a uniform iterate falls like n^(−1/2) for SGDA and n^(−2/3) for PrivateDiff (Theorems 2
and 6 of paper MINIMAX). The second promise rests on an ascent whose noise costs nothing (its step from y to x is not
private as printed). With R = s^(4/3) rounds, s = nε/√(d ln(1/δ)), a sound ascent knows y up to √R/s = s^(−1/3) in each
round. So n^(−2/3) is to be expected where records do not meet y only, and n^(−1/3) where they do.

More steps alone are not enough: SGDA with PrivateDiff's number of steps, run as a control, has noise of √R/s = s^(−1/3)
in each of them.

Loss, ε and start are chosen so that n = 10³ is large enough for the theorems to say something: s = 120 there, and
neither the noise nor the valley's gradient is near the largest gradient that there is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.rates import slope
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import iterates

BUDGET = gs.Budget(1.0, 1e-6)
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
RUNS = 10
WIDTH = 4
BOWL, CONCAVITY, COUPLING, SMOOTHNESS = 0.9, 0.9, 0.2, 1.0
CLIP_X, CLIP_Y = 0.8, 0.3
"""No record's gradient in x is longer: 4 coordinates of at most 0.3 in w, one of at most 0.5 in u. The one in y is
0.2‖a∘w‖ long at y = 0, and shorter near the maximum."""
STRATA = 48
_BOOTSTRAPS = 2_000


def _own(x: Any, y: jax.Array, record: Any) -> jax.Array:
    """The part of one record's loss that does not meet y."""
    _, b, c = record
    r2 = (x["w"] - b) ** 2
    return 0.5 * BOWL * jnp.sum(r2 / (1 + r2)) - 0.5 * c * jnp.log1p(x["u"] ** 2)


def _public(x: Any, y: jax.Array, key: jax.Array) -> jax.Array:
    return COUPLING * y @ x["w"] - 0.5 * CONCAVITY * y @ y


def _whole(x: Any, y: jax.Array, record: Any) -> jax.Array:
    return _own(x, y, record) + COUPLING * y @ (record[0] * x["w"]) - 0.5 * CONCAVITY * y @ y


APART = gs.Minimax(_own, public=_public, private_blocks=("x",))
"""Records do not meet y."""
COUPLED = gs.Minimax(_whole)
"""Records meet y."""
INIT = ({"w": jnp.zeros(WIDTH), "u": jnp.float32(0.3)}, jnp.zeros(WIDTH))


def table(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights a, points b around a vertex of the cube and weights c."""
    a = rng.uniform(0.5, 1.0, size=(n, WIDTH))
    b = rng.choice([-0.5, 0.5], size=WIDTH) + rng.uniform(-0.5, 0.5, size=(n, WIDTH))
    c = rng.uniform(0.8, 1.0, size=n)
    return a.astype(np.float32), b.astype(np.float32), c.astype(np.float32)


def phi_gradient(problem: gs.Minimax, data: Any, x: Any) -> np.ndarray:
    """Return ∇Φ(x) in float64: by Danskin's theorem ∇_x of the mean loss at y*(x) = γ ā∘w/μ."""
    a, b, c = (np.asarray(leaf, np.float64) for leaf in data)
    w, u = np.asarray(x["w"], np.float64), float(x["u"])
    r = w - b
    weights = a.mean(0) if problem is COUPLED else np.ones(WIDTH)
    in_w = (BOWL * r / (1 + r**2) ** 2).mean(0) + COUPLING**2 / CONCAVITY * weights**2 * w
    return np.append(in_w, -c.mean() * u / (1 + u**2))


def _theory(kind: Any, problem: gs.Minimax, n: int, **options: Any) -> gs.methods.Method:
    """Return the theorem's settings of a method."""
    ascent = "gradient" if problem is COUPLED else "public"
    options = dict(ascent=ascent, clip_x=CLIP_X, clip_y=CLIP_Y, **options)
    return kind.for_problem(n, WIDTH + 1, BUDGET, smoothness=SMOOTHNESS, strong_concavity=CONCAVITY, **options)


def _sgda(problem: gs.Minimax, n: int) -> gs.methods.Method:
    return _theory(gs.methods.SGDA, problem, n)


def _private_diff(problem: gs.Minimax, n: int) -> gs.methods.Method:
    return _theory(gs.methods.PrivateDiff, problem, n, smoothness_y=COUPLING)


def _longer_sgda(problem: gs.Minimax, n: int) -> gs.methods.Method:
    return _theory(gs.methods.SGDA, problem, n, steps=_private_diff(problem, n).steps)


@dataclass(frozen=True)
class Case:
    """A method on a problem, the slope that a theorem promises if one does, and up to which n it is affordable."""

    name: str
    problem: gs.Minimax
    promised: float | None
    method: Callable[[gs.Minimax, int], gs.methods.Method]
    largest: int = SIZES[-1]


CASES = (
    Case("SGDA", APART, -1 / 2, _sgda),
    Case("PrivateDiff", APART, -2 / 3, _private_diff),
    Case("control: SGDA, as many steps", APART, None, _longer_sgda, 10_000),
    Case("SGDA, records meet y", COUPLED, -1 / 2, _sgda),
    Case("PrivateDiff, records meet y", COUPLED, None, _private_diff, 10_000),
)


def gradient_norms(case: Case, n: int, seed: int, runs: int) -> np.ndarray:
    """Return E‖∇Φ‖ of each run's uniform iterate: the mean over iterates drawn one from each of equal strata.

    Each run has a table of its own.
    """
    method, rng = case.method(case.problem, n), np.random.default_rng([seed, n])

    def mean_norm(key: jax.Array) -> float:
        data = table(n, rng)
        strata = min(STRATA, method.steps)
        stops = np.floor((np.arange(strata) + rng.uniform(size=strata)) * method.steps / strata).astype(int)
        found = iterates(case.problem, data, method, BUDGET, INIT, key=key, stops=stops)
        return float(np.mean([np.linalg.norm(phi_gradient(case.problem, data, x)) for x, _ in found]))

    return np.array([mean_norm(key) for key in jax.random.split(new_key(seed), runs)])


def steeper(sizes: tuple[int, ...], first: list[np.ndarray], second: list[np.ndarray]) -> tuple[float, float, float]:
    """Return by how much the second slope is below the first, and the 2.5 % and 97.5 % quantiles of its bootstrap."""
    rng = np.random.default_rng(0)

    def gap(means: Callable[[np.ndarray], float]) -> float:
        ratios = [math.log(means(one) / means(other)) for one, other in zip(first, second, strict=True)]
        return float(np.polyfit(np.log(sizes), ratios, 1)[0])

    draws = [gap(lambda norms: rng.choice(norms, len(norms)).mean()) for _ in range(_BOOTSTRAPS)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return gap(np.mean), float(low), float(high)


def main(settings: Settings) -> None:
    """Write the table of slopes and the figure."""
    runs = 4 if settings.quick else RUNS
    sizes = SIZES[:2] if settings.quick else SIZES
    norms, rows = {}, []
    for case in CASES:
        own = tuple(n for n in sizes if n <= case.largest)
        norms[case.name] = found = [gradient_norms(case, n, settings.seed, runs) for n in own]
        fitted, low, high = slope(own, found)
        means = [r.mean() for r in found] + [None] * (len(sizes) - len(own))
        rows.append([case.name, case.promised, fitted, f"[{low:.3f}, {high:.3f}]", *means])
    gap, low, high = steeper(sizes, norms["SGDA"], norms["PrivateDiff"])
    write_table(
        settings.out / "minimax_rates",
        "The gradient of Φ against the number of records",
        ["method", "promised slope", "slope", "95 % interval", *(f"n = {n}" for n in sizes)],
        rows,
        settings.command("minimax-rates"),
        notes=[
            f"Mean ‖∇Φ‖ of a uniform iterate over {runs} runs, each on a table of its own, at ε = {BUDGET.epsilon:g}, "
            f"δ = {BUDGET.delta:g}, replace one, d = {WIDTH + 1}, with the settings of `for_problem`; thresholds are "
            "bounds on this loss's gradients. Intervals are bootstraps over runs.",
            f"PrivateDiff's slope is steeper than SGDA's by {gap:.3f}, 95 % interval [{low:.3f}, {high:.3f}].",
            "In the first three rows records do not meet y. The control is SGDA with PrivateDiff's number of steps, "
            "R = s^(4/3) with s = nε/√(d ln(1/δ)): its noise falls like s^(−1/3).",
            "Where records meet y, every ascent is a query: with R rounds y is known up to about s^(−1/3) in each, and "
            "Theorem 6, whose ascent is not private as printed, promises nothing. 2R ascents of up to R records each "
            "are asked, so this row ends early. It is told that the gradient in x changes with y at rate γ = 0.2, not "
            "l = 1.",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for case in CASES:
            means = np.array([r.mean() for r in norms[case.name]])
            own = np.array(sizes[: len(means)])
            (line,) = axes.loglog(own, means, marker="o", label=case.name)
            if case.promised is not None:
                axes.loglog(own, means[-1] * (own / own[-1]) ** case.promised, color=line.get_color(), ls=":", lw=1)
        axes.set_xlabel("records n (dotted: the promised slopes)")
        axes.set_ylabel("mean ‖∇Φ‖")
        axes.legend()

    save_figure(settings.out / "minimax_rates", draw)
