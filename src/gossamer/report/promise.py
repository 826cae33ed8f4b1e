"""What was promised: to one person, in plain words; in symbols; and as a limit to every attacker."""

import math

import numpy as np

from gossamer.privacy.budget import Neighbors
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.facts import UnitName
from gossamer.report.figures import Axis, Line, chart
from gossamer.report.judging import WEAK, Judgement
from gossamer.report.markup import Markup, at_most, element, equation, number, percent, rounded_up
from gossamer.report.parts import bullets, paragraphs, remark, section, table

_ALARM = 0.05
_PRIOR, _GROUP = 0.01, 4
_ALARMS = (0.001, 0.01, _ALARM, 0.2)
_LARGEST_EXPONENT = 30
"""Beyond it e to the power of ε says nothing as a number."""
_NOT_PROMISED = (
    "The model may learn what is true of people in general: that is what it is for.",
    "Another run on the same table is another promise, and the costs of the two add up.",
)
_SEVERAL: dict[UnitName, str] = {
    "row": "A person with several rows is protected less than a person with one.",
    "person": "A person with two ids in the table is protected less than a person with one.",
}
_NEIGHBORS: dict[UnitName, dict[Neighbors, str]] = {
    "row": {
        "replace_one": "For all tables D and D′ of n records that differ in one of them,",
        "add_remove": "For all tables D and D′ of which one has a record in a row where the other has none,",
    },
    "person": {
        "replace_one": "For all tables D and D′ with the same n ids that differ in the rows of one person,",
        "add_remove": "For all tables D and D′ of which one has a person where the other has nobody,",
    },
}


def promise(certificate: Certificate, judgement: Judgement) -> Markup:
    """Say what (ε, δ) means for one person, in plain words and in symbols."""
    title = "What was promised"
    if not math.isfinite(certificate.epsilon):
        return section(title, paragraphs("Nothing: ε is infinite, and no noise was added."))
    doubt = "What follows is what the certificate claims. Do not rely on it, for the reasons given above."
    return section(
        title,
        element("p", doubt, class_="bad") if judgement.faults else "",
        paragraphs(*_plain_words(certificate, judgement)),
        element("h3", "What is not promised"),
        bullets((_SEVERAL[certificate.unit.name], *_NOT_PROMISED)),
        element("h3", "In symbols"),
        element(
            "p",
            element("i", "Pr[M(D) ∈ S] ≤ "),
            element("i", "e", element("sup", "ε"), " · Pr[M(D′) ∈ S] + δ"),
            element("br"),
            element("i", f"{equation('ε', certificate.epsilon)}, "),
            element("i", f"{equation('δ', certificate.delta)}, "),
            element("i", equation("n", certificate.n)),
            class_="formula",
        ),
        remark(
            f"{_NEIGHBORS[certificate.unit.name][certificate.neighbors]} and every set S of outcomes. M is the whole "
            f"run. (neighbors = {certificate.neighbors})"
        ),
    )


def _plain_words(certificate: Certificate, judgement: Judgement) -> tuple[str, str, str]:
    change, suspicion = {
        "replace_one": (
            "been replaced by any other",
            "has narrowed one person’s record down to two possibilities with even odds",
        ),
        "add_remove": (
            "not been in the table",
            "knows one person’s record and wonders, with even odds, whether it is in the table",
        ),
    }[certificate.neighbors]
    large = certificate.epsilon >= _LARGEST_EXPONENT
    growth = f"e to the power of {number(certificate.epsilon)}" if large else number(math.exp(certificate.epsilon), 3)
    likeness = "a similar" if judgement.scheduled.even_odds() < WEAK else "another, perhaps a very different,"
    return (
        f"The table has {_whom(certificate)} Take any one of them. "
        "Everything that was published about this run, the model and this report included, would have come out with "
        f"{likeness} probability if that record had {change}. No outcome is more than about {growth} times as likely "
        f"in one case as in the other, apart from an allowance of {number(certificate.delta, 3)}. The first number is "
        "e to the power of ε, the second is δ.",
        "What this means against the strongest attacker: someone who knows every other record, knows how the model was "
        f"trained, {suspicion}, and sees the model, guesses right at most "
        f"{at_most(judgement.scheduled.even_odds())} of the time. Tossing a coin, they would be right half the time.",
        f"Suppose they accept a false alarm in {percent(_ALARM, 0)} of the cases in which their suspicion is wrong. "
        f"Then they recognise at most {at_most(judgement.scheduled.found(_ALARM))} of the cases in which it is right. "
        f"Blind guessing recognises {percent(_ALARM, 0)}.",
    )


def _whom(certificate: Certificate) -> str:
    n, most = number(certificate.n), certificate.unit.rows
    if most is None:
        return f"{n} rows, and each row is one person’s record."
    several = f"up to {most} rows" if most > 1 else "one row"
    return f"{n} persons, and all the rows of a person, of which {several} count, are one record."


def attacker(certificate: Certificate, judgement: Judgement) -> Markup:
    """Draw the trade-off curve: how often any attacker is right against how often they are wrong."""
    title = "What any attacker could achieve"
    if not math.isfinite(certificate.epsilon):
        return section(title, paragraphs("There is no limit: without privacy an attacker may be right every time."))
    certified, scheduled = judgement.certified, judgement.scheduled
    rows = [
        (
            percent(alpha),
            at_most(scheduled.found(alpha)),
            at_most(certified.found(alpha)),
            percent(alpha),
        )
        for alpha in _ALARMS
    ]
    headers = ("False alarms", "Limit by all that was asked", "Limit by ε and δ alone", "Blind guessing")
    how = "their privacy loss distribution" if judgement.verification else "ε as recomputed"
    source = f"the queries below, by {how}"
    if certificate.selection is not None and judgement.verification:
        source = "ε and δ, which are about all trials of the search"
    caption = (
        f"The nearer the solid line is to the dotted one, the less the model tells about one {certificate.unit.scope}. "
        "No attacker, whatever they know and however they compute, gets above the solid line. It follows from "
        f"{source}. The dashed line follows from ε and δ alone."
    )
    areas = [f"{rounded_up(curve.auc(), 3):.3f}" for curve in (scheduled, certified)]
    risks = table("The promise as risks", ("Risk", "At most", "What to conclude"), _risks(certificate, judgement))
    return section(
        title,
        element("figure", _curves(judgement), element("figcaption", caption), class_="wide"),
        table("Limits to every attack", headers, rows, numeric=range(4)),
        risks,
        remark(
            f"Largest possible area under the curve (AUC): {areas[0]} by all that was asked, {areas[1]} by ε and δ "
            "alone, 0.5 by blind guessing. Limits are rounded up."
        ),
    )


def _risks(certificate: Certificate, judgement: Judgement) -> list[tuple[str, str, str]]:
    """Return what the curve means, a figure and a sentence each."""
    curve = judgement.scheduled
    mu = curve.gaussian(certificate.epsilon)
    group = curve.of_group(_GROUP).together(judgement.certified.of_group(_GROUP))
    return [
        (
            "Attacker’s advantage",
            at_most(curve.advantage()),
            "This is how much more often an attacker accuses someone rightly than wrongly; 0 % is blind guessing.",
        ),
        (
            f"Accusations that are right, if {percent(_PRIOR, 0)} of the people asked about are in the table",
            at_most(curve.right_accusations(_PRIOR, _ALARM)),
            f"With {percent(_ALARM, 0)} false alarms, the rest of the accused were not in it.",
        ),
        (
            f"A guess at even odds about {_GROUP} people at once",
            at_most(group.even_odds()),
            f"A family of {_GROUP} with a row each is protected less than one person is.",
        ),
        (
            "μ of Gaussian differential privacy",
            f"{rounded_up(mu, 2):.2f}" if math.isfinite(mu) else number(mu),
            "One noisy answer that one record moves by μ standard deviations tells as much as the whole run.",
        ),
    ]


def _curves(judgement: Judgement) -> Markup:
    certified, scheduled = judgement.certified, judgement.scheduled
    alpha = np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 60), np.linspace(0.05, 1.0, 140)[1:]])
    findings = [
        f"With {percent(rate)} false alarms no attacker recognises more than {at_most(scheduled.found(rate))} "
        f"of the true cases, or {at_most(certified.found(rate))} by ε and δ alone."
        for rate in _ALARMS
    ]
    return chart(
        "tradeoff",
        "Limits to every attack",
        " ".join([*findings, "Blind guessing recognises as large a share as it raises false alarms."]),
        Axis("false alarms", 0.0, 1.0, percent=True),
        Axis("truth recognised, at most", 0.0, 1.0, percent=True),
        lines=[
            Line("blind guessing", alpha, alpha, "chance"),
            Line("limit by ε and δ alone", alpha, 1 - certified.missed(alpha), "other"),
            Line("limit by all that was asked", alpha, 1 - scheduled.missed(alpha), "main"),
        ],
        legend=True,
    )
