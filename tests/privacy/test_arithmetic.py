"""What rounding costs is charged to every run, by calibration and again by `verify`."""

import dataclasses
import json
import math

import pytest
from scipy import optimize, stats

import gossamer as gs
from gossamer.privacy import accounting, arithmetic, sampler_error
from gossamer.privacy.certificate import certify
from gossamer.privacy.schedule import Query, Schedule


def gaussian_multiplier(epsilon, delta):
    """The noise multiplier of one Gaussian query in real numbers (Balle and Wang, 2018), replace-one."""

    def excess(sigma):
        mu = 2 / sigma
        below = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        return below - delta

    return optimize.brentq(excess, 0.1, 1e4)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_noise_is_larger_than_in_real_numbers_by_what_is_charged(epsilon, count):
    """0.12 % for rounding, and at most 0.2 % for ε, δ and the accountant's grid: well below half a percent.

    Multipliers from 0.6 to 20 000. The number of coordinates does not enter: `tests/oracle/test_lattice.py`.
    """
    (query,) = accounting.calibrate(Schedule((Query("mean", count),)), gs.Budget(epsilon, 1e-6), n=1000)
    charged = query.noise_multiplier / math.sqrt(count) / gaussian_multiplier(epsilon, 1e-6) - 1
    assert arithmetic.INFLATION <= charged <= arithmetic.INFLATION + 2e-3


def test_a_certificate_without_the_charge_is_found_out():
    """Noise for real numbers costs 0.12 % more ε than it states. A tolerance below that notices."""
    plan = gs.plan(gs.methods.GD(steps=10), 1000, gs.Budget(1.0, 1e-5))
    honest = certify(plan, gs.ERM(gs.objectives.logistic), None, False)
    assert honest.verify(tolerance=5e-4)
    less = tuple(
        dataclasses.replace(q, noise_multiplier=q.noise_multiplier / (1 + 2 * arithmetic.INFLATION))
        for q in honest.schedule
    )
    assert not dataclasses.replace(honest, schedule=Schedule(less)).verify(tolerance=5e-4)


def test_what_a_certificate_covers_cannot_be_talked_up():
    """Noise that is mixed in floating point promises for real numbers; a file that says otherwise is refused."""
    box, budget = gs.BlackBox(lambda x, z: (x - z) ** 2), gs.Budget(1.0, 1e-5)
    for correlation, covers in (("factorization", "reals"), ("tree", "bits")):
        method = gs.methods.O2NC(steps=2, inner_steps=3, correlation=correlation)
        certificate = certify(gs.plan(method, 1000, budget), box, None, False)
        assert certificate.covers == covers
        content = json.loads(certificate.to_json())
        for claimed in ("bits", "everything", None):
            edited = json.dumps({**content, "covers": claimed})
            if (correlation, claimed) == ("tree", "bits"):
                assert gs.Certificate.from_json(edited) == certificate
            else:
                with pytest.raises(ValueError, match="covers must be"):
                    gs.Certificate.from_json(edited)


def test_the_sampler_is_charged_for_all_that_a_run_may_draw():
    a = sampler_error.log_ratio(1.0, arithmetic.MOST_NOISE)
    assert 2 * a <= arithmetic.EPSILON < 1e-5
    assert math.exp(a) < arithmetic.FACTOR < 1 + 1e-5
    schedule = Schedule((Query("mean", 1),))
    assert schedule.surcharge("replace_one").epsilon >= arithmetic.EPSILON
    assert schedule.surcharge("replace_one").factor >= arithmetic.FACTOR


@pytest.mark.parametrize("epsilon", [40.0, 100.0])
def test_an_epsilon_for_which_tails_matter_is_refused(epsilon):
    schedule, budget = Schedule((Query("mean", 1),)), gs.Budget(epsilon, 1e-6)
    if epsilon == 100.0:
        with pytest.raises(gs.AccountingError, match=r"epsilon = 100 is so large .* math\.inf"):
            accounting.calibrate(schedule, budget, n=1000)
    else:
        assert accounting.calibrate(schedule, budget, n=1000).is_calibrated


def test_the_plan_says_what_rounding_costs():
    assert "0.12 % of the noise pays for rounding" in str(gs.plan(gs.methods.GD(), 1000, gs.Budget(1.0, 1e-5)))
