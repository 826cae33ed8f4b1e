"""Private selection by brute force: exact laws of the best of K draws, and published bounds to compare with."""

import itertools
import math

import numpy as np
from scipy import stats


def gaussian(mu):
    """Return the profile of one Gaussian: δ(ε) of N(μ, 1) against N(0, 1), both orders alike."""

    def profile(epsilons):
        return stats.norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * stats.norm.cdf(-mu / 2 - epsilons / mu)

    return profile


def discrete(p, q):
    """Return the profile of a pair of discrete laws."""

    def profile(epsilons):
        gaps = p - np.exp(np.atleast_1d(epsilons))[:, None] * q
        return np.maximum(gaps, 0.0).sum(-1).reshape(np.shape(epsilons))

    return profile


def best_of(trials, masses):
    """Return the law of the best of K draws, of outcomes that are listed from the worst to the best."""
    totals = np.concatenate([np.zeros((*masses.shape[:-1], 1)), np.cumsum(masses, -1)], -1).clip(0.0, 1.0)
    return np.diff(np.polynomial.polynomial.polyval(totals, np.array(trials.chances)), axis=-1)


def attained(trials, p, q, epsilon):
    """Return δ at ε of releasing the best, for outcomes listed from the worst to the best."""
    return np.maximum(best_of(trials, p) - math.exp(epsilon) * best_of(trials, q), 0.0).sum(-1)


def adversarial(trials, mu, epsilon):
    """Return cells of the Gaussian pair from the worst to the best, by a score that is as bad as possible.

    It ranks the loss by (a, b) < (b, ∞) < (−∞, a), with the a < b at which `attained` is largest.
    """
    edges = np.concatenate([[-np.inf], np.linspace(-9.0, 9.0 + mu, 601), [np.inf]])
    p, q = np.diff(stats.norm.cdf(edges - mu)), np.diff(stats.norm.cdf(edges))

    def order(low, high):
        return np.r_[low:high, high : len(p), 0:low]

    def delta(low, high):
        return float(attained(trials, p[order(low, high)], q[order(low, high)], epsilon))

    step, (low, high) = 32, max(itertools.combinations(range(0, len(p), 32), 2), key=lambda cut: delta(*cut))
    while step > 1:
        step //= 2
        near = itertools.product((low - step, low, low + step), (high - step, high, high + step))
        low, high = max((cut for cut in near if 0 <= cut[0] < cut[1] <= len(p)), key=lambda cut: delta(*cut))
    return p[order(low, high)], q[order(low, high)]


def profile_bound(profile, eta, gamma, mean, epsilon):
    """Return the bound of Koskela, Redberg and Wang (2024) for a truncated negative binomial law."""
    firsts = np.linspace(0.0, epsilon, 2001)
    moved = epsilon - (eta + 1) * np.log(np.exp(firsts) + (1 - gamma) / gamma * profile(firsts))
    moved = moved[moved >= 0]
    return mean * float(profile(moved).min()) if moved.size else 1.0
