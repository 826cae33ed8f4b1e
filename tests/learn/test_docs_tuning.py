"""The Python blocks of docs/tuning.md run, in order, and print what the page says they print."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^ *```(python|text)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def run():
    """Return the page's names after its blocks ran, and the lines that they printed and should have."""
    printed: list[str] = []
    namespace: dict = {"printed": printed, "print": printed.append}
    blocks = [(kind, textwrap.dedent(text)) for kind, text in BLOCK.findall(PAGE)]
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "docs/tuning.md", "exec"), namespace)
    namespace["promised"] = "".join(text for kind, text in blocks if kind == "text").splitlines()
    return namespace


def test_the_page_prints_what_it_says(run):
    assert len(run["promised"]) == 5
    assert run["printed"] == run["promised"]


def test_the_joint_cost_of_full_passes_is_that_of_one_gaussian(run):
    """k fits of T full passes are one Gaussian mechanism of sensitivity 2√(kT)/σ, whose δ(ε) is a closed form."""
    plans = run["plans"]
    (query,) = plans[0].schedule
    mu = 2 * np.sqrt(len(plans) * query.count) / query.noise_multiplier

    def delta(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)

    exact = optimize.brentq(lambda epsilon: delta(epsilon) - 1e-5, 0.1, 20.0)
    assert run["joint_cost"](plans, 1e-5) == (pytest.approx(exact, rel=0.01), 1e-5)


def test_truncated_samples_are_paid_for_in_the_joint_delta(run):
    """Poisson samples are cut: two fits cost twice what one does, at the joint ε."""
    gs = run["gs"]
    plan = gs.plan(gs.methods.SGD(steps=20, batch_size=100), n=2000, budget=gs.Budget(1.0, 1e-4))
    _, delta = run["joint_cost"]([plan, plan], 1e-4)
    assert 2 * plan.truncation_delta < delta - 1e-4 < 2 * plan.truncation_delta * np.e**2


def test_the_shares_keep_the_budget_and_waste_little(run):
    epsilon, delta = run["spent"]
    assert 0.98 < epsilon <= 1.0
    assert delta == 1e-5
    assert run["model"].certificate_.epsilon == 1.0
    assert len(np.unique(np.concatenate([run["tuning"], run["choosing"], run["final"]]))) == len(run["y"])


def test_the_choice_is_the_exponential_mechanism(run):
    """Frequencies of 4000 draws against exp(ε·count/2): 5 standard errors are at most 0.04. Without the 2 it fails."""
    counts = np.array([10, 12, 9])
    draws = [run["choose"](counts, 1.0) for _ in range(4000)]
    shares = np.bincount(draws, minlength=3) / len(draws)
    right, wrong = (np.exp(counts / scale) / np.exp(counts / scale).sum() for scale in (2, 1))
    assert np.abs(shares - right).max() < 0.04
    assert np.abs(shares - wrong).max() > 0.04
