"""Schemas as TOML files, for people, and as plain dictionaries of the same form, for JSON.

    target = "income"
    classes = ["<=50K", ">50K"]          # of two, scores are for the last; target_range = [0, 100] for a number
    group = "sex"                        # optional, with groups = [...]
    groups = ["Female", "Male"]
    person = "patient_id"                # optional: who is protected, with all rows of that id
    rows_per_person = 10                 # of which so many count
    id = "visit_id"                      # optional: predictions repeat it; it is no feature

    [columns.age]
    kind = "number"                      # low, high
    low = 17
    high = 90
    missing = true                       # optional: one more column that says whether the value is missing

    [columns.gain]
    kind = "amount"                      # high: mostly zero, else of any order of magnitude
    high = 100000

    [columns.sex]
    kind = "category"                    # values; any other value counts as none of them
    values = ["Female", "Male"]

    [columns.town]
    kind = "hashed"                      # buckets, optional: no list, a public hash of the text
    absent = ["-9", "unknown"]           # optional, for every kind: values that stand for a missing one

    [columns.weight]
    kind = "undeclared"                  # the run buys whether it is a number, and its bounds

    [columns.name]
    kind = "ignore"                      # reason, optional

`read_from_data = true` in a column's part and `classes_read_from_data = true` say that what stands there was drafted
from the records; so do `groups_read_from_data` and `target_range_read_from_data`. Whoever deletes the line confirms
that it is public.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gossamer.base.messages import nearest, quoted
from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Amount, Category, Hashed, Ignore, Kind, Number, Undeclared
from gossamer.tables.schema import Schema

_KINDS: dict[str, type[Kind]] = {
    "number": Number,
    "amount": Amount,
    "category": Category,
    "hashed": Hashed,
    "undeclared": Undeclared,
    "ignore": Ignore,
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "number": ("low", "high"),
    "amount": ("high",),
    "category": ("values",),
    "hashed": ("buckets",),
    "undeclared": (),
    "ignore": ("reason",),
}
_OPTIONAL = ("ignore", "hashed")
"""Kinds whose fields may be left out."""
_LISTS = ("classes", "groups", "values", "absent")
_READ = ("classes_read_from_data", "target_range_read_from_data", "groups_read_from_data")
_FLAGS = ("missing", "read_from_data", *_READ)
_TEXTS = ("target", "person", "id", "group", "kind", "reason")
_TARGET = ("target", "classes", "classes_read_from_data", "target_range", "target_range_read_from_data")
_PERSON = ("person", "rows_per_person")
_TOP = (*_TARGET, *_PERSON, "id", "group", "groups", "groups_read_from_data", "columns")
_HEAD = """\
# What the columns of a table mean, and which of their bounds are public.
#
# A line `..read_from_data = true` says that what stands beside it was found by looking at the records: it may give one
# of them away, and the certificate says so. Compare it with what is known without them (the form that people filled in,
# a code book, what is possible at all), correct it, and delete the line: that confirms it as public.
#
# Of two classes the last is the positive one, which scores are for: put the one that you look for last.

"""


def read_schema(path: str | Path) -> Schema:
    """Read a schema from a TOML file."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name a schema: a file .toml, as `gossamer schema` drafts it.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist. `gossamer schema TABLE` drafts a schema.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: byte {error.start} does not fit. Save it as UTF-8.") from None
    return schema_from_toml(text, str(path))


def schema_from_toml(text: str, source: str = "schema") -> Schema:
    """Return the schema that a TOML text declares; `source` is what errors call it."""
    try:
        plain = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{source} is not TOML: its brackets are nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"{source} is not TOML: {error}. Texts need quotes, and true and false none.") from None
    return schema_from_dict(plain, source)


def schema_from_dict(plain: Mapping[str, Any], source: str = "schema") -> Schema:
    """Return the schema that a dictionary of the form of the TOML file declares."""
    of_target = "target_range" if "target_range" in plain else "classes"
    values = {"classes": (), **_checked(plain, source, _TOP, required=("target", of_target, "columns"))}
    columns = values.pop("columns")
    declared = {}
    for name, column in columns.items():
        where = f"{source}: column {quoted(name)}"
        if not isinstance(column, Mapping):
            raise TypeError(f"{where} = {quoted(column)} must be a part of its own: [columns.NAME] and its kind.")
        declared[name] = _declaration(column, where)
    try:
        return Schema(**values, columns=declared)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """Return the schema as a dictionary of the form of the TOML file."""
    told = [name for name in _TOP if name != "columns" and (name not in _PERSON or schema.person is not None)]
    plain = {name: getattr(schema, name) for name in told}
    plain["columns"] = {name: _plain(declared) for name, declared in schema.columns.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items() if value}


def schema_to_toml(schema: Schema) -> str:
    """Return the schema as TOML, with a comment on how to confirm what was read from the data."""
    plain = schema_to_dict(schema)
    columns = plain.pop("columns")
    parts = [plain, *columns.values()]
    heads = ["", *(f"\n[columns.{_key(name)}]\n" for name in columns)]
    body = (
        head + "".join(f"{k} = {_toml(v)}\n" for k, v in part.items()) for head, part in zip(heads, parts, strict=True)
    )
    return _HEAD + "".join(body)


def _declaration(column: Mapping[str, Any], where: str) -> Declaration:
    kind = column.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{where}: kind = {quoted(kind)} must be one of {', '.join(map(repr, _KINDS))}.")
    fields = _FIELDS[kind]
    flags = ("read_from_data",) if kind == "ignore" else ("missing", "read_from_data", "absent")
    values = _checked(column, where, ("kind", *fields, *flags), required=() if kind in _OPTIONAL else fields)
    try:
        of_kind = _KINDS[kind](**{name: values[name] for name in fields if name in values})
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Declaration(of_kind, **{name: values[name] for name in flags if name in values})


def _checked(plain: Mapping[str, Any], where: str, known: Iterable[str], required: Iterable[str]) -> dict[str, Any]:
    """Return the entries, lists as tuples of texts; refuse unknown and missing ones, and values of a wrong type."""
    for name in plain:
        if name not in known:
            raise ValueError(f"{where}: {quoted(name)} is not known here.{nearest(name, known)}")
    for name in required:
        if name not in plain:
            raise ValueError(f"{where}: {name} is missing. Add {name} = ...")
    return {name: _value(name, value, where) for name, value in plain.items()}


def _value(name: str, value: Any, where: str) -> Any:
    if name in _LISTS:
        # Codes may be written as numbers, 1 for "1"; of truth values and decimals the spelling in the table is a guess.
        if not isinstance(value, list) or not all(isinstance(v, str | int) and not isinstance(v, bool) for v in value):
            raise TypeError(
                f'{where}: {name} = {quoted(value)} must be a list of texts, spelled as in the table: ["a", "b"].'
            )
        return tuple(map(str, value))
    for names, kind, example in ((_FLAGS, bool, "true or false"), (_TEXTS, str, "a text in quotes")):
        if name in names and not isinstance(value, kind):
            raise TypeError(f"{where}: {name} = {quoted(value)} must be {example}.")
    if name == "target_range":
        if not isinstance(value, list) or len(value) != 2:
            raise TypeError(f"{where}: {name} = {quoted(value)} must be the lowest and the highest value: [0, 100].")
        return tuple(value)
    if name == "columns" and not isinstance(value, Mapping):
        raise TypeError(f"{where}: columns = {quoted(value)} must be parts [columns.NAME], one for each column.")
    return value


def _plain(declared: Declaration) -> dict[str, Any]:
    kind = next(name for name, of_kind in _KINDS.items() if isinstance(declared.kind, of_kind))
    fields = {name: getattr(declared.kind, name) for name in _FIELDS[kind]}
    flags: dict[str, Any] = {name: True for name in ("missing", "read_from_data") if getattr(declared, name)}
    flags |= {"absent": list(declared.absent)} if declared.absent else {}
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items() if value != ""}
    return {"kind": kind, **kept, **flags}


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # What cannot be seen, such as a mark that turns the direction of reading, is spelled out for whoever confirms.
        return re.sub(r"[^ -~]", lambda found: _visible(found[0]), json.dumps(value, ensure_ascii=False))
    return json.dumps(value)


def _visible(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"
