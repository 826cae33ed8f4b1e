"""Certificates that somebody edited or made up: one clear error, or a verdict that is not fooled."""

import dataclasses
import json

import pytest

import gossamer as gs
from gossamer.base.leak import Leak
from gossamer.privacy.certificate import certify
from gossamer.privacy.facts import LossBounds
from gossamer.privacy.stages import TRAINING, Part, Stages

WHOLE = gs.Budget(1.0, 1e-3)
PROBLEM = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(0.1))


def everything():
    """Return a certificate that has something in every field, and verifies."""
    method = gs.methods.SGD(steps=50, batch_size=16)
    stages = Stages((Part("share", gs.methods.GD(steps=1), 0.1), Part(TRAINING, method, 0.9)))
    planned = dataclasses.replace(gs.plan(stages, 64, WHOLE), method=method)
    bounds = LossBounds(row_norm=2.0, lipschitz=1.0, curvature=0.25)
    return dataclasses.replace(
        certify(planned, PROBLEM, None, True, ("a public grid",), bounds, stages.purchases(64)),
        leaks=(Leak("data_norm", "the largest row norm", "argument"), Leak("age", "range", "column")),
        noted=("An old sentence.",),
    )


CONTENT = json.loads(everything().to_json())
SELECTION = {
    "trials": 4.0,
    "eta": 2.0,
    "most": 50,
    "schedules": [CONTENT["schedule"]],
    "capacities": [CONTENT["capacities"]],
}
DEEP = json.loads("[" * 50 + "]" * 50)
WRONG = (None, True, "x", "inf", -1, 0.5, 1e308, 10**400, [], {}, {"x": 1}, DEEP)
FREE = {
    *("configuration", "problem", "method", "versions", "reproducible", "diagnostics"),
    *("leaks", "trusted", "noted", "loss_bounds"),
}
"""What is stated and cannot be recomputed: other values of the right type are other statements."""
IDLE = {"name", "clip", "weight", "noise", "dual"}
"""What of a query costs nothing."""
LABELS = {"purchases", "name", "after"}
"""What of purchases is a label: which queries are not the method's own, what for and when. Their cost is scheduled."""


def paths(value, path=()):
    """Return the way to every part of a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from ([path] if path else [])
    for name, part in parts:
        yield from paths(part, (*path, name))


def changed(path, value):
    """Return the certificate with one part changed."""
    content = json.loads(json.dumps(CONTENT))
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return content


def is_weaker(path, value):
    """Return whether a change makes the promise weaker, or says that less was told: then it may hold."""
    less = [("noise_multiplier", 1e308), ("acute", True)]
    return (path, value) in [(("delta",), 0.5), (("epsilon",), "inf")] or (path[-1], value) in less


def test_it_survives_json_with_something_in_every_field():
    assert gs.Certificate.from_json(everything().to_json()) == everything()
    assert everything().verify()
    assert all(CONTENT[name] not in ([], {}, None) for name in CONTENT if name != "selection")


@pytest.mark.slow
@pytest.mark.parametrize("path", list(paths(CONTENT)), ids=lambda path: ".".join(map(str, path)))
def test_a_part_of_another_type_or_value_is_refused_or_found_out(path):
    for value in WRONG:
        if value == (original := _at(path)) and type(value) is type(original):
            continue
        try:
            read = gs.Certificate.from_json(json.dumps(changed(path, value)))
        except ValueError as error:
            assert str(error).startswith("not a certificate: ")
            assert len(str(error)) < 400
            continue
        free = path[0] in FREE or path[-1] in {"schedule": IDLE, "purchases": LABELS}.get(path[0], ())
        assert free or not read.verify() or is_weaker(path, value), (path, value)
        str(read)


def _at(path):
    value = CONTENT
    for name in path:
        value = value[name]
    return value


@pytest.mark.parametrize("name", CONTENT)
def test_a_field_that_is_missing_is_named(name):
    content = {key: value for key, value in CONTENT.items() if key != name}
    with pytest.raises(ValueError, match=f"not a certificate: .*{name}"):
        gs.Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("not json", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ("{}", "format 1 or 2"),
        ("[1]", "format 1 or 2"),
        ('{"format": 99}', "format 1 or 2"),
        ('{"format": true}', "format 1 or 2"),
        ('{"format": [2]}', "format 1 or 2"),
        (json.dumps({**CONTENT, "extra": 1}), r"differ by \['extra'\]"),
        (json.dumps({**CONTENT, "epsilon": float("nan")}), "NaN is not a number of JSON"),
        (json.dumps(CONTENT).replace('"epsilon": 1.0', '"epsilon": 1e999', 1), "too large"),
        (json.dumps(CONTENT).replace('"n": 64', '"n": ' + "9" * 5000, 1), "too large"),
        (json.dumps(CONTENT).replace('"n": 64', '"n": 640, "n": 64', 1), "stands twice"),
        (json.dumps({**CONTENT, "selection": {"runs": 3}}), "capacities"),
        (json.dumps({**CONTENT, "selection": [3]}), "must be JSON objects"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "capacities": []}}), "1 to 100 schedules"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "schedules": [], "capacities": []}}), "1 to 100 schedules"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "trials": "many"}}), "must be numbers"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "trials": 500}}), "trials = 500 must be"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "most": 10**6}}), "most = 1000000 must be"),
        (json.dumps({**CONTENT, "selection": {**SELECTION, "eta": -2}}), "eta = -2 must be"),
        (json.dumps({**CONTENT, "unit": {"name": "household"}}), "unit of privacy"),
    ],
)
def test_what_is_not_a_certificate_is_refused(text, message):
    with pytest.raises(ValueError, match=f"not a certificate: .*{message}"):
        gs.Certificate.from_json(text)
