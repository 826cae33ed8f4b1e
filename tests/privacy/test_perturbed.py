"""The cost of a perturbed objective: against its exact density, and against an integral in many digits."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy.special import expit

import gossamer as gs
from gossamer.privacy import accounting, arithmetic, saddle_point
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.schedule import Query, Schedule

SENSITIVITY = {"replace_one": 2.0, "add_remove": 1.0}
BETA = 0.25  # of the logistic loss, for rows of norm 1


def bound(sigma, epsilon, jacobian, neighbors):
    """What is charged: factor·Γ(ε − c), for noise that is σ when rounding is paid for."""
    noise = sigma * (1 + arithmetic.INFLATION)
    schedule = Schedule((Query("objective", 1, PerturbedObjective(jacobian), noise_multiplier=noise),))
    extra = schedule.surcharge(neighbors)
    return extra.factor * saddle_point.delta(accounting.costs_of(schedule), epsilon - extra.epsilon, neighbors)


def log_density(w, rows, targets, ridge, sigma):
    """The log density, up to a constant, of the minimiser of a perturbed logistic risk at the points w (·, d)."""
    p = expit(w @ rows.T)
    b = -(p - targets) @ rows - ridge * w
    hessian = np.einsum("ki,ij,il->kjl", p * (1 - p), rows, rows) + ridge * np.eye(rows.shape[1])
    return np.linalg.slogdet(hessian)[1] - np.sum(b**2, axis=1) / (2 * sigma**2)


def hockey_stick(w, cell, first, second, ridge, sigma, epsilon):
    """∫ (p − e^ε p')₊ on a grid, both ways around; the grid must hold all of the mass."""
    p, q = (np.exp(log_density(w, *table, ridge, sigma)) for table in (first, second))
    d = w.shape[1]
    scale = cell / (2 * math.pi * sigma**2) ** (d / 2)
    p, q = p * scale, q * scale
    assert p.sum() == pytest.approx(1, abs=1e-4)
    assert q.sum() == pytest.approx(1, abs=1e-4)
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


def on_a_line(first, second, ridge, sigma, epsilon):
    reach = (len(first[0]) + 12 * sigma) / ridge
    w = np.linspace(-reach, reach, 40_001)[:, None]
    return hockey_stick(w, w[1, 0] - w[0, 0], first, second, ridge, sigma, epsilon)


def line_table(*targets):
    return np.ones((len(targets), 1)), np.array(targets, float)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("sigma", [1.0, 4.0])
@pytest.mark.parametrize("ridge", [0.25, 2.0])
@pytest.mark.parametrize("others", [(), (0,) * 9, (0, 1, 0)])
def test_the_exact_divergence_on_a_line_stays_below(others, ridge, sigma, neighbors):
    first = line_table(1, *others)
    second = line_table(0, *others) if neighbors == "replace_one" else line_table(*others)
    jacobian = math.log1p(BETA / ridge)
    for epsilon in (jacobian + 0.1, jacobian + 1.0, jacobian + 3.0):
        exact = on_a_line(first, second, ridge, sigma, epsilon)
        assert exact <= bound(sigma, epsilon, jacobian, neighbors) * (1 + 1e-3) + 1e-12


def test_the_jacobian_must_be_paid_for():
    """Much noise and a weak regulariser: nearly all of the loss is the Jacobian's, and without c the bound is false."""
    ridge, sigma, epsilon = 0.25, 20.0, 0.4
    exact = on_a_line(line_table(1), line_table(), ridge, sigma, epsilon)
    assert exact > 100 * bound(sigma, epsilon, 0.0, "add_remove")
    assert exact > 1e-3


def test_half_the_noise_breaks_the_bound():
    """Nine others push the score down until the slope is nearly 1: there the Gaussian part is nearly tight."""
    ridge, sigma, epsilon = 1.0, 2.0, 1.5
    first, second = line_table(1, *(0,) * 9), line_table(*(0,) * 9)
    allowed = bound(sigma, epsilon, math.log1p(BETA / ridge), "add_remove")
    assert on_a_line(first, second, ridge, sigma, epsilon) <= allowed
    assert on_a_line(first, second, ridge, sigma / 2, epsilon) > 2 * allowed


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("angle", [0.25, 0.35])
def test_the_exact_divergence_in_the_plane_stays_below_the_sum_over_corners(angle):
    """A replaced record whose row points elsewhere: two directions, four corners ±x ± x', and a control at half noise.

    Thirty others push both scores down, so that both slopes are near −1.
    """
    ridge, sigma, epsilon = 1.0, 2.0, 1.5
    x = np.array([math.cos(math.pi * angle), math.sin(math.pi * angle)])
    mirrored = x * [1.0, -1.0]
    others = np.tile([[-1.0, 0.0]], (30, 1))
    first, second = ((np.array([row, *others]), np.ones(31)) for row in (x, mirrored))
    axis = np.linspace(-14.0, 14.0, 281)
    w = np.stack(np.meshgrid(axis - 3.0, axis), axis=-1).reshape(-1, 2)
    exact, reckless = (
        hockey_stick(w, (axis[1] - axis[0]) ** 2, first, second, ridge, s, epsilon) for s in (sigma, sigma / 2)
    )
    jacobian = math.log1p(BETA / ridge)
    corners = [np.linalg.norm(x + mirrored), np.linalg.norm(x - mirrored)]
    total = sum(2 * saddle_point.delta([Cost(1.0, sigma / g, 1)], epsilon - jacobian, "add_remove") for g in corners)
    assert exact <= total <= bound(sigma, epsilon, jacobian, "replace_one")
    assert reckless > total


@pytest.mark.parametrize(("sigma", "gap"), [(1.0, 1.0), (4.0, 0.7), (0.3, 20.0), (20.0, 0.05)])
def test_two_corners_equal_the_folded_normal(sigma, gap):
    """2Γ(ε − c) = E(1 − e^(ε−c−m²/2−m|N|))₊ for ε − c ≥ m²/2, by an integral in 30 digits."""
    mpmath.mp.dps = 30
    m = mpmath.mpf(1) / mpmath.mpf(sigma)
    assert gap >= m**2 / 2
    start = (gap - m**2 / 2) / m
    folded = mpmath.quad(
        lambda x: 2 * mpmath.npdf(x) * (1 - mpmath.exp(gap - m**2 / 2 - m * x)), [start, start + 2, start + 10, 60]
    )
    assert 2 * saddle_point.delta([Cost(1.0, sigma, 1)], gap, "add_remove") == pytest.approx(float(folded), rel=1e-3)
    assert bound(sigma, gap + 0.2, 0.2, "add_remove") == pytest.approx(float(folded), rel=1e-3)


def test_what_is_added_to_a_schedule():
    plain, objective = Query("gradient", 5), Query("objective", 1, PerturbedObjective(0.3))
    twice = dataclasses.replace(objective, count=2)
    for queries, neighbors, epsilon, factor in (
        ((plain,), "replace_one", 0.0, 1),
        ((plain, objective), "replace_one", 0.3, 4),
        ((plain, objective), "add_remove", 0.3, 2),
        ((twice,), "add_remove", 0.6, 4),
    ):
        added = Schedule(queries).surcharge(neighbors)
        assert added.epsilon == pytest.approx(epsilon + arithmetic.EPSILON, rel=1e-9)
        assert added.factor == pytest.approx(factor * arithmetic.FACTOR, rel=1e-12)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_calibration_is_a_gaussian_with_what_is_left(neighbors):
    schedule = Schedule((Query("objective", 1, PerturbedObjective(0.25), noise=1.0), Query("minimiser", 1, noise=10.0)))
    calibrated = accounting.calibrate(schedule, gs.Budget(1.0, 1e-5, neighbors), 100)
    factor = {"replace_one": 4, "add_remove": 2}[neighbors]
    left = gaussian_mechanism.get_sigma_gaussian(0.75, 0.999e-5 / factor)
    exact = SENSITIVITY[neighbors] * math.sqrt(1.01) * left
    assert exact <= calibrated["objective"].noise_multiplier <= 1.003 * exact
    assert accounting.pld_epsilon(calibrated, 1e-5, neighbors) == pytest.approx(1.0, rel=2e-3)


def test_a_budget_that_the_jacobian_exceeds_is_refused():
    schedule = Schedule((Query("objective", 1, PerturbedObjective(0.25)),))
    with pytest.raises(accounting.AccountingError, match=r"epsilon = 0.2 must exceed 0.250.*regularise more"):
        accounting.calibrate(schedule, gs.Budget(0.2, 1e-5), 100)
    with pytest.raises(accounting.AccountingError, match=r"below 4\.00"):
        accounting.calibrate(schedule, gs.Budget(1.0, 2e-10), 100)


@pytest.mark.parametrize("jacobian", [-0.1, math.inf, math.nan, None])
def test_a_perturbed_objective_needs_a_bound(jacobian):
    with pytest.raises(ValueError, match=r"jacobian = .* must be a finite number of at least 0"):
        PerturbedObjective(jacobian)


def test_no_accountant_outside_is_told_half_of_the_cost():
    schedule = Schedule((Query("objective", 1, PerturbedObjective(0.1), noise_multiplier=5.0),))
    with pytest.raises(ValueError, match="no event for a perturbed objective"):
        schedule.dp_event()
