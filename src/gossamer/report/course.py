"""What was done: what was asked of the data, the values along the run, the settings."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.certificate import Certificate
from gossamer.report.figures import Axis, Line, chart, tame
from gossamer.report.markup import Markup, element, join, number, percent, shown
from gossamer.report.parts import bullets, paragraphs, remark, section, table
from gossamer.schedule import Query, Schedule

_SAMPLING = {"full": "all rows", "poisson": "each row by chance", "partition": "a block of its own"}
_MANY = 100
"""With twice as many steps the noise hides the course."""
_CURVES = {"gradient_norm": "Norm of the private gradient estimate", "dual": "Dual variable"}


def queries(certificate: Certificate) -> Markup:
    """List what was asked of the data."""
    shares = _shares(certificate.schedule)
    headers = (
        "Query",
        "Times",
        "Sample",
        "Rate",
        "Clip C",
        "Noise multiplier σ",
        "Noise of an answer",
        "Share of cost",
    )
    rows = [
        (
            query.name,
            number(query.count),
            _SAMPLING[query.sampling],
            number(query.rate, 3),
            query.clip,
            number(query.noise_multiplier),
            _deviation(query, certificate.n),
            shares.get(query.name, "none"),
        )
        for query in certificate.schedule
    ]
    return section(
        "What was asked of the data",
        paragraphs(
            "The records were used by these queries alone. An answer is the sum, over a sample, of one vector per "
            "record, each shortened to length C, plus Gaussian noise of deviation σ·C in every coordinate, all divided "
            "by rate·n."
        ),
        table("Queries", headers, rows, numeric=(1, 3, 5, 6, 7)),
        bullets(note for query in certificate.schedule for note in _notes(query)),
        remark(
            "All that is scheduled counts as spent, whether or not it was asked. The noise of an answer, σ·C/(rate·n), "
            "is given where C is a fixed number. Shares of cost are to leading order, times·rate²/σ²; blocks without a "
            "common row are paid for once, by the least noisy."
        ),
    )


def _shares(schedule: Schedule) -> dict[str, str]:
    """Return each query's part of Σ c q²/σ²; of disjoint blocks, which cost one Gaussian, the least noisy pays."""
    noise = {query.name: query.noise_multiplier or 0.0 for query in schedule}
    payer = min((query.name for query in schedule if query.disjoint), key=lambda name: noise[name], default=None)
    met = {q.name: float(q.name == payer) if q.disjoint else q.count * q.rate**2 for q in schedule}
    if not all(noise.values()):
        return {}
    least = min(noise.values(), default=1.0)
    costs = {name: met[name] * (least / noise[name]) ** 2 for name in noise}
    total = math.fsum(costs.values())
    return {name: percent(cost / total, 0) for name, cost in costs.items()} if total else {}


def _deviation(query: Query, n: int) -> str:
    try:
        threshold = float(query.clip)
    except ValueError:  # a rule in words
        return "varies"
    divisor = query.block_rows(n) if query.disjoint else query.rate * n
    return number((query.noise_multiplier or 0.0) * threshold / max(divisor, 1), 3)


def _notes(query: Query) -> list[str]:
    notes = []
    if query.jacobian is not None:
        notes.append(
            f"{query.name}: a perturbed objective, whose Jacobian costs {number(query.jacobian)} of ε besides."
        )
    if query.stream is not None:
        length, strategy = number(query.stream.length), query.stream.strategy
        notes.append(f"{query.name}: noise is correlated within streams of {length} answers ({strategy}).")
    return notes


def training(history: Mapping[str, np.ndarray]) -> Markup:
    """Draw the public values of the run, step by step."""
    columns = {name: tame(values) for name, values in history.items()}
    steps = columns.pop("step", np.zeros(0))
    drawn = [
        _curve(f"curve-{place}", _CURVES.get(name, name), _positions(steps, len(values)), values)
        for place, (name, values) in enumerate(columns.items())
    ]
    if not drawn:
        return section("Training", paragraphs("This run recorded no values along the way."))
    return section(
        "Training",
        paragraphs(
            "Values along the run. They are computed from the noisy answers above and nothing else, so showing them "
            "costs no privacy. They are noisy themselves, and do not say how good the model is."
        ),
        element("div", *drawn, class_="curves"),
    )


def _positions(steps: np.ndarray, length: int) -> np.ndarray:
    """Return the recorded steps if they are that, else 1, 2, …"""
    increase = len(steps) == length and bool(np.all(np.isfinite(steps))) and bool(np.all(np.diff(steps) > 0))
    return steps if increase else np.arange(1.0, length + 1.0)


def _curve(key: str, title: str, steps: np.ndarray, values: np.ndarray) -> Markup:
    seen = values[np.isfinite(values)]
    missing = len(values) - len(seen)
    finding = f"{title} over {number(len(values))} steps"
    if len(seen):
        first, last, least, most = (number(float(v), 3) for v in (seen[0], seen[-1], seen.min(), seen.max()))
        finding += f": {first} at first, {last} at last, between {least} and {most}"
    finding += "."
    if missing:
        finding += f" Gaps in the line: {number(missing)} not recorded or not finite."
    lines = [Line("each step", steps, values, "main")]
    every = len(values) // _MANY
    if every > 1:
        finding += f" The strong line is the median of {number(every)} steps at a time."
        lines = [Line("each step", steps, values, "faint"), Line("median", *_medians(steps, values, every), "main")]
    x, y = Axis.around("step", steps, log=False), Axis.around(title, values)
    picture = chart(key, title, finding, x, y, lines)
    return element("figure", picture, element("figcaption", finding))


def _medians(steps: np.ndarray, values: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle and the median of each stretch of steps; a stretch with a gap is one."""
    stretches = [slice(start, start + every) for start in range(0, len(values), every)]
    middles, medians = (np.array([np.median(column[s]) for s in stretches]) for column in (steps, values))
    return middles, medians


def settings(certificate: Certificate, pipeline: Mapping[str, Any]) -> Markup:
    """List the settings, all of them public."""
    model = pipeline.get("model")
    kept = model if isinstance(model, Mapping) else {}
    groups = {
        f"Method: {certificate.method}": certificate.configuration,
        "Problem": certificate.problem,
        "Model": {name: value for name, value in kept.items() if value not in ([], {})},
        "Largest samples": certificate.capacities,
    }
    tables = [
        join([element("h3", title), table(title, ("Name", "Value"), [(k, shown(v)) for k, v in values.items()])])
        for title, values in groups.items()
        if values
    ]
    return section(
        "Settings",
        paragraphs("All of them are public. The promise assumes that they were chosen without looking at the records."),
        *tables,
    )
