"""Do the minimax methods keep their theorems' promise? ‖∇Φ‖ against n, with the theorems' parameter choices.

Φ(x) = max_y of the mean loss is known in closed form. With x = (w, u), and a point b, weights a and a weight c of each
record,

    f(x, y; a, b, c) = ¼ Σ_j r_j²/(1 + r_j²) − (c/2) ln(1 + u²) + coupling(w, y) − (μ/2)‖y‖²,     r = w − b

is 1-smooth, not convex in x and μ-strongly concave in y. The first term is a bowl with flat walls, where noise shows.
The second is a valley without an end: after t steps of size η its gradient is still of order (ηt)^(−1/2), so too few
steps show. A good method must balance the two, as the theorems do.

The coupling is γ⟨y, w⟩, which no record enters, or γ⟨y, a∘w⟩, and then all that is known of y is bought from records.
Theory at fixed ε and d: ‖∇Φ‖ of a uniform iterate falls like n^(−1/2) for SGDA and n^(−2/3) for PrivateDiff (Theorems 2
and 6 of paper MINIMAX). The second promise rests on an ascent whose noise costs nothing (its step from y to x is not
private as printed). With R = s^(4/3) rounds, s = nε/√(d ln(1/δ)), a sound ascent knows y up to √R/s = s^(−1/3) in each
round. So the promise is to be expected where records do not meet y only; where they do, averaging y over
many rounds is tried, which no theorem covers.

Which of the theorems' hidden constants are set here. SGDA's η_x is 1/(2L), L = l + κl, instead of the proof's
1/(16(κ+1)²l). PrivateDiff's is half of `for_problem`'s: the noise of replace-one neighbours is about 2√2 times that of
the theorem, and what a period's differences accumulate has to stay below ‖v‖. An ascent step of 1/μ maximises this loss
exactly, so T2 = 1. Differences are asked of samples of T records: their sampling error adds up to about ηl‖v‖ in a
period. Each kind of query gets the same share of the budget, as in Theorem 5.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer import loop
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.rates import slope
from gossamer.experiments.settings import Settings
from gossamer.solving import make_door

BUDGET = gs.Budget(1.0, 1e-6)
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
RUNS = 10
WIDTH = 4
CONCAVITY, COUPLING, SMOOTHNESS = 0.9, 0.2, 1.0
STRATA = 48
_BOOTSTRAPS = 2_000


def _own(x: Any, y: jax.Array, record: Any) -> jax.Array:
    """The part of one record's loss that does not meet y."""
    _, b, c = record
    r2 = (x["w"] - b) ** 2
    return 0.25 * jnp.sum(r2 / (1 + r2)) - 0.5 * c * jnp.log1p(x["u"] ** 2)


def _public(x: Any, y: jax.Array, key: jax.Array) -> jax.Array:
    return COUPLING * y @ x["w"] - 0.5 * CONCAVITY * y @ y


def _whole(x: Any, y: jax.Array, record: Any) -> jax.Array:
    return _own(x, y, record) + COUPLING * y @ (record[0] * x["w"]) - 0.5 * CONCAVITY * y @ y


APART = gs.Minimax(_own, public=_public, private_blocks=("x",))
"""Records do not meet y."""
COUPLED = gs.Minimax(_whole)
"""Records meet y."""
INIT = ({"w": jnp.zeros(WIDTH), "u": jnp.ones(())}, jnp.zeros(WIDTH))


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights a, points b around a vertex of the cube and weights c."""
    rng = np.random.default_rng(seed)
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
    in_w = (0.5 * r / (1 + r**2) ** 2).mean(0) + COUPLING**2 / CONCAVITY * weights**2 * w
    return np.append(in_w, -c.mean() * u / (1 + u**2))


def _sgda(n: int, ascent: str) -> gs.methods.SGDA:
    large = SMOOTHNESS * (1 + SMOOTHNESS / CONCAVITY)
    options = dict(learning_rate_x=1 / (2 * large), ascent=ascent)
    return gs.methods.SGDA.for_problem(n, WIDTH + 1, SMOOTHNESS, CONCAVITY, BUDGET, **options)


def _private_diff(n: int, ascent: str, averaged: bool = False) -> gs.methods.PrivateDiff:
    theory = gs.methods.PrivateDiff.for_problem(n, WIDTH + 1, SMOOTHNESS, CONCAVITY, BUDGET, ascent=ascent)
    half = theory.learning_rate_x / 2  # type: ignore[operator]  # a number in `for_problem`
    method = dataclasses.replace(theory, inner_steps=1, difference_batch_size=theory.period, learning_rate_x=half)
    if averaged:
        method = dataclasses.replace(method, learning_rate_y=1 / (CONCAVITY * theory.period))
    equal = tuple(query.rate * math.sqrt(query.count) for query in method.schedule(n))
    return dataclasses.replace(method, noise=equal)


@dataclass(frozen=True)
class Case:
    """A method on a problem, the slope that theory promises if it does, and up to which n it is affordable."""

    name: str
    problem: gs.Minimax
    promised: float | None
    method: Callable[[int], gs.methods.Method]
    largest: int = SIZES[-1]


CASES = (
    Case("SGDA, records do not meet y", APART, -1 / 2, lambda n: _sgda(n, "public")),
    Case("PrivateDiff, records do not meet y", APART, -2 / 3, lambda n: _private_diff(n, "public")),
    Case("SGDA, records meet y", COUPLED, -1 / 2, lambda n: _sgda(n, "gradient")),
    Case("PrivateDiff, records meet y", COUPLED, None, lambda n: _private_diff(n, "gradient"), 10_000),
    Case("the same, y averaged", COUPLED, None, lambda n: _private_diff(n, "gradient", averaged=True), 10_000),
)
PAIR = ("SGDA, records do not meet y", "PrivateDiff, records do not meet y")


def iterates(
    problem: gs.Minimax, data: Any, method: gs.methods.Method, budget: gs.Budget, init: Any, key: jax.Array, stops: Any
) -> Iterator[Any]:
    """Yield the private iterate after each of these numbers of steps of one run.

    Runs are not vectorised: under `vmap` both branches of a round, refresh and difference, would be computed always.
    """
    data = jax.tree.map(jnp.asarray, data)
    planned = gs.plan(method, jax.tree.leaves(data)[0].shape[0], budget)
    door, keys = make_door(planned), loop.split(key)
    secrets = loop.make_secrets(door, data, planned.noise(), keys)
    carry = loop.start(method, problem, init, door, keys.output)
    for stop in stops:
        carry = loop.advance(method, problem, door, secrets, carry, jnp.int32(stop))
        yield method.params(carry.state)


def gradient_norms(case: Case, n: int, seed: int, runs: int) -> np.ndarray:
    """Return E‖∇Φ‖ of each run's uniform iterate: the mean over iterates drawn one from each of equal strata."""
    data, method = table(n, seed), case.method(n)
    rng = np.random.default_rng(seed)

    def mean_norm(key: jax.Array) -> float:
        strata = min(STRATA, method.steps)
        stops = np.floor((np.arange(strata) + rng.uniform(size=strata)) * method.steps / strata)
        found = iterates(case.problem, data, method, BUDGET, INIT, key, stops)
        return float(np.mean([np.linalg.norm(phi_gradient(case.problem, data, x)) for x, _ in found]))

    return np.array([mean_norm(key) for key in jax.random.split(jax.random.key(seed), runs)])


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
        norms[case.name] = found = [gradient_norms(case, n, settings.seed + i, runs) for i, n in enumerate(own)]
        fitted, low, high = slope(own, found)
        means = [r.mean() for r in found] + [None] * (len(sizes) - len(own))
        rows.append([case.name, case.promised, fitted, f"[{low:.2f}, {high:.2f}]", *means])
    gap, low, high = steeper(sizes, *(norms[name] for name in PAIR))
    write_table(
        settings.out / "minimax_rates",
        "The gradient of Φ against the number of records",
        ["method", "promised slope", "slope", "95 % interval", *(f"n = {n}" for n in sizes)],
        rows,
        settings.command("minimax-rates"),
        [
            f"Mean ‖∇Φ‖ of a uniform iterate over {runs} runs at ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, replace "
            "one, with the parameters of `for_problem` up to the constants that the module's documentation lists. "
            "Intervals are bootstraps over runs.",
            f"Where records do not meet y, PrivateDiff's slope is steeper than SGDA's by {gap:.2f}, 95 % interval "
            f"[{low:.2f}, {high:.2f}].",
            "Where records meet y, every ascent is a query: with the theorem's R = s^(4/3) rounds, "
            "s = nε/√(d ln(1/δ)), y is known up to about s^(−1/3) in each, so no slope is promised. The last row "
            "averages y over a period (step 1/(μT) instead of 1/μ), which no theorem covers. "
            "Both ask R ascents of R records each, so they end at n = 10000.",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in norms.items():
            axes.loglog(sizes[: len(found)], [r.mean() for r in found], marker="o", label=name)
        axes.set_xlabel("records n")
        axes.set_ylabel("mean ‖∇Φ‖")
        axes.legend()

    save_figure(settings.out / "minimax_rates", draw)
