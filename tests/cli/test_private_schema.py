"""`gossamer schema --private`: a schema that costs, protects, and trains without leaks."""

import numpy as np
import pytest
from testkit.run_folders import gossamer

from gossamer.runs.folder import load_certificate
from gossamer.tables import Hashed, Ignore, Number, read_schema

ROWS = 6000


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, ROWS)
    lines = [
        f"{i},{value:.1f},{'Oslo' if i % 2 else 'Rome'},{'yes' if value > 50 else 'no'}" for i, value in enumerate(age)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["patient_id,age,town,ill", *lines]))
    return path


@pytest.mark.deep
def test_a_bought_schema_has_no_leaks_and_trains(table, tmp_path):
    options = ("--private", "--epsilon", "2", "--delta", "1e-5", "--out", tmp_path / "schema.toml")
    said = gossamer("schema", table, "--target", "ill", *options, "--certificate", tmp_path / "bought.json")
    assert "this schema has cost (2, 1e-05)" in said.stderr
    assert "column 'patient_id' is left out: an identifier" in said.stderr
    certificate = load_certificate(tmp_path / "bought.json")
    assert certificate.verify() and certificate.leaks == ()
    schema = read_schema(tmp_path / "schema.toml")
    assert schema.leaks() == () and schema.classes == ("no", "yes")
    kinds = {name: declared.kind for name, declared in schema.columns.items()}
    assert isinstance(kinds["patient_id"], Ignore) and kinds["town"] == Hashed() and isinstance(kinds["age"], Number)
    assert (kinds["age"].low, kinds["age"].high) == pytest.approx((28, 72), abs=6)
    quick = ("--steps", "2", "--seed", "0", "--delta", "1e-5", "--out", tmp_path / "run")
    gossamer("fit", table, "--schema", tmp_path / "schema.toml", *quick)
    assert load_certificate(tmp_path / "run").leaks == ()


def test_a_small_table_is_refused_before_anything_is_spent(table, tmp_path):
    small = tmp_path / "small.csv"
    small.write_text("\n".join(table.read_text().splitlines()[:200]))
    with pytest.raises(ValueError, match="n = 199 records are too few to buy the bounds of 2 columns"):
        gossamer("schema", small, "--target", "ill", "--private")
