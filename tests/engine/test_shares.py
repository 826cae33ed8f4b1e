"""Shares that are bought: their noise, what is exact about them, and what is refused."""

import math

import numpy as np
import pytest

import gossamer as gs
from gossamer.engine import shares
from gossamer.engine.shares import group_shares, positive_share


@pytest.mark.deep
def test_bought_shares_have_the_noise_of_one_centred_record():
    """One full query with threshold √(1 − 1/k): each of k − 1 directions has deviation σ√(1 − 1/k)/n.

    The mean square of 3·150 of them is known to √(2/450) = 7 %: 4 SE are allowed. (Records that are not centred, of
    length 1, would make it 4/3, and so would noise along (1, …, 1).)
    """
    n, k, budget = 2000, 4, gs.Budget(1.0, 1e-5)
    members = np.repeat(np.arange(k), [200, 400, 600, 800])
    bought = [group_shares(members, k, budget, seed=seed) for seed in range(150)]
    certificate = bought[0][1]
    deviation = certificate.schedule["gradient"].noise_multiplier * math.sqrt(1 - 1 / k) / n
    errors = np.array([shares for shares, _ in bought]) - [0.1, 0.2, 0.3, 0.4]
    ratio = np.sum(errors**2) / (150 * (k - 1) * deviation**2)
    assert abs(ratio - 1) < 4 * math.sqrt(2 / 450)
    assert certificate.verify()
    assert (certificate.epsilon, certificate.delta) == (1.0, 1e-5)


@pytest.mark.slow
def test_without_noise_shares_are_exact_and_keep_away_from_zero():
    exact = gs.Budget(math.inf, 1e-3)
    members = np.arange(40) % 4 % 3
    np.testing.assert_allclose(group_shares(members, 3, exact, seed=0)[0], [0.5, 0.25, 0.25], rtol=1e-6)
    t = 1 / 44 / 3
    # A group that is empty has a share of 1/(n + k); what it lacks is taken from the others alike.
    np.testing.assert_allclose(
        group_shares(members, 4, exact, seed=0)[0], [0.5 - t, 0.25 - t, 0.25 - t, 3 * t], rtol=1e-5
    )


@pytest.mark.slow
def test_a_bought_share_is_that_of_the_second_of_two_groups():
    labels, budget = np.arange(500) % 4 == 0, gs.Budget(1.0, 1e-5)
    (_, second), certificate = group_shares(labels, 2, budget, seed=0)
    assert positive_share(labels, budget, seed=0) == (second, certificate)
    assert second != 0.25


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="members must be a list of whole numbers from 0 to 2"):
        group_shares(np.array([0, 3]), 3, gs.Budget(1.0, 1e-3))
    with pytest.raises(ValueError, match="labels must be a list of 0 and 1"):
        positive_share(np.array([0, 1, 2]), gs.Budget(1.0, 1e-3))


def test_they_are_offered_beside_the_problems_that_they_are_for():
    assert gs.objectives.group_shares is shares.group_shares
    assert gs.objectives.positive_share is shares.positive_share
    with pytest.raises(AttributeError, match="has no attribute 'class_share'"):
        gs.objectives.class_share  # noqa: B018
