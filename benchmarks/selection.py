"""How much noise a trial of a private selection needs: the affordable μ of one trial, as a share of μ without a search.

    python benchmarks/selection.py > docs/tuning/affordable.md

The whole keeps ε = 1 and δ = 1e-6; a trial is one Gaussian, which full passes are whatever their number. The share
is also that of the noise: with a share of 0.65 every query of a trial has 1/0.65 times the noise.
"""

import math

import numpy as np
from scipy import optimize

from gossamer.privacy import fixed, negative_binomial, poisson, select
from gossamer.privacy.accounting import gaussian_delta
from gossamer.privacy.envelope import largest_gaussian

EPSILON, DELTA = 1.0, 1e-6
LAWS = {
    "fixed and known": fixed,
    "Poisson": lambda mean: poisson(mean, 150),
    "geometric (eta = 1)": lambda mean: negative_binomial(mean, 1, 500),
    "eta = 2, at most 100": lambda mean: negative_binomial(mean, 2, 100),
}


def affordable(law):
    """Return μ of a trial over μ of the whole."""
    whole = math.sqrt(largest_gaussian(EPSILON, DELTA))

    def excess(share):
        bound = select(lambda epsilons: gaussian_delta(share * whole, epsilons), law, EPSILON)
        return math.log(max(bound, 1e-300) / DELTA)

    return optimize.brentq(excess, 0.1, 1.0, xtol=1e-5)


def table(means=(5, 10, 20)):
    """Return the table as Markdown."""
    lines = [
        f"| number of trials | {' | '.join(f'{mean} expected' for mean in means)} |",
        "|---|" + "---|" * len(means),
    ]
    for name, law in LAWS.items():
        lines.append(f"| {name} | {' | '.join(f'{np.round(affordable(law(mean)), 3):.3f}' for mean in means)} |")
    composed = " | ".join(f"{mean**-0.5:.3f}" for mean in means)
    return "\n".join([*lines, f"| all trials released | {composed} |"])


if __name__ == "__main__":
    print(table())
