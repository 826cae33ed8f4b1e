"""What it is worth to score several iterates and averages of one trial, in place of its last iterate alone.

    python benchmarks/iterates.py > docs/tuning/iterates.md

Trials of a search at ε = 1 with twelve expected trials: gradient descent with momentum, by NumPy, with the noise that a
trial can afford. Its candidates are the last iterate and three averages. *Joint*: all scores by one query, which has
√k times the noise of one score. *Centred*: the score of the last iterate, and the differences of the others from it,
cut at 0.1: the score has √2 times its noise, and the differences less. Tables are those of benchmarks/search.py.
"""

import math

import numpy as np
from search import RATES, load
from sklearn.metrics import roc_auc_score

from gossamer.learn._trials import SCORE_SHARE
from gossamer.privacy.budget import Budget
from gossamer.privacy.envelope import largest_gaussian
from gossamer.privacy.searching import trial_budget
from gossamer.privacy.trials import negative_binomial

TABLES = ("german_credit", "bank_marketing", "spambase", "magic_telescope", "credit_default")
STEPS, CLIP, CUT, SEEDS, TRIALS = 100, 0.5, 0.1, 6, 12
CHOICES = ("last", "joint", "centred", "without noise")


def descend(rows, y, rate, noise, random):
    """Return the iterates of noisy gradient descent with momentum 0.9."""
    norms = np.linalg.norm(rows, axis=1)
    w, v, iterates = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), []
    for _ in range(STEPS):
        slopes = 1 / (1 + np.exp(-np.clip(rows @ w, -50, 50))) - y
        kept = np.minimum(1.0, CLIP / np.maximum(np.abs(slopes) * norms, 1e-12))
        v = 0.9 * v + rows.T @ (slopes * kept) / len(y) + noise * random.normal(size=w.size)
        w = w - rate * v
        iterates.append(w)
    return np.array(iterates)


def chosen(rows, y, iterates, noise, random):
    """Return the candidate that each way of choosing finds; `noise` is that of one score."""
    candidates = [iterates[-1], *(iterates[begin:].mean(0) for begin in (3 * STEPS // 4, STEPS // 2, 0))]
    chances = [1 / (1 + np.exp(-np.clip(rows @ each, -50, 50))) for each in candidates]
    scores = np.array([np.square(y - chance) for chance in chances])
    k, exact = len(candidates), scores.mean(1)
    apart = math.sqrt(2) * 2 * CUT * math.sqrt(k - 1) * noise
    centred = np.clip(scores - scores[0], -CUT, CUT).mean(1) + np.r_[0.0, apart * random.normal(size=k - 1)]
    joint = exact + math.sqrt(k) * noise * random.normal(size=k)
    return [candidates[place] for place in (0, *(int(np.argmin(each)) for each in (joint, centred, exact)))]


def measure(name):
    """Return the mean test AUC of each way of choosing, and the standard error of each one's gain over the first."""
    X, y, test_X, test_y, norm = load(name)
    n, delta = len(y), len(y) ** -1.1
    each = trial_budget(Budget(1.0, delta), negative_binomial(TRIALS))
    mu = math.sqrt(largest_gaussian(each.epsilon, delta))
    rows, test_rows = (np.c_[part / norm, np.ones(len(part))] for part in (X, test_X))
    step, score = 2 * CLIP / n * math.sqrt(STEPS / (1 - SCORE_SHARE)) / mu, 1 / n / (mu * math.sqrt(SCORE_SHARE))
    found = []
    for rate in RATES[2:]:
        for seed in range(SEEDS):
            random = np.random.default_rng(seed)
            models = chosen(rows, y, descend(rows, y, rate, step, random), score, random)
            found.append([roc_auc_score(test_y, test_rows @ model) for model in models])
    gains = np.array(found) - np.array(found)[:, :1]
    return np.mean(found, axis=0), np.std(gains, axis=0, ddof=1) / math.sqrt(len(found))


def table():
    """Return the table as Markdown."""
    lines = [f"| table | {' | '.join(CHOICES)} |", "|---" * (1 + len(CHOICES)) + "|"]
    for name in TABLES:
        means, errors = measure(name)
        gains = [
            f"{mean - means[0]:+.4f} ± {error:.4f}".replace("-", "−")
            for mean, error in zip(means[1:], errors[1:], strict=True)
        ]
        lines.append(f"| {name} | {means[0]:.4f} | {' | '.join(gains)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
