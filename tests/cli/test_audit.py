"""`gossamer audit`: an honest run stands, a certificate that claims too little and noise that is too small do not."""

import functools
import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from testkit.run_folders import finished_run, gossamer
from testkit.twins import NearlySilentOracle

from gossamer.audit import EmpiricalEpsilon
from gossamer.runs import auditing
from gossamer.runs.folder import load
from gossamer.runs.synthetic import synthetic_table


@pytest.fixture
def run(tmp_path):
    """Return a copy of a finished run."""
    return shutil.copytree(finished_run() / "run", tmp_path / "run")


@pytest.mark.slow
def test_an_honest_run_stands(run):
    """1000 runs show some of ε = 2, and no more than the training claims of it: the threshold has the rest."""
    shown = gossamer("audit", run, "--runs", "1000", "--json")
    content = json.loads(shown.stdout)
    assert content["stands"]
    assert content["certificate"]["holds"]
    assert 0.2 < content["canary"]["epsilon_lower_bound"] <= content["canary"]["claimed_epsilon"] <= 2.0
    # All of 500 runs told apart from 500: Clopper and Pearson's bound on either rate, at 2.5 % each.
    wrong = 1 - 0.025 ** (1 / 500)
    assert content["canary"]["most_provable_epsilon"] == pytest.approx(math.log(1 / wrong - 1), rel=0.01)
    assert content["membership"]["private"]
    assert "by a canary" in shown.stderr


@pytest.mark.deep
def test_too_little_noise_is_caught_by_the_canary(run, monkeypatch):
    """The same command, on an oracle with a tenth of the noise; about a table of one's own it says what is secret."""
    attack = functools.partial(auditing.audit.empirical_epsilon, oracle=NearlySilentOracle)
    monkeypatch.setattr(auditing.audit, "empirical_epsilon", attack)
    table = finished_run() / "table.csv"
    shown = gossamer("audit", run, "--runs", "300", "--table", table, code=1)
    assert "canary        BEATEN" in shown.stdout
    assert "these figures are NOT private" in shown.stdout


@pytest.mark.slow
def test_a_certificate_that_claims_too_little_is_caught(run, monkeypatch):
    path = run / "certificate.json"
    content = json.loads(path.read_text())
    content["epsilon"] = 1.0
    path.write_text(json.dumps(content))
    found = EmpiricalEpsilon(0.0, 1.0, 1e-5, 100, 0.95), SimpleNamespace(attacks={}, scheduled=SimpleNamespace(auc=1.0))
    for name, nothing in zip(("attack_canary", "attack_members"), found, strict=True):
        monkeypatch.setattr(auditing, name, lambda *_, nothing=nothing: nothing)
    shown = gossamer("audit", run, code=1)
    assert "DOES NOT HOLD" in shown.stdout


@pytest.mark.parametrize("change", [{"method": "system"}, {"configuration": {"velocity": 3}}])
def test_a_certificate_that_cannot_be_run_again_is_refused(run, change):
    path = run / "certificate.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match="the certificate's"):
        gossamer("audit", run, "--runs", "100")


def test_few_runs_are_refused(run):
    with pytest.raises(ValueError, match="--runs 3 must be at least 100"):
        gossamer("audit", run, "--runs", "3")


def test_a_synthetic_table_is_within_the_schema():
    schema = load(finished_run() / "run").schema
    table = synthetic_table(schema, 500, seed=0)
    X = schema.encode(table)
    assert np.linalg.norm(X, axis=1).max() <= schema.row_norm
    assert set(schema.labels(table)) == {"no", "=yes"}
    assert set(schema.group_of(table)) == {"A", "B"}
    age, bill, some = X[:, 0], X[:, 1], X[:, 2]
    # Uniform ages have mean 0 and variance 1/3, half of the bills are nothing: to 5 standard errors of 500 rows.
    assert abs(age.mean()) < 5 * (1 / 3 / 500) ** 0.5
    assert abs(some.mean() - 0.5) < 5 * (1 / 4 / 500) ** 0.5
    assert ((bill > 0) == (some > 0)).all()
