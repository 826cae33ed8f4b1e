"""`gossamer fit --person`: the run, its words, its budget, and predictions without ids."""

import numpy as np
import pytest
from testkit.run_folders import gossamer

from gossamer.engine.bounds import BOUNDS
from gossamer.engine.deciding import THRESHOLD
from gossamer.learn._buying import CLASSES
from gossamer.privacy.budget_file import BudgetFile
from gossamer.runs.auditing import attack_canary
from gossamer.runs.folder import load, load_certificate

FLAGS = ("--target", "ill", "--classes", "no|yes", "--bounds", "age=0:110", "--steps", "3", "--epsilon", "5")
BY_PERSON = ("--person", "patient", "--rows-per-person", "3", "--delta", "1e-3")


@pytest.fixture
def visits(tmp_path):
    """Write 20 patients with 47 visits, some of them spelled twice; return the file."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(20), [1, 2, 4, 2, 3, 2, 2, 3, 2, 2] * 2)[:47])
    lines = [
        f"{i}.0,{rng.integers(20, 90)},{'yes' if i % 2 else 'no'}" if j % 2 else f" {i} ,50,no"
        for j, i in enumerate(ids)
    ]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["patient,age,ill", *lines]) + "\n")
    return path


@pytest.mark.slow
def test_a_run_by_persons(visits, tmp_path):
    out, budget = tmp_path / "run", tmp_path / "visits.budget"
    gossamer(
        "budget", "init", "--epsilon", "5", "--delta", "0.01", "--data", visits, "--file", budget, "--person", "patient"
    )
    shown = gossamer("fit", visits, *FLAGS, *BY_PERSON, "--out", out, "--budget", budget)
    assert len(BudgetFile(budget).entries()) == 1
    certificate = load_certificate(out)
    persons = len({line.split(",")[0].strip().removesuffix(".0") for line in visits.read_text().splitlines()[1:]})
    rows = len(visits.read_text().splitlines()) - 1
    assert (certificate.n, certificate.unit.column, certificate.unit.rows) == (persons, "patient", 3)
    assert f"{persons} persons" in shown.stdout
    report = (out / "report.html").read_text()
    assert f"{persons} persons" in report
    for text in (shown.stdout, shown.stderr, certificate.to_json(), (out / "pipeline.json").read_text()):
        assert str(rows) not in text.replace("\n", " ").split()
    assert load(out).schema.feature_names == ("age", "age is missing")
    people = tmp_path / "new.csv"
    people.write_text("age\n41\n")
    predicted = gossamer("predict", out, people)
    assert "no" in predicted.stdout or "yes" in predicted.stdout


@pytest.mark.deep
def test_a_run_by_persons_can_be_attacked(visits, tmp_path):
    gossamer("fit", visits, *FLAGS, *BY_PERSON, "--out", tmp_path / "run")
    assert attack_canary(load(tmp_path / "run"), load_certificate(tmp_path / "run"), runs=200)


def test_another_unit_is_refused_before_anything_is_spent(visits, tmp_path):
    budget = tmp_path / "b"
    gossamer("budget", "init", "--epsilon", "5", "--delta", "0.01", "--data", visits, "--file", budget)
    with pytest.raises(ValueError, match="is a budget for unit = 'row'"):
        gossamer("fit", visits, *FLAGS, *BY_PERSON, "--out", tmp_path / "run", "--budget", budget)
    assert BudgetFile(budget).entries() == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--rows-per-person", "3"), "--rows-per-person goes with --person"),
        (("--person", "patient", "--rows-per-person", "0"), "must be a whole number of at least 1"),
        (("--person", "nobody"), "has no column 'nobody'"),
        (("--person", "ill"), "also the target"),
    ],
)
def test_flags_about_persons_that_make_no_sense_are_refused(visits, tmp_path, flags, words):
    with pytest.raises(ValueError, match=words):
        gossamer("fit", visits, *FLAGS, *flags, "--delta", "1e-3", "--out", tmp_path / "run")


@pytest.mark.deep
def test_what_is_not_declared_of_persons_is_bought_by_persons(tmp_path):
    """3000 patients with one to three visits: all speaks of patients, and nothing says how many visits there are.

    A schema that is bought alone is about patients too.
    """
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(3000), 1 + np.arange(3000) % 3)
    age = rng.normal(50, 10, len(ids))
    lines = [f"p{i},{value:.1f},{'yes' if value > 50 else 'no'}" for i, value in zip(ids, age, strict=True)]
    path, bought = tmp_path / "visits.csv", tmp_path / "bought.json"
    path.write_text("\n".join(["patient,age,ill", *lines]) + "\n")
    whom = ("--target", "ill", "--person", "patient", "--epsilon", "4", "--delta", "1e-5")
    shown = gossamer("fit", path, *whom, "--rows-per-person", "3", "--out", tmp_path / "run")
    certificate = load_certificate(tmp_path / "run")
    assert (certificate.n, certificate.unit.column, certificate.leaks) == (3000, "patient", ())
    assert certificate.verify()
    assert {each.name for each in certificate.purchases} == {CLASSES, BOUNDS, THRESHOLD}
    kept = load(tmp_path / "run").schema
    assert (kept.columns["age"].kind.low, kept.columns["age"].kind.high) == pytest.approx((28, 72), abs=8)
    gossamer("schema", path, *whom, "--private", "--certificate", bought, "--out", tmp_path / "schema.toml")
    alone = load_certificate(bought)
    assert (alone.n, alone.unit.column, alone.leaks) == (3000, "patient", ())
    texts = [shown.stdout, shown.stderr, certificate.to_json(), alone.to_json(), (tmp_path / "schema.toml").read_text()]
    assert not any(str(len(ids)) in text or f"{len(ids):,}" in text for text in texts)
