"""`gossamer predict`: the stored model's own words, in files that do no harm."""

import csv
import io
import json

import numpy as np
import pytest
from testkit.run_folders import finished_run, gossamer

from gossamer.runs.folder import load
from gossamer.runs.predicting import csv_text
from gossamer.tables.reading import read_table


@pytest.fixture
def expected():
    """Return the run's folder, its table, and what its model says about it."""
    folder = finished_run()
    run, table = load(folder / "run"), folder / "table.csv"
    return folder / "run", table, run.model, run.schema.encode(read_table(table))


def test_labels_and_scores_as_csv(expected, tmp_path):
    folder, table, model, X = expected
    gossamer("predict", folder, table, "--out", tmp_path / "out.csv")
    rows = list(csv.DictReader(open(tmp_path / "out.csv", newline="")))  # noqa: SIM115
    assert [row["row"] for row in rows] == [str(number) for number in range(1, 61)]
    # The class "=yes" would be a formula in a spreadsheet.
    assert "'=yes" in {row["label"] for row in rows} <= {"'=yes", "no"}
    assert [row["label"].removeprefix("'") for row in rows] == model.predict(X).tolist()
    np.testing.assert_array_equal([float(row["score of =yes"]) for row in rows], model.decision_function(X))
    assert gossamer("predict", folder, table).stdout == (tmp_path / "out.csv").read_text()


def test_probabilities_as_json_without_a_target_column(expected, tmp_path):
    folder, table, model, X = expected
    lines = [line.rsplit(",", 1)[0] for line in table.read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    content = json.loads(gossamer("predict", folder, tmp_path / "new.csv", "--proba", "--json").stdout)
    assert list(content) == ["row", "label", "probability of no", "probability of =yes"]
    found = np.stack([content["probability of no"], content["probability of =yes"]], axis=1)
    np.testing.assert_array_equal(found, model.predict_proba(X))


def test_parquet_keeps_labels_as_they_are(expected, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    folder, table, model, X = expected
    shown = gossamer("predict", folder, table, "--out", tmp_path / "out.parquet", "--json")
    assert json.loads(shown.stdout) == {"rows": 60, "file": str(tmp_path / "out.parquet")}
    assert parquet.read_table(tmp_path / "out.parquet")["label"].to_pylist() == model.predict(X).tolist()


def test_columns_that_are_not_used_are_told_to_the_owner(expected, tmp_path):
    folder, table, *_ = expected
    header, *lines = table.read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join([f"{header},name", *(f"{line},x" for line in lines)]))
    shown = gossamer("predict", folder, tmp_path / "more.csv", "--json")
    assert "'name'" in shown.stderr
    json.loads(shown.stdout)


def test_no_cell_is_a_formula():
    cells = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\ttab", "\rreturn", "-1.5", "+2", "a=b", 'quote"', "new\n=line", "\r"]
    text = csv_text({"=name": cells})
    name, *found = (row[0] for row in csv.reader(io.StringIO(text, newline="")))
    assert name == "'=name"
    assert found == [*(f"'{cell}" for cell in cells[:6]), *cells[6:-1], "'\r"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{folder}/nowhere", "{table}"), "is not a finished run"),
        (("{folder}", "{table}", "--out", "{table}"), "is the table itself"),
        (("{folder}", "{table}", "--out", "out.xlsx"), "must end in .csv or .parquet"),
        (("{folder}", "{folder}/history.csv"), "has no column 'age', 'bill', 'ward'"),
    ],
)
def test_a_mistake_is_one_line(expected, arguments, message):
    folder, table, *_ = expected
    with pytest.raises(ValueError) as error:
        gossamer("predict", *(argument.format(folder=folder, table=table) for argument in arguments))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
