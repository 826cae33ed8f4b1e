"""Tables as spreadsheets, statistics programs and hospitals export them: each is read, or one line says what to do."""

import codecs
import gzip

import numpy as np
import pytest

from gossamer.tables import Category, Declaration, Number, Schema, read_table

SCHEMA = Schema(
    "ill",
    ("no", "yes"),
    {
        "age": Declaration(Number(0, 100), missing=True, absent=("-999", "-9")),
        "sex": Declaration(Category(("F", "M")), missing=True, absent=("9",)),
    },
)
GOOD = "age,sex,ill\n40,F,no\n60,M,yes\n50,F,yes\n"
ROWS = [[-0.2, 0, 1, 0, 0], [0.2, 0, 0, 1, 0], [0, 0, 1, 0, 0]]
"""What it becomes."""


def lost(*places):
    """Return the rows where these (row, column) values are missing."""
    rows = [list(row) for row in ROWS]
    for row, column in places:
        rows[row][slice(0, 2) if column == "age" else slice(2, 5)] = [0, 1] if column == "age" else [0, 0, 1]
    return rows


def edited(*changes):
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


READ = {
    "a mark of UTF-8 (Excel)": codecs.BOM_UTF8 + GOOD.encode(),
    "UTF-16 with a mark (Excel, Unicode text)": GOOD.replace(",", "\t").encode("utf-16"),
    "UTF-16, big end first": codecs.BOM_UTF16_BE + GOOD.encode("utf-16-be"),
    "line ends of Windows": edited(("\n", "\r\n")),
    "line ends of old Macs": edited(("\n", "\r")),
    "no line end at the end": GOOD.rstrip().encode(),
    "empty lines between and behind": edited(("no\n", "no\n\n")) + b"\n\n",
    "semicolons (Excel in Europe)": edited((",", ";")),
    "bars (hospital system)": edited((",", "|")),
    "every field in quotes (R)": b'"age","sex","ill"\n"40","F","no"\n"60","M","yes"\n"50","F","yes"\n',
    "spaces behind commas (SAS, SPSS)": edited((",", ", ")),
    "spaces around values": edited(("40,F", " 40 , F ")),
    "names with spaces": edited(("age,sex", " age , sex ")),
    "a quoted line break in a column that is not used": (
        b'age,note,sex,ill\n40,"a\nb",F,no\n60,,M,yes\n50,"x, ""y""",F,yes\n'
    ),
    "decimals that say nothing": edited(("40", "40.000"), ("60", "6e1"), ("50", "+50.")),
    "columns in another order": b"ill,sex,age\nno,F,40\nyes,M,60\nyes,F,50\n",
    "an index column": b"row,age,sex,ill\n1,40,F,no\n2,60,M,yes\n3,50,F,yes\n",
}
PARTLY = {
    "missing as SAS writes it": (edited(("40,", ".,")), [(0, "age")]),
    "missing as R writes it": (edited(("60,M", "NA,NA")), [(1, "age"), (1, "sex")]),
    "missing as a database writes it": (edited(("60,M", "NULL,null")), [(1, "age"), (1, "sex")]),
    "missing as pandas writes it": (edited(("40,", "NaN,"), ("50,F", "50,<NA>")), [(0, "age"), (2, "sex")]),
    "missing as Excel writes it": (edited(("40,", "#N/A,"), ("60,", "#DIV/0!,")), [(0, "age"), (1, "age")]),
    "nothing between commas": (edited(("40,F", ",")), [(0, "age"), (0, "sex")]),
    "codes for missing values": (edited(("40,", "-999,"), ("60,M", "-9.0,9")), [(0, "age"), (1, "age"), (1, "sex")]),
    "a typo in one number": (edited(("60,", "6o,")), [(1, "age")]),
    "mixed types": (edited(("60,", "unknown,"), ("50,", ">90,")), [(1, "age"), (2, "age")]),
}
REFUSED = {
    "decimal commas where points were announced": (
        b"age;sex;ill\n40,5;F;no\n60,5;M;yes\n",
        "line 2: column 'age' is declared as a number and has none; .*--decimal ,",
    ),
    "thousands separators everywhere": (
        b"age;sex;ill\n40.000,5;F;no\n60.000,5;M;yes\n",
        "line 2: column 'age' .* nothing between thousands",
    ),
    "two columns of one name": (edited(("sex", "age")), "more than one column called 'age'. Rename all but one"),
    "a column without a name": (edited(("sex", "")), "no name for column 2. Name every column in the first line"),
    "no header": (GOOD.partition("\n")[2].encode(), "no column 'age'.* first line has numbers; it must hold the names"),
    "a row of totals with fewer fields": (GOOD.encode() + b"Total,3\n", "line 5: 2 fields where the first line has 3"),
    "a row of totals": (GOOD.encode() + b"150,,3\n", "line 5: the target column 'ill' has a value that is not one of"),
    "a title above the header": (b"Report of May\n\n" + GOOD.encode(), "line 3: 3 fields where the first line has 1"),
    "a quote that is left open": (edited(("40,F", '40,"F')), "Is a quote missing or left open"),
    "an unquoted comma": (edited(("40,F", "40,F,x")), "line 2: 4 fields where the first line has 3"),
    "Windows-1252": ("age,sex,ill\n40,\xc9,no\n".encode("cp1252"), "--encoding cp1252"),
    "UTF-16 without a mark": (GOOD.encode("utf-16-le"), "--encoding utf-16-le"),
    "a spreadsheet called .csv": (b"PK\x03\x04\x00\x00", "Export the table as CSV in UTF-8"),
    "an empty file": (b"\n \n", "is empty"),
    "a header alone": (b"age,sex,ill\n", "has a header but no rows"),
    "a target that is missing": (edited(("no", "")), "1 of 3 rows have no value in the target column 'ill'"),
    "a target in another spelling": (edited(("no", "No")), "line 2: the target column 'ill' has a value that is not"),
    "a column that is called otherwise": (edited(("age", "Age")), "no column 'age', .* Did you mean 'Age'"),
}


def read(content, tmp_path, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    table = read_table(path)
    SCHEMA.check(table)
    return SCHEMA.encode(table), SCHEMA.labels(table), SCHEMA.remarks(table)


def test_there_are_more_than_thirty():
    assert len(READ) + len(PARTLY) + len(REFUSED) > 30


@pytest.mark.parametrize("case", READ)
def test_what_programs_write_is_read_as_it_is_meant(case, tmp_path):
    X, labels, _ = read(READ[case], tmp_path)
    np.testing.assert_allclose(X, ROWS, atol=1e-6)
    assert labels.tolist() == ["no", "yes", "yes"]


def test_compressed_or_not(tmp_path):
    np.testing.assert_allclose(read(gzip.compress(GOOD.encode()), tmp_path, "table.csv.gz")[0], ROWS, atol=1e-6)


@pytest.mark.parametrize("case", PARTLY)
def test_what_is_not_known_is_missing_and_nothing_else_changes(case, tmp_path):
    content, places = PARTLY[case]
    X, labels, remarks = read(content, tmp_path)
    np.testing.assert_allclose(X, lost(*places), atol=1e-6)
    assert labels.tolist() == ["no", "yes", "yes"]
    strange = "typo" in case or "mixed" in case
    assert len(remarks) == strange
    assert all("line 3" in remark and "counts as missing" in remark for remark in remarks)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_by_one_line_with_its_place_and_a_remedy(case, tmp_path):
    content, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as caught:
        read(content, tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
