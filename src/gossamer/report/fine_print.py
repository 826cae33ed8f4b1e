"""What the promise rests on: assumptions, a recomputation, versions; and what to cite."""

import math

from gossamer.privacy import wording
from gossamer.privacy.certificate import Certificate
from gossamer.report import citing
from gossamer.report.judging import Judgement
from gossamer.report.markup import Markup, element, join, number
from gossamer.report.parts import bullets, paragraphs, section, table

MOST_UNMET = 3
"""More of them would fill a phone; at the top of the page they are counted instead."""


def grounds(certificate: Certificate, judgement: Judgement) -> Markup:
    """List what must be true for the promise to hold; before it what is not, if that is too much for the top."""
    return section(
        "Assumptions and warnings",
        bullets(judgement.unmet if len(judgement.unmet) > MOST_UNMET else (), "warn"),
        bullets([*wording.conditions(certificate), f"Randomness, as stated: {certificate.seed}."]),
    )


def recomputation(certificate: Certificate, judgement: Judgement) -> Markup:
    """State the outcome of recomputing ε."""
    found = judgement.verification
    rows = [
        ("ε on the certificate", number(certificate.epsilon)),
        ("ε recomputed", number(found.epsilon)),
        ("at δ", number(certificate.delta)),
        ("of which for samples cut at a fixed size", number(certificate.truncation_delta)),
        ("Accountant", found.accountant),
        ("Outcome", _outcome(certificate, judgement)),
    ]
    return section(
        "Recomputation",
        paragraphs(
            join(
                [
                    "When this page was written, the promise was computed again from the queries above. "
                    "Anyone can do the same: ",
                    element("code", "gossamer verify certificate.json"),
                ]
            )
        ),
        table("Recomputation", ("Quantity", "Value"), rows),
    )


def _outcome(certificate: Certificate, judgement: Judgement) -> str | Markup:
    if not math.isfinite(certificate.epsilon):
        return element("span", "no privacy is claimed", class_="bad")
    if not judgement.verification:
        return element("span", "DOES NOT HOLD", class_="bad")
    if judgement.unmet:
        return join(["holds, but ", element("span", f"assumptions NOT MET: {len(judgement.unmet)}", class_="warn")])
    return "holds"


def versions(certificate: Certificate) -> Markup:
    """List the software that made the run."""
    told = paragraphs("As the certificate states them. Nothing on this page depends on them.")
    return section("Versions", told, table("Versions", ("Software", "Version"), list(certificate.versions.items())))


def citation(certificate: Certificate) -> Markup:
    """Say how to cite the run."""
    entries = citing.entries(certificate.method, str(certificate.versions.get("gossamer", "unknown")))
    return section("How to cite", *(element("pre", entry) for entry in entries))
