"""Tables from files: the right fields, or one error that says where and never what."""

import gzip
import hashlib
import subprocess
import sys

import numpy as np
import pytest

from gossamer.tables import parse_csv, read_table

SECRET = "Sophie"


def fields(table, name):
    column = table[name]
    return [None if code < 0 else column.values[code] for code in column.codes]


def contents(table):
    return {name: fields(table, name) for name in table.names}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_line_tells_the_delimiter(delimiter):
    text = delimiter.join(["age", '"a,b;c\td|e"']) + "\n" + delimiter.join(["3", "x"]) + "\n"
    assert contents(parse_csv(text, "a file")) == {"age": ["3"], "a,b;c\td|e": ["x"]}


def test_a_delimiter_that_is_given_is_used():
    assert contents(parse_csv("a,b;c\n1,2;3\n", "a file", delimiter=";")) == {"a,b": ["1,2"], "c": ["3"]}


def test_quotes_newlines_spaces_and_empty_lines():
    text = 'name, note\r\n"O""Neill", "two\nlines"\r\n\r\n Zoë ,=1+1\r\n'
    table = parse_csv(text, "a file")
    assert contents(table) == {"name": ['O"Neill', "Zoë"], "note": ["two\nlines", "=1+1"]}
    assert table.n == 2
    assert [table.place(row) for row in range(2)] == ["line 3", "line 5"]


def test_what_counts_as_missing():
    table = parse_csv("a,b\n,1\nNA,1\nNaN,1\n NULL ,1\n?,1\nnone,1\n", "a file")
    assert fields(table, "a") == [None] * 5 + ["none"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_is_found_by_its_mark(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("größe,name\n1,Zoë\n", encoding=encoding)
    assert contents(read_table(path)) == {"größe": ["1"], "name": ["Zoë"]}


def test_another_encoding_is_asked_for_by_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,name\n1,Zoë\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"not text in utf-8: byte 2 does not fit.*--encoding cp1252"):
        read_table(path)
    assert contents(read_table(path, encoding="cp1252")) == {"größe": ["1"], "name": ["Zoë"]}
    with pytest.raises(ValueError, match="encoding = 'klingon' is not a known text encoding"):
        read_table(path, encoding="klingon")


def test_endings_and_gzip(tmp_path):
    for name in ("a.csv", "a.TXT", "a.csv.gz", "a.tsv"):
        text = "a\tb\tc,d\n1\t2\t3\n"
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        table = read_table(path)
        assert table.names == ("a", "b", "c,d")
        assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert table.sha256 not in repr(table)
    (tmp_path / "one.tsv").write_text("a,b\n1,2\n")  # one column, whose name has a comma
    assert contents(read_table(tmp_path / "one.tsv")) == {"a,b": ["1,2"]}


def test_rows_beyond_one_piece():
    rows = [f"{i},{i % 7}" for i in range(10_000)]
    table = parse_csv("\n".join(["a,b", *rows]), "a file")
    assert fields(table, "a") == [str(i) for i in range(10_000)]
    assert table["b"].values == tuple("0123456")
    np.testing.assert_array_equal(table["b"].codes, np.arange(10_000) % 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"a,b\n", "has a header but no rows"),
        (f"a,b\n1,2\n{SECRET}\n".encode(), "line 3: 1 fields where the first line has 2.*quotes around it"),
        (f'a,b\n1,"{SECRET}\n1,2\n'.encode(), "line 3: unexpected end of data. Is a quote missing"),
        (f'a,b\n1,"{SECRET}"x\n'.encode(), "line 2: .*expected after"),
        (f"a,b\n1,{SECRET * 30_000}\n".encode(), "line 2: field larger than field limit"),
        (b"a,b,a,b\n1,2,3,4\n", "more than one column called 'a', 'b'. Rename all but one"),
        (b"a, A ,A\n1,2,3\n", "more than one column called 'A'"),
        (b",b, \n1,2,3\n", "no name for column 1, 3. Name every column"),
        (f"a,b\n{SECRET},\0\n".encode(), "NUL character .the first after 11 characters"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL character.*utf-16-le"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\xff", "NUL character .the first after 5 bytes.*not a text table"),
        (b"a,b\n\xe4,1\n", "not text in utf-8: byte 4.*cp1252"),
    ],
)
def test_a_file_that_is_no_table_is_refused_without_showing_records(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_delimiter_that_cannot_be_one():
    for delimiter in ("", "ab", '"', "\n"):
        with pytest.raises(ValueError, match="must be one character"):
            parse_csv("a,b\n1,2\n", "a file", delimiter=delimiter)


def test_a_decimal_mark_that_cannot_be_one():
    with pytest.raises(ValueError, match=r"decimal = ';' must be one of '\.', ','\."):
        parse_csv("a\n1\n", "a file", decimal=";")


def test_paths_that_are_no_table(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.csv does not exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"not known by its ending.*Save it as \.csv"):
        read_table(tmp_path / "book.xlsx")
    whole = gzip.compress(b"a,b\n1,2\n" * 100)
    for name, content in (
        ("not.csv.gz", b"a,b\n1,2\n"),
        ("cut.csv.gz", whole[:-9]),
        ("bad.csv.gz", whole[:10] + b"\xff" * 9),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="not a whole gzip file"):
            read_table(tmp_path / name)


def test_the_package_needs_neither_jax_nor_pyarrow():
    code = (
        "import sys; import gossamer.tables; "
        "assert not {'jax', 'pyarrow', 'sklearn'} & set(sys.modules), 'too much was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
