"""A certificate's fields as JSON, and back. Files may have been edited or made up: whatever is odd is refused."""

import dataclasses
import json
import math
from typing import Any, NoReturn, TypeVar

from gossamer.base.leak import Leak
from gossamer.base.messages import is_number
from gossamer.privacy import format1
from gossamer.privacy.facts import Bought, LossBounds, Unit
from gossamer.privacy.schedule import Schedule
from gossamer.privacy.searching import Selection

_FORMAT = 2
_DIGITS = 18
"""Whole numbers of so many digits fit into 64 bits."""
_T = TypeVar("_T")


def write(fields: dict[str, Any]) -> str:
    """Return the fields of a certificate as JSON."""
    content = {
        "format": _FORMAT,
        **fields,
        "epsilon": _finite_or_word(fields["epsilon"]),
        "unit": {name: value for name, value in vars(fields["unit"]).items() if value is not None},
        "schedule": fields["schedule"].to_dicts(),
        "purchases": [{**vars(each), "apart": _written(each.apart)} for each in fields["purchases"]],
        "leaks": [dataclasses.asdict(leak) for leak in fields["leaks"]],
        "loss_bounds": None if fields["loss_bounds"] is None else dataclasses.asdict(fields["loss_bounds"]),
        "selection": None if fields["selection"] is None else _selection_row(fields["selection"]),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def read(text: str, expected: set[str]) -> dict[str, Any]:
    """Return the fields that a file holds: those that are expected, or those of format 1 translated into them."""
    content = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite, parse_int=_short)
    known = {_FORMAT: expected, 1: format1.FIELDS}
    form = content.pop("format", None) if isinstance(content, dict) else None
    if type(form) is not int or form not in known:
        raise ValueError(f"it must have format 1 or {_FORMAT}. Was it written by another version of Gossamer?")
    if set(content) != known[form]:
        raise ValueError(f"its fields differ by {sorted(known[form] ^ set(content))}.")
    content |= {
        "epsilon": _epsilon(content["epsilon"]),
        "schedule": Schedule.from_dicts(content["schedule"], content["n"]),
    }
    return format1.translate(content) if form == 1 else {**content, **_facts(content)}


def _facts(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have classes of their own, or are tuples."""
    bounds, selection = content["loss_bounds"], content["selection"]
    return {
        "unit": _made(Unit, content["unit"]),
        "purchases": tuple(
            _made(Bought, {**_object(row), "queries": tuple(_list(row["queries"])), "apart": _apart(row["apart"])})
            for row in _list(content["purchases"])
        ),
        "leaks": tuple(_made(Leak, row) for row in _list(content["leaks"])),
        "loss_bounds": None if bounds is None else _made(LossBounds, bounds),
        "selection": None if selection is None else _selection(_object(selection), content["n"]),
        "trusted": tuple(_list(content["trusted"])),
        "noted": tuple(_list(content["noted"])),
    }


def _selection_row(selection: Selection) -> dict[str, Any]:
    return {**vars(selection), "schedules": [schedule.to_dicts() for schedule in selection.schedules]}


def _selection(row: dict[str, Any], n: int) -> Selection:
    sizes = [dict(_object(each)) for each in _list(row["capacities"])]
    if not all(type(size) is int and 1 <= size < 2**63 for each in sizes for size in each.values()):
        raise ValueError("the capacities of a selection must be whole numbers of at least 1.")
    schedules = tuple(Schedule.from_dicts(each, n) for each in _list(row["schedules"]))
    return Selection(**{**row, "schedules": schedules, "capacities": tuple(sizes)})


def _made(kind: type[_T], row: Any) -> _T:
    return kind(**_object(row))


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise TypeError("unit, purchases, selection, leaks and loss_bounds must be JSON objects, or lists of them.")
    return row


def _list(rows: Any) -> list[Any]:
    if not isinstance(rows, list):
        raise TypeError("purchases and their queries, leaks, trusted and noted must be lists.")
    return rows


def _epsilon(value: Any) -> float:
    if value != "inf" and not is_number(value):
        raise TypeError('epsilon must be a number, or "inf" where no privacy is promised.')
    return float(value)


def _apart(values: Any) -> tuple[float, float] | None:
    if values is None:
        return None
    epsilon, delta = _list(values)
    return _epsilon(epsilon), delta


def _written(apart: tuple[float, float] | None) -> list[Any] | None:
    return None if apart is None else [_finite_or_word(apart[0]), apart[1]]


def _finite_or_word(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: two readers could take two different values for it."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one JSON object.")
    return dict(pairs)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON.")


def _finite(numeral: str) -> float:
    value = float(numeral)
    if not math.isfinite(value):
        raise ValueError("a number is too large.")
    return value


def _short(numeral: str) -> int:
    if len(numeral) > _DIGITS:
        raise ValueError("a number is too large.")
    return int(numeral)
