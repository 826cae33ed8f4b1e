"""`gossamer schema`: a draft, and what is wrong with it."""

import json

import pytest
from testkit.run_folders import gossamer, write_table

from gossamer.tables.schema_files import read_schema, schema_from_toml


def test_a_draft_says_what_leaks_until_it_is_confirmed(tmp_path):
    table, out = write_table(tmp_path / "table.csv"), tmp_path / "schema.toml"
    shown = gossamer("schema", table, "--target", "ill", "--group", "ward", "--out", out)
    assert "drafted 3 columns" in shown.stdout
    assert "5 declarations were read from the data and leak until they are confirmed" in shown.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    drafted = read_schema(out)
    assert len(drafted.leaks()) == 5
    kept = [line for line in out.read_text().splitlines() if not line.endswith("read_from_data = true")]
    out.with_name("confirmed.toml").write_text("\n".join(kept))
    assert read_schema(out.with_name("confirmed.toml")).leaks() == ()
    with pytest.raises(ValueError, match=r"exists\. Choose another name"):
        gossamer("schema", table, "--target", "ill", "--out", out)


def test_a_draft_on_the_terminal_and_for_programs(tmp_path):
    table = write_table(tmp_path / "table.csv")
    assert schema_from_toml(gossamer("schema", table, "--target", "ill").stdout).target == "ill"
    content = json.loads(gossamer("schema", table, "--target", "ill", "--json").stdout)
    assert content["schema"]["columns"]["ward"]["values"] == ["A", "B"]
    assert len(content["leaks"]) == 4
