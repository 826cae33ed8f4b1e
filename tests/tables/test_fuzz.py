"""Whatever the bytes: a right answer or one clear error, and nothing but ValueError, TypeError and OSError."""

import csv
import io
import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from gossamer.tables import (
    Amount,
    Category,
    Declaration,
    Ignore,
    Number,
    Schema,
    draft,
    parse_csv,
    read_table,
    schema_from_dict,
    schema_from_flags,
    schema_from_toml,
    schema_to_dict,
    schema_to_toml,
)
from gossamer.tables.table import is_missing

EXPECTED = (ValueError, TypeError, OSError)
settings = hypothesis.settings(
    deadline=None, max_examples=150, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)

HOSTILE = [
    '=HYPERLINK("http://x","y")',
    "<script>alert(1)</script>",
    "a\nb",
    'q"q',
    "a,b",
    "é\u202e",
    "@x",
    "{0}",
    "%s",
]
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
name = st.one_of(st.sampled_from(HOSTILE), text).map(str.strip).filter(bool)
numeral = st.one_of(
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.floats(-10, 10),
    st.sampled_from(["1e999", "-1e999", " 12 ", "1,5", "inf", "1e308", "5e-324", "0"]),
).map(str)
missing = st.sampled_from(["", "NA", "NaN", "null", "?", "  "])
few = st.sampled_from(["red", "green", "=1+1"])
field = st.one_of(text, numeral, missing, few)


@st.composite
def written_tables(draw):
    """A table as lists of fields, of which some columns are of one kind; its first column has two classes."""
    names = draw(st.lists(name, min_size=2, max_size=5, unique=True))
    n = draw(st.integers(1, 30))
    kinds = draw(st.lists(st.sampled_from([field, numeral, st.one_of(numeral, missing), few, missing]), max_size=4))
    columns = [draw(st.lists(kind, min_size=n, max_size=n)) for kind in (kinds + [field] * 4)[: len(names) - 1]]
    classes = draw(st.lists(st.sampled_from(["no", "yes"]), min_size=n, max_size=n))
    return names, [classes, *columns]


def written(names, columns, delimiter=","):
    out = io.StringIO()
    rows = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    rows.writerow(names)
    rows.writerows(zip(*columns, strict=True))
    return out.getvalue()


def normal(value):
    return None if is_missing(value.strip()) else value.strip()


def one_line(error):
    assert len(str(error).splitlines()) == 1
    assert str(error)[-1] in ".?>", str(error)  # a sentence


@settings
@hypothesis.given(
    content=st.one_of(
        st.binary(max_size=200),
        st.text(st.sampled_from('ab1,;\t|"\n\r \0é\ufeff'), max_size=60).map(str.encode),
        st.text(st.sampled_from('ab1,;"\n'), max_size=40).map(lambda t: t.encode("utf-16")),
    ),
    ending=st.sampled_from([".csv", ".tsv", ".csv.gz", ".parquet"]),
)
def test_any_bytes_as_a_file(tmp_path, content, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    try:
        table = read_table(path)
    except EXPECTED as error:
        one_line(error)
        return
    assert table.n > 0
    for each in table.names:
        column = table[each]
        assert len(column.codes) == table.n
        assert set(column.codes.tolist()) - {-1} == set(range(len(column.values)))


@pytest.mark.slow
@settings
@hypothesis.given(
    table=written_tables(), delimiter=st.sampled_from(",;\t|"), encoding=st.sampled_from(["utf-8", "utf-16"])
)
def test_what_is_written_is_read(tmp_path, table, delimiter, encoding):
    names, columns = table
    path = tmp_path / "a.csv"
    path.write_text(written(names, columns, delimiter), encoding=encoding, newline="")
    read = read_table(path)
    assert read.names == tuple(names)
    for each, values in zip(names, columns, strict=True):
        column = read[each]
        assert [None if code < 0 else column.values[code] for code in column.codes] == list(map(normal, values))


def check_rows(schema, table):
    """Rows are finite and within the bound; the sum of squares is exact enough to compare with its bound."""
    X = schema.encode(table).astype(np.float64)
    assert X.shape == (table.n, schema.width) == (table.n, len(schema.feature_names))
    assert np.isfinite(X).all() and (np.abs(X) <= 1).all()
    assert (np.sum(X**2, axis=1) <= schema.row_norm**2 * (1 + 1e-14)).all()


@pytest.mark.slow
@settings
@hypothesis.given(table=written_tables(), group=st.booleans())
def test_a_draft_fits_its_table_and_survives_its_file(table, group):
    names, columns = table
    read = parse_csv(written(names, columns), "a file", delimiter=",")
    try:
        schema = draft(read, names[0], names[1] if group else None)
    except EXPECTED as error:
        one_line(error)
        assert any(words in str(error) for words in ("different values", "no column is left"))
        return
    assert len(schema.leaks()) == len(schema.columns) + 1 + group
    check_rows(schema, read)
    assert set(schema.labels(read)) <= set(schema.classes)
    for again in (
        schema_from_toml(schema_to_toml(schema)),
        schema_from_dict(json.loads(json.dumps(schema_to_dict(schema)))),
    ):
        assert again == schema
        assert again.feature_names == schema.feature_names


bound = st.one_of(st.integers(-(10**400), 10**400), st.floats(), st.integers(-5, 5))
kind = st.one_of(
    st.builds(lambda *of: lambda: Number(*of), bound, bound),
    st.builds(lambda of: lambda: Amount(of), bound),
    st.builds(lambda of: lambda: Category(tuple(of)), st.lists(st.one_of(few, text), max_size=4)),
    st.just(Ignore),
)


@pytest.mark.slow
@settings
@hypothesis.given(table=written_tables(), kinds=st.lists(st.tuples(kind, st.booleans()), min_size=1, max_size=4))
def test_any_schema_keeps_any_table_within_the_bound(table, kinds):
    names, columns = table
    read = parse_csv(written(names, columns), "a file", delimiter=",")
    try:
        declared = {n: Declaration(make(), missing) for n, (make, missing) in zip(names[1:], kinds, strict=False)}
        schema = Schema(names[0], ("no", "yes"), declared)
        check_rows(schema, read)
    except EXPECTED as error:
        one_line(error)
        return
    assert schema_from_toml(schema_to_toml(schema)) == schema


words = [
    "target",
    "classes",
    "columns",
    "group",
    "groups",
    "kind",
    "low",
    "high",
    "values",
    "missing",
    "read_from_data",
]
leaf = st.one_of(
    st.none(), st.booleans(), bound, text, st.lists(text, max_size=3), st.sampled_from(["number", "amount", "category"])
)
plain = st.recursive(
    leaf,
    lambda inner: st.one_of(st.dictionaries(st.one_of(st.sampled_from(words), text), inner, max_size=5)),
    max_leaves=12,
)
near = st.fixed_dictionaries(
    {"target": text, "classes": st.just(["a", "b"]), "columns": st.dictionaries(text, plain, max_size=2)},
    optional={"group": leaf, "groups": leaf},
)


@pytest.mark.slow
@settings
@hypothesis.given(entries=st.one_of(st.dictionaries(st.sampled_from(words), plain), near))
def test_any_dictionary_as_a_schema(entries):
    try:
        schema = schema_from_dict(entries, "a file")
    except EXPECTED as error:
        one_line(error)
        return
    assert schema_from_dict(schema_to_dict(schema)) == schema


@pytest.mark.slow
@settings
@hypothesis.given(st.one_of(st.text(max_size=80), st.text(st.sampled_from('ab=[]{}".,1\n# '), max_size=60)))
def test_any_text_as_toml(toml):
    with pytest.raises(EXPECTED) as caught:  # none of these is a whole schema
        schema_from_toml(toml, "a file")
    one_line(caught.value)


@pytest.mark.slow
@settings
@hypothesis.given(
    flag=st.one_of(text, st.tuples(few, text).map("=".join), st.sampled_from(["x=1:2", "x=:", "x=1:1e999"]))
)
def test_any_text_as_a_flag(flag):
    table = parse_csv("x,red,y\n1,2,no\n3,4,yes\n", "a file")
    for role in ("bounds", "amounts", "categories", "ignore"):
        try:
            check_rows(schema_from_flags(table, "y", **{role: [flag]}), table)
        except EXPECTED as error:
            one_line(error)
