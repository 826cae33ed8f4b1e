"""docs/tuning.md prints what it says, and what it computes is right."""

import numpy as np
import pytest
from scipy import optimize, stats
from testkit.documents import ROOT, carry_out, run_command

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page():
    """Return the page's names after it was carried out."""
    return carry_out((ROOT / "docs" / "tuning.md").read_text(encoding="utf-8"), "docs/tuning.md", run_command)


@pytest.mark.deep
def test_the_joint_cost_of_full_passes_is_that_of_one_gaussian(page):
    """k fits of T full passes are one Gaussian mechanism of sensitivity 2√(kT)/σ, whose δ(ε) is a closed form."""
    plans = page["plans"]
    (query,) = plans[0].schedule
    mu = 2 * np.sqrt(len(plans) * query.count) / query.noise_multiplier

    def delta(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)

    exact = optimize.brentq(lambda epsilon: delta(epsilon) - 1e-5, 0.1, 20.0)
    assert page["joint_cost"](plans, 1e-5) == (pytest.approx(exact, rel=0.01), 1e-5)


def test_truncated_samples_are_paid_for_in_the_joint_delta(page):
    """Poisson samples are cut: two fits cost twice what one does, at the joint ε."""
    gs = page["gs"]
    plan = gs.plan(gs.methods.SGD(steps=20, batch_size=100), n=2000, budget=gs.Budget(1.0, 1e-4))
    _, delta = page["joint_cost"]([plan, plan], 1e-4)
    assert 2 * plan.truncation_delta < delta - 1e-4 < 2 * plan.truncation_delta * np.e**2


def test_the_shares_keep_the_budget_and_waste_little(page):
    epsilon, delta = page["spent"]
    assert 0.98 < epsilon <= 1.0
    assert delta == 1e-5
    assert page["model"].certificate_.epsilon == 1.0
    assert len(np.unique(np.concatenate([page["tuning"], page["choosing"], page["final"]]))) == len(page["y"])


def test_the_choice_is_the_exponential_mechanism(page):
    """Frequencies of 4000 draws against exp(ε·count/2): 5 standard errors are at most 0.04. Without the 2 it fails."""
    counts = np.array([10, 12, 9])
    draws = [page["choose"](counts, 1.0) for _ in range(4000)]
    shares = np.bincount(draws, minlength=3) / len(draws)
    right, wrong = (np.exp(counts / scale) / np.exp(counts / scale).sum() for scale in (2, 1))
    assert np.abs(shares - right).max() < 0.04
    assert np.abs(shares - wrong).max() > 0.04
