"""The section on settings: how the method, the problem and the model were set up, in words rather than in code."""

import re
from collections.abc import Mapping
from typing import Any

from gossamer.certificate import Certificate
from gossamer.report.course import bought
from gossamer.report.judging import Judgement
from gossamer.report.markup import Markup, element, join, number, shown
from gossamer.report.parts import paragraphs, section, table

_NAMES = {"threshold_": "threshold of scores, learned", "sha256": "SHA-256 of model.npz"}
_WORDS = {"None": "none", "True": "yes", "False": "no"}
_OBJECT = re.compile(r"\w+\(.+\)", re.DOTALL)
_CODE = re.compile(r"\w*\(.*\)|None|True|False", re.DOTALL)
"""How a certificate writes objects and constants; anything else stays as it is."""


def settings(certificate: Certificate, judgement: Judgement, pipeline: Mapping[str, Any]) -> Markup:
    """List the settings, and say which of them are not free of the records."""
    groups = {
        f"Method: {certificate.method}": {name: shown(value) for name, value in certificate.configuration.items()},
        "Problem": _problem(certificate.problem),
        "Model": _model(pipeline.get("model")),
        "Largest samples": {name: shown(value) for name, value in certificate.capacities.items()},
    }
    tables = [
        join([element("h3", title), table(title, ("Name", "Value"), values.items())])
        for title, values in groups.items()
        if values
    ]
    return section("Settings", paragraphs(*_origin(certificate, judgement)), *tables)


def _origin(certificate: Certificate, judgement: Judgement) -> list[str]:
    unmet = ", but for what is marked as NOT MET further below" if judgement.unmet else ""
    kind, worth = (
        ("exact", "They are NOT private.") if judgement.exact else ("private", "Its cost is part of the promise.")
    )
    return [
        f"The promise assumes that settings were chosen without looking at the records{unmet}.",
        *(
            f"Exceptions come from the records by the {kind} answer “{name}”: numbers in the loss, and what of the "
            f"method was left open. {worth}"
            for name in bought(certificate.schedule)
        ),
    ]


def _problem(problem: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a problem; one that occurs again within another is not spelled out twice."""
    told: dict[str, str] = {}
    earlier: list[str] = []
    for name, value in problem.items():
        text = shown(value)
        for part in earlier:
            text = re.sub(rf"(?<!\w){re.escape(part)}", "as above", text)
        told[name] = words(text)
        earlier += [text] if _OBJECT.fullmatch(text) else []
    return told


def _model(model: Any) -> dict[str, str]:
    """Return what is known of a model, its numbers one by one."""
    kept = dict(model) if isinstance(model, Mapping) else {}
    numbers = kept.pop("numbers", {})
    flat = {**kept, **numbers} if isinstance(numbers, Mapping) else {**kept, "numbers": numbers}
    return {_NAMES.get(name, name.rstrip("_")): shown(value) for name, value in flat.items() if value not in ([], {})}


def words(code: str) -> str:
    """Return what code such as `_AUCLoss(p=0.1, model=MLP())` says: AUC loss (p = 0.1, model = MLP)."""
    if not _CODE.fullmatch(code):
        return code
    told = re.sub(r"(?<![\w)])\(\)", "none", code).replace("()", "")
    told = re.sub(r"[\w.+-]+", lambda found: _word(found[0]), told).replace("=", "\N{NO-BREAK SPACE}= ")
    return re.sub(r"(?<=\w)\(", " (", told)


def _word(word: str) -> str:
    try:
        return number(float(word), digits=15) if word[0].isdigit() or word[0] in "+-." else _name(word)
    except ValueError:
        return word


def _name(word: str) -> str:
    if word in _WORDS:
        return _WORDS[word]
    parts = re.split(r"(?<=[a-z\d])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", word.strip("_"))
    return " ".join(part.lower() if part.istitle() and part.isalpha() else part for part in parts)
