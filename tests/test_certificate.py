"""Certificates: what they say, that they survive JSON, and that a false one is found out."""

import dataclasses
import json
import math

import jax.numpy as jnp
import pytest
from testkit.tables import LINEAR, START, TABLE, linear_params, logistic_table

import gossamer as gs
from gossamer.certificate import certify

BUDGET = gs.Budget(1.0, 1e-3)


def certificate(method=None, seed=0, **options):
    method = method or gs.methods.SGD(steps=20, batch_size=2)
    budget = options.pop("budget", BUDGET)
    return gs.solve(LINEAR, TABLE, method, budget, init=START, seed=seed, **options).certificate


def test_it_states_what_was_promised_and_asked():
    c = certificate()
    assert (c.epsilon, c.delta, c.neighbors, c.n, c.method) == (1.0, 1e-3, "replace_one", 4, "SGD")
    assert c.configuration["batch_size"] == 2
    assert [(q.name, q.count, q.rate, q.clip) for q in c.schedule] == [("gradient", 20, 0.5, "1")]
    assert c.schedule["gradient"].noise_multiplier > 1
    assert c.problem == {"kind": "ERM", "loss": "linear_loss", "regularizer": "Zero(exclude=())", "constraint": "None"}
    assert set(c.versions) >= {"gossamer", "jax", "dp-accounting", "python"}
    assert "(1, 0.001)-differential privacy" in str(c)


def test_it_survives_json():
    for budget in (BUDGET, gs.Budget(math.inf, 1e-3), gs.Budget(2.0, 1e-3, "add_remove")):
        c = certificate(budget=budget)
        assert gs.Certificate.from_json(c.to_json()) == c
        json.loads(c.to_json())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 99}', "not json"])
def test_what_is_not_a_certificate_is_refused(text):
    with pytest.raises(ValueError, match="not a certificate"):
        gs.Certificate.from_json(text)


def test_a_missing_field_is_named():
    content = json.loads(certificate().to_json())
    del content["assumptions"]
    with pytest.raises(ValueError, match="assumptions"):
        gs.Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize("method", [gs.methods.GD(steps=7), gs.methods.SGD(steps=50, batch_size=1)])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_verification_confirms_an_honest_certificate_to_one_percent(method, neighbors):
    c = certificate(method, budget=dataclasses.replace(BUDGET, neighbors=neighbors))
    outcome = c.verify()
    assert outcome
    assert outcome.accountant == "contour integral"
    assert outcome.epsilon == pytest.approx(c.epsilon, rel=0.01)


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
    query = dataclasses.replace(c.schedule["gradient"], disjoint=True)
    outcome = dataclasses.replace(c, schedule=gs.Schedule((query,)), neighbors=neighbors).verify()
    assert not outcome
    assert "disjoint blocks" in outcome.accountant


@pytest.mark.parametrize(("noise", "count", "rate"), [(1e-6, 10**9, 1.0), (0.05, 10**6, 0.5), (1e-3, 10**6, 1e-3)])
def test_a_made_up_certificate_without_protection_is_told_at_once(monkeypatch, noise, count, rate):
    monkeypatch.setattr("gossamer.contour.delta", None)  # whose integral would take minutes
    c = certificate()
    query = dataclasses.replace(c.schedule["gradient"], noise_multiplier=noise, count=count, rate=rate)
    outcome = dataclasses.replace(c, schedule=gs.Schedule((query,)), capacities={"gradient": c.n}).verify()
    assert not outcome
    assert outcome.epsilon == math.inf


def test_it_says_when_the_noise_is_reproducible_and_when_not():
    assert "reproducible" in certificate(seed=3).seed
    assert "31337" not in certificate(seed=31337).to_json(), "whoever has the certificate would have the noise"
    assert any("seed was fixed" in s for s in certificate(seed=3).assumptions)
    private = certificate(seed=None)
    assert private.seed == "entropy of the operating system"
    assert not any("seed was fixed" in s for s in private.assumptions)


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
    assert any("diagnostics" in s for s in result.certificate.assumptions)
    assert not any("diagnostics" in s for s in certificate().assumptions)


def test_infinite_epsilon_claims_nothing():
    c = certificate(budget=gs.Budget(math.inf, 1e-3))
    assert any("NO PRIVACY" in s for s in c.assumptions)
    assert c.verify().epsilon == math.inf


def test_it_states_the_planned_cost_of_a_run_that_uses_learning_rate_schedules():
    c = certificate(gs.methods.GD(steps=3, learning_rate=lambda t: jnp.float32(0.1)))
    assert "lambda" in c.configuration["learning_rate"]
    assert gs.Certificate.from_json(c.to_json()) == c


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", "many"),
        ("n", 0),
        ("n", True),
        ("delta", -1),
        ("epsilon", "much"),
        ("neighbors", "friends"),
        ("schedule", [{"name": "gradient"}]),
        ("schedule", 7),
        ("assumptions", [1]),
        ("capacities", {"gradient": -1}),
        ("truncation_delta", "inf"),
        ("method", None),
    ],
)
def test_a_certificate_of_another_shape_is_refused(field, value):
    content = {**json.loads(certificate().to_json()), field: value}
    with pytest.raises(ValueError, match="not a certificate"):
        gs.Certificate.from_json(json.dumps(content))
