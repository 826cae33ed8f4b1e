"""What one run proves of Gaussian noise, beside jax-privacy on the same scores: the table of docs/audit.md.

    PYTHONPATH=src python tests/testkit/one_run_table.py

The scores are those of the strongest attacker on one full-batch step, who sees a coordinate for each canary.
"""

import time

import numpy as np
from dp_accounting import gaussian_mechanism

from gossamer.audit import one_run_bound
from gossamer.privacy._jax_privacy import CanaryScoreAuditor

DELTA, DRAWS = 1e-5, 5


def gaussian_scores(epsilon, m, seed):
    """What the strongest attacker sees of one Gaussian answer with a coordinate for each canary."""
    rng = np.random.default_rng(seed)
    inside = rng.random(m) < 0.5
    return rng.normal(size=m) + (inside - 0.5) / gaussian_mechanism.get_sigma_gaussian(epsilon, DELTA), inside


def bounds(epsilon, m, seed):
    """Return both of our bounds and both of jax-privacy's, by ε and δ alone and by a trade-off function."""
    scores, inside = gaussian_scores(epsilon, m, seed)
    ours, auditor = one_run_bound(scores, inside, DELTA, epsilon), CanaryScoreAuditor(scores[inside], scores[~inside])
    theirs = auditor.epsilon_one_run(0.05, DELTA), auditor.epsilon_one_run_fdp(0.05, DELTA)
    return ours.by_epsilon_delta, ours.lower_bound, *theirs


def main():
    """Print the table."""
    print("| ε | canaries | ours, (ε, δ) | ours, trade-off | jax-privacy, (ε, δ) | jax-privacy, trade-off | seconds |")
    print("|---|---|---|---|---|---|---|")
    for m in (1000, 10_000):
        for epsilon in (1.0, 4.0, 8.0):
            begun = time.process_time()
            for seed in range(DRAWS):
                one_run_bound(*gaussian_scores(epsilon, m, seed), DELTA, epsilon)
            seconds = (time.process_time() - begun) / DRAWS
            found = np.array([bounds(epsilon, m, seed) for seed in range(DRAWS)])
            means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / DRAWS**0.5
            cells = (f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True))
            print(f"| {epsilon:g} | {m} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
