"""`gossamer budget`, as a person would call it."""

import json
from decimal import Decimal

import pytest
from typer.testing import CliRunner

import gossamer as gs
from gossamer.cli import app
from gossamer.cli.budget import _floor
from gossamer.privacy.budget_file import BudgetFile

RUN = CliRunner()


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "patients.csv"
    path.write_text("age\n41\n")
    return path


def call(*arguments):
    out = RUN.invoke(app, ["budget", *map(str, arguments)])
    if out.exception and not isinstance(out.exception, SystemExit):
        raise out.exception
    return out.stdout


def test_init_then_show_by_name_or_as_the_only_one(table):
    init = ("init", "--epsilon", 3, "--delta", "1e-6", "--data", table)
    assert "granted  epsilon = 3, delta = 1e-06" in call(*init)
    path = table.with_name("patients.csv.budget")
    plan = gs.plan(gs.methods.GD(steps=3), n=1000, budget=gs.Budget(0.5, 1e-7))
    BudgetFile(path).reserve(plan, table, "fit [red]logistic[/red]\n")
    shown = call("show")
    for line in ("about 32 more runs like the last one", "'fit [red]logistic[/red]\\n'", "neighbors = replace_one"):
        assert line in shown
    content = json.loads(call("show", path, "--json"))
    assert content["granted"] == {"epsilon": 3.0, "delta": 1e-6}
    assert content["more_like_the_last"] == 32
    (taken,) = content["taken"]
    assert taken["variance"] + content["left"]["variance"] == pytest.approx(content["pools"]["variance"])


def test_words_for_few_runs_and_for_none(table):
    call("init", "--epsilon", 1, "--delta", "1e-6", "--data", table)
    file = BudgetFile(table.with_name("patients.csv.budget"))
    plan = gs.plan(gs.methods.GD(steps=3), n=1000, budget=gs.Budget(0.65, 1e-6))
    assert "like the last one" not in call("show")
    file.reserve(plan, table, "first")
    assert "one more run like the last one" in call("show")
    assert "cost epsilon = 0.65" in call("show")
    file.reserve(plan, table, "second")
    assert "no more runs like the last one" in call("show")


def test_a_part_is_set_aside_in_both_or_in_none(table):
    init = ("init", "--epsilon", 1, "--delta", "1e-6", "--data", table)
    with pytest.raises(ValueError, match="go together"):
        call(*init, "--aside-epsilon", 0.2)
    shown = json.loads(call(*init, "--aside-epsilon", 0.2, "--aside-delta", "1e-7", "--json"))
    assert (shown["pools"]["epsilon"], shown["pools"]["delta"]) == (0.2, 1e-7)


def test_a_new_file_is_not_made_over_an_old_one(table):
    init = ("init", "--epsilon", 3, "--delta", "1e-6", "--data", table)
    call(*init)
    with pytest.raises(FileExistsError, match="not granted twice"):
        call(*init)


def test_the_fingerprint_of_the_table_is_not_shown(table):
    call("init", "--epsilon", 3, "--delta", "1e-6", "--data", table)
    secret = BudgetFile(table.with_name("patients.csv.budget")).grant().data
    for option in ([], ["--json"]):
        assert secret not in call("show", *option)


def test_another_place_and_relation(table, tmp_path):
    place = tmp_path / "kept"
    options = ("--file", place, "--neighbors", "add_remove", "--json")
    assert json.loads(call("init", "--epsilon", 1, "--delta", "1e-6", "--data", table, *options))["file"] == str(place)
    assert BudgetFile(place).grant().neighbors == "add_remove"


def test_show_without_a_name_needs_exactly_one_file(table):
    with pytest.raises(ValueError, match=r"0 files here are called \*\.budget"):
        call("show")
    for name in ("a.budget", "b.budget"):
        call("init", "--epsilon", 1, "--delta", "1e-6", "--data", table, "--file", name)
    with pytest.raises(ValueError, match=r"2 files here .*: a\.budget, b\.budget"):
        call("show")


@pytest.mark.parametrize(
    "text", ["0.1", "0", "0.29999999999999998", "0.3999999999999999999", "1.00000000000000000001e-7"]
)
def test_what_is_said_to_be_left_may_be_asked_for(text):
    floor = _floor(Decimal(text))
    assert Decimal(repr(floor)) <= Decimal(text)
    assert Decimal(text) - Decimal(repr(floor)) <= Decimal("3e-16") * Decimal(text)
