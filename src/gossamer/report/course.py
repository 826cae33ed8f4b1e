"""What was done: what was asked of the data, and the values along the run."""

import math
from collections.abc import Mapping

import numpy as np

from gossamer.privacy.certificate import Certificate
from gossamer.privacy.schedule import Query
from gossamer.report.figures import Axis, Line, chart, tame
from gossamer.report.markup import Markup, element, number, percent
from gossamer.report.parts import paragraphs, remark, section, table

_MANY = 100
"""With twice as many steps the noise hides the course."""
_CURVES = {"gradient_norm": "Norm of the gradient estimate", "dual": "Dual variable"}


def queries(certificate: Certificate, exact: bool) -> Markup:
    """List what was asked of the data; `exact` says that something was answered without noise."""
    schedule = list(certificate.schedule)
    shares = _shares(certificate)
    noisy = any(query.noise_multiplier for query in schedule)
    noise = ", plus Gaussian noise of deviation σ·C in every coordinate" if noisy else ""
    use = "These queries are the only use that was made of the records."
    if certificate.selection is not None:
        use = (
            "This is what the released trial of the search asked. Others asked the like: "
            f"{number(certificate.selection.trials)} trials are to be expected, and how many there were is secret. The "
            "promise is about all of them."
        )
    facts = {
        "Times": [number(query.count) for query in schedule],
        "Sample": [str(query.sampling) for query in schedule],
        "Rate": [number(query.sampling.size(certificate.n) / certificate.n, 3) for query in schedule],
        "Clip C": [query.clip for query in schedule],
        "Noise multiplier σ": [number(query.noise_multiplier) for query in schedule],
        "Noise of an answer": [_deviation(query, certificate.n) for query in schedule],
        "Share of cost": [shares.get(query.name, "no limit") for query in schedule],
    }
    return section(
        "What was asked of the data",
        paragraphs(
            f"{use} An answer is the sum, over a sample, of one vector per record, each shortened to length C{noise}, "
            "all divided by rate·n.",
        ),
        element("p", "Where σ is 0 no noise was added: the answer is exact, and NOT private.", class_="bad")
        if exact
        else "",
        table(
            "Queries",
            ("Query", *(query.name for query in schedule)),
            [(fact, *values) for fact, values in facts.items()],
        ),
        remark(
            "Everything that is scheduled counts as spent, whether or not it was asked. The noise of an answer, "
            "σ·C/(rate·n), is given where C is one number. Shares of cost are approximate: times·rate²/σ². Blocks that "
            "have no row in common cost as much as the least noisy of them alone, because each row is in one block."
        ),
        *(
            remark(
                f"The answer “{bought.name}” was bought {'after' if bought.after else 'before'} the training, with "
                f"{percent(bought.share, 0)} of the budget."
            )
            for bought in certificate.purchases
            if not exact
        ),
    )


def _shares(certificate: Certificate) -> dict[str, str]:
    """Return each query's part of Σ c q²/σ²; of disjoint blocks, which cost one Gaussian, the least noisy pays.

    Without noise there are no shares.
    """
    schedule = certificate.schedule
    if not all(query.noise_multiplier for query in schedule):
        return {}
    met = {query.name: query.cost(certificate.neighbors) for query in schedule.at_worst()}
    least = min((cost.noise_multiplier for cost in met.values()), default=1.0)
    costs = {query.name: 0.0 for query in schedule} | {
        name: cost.count * cost.rate**2 * (least / cost.noise_multiplier) ** 2 for name, cost in met.items()
    }
    total = math.fsum(costs.values())
    shares = {name: cost / total for name, cost in costs.items()} if total else {}
    return {
        name: f"below {percent(0.01, 0)}" if 0 < share < 0.005 else percent(share, 0) for name, share in shares.items()
    }


def _deviation(query: Query, n: int) -> str:
    try:
        threshold = float(query.clip)
    except ValueError:  # a rule in words
        return "not one number"
    return number((query.noise_multiplier or 0.0) * threshold / max(query.sampling.size(n), 1), 3)


def training(history: Mapping[str, np.ndarray], exact: bool) -> Markup:
    """Draw the values that the run recorded, step by step; `exact` says that something was answered without noise."""
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
            "Values along the run. They are computed from exact answers: they are NOT private."
            if exact
            else "Values along the run. They are computed from the noisy answers above and nothing else, so showing "
            "them costs no privacy. They are noisy themselves, and do not say how good the model is. A line that has "
            "become level says that the run had settled; one that still falls or rises, that more steps might change "
            "the model."
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
    picture = chart(key, title, finding, x, y, lines=lines)
    return element("figure", picture, element("figcaption", finding))


def _medians(steps: np.ndarray, values: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle and the median of each stretch of steps; a stretch with a gap is one."""
    stretches = [slice(start, start + every) for start in range(0, len(values), every)]
    middles, medians = (np.array([np.median(column[s]) for s in stretches]) for column in (steps, values))
    return middles, medians
