"""The report: one HTML file that stands alone, without scripts and without a network.

What it shows depends on the records only through private answers: it is made from a run's certificate, its public
history and its schema. They may come from anywhere, so all of their text is escaped; a content security policy that
allows styles and nothing else is the second wall.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gossamer.learn._objectives import OBJECTIVES
from gossamer.privacy.certificate import Certificate
from gossamer.report import columns, course, fine_print, learned, promise, settings
from gossamer.report.judging import Judgement, judge
from gossamer.report.markup import Markup, at_most, element, equation, number
from gossamer.report.parts import bullets, section
from gossamer.report.style import CSS

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PRIVATE = (
    "Everything on this page was computed from the private answers listed above and from public facts, except what is "
    "marked as NOT private, as NOT MET or as a leak."
)
_RECORD = {"row": "record", "person": "person"}
_RECORDS = {unit: f"{word}s" for unit, word in _RECORD.items()}
_EXACT = "This page shows what was computed from the records without noise: keep it as safe as they are."


def render(certificate: Certificate, history: Mapping[str, np.ndarray], pipeline: Mapping[str, Any]) -> str:
    """Return the report of a run as HTML.

    Args:
      certificate: what was promised.
      history: public values, one per step.
      pipeline: the parsed pipeline.json: objective, target, schema and model.
    """
    judgement = judge(certificate, columns.unconfirmed(pipeline))
    verdict = _verdict(certificate, judgement)
    body = element(
        "main",
        _header(certificate, pipeline),
        verdict if judgement.faults else "",  # nothing about a model comes before that
        learned.scores(pipeline),
        learned.learned(pipeline),
        section("The promise", "" if judgement.faults else verdict, _key_figures(certificate, judgement)),
        promise.promise(certificate, judgement),
        promise.attacker(certificate, judgement),
        course.queries(certificate, judgement.exact),
        course.training(history, judgement.exact),
        settings.settings(certificate, judgement, pipeline),
        columns.data(pipeline),
        fine_print.grounds(certificate, judgement),
        fine_print.recomputation(certificate, judgement),
        fine_print.versions(certificate),
        fine_print.citation(certificate),
        element("footer", _EXACT if judgement.exact else _PRIVATE, " The page needs no network and runs no scripts."),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "Privacy report: ", certificate.method, f", {equation('ε', certificate.epsilon)}"),
        element("style", Markup(CSS)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, element('body', body), lang='en')}\n"


def _header(certificate: Certificate, pipeline: Mapping[str, Any]) -> Markup:
    objective = str(pipeline.get("objective", "A model"))
    target = pipeline.get("target")
    title = OBJECTIVES[objective].title if objective in OBJECTIVES else objective
    what: list[Any] = [title[:1].upper() + title[1:]]
    if target is not None:
        what += [" for ", element("span", target, class_="name")]
    what.append(f", trained by {certificate.method} on {number(certificate.n)} {_RECORDS[certificate.unit.name]}.")
    return element(
        "header",
        element("div", "Gossamer", class_="brand"),
        element("h1", "Privacy report"),
        element("p", *what, class_="lead"),
    )


def _verdict(certificate: Certificate, judgement: Judgement) -> Markup:
    promised = (
        f"Differential privacy with {equation('ε', certificate.epsilon)} and {equation('δ', certificate.delta)}. "
        f"Recomputed from everything that was asked of the data: {equation('ε', judgement.verification.epsilon)}."
    )
    if not math.isfinite(certificate.epsilon):
        level, headline = "broken", "✕ No privacy is promised"
    elif judgement.faults:
        level, headline = "broken", "✕ Do not rely on this promise"
    elif judgement.unmet or judgement.reservations:
        level, headline = "reserved", "! The promise holds, with reservations"
    else:
        level, headline = "holds", "✓ The promise holds"
    return element(
        "div",
        element("h2", headline),
        "" if judgement.faults else element("p", promised),
        bullets(judgement.faults, "bad"),
        bullets(_brief(judgement), "warn"),
        class_=f"verdict {level}",
    )


def _brief(judgement: Judgement) -> Iterable[str]:
    """Return the reservations; many assumptions that are not met are counted."""
    unmet = judgement.unmet
    if len(unmet) > fine_print.MOST_UNMET:
        counted = f"{len(unmet)} assumptions are NOT MET: the promise does not cover what they are about."
        unmet = (f"{counted} “Assumptions and warnings” lists them.",)
    return [*unmet, *judgement.reservations]


def _key_figures(certificate: Certificate, judgement: Judgement) -> Markup:
    odds = judgement.scheduled.even_odds() if math.isfinite(certificate.epsilon) else 1.0
    figures = {
        f"ε: how much one {_RECORD[certificate.unit.name]} can matter; smaller is stronger": number(
            certificate.epsilon
        ),
        "δ: the allowance for exceptions": number(certificate.delta, 3),
        f"{_RECORDS[certificate.unit.name]}, a public number": number(certificate.n),
        "an attacker’s best guess at even odds is right, at most": at_most(odds),
    }
    shown = (element("div", element("dt", name), element("dd", value)) for name, value in figures.items())
    return element("dl", *shown, class_="figures")
