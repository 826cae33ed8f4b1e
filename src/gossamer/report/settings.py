"""The section on settings: how the method, the problem and the model were set up, in words rather than in code."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.privacy.certificate import Certificate
from gossamer.report.judging import Judgement
from gossamer.report.markup import Markup, element, join, written
from gossamer.report.parts import paragraphs, section, table

_NAMES = {"threshold_": "threshold of scores, learned", "sha256": "SHA-256 of model.npz"}
_BY_RULE = "not set by hand"
_FIELDS = {
    "pointwise": "loss of one score",
    "lipschitz": "largest slope",
    "curvature": "largest second derivative",
    "exclude": "not penalised",
}
"""What the fields of losses and penalties are, for those who have not read the code."""


def settings(certificate: Certificate, judgement: Judgement, pipeline: Mapping[str, Any]) -> Markup:
    """List the settings, and say which of them are not free of the records."""
    groups = {
        f"Method: {certificate.method}": {
            name: _BY_RULE if value is None else words(value) for name, value in certificate.configuration.items()
        },
        "Problem": _problem(certificate.problem),
        "Model": _model(pipeline.get("model")),
        "Largest samples": {name: written(value) for name, value in certificate.capacities.items()},
    }
    tables = [
        join([element("h3", title), table(title, ("Name", "Value"), values.items())])
        for title, values in groups.items()
        if values
    ]
    return section("Settings", paragraphs(*_origin(certificate, judgement)), *tables)


def _origin(certificate: Certificate, judgement: Judgement) -> list[str]:
    unmet = ", apart from what is marked NOT MET further below" if judgement.unmet else ""
    kind, worth = (
        ("exact", "It is NOT private.") if judgement.exact else ("private", "Its cost is part of the promise.")
    )
    settings = "settings were"
    if certificate.selection is not None:
        settings = "the list of settings that could be tried was"
    return [
        f"The promise assumes that {settings} chosen without looking at the records{unmet}.",
        *(
            ["Of that list, a private search chose these. Its cost is part of the promise."]
            if certificate.selection is not None
            else []
        ),
        *(
            f"One exception: the {kind} answer “{bought.name}” comes from the records. It set numbers in the loss, and "
            f"whatever of the method was left open. {worth}"
            for bought in certificate.purchases
            if not bought.after
        ),
    ]


def _problem(problem: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a problem; one that occurs again within another is not spelled out twice."""
    told: dict[str, str] = {}
    earlier: list[Any] = []
    for name, value in problem.items():
        told[name] = words(value, earlier)
        earlier += [value] if isinstance(value, dict) and len(value) > 1 else []
    return told


def _model(model: Any) -> dict[str, str]:
    """Return what is known of a model, its numbers one by one."""
    kept = dict(model) if isinstance(model, Mapping) else {}
    numbers = kept.pop("numbers", {})
    flat = {**kept, **numbers} if isinstance(numbers, Mapping) else {**kept, "numbers": numbers}
    return {_NAMES.get(name, name.rstrip("_")): written(value) for name, value in flat.items() if value not in ([], {})}


def words(value: Any, earlier: Sequence[Any] = ()) -> str:
    """Return what a described object says, such as AUC loss (p = 0.1, model = MLP); fields that are empty say nothing.

    `earlier` objects were spelled out before.
    """
    if isinstance(value, list):
        return f"({', '.join(words(part, earlier) for part in value)})" if value else "none"
    if not isinstance(value, dict):
        return written(value)
    if value in earlier:
        return "as above"
    told = {_FIELDS.get(name, name): part for name, part in value.items() if name != "kind" and part not in (None, [])}
    fields = ", ".join(f"{name}\N{NO-BREAK SPACE}= {_part(part, earlier)}" for name, part in told.items())
    return _spaced(value.get("kind")) + (f" ({fields})" if fields else "")


def _part(value: Any, earlier: Sequence[Any]) -> str:
    """Return a field of an object; a text is the name of a function, such as _logistic."""
    return value.strip("_") if isinstance(value, str) else words(value, earlier)


def _spaced(kind: Any) -> str:
    """Return the name of a class as people write it: _AUCLoss is AUC loss."""
    parts = re.split(r"(?<=[a-z\d])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", str(kind).strip("_"))
    return " ".join(part.lower() if part.istitle() and part.isalpha() else part for part in parts)
