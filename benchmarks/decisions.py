"""How often the default threshold calls a row positive, and how well probabilities are calibrated.

    python benchmarks/decisions.py --runs docs/tables/decisions.jsonl --seeds 10
    python benchmarks/decisions.py --table docs/tables/decisions.jsonl

Each run is a line of the file. ε = 1, replace-one; on Adult δ = 1e-6, else n^−1.1. The made-up tables have 20 000 rows
to train on and 100 000 others to score, 8 columns and about 1.7 % or 2 % positives. Expected calibration error: the
mean, over 20 equally large groups of rows by probability, of |mean probability − share of positives|.
"""

import argparse
import collections
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import special
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from gossamer.datasets import adult
from gossamer.experiments.sources import load
from gossamer.learn import PrivateAdditiveClassifier, PrivateLogisticRegression

GROUPS = 20
INTERCEPTS = {"made-up 2 %": -4.75, "made-up 1.7 %": -4.92}


def made_up(intercept, seed):
    """Return rows and labels to train on, others, and a bound on rows."""
    rng = np.random.default_rng(1000 + seed)
    rows = np.clip(rng.normal(size=(120_000, 8)), -4, 4)
    labels = (rng.uniform(size=len(rows)) < special.expit(intercept + rows[:, 0] + rows[:, 1] / 2)).astype(int)
    return (rows[:20_000], labels[:20_000]), (rows[20_000:], labels[20_000:]), 6.0


def calibration_error(labels, chances):
    """Return the expected calibration error."""
    parts = np.array_split(np.argsort(chances, kind="stable"), GROUPS)
    return float(np.mean([abs(chances[part].mean() - labels[part].mean()) for part in parts]))


def measured(name, estimator, threshold, seed):
    """Return the figures of one fit."""
    if (name, estimator) == ("adult", "additive"):  # of columns, where a linear model is of encoded rows
        task = load("adult")
        parts = task.split(seed)
        model = PrivateAdditiveClassifier(delta=1e-6, threshold=threshold, random_state=seed, **task.options)
        (rows, labels), (held, truth) = ((task.X.take(part), task.y[part]) for part in parts)
        return judged(model.fit(rows, labels), held, truth)
    if name == "adult":
        split = adult()
        norm, delta = split.train.row_norm, 1e-6
        train, test = (split.train.X, split.train.y), (split.test.X, split.test.y)
    else:
        train, test, norm = made_up(INTERCEPTS[name], seed)
        delta = None
    options = {"delta": delta, "classes": [0, 1], "threshold": threshold, "random_state": seed}
    if estimator == "additive":
        model = PrivateAdditiveClassifier(bounds=(-4, 4), **options)
    else:
        model = PrivateLogisticRegression(data_norm=norm, **options)
    model.fit(np.asarray(train[0]), np.asarray(train[1]))
    return judged(model, *map(np.asarray, test))


def judged(model, rows, labels):
    """Return the figures of a model on rows that it was not trained on."""
    chances, said = model.predict_proba(rows)[:, 1], model.predict(rows)
    return {
        "auc": roc_auc_score(labels, chances),
        "accuracy": accuracy_score(labels, said),
        "f1": f1_score(labels, said),
        "predicted/true": said.mean() / labels.mean(),
        "calibration error": calibration_error(labels, chances),
    }


def main():
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", help="a table and an estimator, such as adult,additive")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print(table(arguments.table))
        return
    arguments.runs.parent.mkdir(parents=True, exist_ok=True)
    cells = [
        ("made-up 2 %", "logistic", "auto"),
        ("made-up 1.7 %", "logistic", "auto"),
        ("adult", "logistic", "auto"),
        ("adult", "logistic", 0.5),
        ("made-up 2 %", "additive", "auto"),
        ("made-up 2 %", "logistic", "f1"),
        ("made-up 2 %", "logistic", 0.5),
        ("adult", "additive", "auto"),
    ]
    if arguments.only is not None:
        cells = [cell for cell in cells if ",".join(cell[:2]) == arguments.only]
    warnings.simplefilter("ignore")
    for seed in range(arguments.seeds):
        for cell in cells:
            begun = time.process_time()
            line = {**dict(zip(("table", "estimator", "threshold"), cell, strict=True)), "seed": seed}
            line |= {name: round(float(value), 5) for name, value in measured(*cell, seed).items()}
            with arguments.runs.open("a") as file:
                file.write(json.dumps({**line, "cpu_seconds": round(time.process_time() - begun, 1)}) + "\n")


def table(path):
    """Return means, and the least and largest, over seeds."""
    cells = collections.defaultdict(list)
    for line in map(json.loads, path.read_text().splitlines()):
        cells[line["table"], line["estimator"], line["threshold"]].append(line)
    names = ["auc", "accuracy", "f1", "predicted/true", "calibration error"]
    head = ["table", "estimator", "threshold", "seeds", *names]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, runs in cells.items():
        shown = []
        for name in names:
            values = [run[name] for run in runs]
            ends = f" ({min(values):.2f} to {max(values):.2f})" if name == "predicted/true" else ""
            shown.append(f"{np.mean(values):.4f}{ends}")
        lines.append("| " + " | ".join([*map(str, key), str(len(runs)), *shown]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
