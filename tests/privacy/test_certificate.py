"""Certificates: what they say, that they survive JSON, and that a false one is found out."""

import ast
import dataclasses
import json
import math
from pathlib import Path

import jax.numpy as jnp
import pytest
from testkit.tables import LINEAR, START, TABLE, linear_params, logistic_table

import gossamer as gs
from gossamer.base.leak import Leak
from gossamer.privacy.certificate import certify

BUDGET = gs.Budget(1.0, 1e-3)
ZERO = {"kind": "Zero", "exclude": []}


def certificate(method=None, seed=0, **options):
    method = method or gs.methods.SGD(steps=20, batch_size=2)
    budget = options.pop("budget", BUDGET)
    return gs.solve(LINEAR, TABLE, method, budget, init=START, seed=seed, **options).certificate


@pytest.mark.slow
def test_it_states_what_was_promised_and_asked():
    c = certificate()
    assert (c.epsilon, c.delta, c.neighbors, c.n, c.method) == (1.0, 1e-3, "replace_one", 4, "SGD")
    assert c.configuration["batch_size"] == 2
    assert [(q.name, q.count, q.sampling, q.clip) for q in c.schedule] == [("gradient", 20, gs.Poisson(0.5), "1")]
    assert c.schedule["gradient"].noise_multiplier > 1
    assert c.problem == {"kind": "ERM", "loss": "linear_loss", "regularizer": ZERO, "constraint": None}
    assert set(c.versions) >= {"gossamer", "jax", "dp-accounting", "python"}
    assert "(1, 0.001)-differential privacy" in str(c)


@pytest.mark.slow
def test_it_survives_json():
    for budget in (BUDGET, gs.Budget(math.inf, 1e-3), gs.Budget(2.0, 1e-3, "add_remove")):
        c = certificate(budget=budget)
        assert gs.Certificate.from_json(c.to_json()) == c
        json.loads(c.to_json())


@pytest.mark.slow
@pytest.mark.parametrize("method", [gs.methods.GD(steps=7), gs.methods.SGD(steps=50, batch_size=1)])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_verification_confirms_an_honest_certificate_to_one_percent(method, neighbors):
    c = certificate(method, budget=dataclasses.replace(BUDGET, neighbors=neighbors))
    outcome = c.verify()
    assert outcome
    assert outcome.accountant == "contour integral"
    assert outcome.epsilon == pytest.approx(c.epsilon, rel=0.01)


def test_the_part_of_delta_for_cut_samples_is_recomputed():
    c = gs.Certificate.from_json(sampled())
    assert c.truncation_delta > 0
    for factor in (0.0, 0.5, 2.0):
        (wrong,) = dataclasses.replace(c, truncation_delta=factor * c.truncation_delta).verify().wrong
        assert "truncation_delta" in wrong


@pytest.mark.parametrize("lie", ["epsilon", "delta", "noise", "count"])
def test_verification_finds_a_lie(lie):
    c = certificate()
    query = c.schedule["gradient"]
    if lie == "noise":
        c = dataclasses.replace(
            c, schedule=gs.Schedule((dataclasses.replace(query, noise_multiplier=query.noise_multiplier * 0.9),))
        )
    elif lie == "count":
        c = dataclasses.replace(c, schedule=gs.Schedule((dataclasses.replace(query, count=query.count * 2),)))
    else:
        c = dataclasses.replace(c, **{lie: getattr(c, lie) * 0.8})
    assert not c.verify()


def sampled(**changes):
    """Return the certificate of samples of about 16 of 64 records, and what somebody made of it."""
    planned = gs.plan(gs.methods.SGD(steps=50, batch_size=16), 64, BUDGET)
    return json.dumps({**json.loads(certify(planned, LINEAR, None, False).to_json()), **changes})


def test_a_capacity_below_the_mean_is_no_guarantee():
    assert gs.Certificate.from_json(sampled()).verify()
    assert not gs.Certificate.from_json(sampled(capacities={"gradient": 3})).verify()


@pytest.mark.parametrize("changes", [{"capacities": {}}, {"schedule": []}])
def test_a_schedule_that_no_run_has_is_refused(changes):
    with pytest.raises(ValueError, match="not a certificate"):
        gs.Certificate.from_json(sampled(**changes))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_full_passes_are_not_disjoint_blocks(neighbors):
    c = certificate(gs.methods.GD(steps=7))
    query = dataclasses.replace(c.schedule["gradient"], sampling=gs.Blocks(c.n))
    outcome = dataclasses.replace(c, schedule=gs.Schedule((query,)), neighbors=neighbors).verify()
    assert not outcome
    assert "disjoint blocks" in outcome.accountant


@pytest.mark.parametrize(("noise", "count", "rate"), [(1e-6, 10**9, 1.0), (0.05, 10**6, 0.5), (1e-3, 10**6, 1e-3)])
def test_a_made_up_certificate_without_protection_is_told_at_once(monkeypatch, noise, count, rate):
    monkeypatch.setattr("gossamer.privacy.saddle_point.delta", None)  # whose integral would take minutes
    c = certificate()
    query = dataclasses.replace(c.schedule["gradient"], noise_multiplier=noise, count=count, sampling=gs.Poisson(rate))
    outcome = dataclasses.replace(c, schedule=gs.Schedule((query,)), capacities={"gradient": c.n}).verify()
    assert not outcome
    assert outcome.epsilon == math.inf


def test_it_says_when_the_noise_is_reproducible_and_when_not():
    assert certificate(seed=3).reproducible and "reproducible" in certificate(seed=3).seed
    assert "31337" not in certificate(seed=31337).to_json(), "whoever has the certificate would have the noise"
    assert any("seed was fixed" in s for s in certificate(seed=3).assumptions)
    private = certificate(seed=None)
    assert not private.reproducible and private.seed == "entropy of the operating system"
    assert not any("seed was fixed" in s for s in private.assumptions)


@pytest.mark.slow
def test_it_says_when_diagnostics_were_looked_at():
    X, y = logistic_table(50)
    result = gs.solve(
        gs.ERM(gs.objectives.logistic),
        (X, y),
        gs.methods.GD(steps=4),
        BUDGET,
        init=linear_params(),
        seed=0,
        diagnostics=True,
    )
    assert set(result.diagnostics) == {"step", "objective", "gradient_norm", "share_clipped"}
    assert len(result.diagnostics["step"]) == 4
    assert result.certificate.diagnostics and any("diagnostics" in s for s in result.certificate.assumptions)
    assert not certificate().diagnostics and not any("diagnostics" in s for s in certificate().assumptions)


@pytest.mark.slow
def test_infinite_epsilon_claims_nothing():
    c = certificate(budget=gs.Budget(math.inf, 1e-3))
    assert any("NO PRIVACY" in s for s in c.assumptions)
    assert c.verify().epsilon == math.inf


@pytest.mark.slow
def test_it_states_the_planned_cost_of_a_run_that_uses_learning_rate_schedules():
    c = certificate(gs.methods.GD(steps=3, learning_rate=lambda t: jnp.float32(0.1)))
    assert "lambda" in c.configuration["learning_rate"]
    assert gs.Certificate.from_json(c.to_json()) == c


def test_a_run_that_nothing_is_wrong_with_has_plain_facts():
    c = certificate(seed=None)
    facts = (c.unit.name, c.leaks, c.purchases, c.selection, c.trusted, c.loss_bounds, c.noted)
    assert facts == ("row", (), (), None, (), None, ())


def test_sentences_are_made_from_the_facts():
    leaks = (
        Leak("data_norm", "the largest row norm", "argument"),
        Leak("age", "range", "column"),
        Leak("ill", "list of classes", "target"),
        Leak("sex", "list of groups", "group"),
        Leak("", "in old words.", "noted"),
    )
    end = " was read from the records and is outside this guarantee."
    c = dataclasses.replace(certificate(), leaks=leaks, noted=("As it was.",), trusted=("a public grid",))
    assert c.assumptions[-5:] == (
        f"NOT MET: data_norm, the largest row norm,{end}",
        f"NOT MET: the declaration of column 'age' (range){end}",
        f"NOT MET: the list of classes of target 'ill'{end}",
        f"NOT MET: the list of groups of column 'sex'{end}",
        "NOT MET: in old words.",
    )
    assert {"As it was.", "Trusted, not checked: a public grid"} < set(c.assumptions)


def test_nobody_reads_the_sentences_back():
    """Only the translation of format 1 may look for English in them; `Certificate.__str__` prints them."""
    package = Path(gs.__file__).parent
    reading = ("startswith", "removeprefix", "split", "find", "match", "fullmatch", "search")
    readers = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            looks = isinstance(node, ast.Compare) or (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in reading
            )
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)] if looks else []
            asks = isinstance(node, ast.Attribute) and node.attr == "assumptions" and isinstance(node.ctx, ast.Load)
            if asks or any(isinstance(text, str) and "NOT MET" in text for text in texts):
                readers.append(path.relative_to(package).as_posix())
    assert set(readers) == {"privacy/certificate.py"}
