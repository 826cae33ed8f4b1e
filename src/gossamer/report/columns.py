"""The section on the table itself: which columns there are, and by whose word their bounds hold."""

from collections.abc import Mapping
from typing import Any

from gossamer.report.markup import Markup, element, join, written
from gossamer.report.parts import paragraphs, section, table

_READ = "read_from_data"
_LEAK = "READ FROM THE DATA: a leak"
_TOLD = ("kind", "low", "high", "values", "missing", "reason", _READ)


def unconfirmed(pipeline: Mapping[str, Any]) -> bool:
    """Return whether the schema marks anything as read from the records."""
    schema = _mapping(pipeline.get("schema"))
    marks = [schema.get(key) for key in schema if key.endswith(_READ)]
    marks += [_mapping(column).get(_READ) for column in _mapping(schema.get("columns")).values()]
    return any(marks)


def data(pipeline: Mapping[str, Any]) -> Markup:
    """Show the columns with their declared bounds; what nobody confirmed is marked."""
    schema = _mapping(pipeline.get("schema"))
    columns = _mapping(schema.get("columns"))
    first = {"target": pipeline.get("target"), "classes": schema.get("classes"), "positive class": _positive(pipeline)}
    facts = {**first, **schema}
    about = [
        (name, _marked(written(value), schema.get(f"{name}_{_READ}")))
        for name, value in facts.items()
        if value is not None and name not in ("columns", "leaks") and not name.endswith(_READ)
    ]
    rows = [
        (name, written(column.get("kind", "")), _marked(_declared(column), column.get(_READ)))
        for name, column in ((name, _mapping(column)) for name, column in columns.items())
    ]
    return section(
        "The table",
        paragraphs(
            "What was declared about the table before training. Numbers outside their bounds were moved to the nearest "
            "bound; a category that is not listed counts as none of them. Declarations count as public and cost "
            "nothing. What is marked as read from the data is a leak: the promise does not cover it."
        ),
        table("About the table", ("About", "Value"), about) if about else "",
        table("Columns", ("Column", "Kind", "Declared"), rows) if rows else "",
        "" if rows else element("p", "No schema was kept with this run.", class_="muted"),
    )


def _declared(column: Mapping[str, Any]) -> str:
    interval = " ".join(
        f"{word} {written(column[key])}" for key, word in (("low", "from"), ("high", "to")) if key in column
    )
    parts = [interval] if interval else []
    if "values" in column:
        parts.append(written(column["values"]))
    if column.get("missing"):
        parts.append("missing values are told apart")
    if column.get("kind") == "ignore":
        # A draft's reason is a fact about the records, which confirming the choice does not make public.
        parts.append(written(column.get("reason", "left out")) if column.get(_READ) else "left out")
    return "; ".join([*parts, *(f"{key}: {written(value)}" for key, value in column.items() if key not in _TOLD)])


def _positive(pipeline: Mapping[str, Any]) -> str | None:
    """Return which of two classes scores are for: the model's second, whatever order the schema lists them in."""
    classes = _mapping(pipeline.get("model")).get("classes")
    if not isinstance(classes, list) or len(classes) != 2:
        return None
    return f"{written(classes[1])}: the higher a score, the more it speaks for this class"


def _marked(text: str, read: Any) -> str | Markup:
    return join([text, element("br"), element("span", _LEAK, class_="warn")]) if read else text


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
