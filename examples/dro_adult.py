"""Adult in ten groups of sex and race at ε = 1: three linear models, what each does to the average and to the worst.

    python examples/dro_adult.py [seeds]

Prints the table of docs/dro.md. Adult is downloaded if it is not in $GOSSAMER_DATA.
"""

import sys

import numpy as np

import gossamer as gs
from gossamer import datasets
from gossamer.learn import PrivateDROClassifier, PrivateLogisticRegression

LEAST_POSITIVES = 100
"""A share of fewer people is not worth printing."""

train, test = datasets.adult()
# The shares are those of other people than the training records: public for this purpose.
shares = np.bincount(test.groups, minlength=len(test.group_names)) / len(test.groups)
public = {"epsilon": 1.0, "data_norm": train.row_norm, "classes": train.classes}
names = range(len(test.group_names))


def measures(model):
    """Return accuracy, the worst group's accuracy, the least recall of a group, and the mean of the top 1 % losses."""
    chances = model.predict_proba(test.X)
    right = chances.argmax(axis=1) == test.y
    positives = [right[(test.groups == g) & (test.y == 1)] for g in names]
    return (
        right.mean(),
        min(right[test.groups == g].mean() for g in names),
        min(found.mean() for found in positives if len(found) >= LEAST_POSITIVES),
        np.sort(-np.log(chances[np.arange(len(right)), test.y]))[-len(right) // 100 :].mean(),
    )


def fit(kind, seed):
    """Return a fitted model."""
    if kind.startswith("average"):
        method = gs.methods.GD(steps=100, learning_rate=1.5, clip=1.0) if "same" in kind else None
        return PrivateLogisticRegression(**public, method=method, random_state=seed).fit(train.X, train.y)
    if kind == "worst group":
        model = PrivateDROClassifier(**public, groups=names, group_shares=shares, random_state=seed)
        return model.fit(train.X, train.y, groups=train.groups)
    model = PrivateDROClassifier(**public, radius=0.1 if kind == "KL ball" else None, random_state=seed)
    return model.fit(train.X, train.y)


if __name__ == "__main__":
    print("| trained for | accuracy | worst group's accuracy | least recall | loss of the hardest 1 % |")
    print("|---|---|---|---|---|")
    for kind in ("average", "average, same steps", "χ²", "KL ball", "worst group"):
        rows = [measures(fit(kind, seed)) for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)]
        cells = (", ".join(f"{value:.3f}" for value in column) for column in zip(*rows, strict=True))
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
