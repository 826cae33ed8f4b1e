"""`gossamer plan`, as a person would call it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gossamer as gs
from gossamer.cli import app
from gossamer.engine.forecast import expected_loss

RUN = CliRunner()


def call(*arguments):
    out = RUN.invoke(app, ["plan", *map(str, arguments)])
    if out.exception and not isinstance(out.exception, SystemExit):
        raise out.exception
    return out.stdout


def as_json(*arguments):
    return json.loads(call(*arguments, "--json"))


def test_the_plan_is_that_of_what_fit_would_run():
    content = as_json("--n", 2000, "--columns", 9)
    assert (content["objective"], content["method"], content["parameters"]) == ("logistic", "Whitened", 10)
    assert content["delta"] == pytest.approx(2000**-1.1)
    budget = gs.Budget(1.0, 2000**-1.1)
    planned = gs.plan(gs.methods.Whitened.suited(gs.objectives.logistic, 2000, 9, budget=budget), 2000, budget)
    moments, query, threshold = content["schedule"]
    assert (threshold["name"], content["bought"]) == ("threshold of decisions", {"threshold of decisions": 0.05})
    estimator = gs.learn.PrivateLogisticRegression(epsilon=1.0)
    whole = estimator.rehearse(estimator.outline(2000, 9)).schedule
    for asked in content["schedule"]:
        assert asked["noise_multiplier"] == whole[asked["name"]].noise_multiplier
    # The threshold takes noise from nobody else than the training, which has a little more.
    for asked in (moments, query):
        assert 1 < asked["noise_multiplier"] / planned.schedule[asked["name"]].noise_multiplier < 1.05
    assert query["noise_to_signal"] == pytest.approx(10**0.5 * query["noise_multiplier"] / 2000)
    assert query["evaluations"] == planned.method.steps * 2000
    assert content["seconds"] > 0
    assert [(cell["n"], cell["epsilon"]) for cell in content["table"]] == [
        (n, epsilon) for n in (200, 2000, 20_000) for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    assert content["table"][5]["noise_multiplier"] == query["noise_multiplier"]  # what is learnt from
    energy = gs.methods.Whitened.energy(gs.objectives.logistic, 2000, 9, budget=budget)
    assert content["expected_loss"] == expected_loss(energy, "AUC")._asdict()
    losses = [cell["expected_loss"] for cell in content["table"]]
    assert losses[5] == content["expected_loss"]["about"]
    assert all(np.diff(np.reshape(losses, (3, 4)), axis=axis).max() <= 0 for axis in (0, 1)), "no more for more n or ε"


def test_the_text_says_the_same():
    text = call("--n", 2000, "--delta", "1e-6", "--method", "SGD", "--steps", 5, "--batch-size", 1500)
    for words in (
        "SGD: (1, 1e-06)-DP",
        "5 times, of a Poisson sample at rate 0.75",
        "gradient: noise-to-signal",
        "in brackets, noise-to-signal:",
        "7,500 gradients",
        "≤ ",
        " s here",
        "measured on quadratics: SGD is ahead of differences (Spider, SVRG) at a signal 4nε/d^1.5 of 22",
    ):
        assert words in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()[:1] in (["200"], ["2000"])}
    assert rows["200"] == ["-"] * 4
    assert len(rows["2000"]) == 12
    told = call("--n", 2000, "--objective", "linear", "--no-table")
    assert "≤" not in told and "noise-to-signal" not in told
    assert "expect an R² about 0.0" in told and "below that of the same model without privacy" in told
    assert "--exact" in call("--n", 10**6, "--no-table", "--method", "SGD")


@pytest.mark.parametrize(
    ("options", "method", "queries", "parameters"),
    [
        (["auc"], "SGDA", ["share of positives", "gradient", "threshold of decisions"], 53),
        (["dro"], "DoubleSpider", ["dual", "gradient"], 51),
        (["linear"], "Whitened", ["moments", "gradient"], 51),
        (["worst-group", "--groups", 4], "SGDA", ["shares of groups", "gradient"], 51),
        (
            ["auc", "--method", "PrivateDiff", "--batch-size", 3000],
            "PrivateDiff",
            ["share of positives", "ascent", "gradient", "difference", "threshold of decisions"],
            53,
        ),
    ],
)
def test_other_objectives_take_their_own_method(options, method, queries, parameters):
    content = as_json("--n", 3000, "--epsilon", 2, "--no-table", "--objective", *options)
    assert (content["method"], content["parameters"]) == (method, parameters)
    assert [query["name"] for query in content["schedule"]] == queries
    assert content["bought"] == {name: 0.05 for name in queries if "share" in name or "threshold" in name}
    if options == ["worst-group", "--groups", 4]:
        assert content["schedule"][1]["clip"] == "1 in x, 4 in y"


@pytest.mark.slow
@pytest.mark.parametrize("method", [method.__name__ for method in gs.methods.ALL])
def test_every_method_can_be_planned(method):
    # Without privacy there is nothing to calibrate, which takes long for some.
    content = as_json("--n", 60_000, "--method", method, "--epsilon", "inf")
    assert content["epsilon"] == "inf"
    assert content["evaluations"] > 0
    assert (content["seconds"] is None) == (method == "O2NC")
    assert all(query["noise_to_signal"] == 0 for query in content["schedule"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", 100, "--method", "SGD"], "batch_size = 256 exceeds n = 100"),
        (["--n", 0], "n = 0 must be at least 10"),
        (["--n", 100, "--columns", 0], "columns = 0"),
        (["--n", 100, "--groups", 1], "groups = 1"),
        (["--n", 1000, "--epsilon", "-1"], "epsilon = -1.0"),
        (["--n", 1000, "--method", "GD", "--batch-size", 10], "GD has no batch_size"),
        (["--n", 1000, "--objective", "auc", "--method", "GD"], "'GD' cannot train for .* SGDA"),
        (["--n", 1000, "--method", "Adam"], "method = 'Adam' must be one of GD, SGD"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(*arguments)
