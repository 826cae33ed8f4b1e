"""What a private search is worth: default rule, every setting alone, and the search, at equal ε and δ.

    python benchmarks/search.py adult --seeds 20 --runs docs/tuning/runs.jsonl
    python benchmarks/search.py --page docs/tuning.md

Each run is a line of the file: table, what was run, seed, AUC on the test part. Tables other than Adult are read from
$GOSSAMER_DATA/tables; their categories and ranges are read from the records, so that these figures compare settings and
are no private releases. A third of their rows, drawn by seed 0, is the test part. Settings were fixed before any run,
but for the smallest rate, which was added when the others had been run on Adult.
"""

import argparse
import collections
import csv
import gzip
import json
import math
import os
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer.datasets import adult
from gossamer.learn import PrivateLogisticRegression, PrivateSearch

EPSILON, TRIALS, FEWER = 1.0, 12, 4
RATES = (0.03125, 0.25, 2.0, 8.0, 32.0)
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
RULE, SEARCH, ALONE = "default", "search, default and rates", "search, rates alone"


def descent(rate, n):
    """Return gradient descent with momentum, the default of Gossamer 0.1 at rate 2."""
    return gs.methods.SGD(steps=100, learning_rate=rate, clip=0.5, batch_size=n, momentum=0.9)


def load(name):
    """Return training and test rows and labels, and the bound on rows."""
    if name == "adult":
        train, test = adult()
        return train.X, train.y, test.X, test.y, train.row_norm
    path = Path(os.environ["GOSSAMER_DATA"], "tables", f"{name}.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = dict(zip(header, np.array(rows).T, strict=True))
    columns.pop("duration", None)  # of bank_marketing: known only after the call
    target = columns.pop(header[-1])
    y = (target == np.unique(target)[-1]).astype(int)
    X = np.concatenate([encode(values) for values in columns.values()], axis=1)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 3])
    return X[train], y[train], X[test], y[test], float(np.linalg.norm(X, axis=1).max())


def encode(values):
    """Return a column of numbers as shares of its range, and one of words as flags."""
    try:
        numbers = values.astype(float)
    except ValueError:
        return (values[:, None] == np.unique(values)).astype(float)
    return ((numbers - numbers.min()) / max(np.ptp(numbers), 1e-12))[:, None]


def measure(name, seeds, singles, out, only=""):
    """Run everything, or what begins with `only`, on one table; write a line for each run that is not there yet."""
    done = {(row["table"], row["run"], row["seed"]) for row in rows_of(out)}
    X, y, test_X, test_y, norm = load(name)
    n, delta = len(y), 1e-6 if name == "adult" else len(y) ** -1.1
    settings = {f"rate {rate:g}": descent(rate, n) for rate in RATES}

    def model(method=None):
        return PrivateLogisticRegression(EPSILON, delta, data_norm=norm, classes=[0, 1], method=method)

    def search(rule, others, trials=TRIALS):
        grid = {"method": [settings[other] for other in others]}
        return PrivateSearch(model(rule), grid, EPSILON, delta, trials)

    kinds = {
        RULE: (seeds, model),
        **{label: (singles, lambda method=method: model(method)) for label, method in settings.items()},
        SEARCH: (seeds, lambda: search(None, settings)),
        f"{SEARCH}, {FEWER} trials": (seeds, lambda: search(None, settings, FEWER)),
        ALONE: (seeds, lambda: search(settings["rate 2"], [s for s in settings if s != "rate 2"])),
    }
    for label, (count, make) in kinds.items():
        for seed in range(count if label.startswith(only) else 0):
            if (name, label, seed) in done:
                continue
            begun, estimator = time.monotonic(), make()
            estimator.set_params(random_state=seed)
            auc = roc_auc_score(test_y, estimator.fit(X, y).decision_function(test_X))
            best = estimator.best_params_.get("method") if isinstance(estimator, PrivateSearch) else None
            row = {
                "table": name,
                "run": label,
                "seed": seed,
                "auc": round(float(auc), 5),
                "chose": None if best is None else best.learning_rate,
                "solver": "Whitened" if label.startswith((RULE, SEARCH)) else "SGD",
                "epsilon": EPSILON,
                "delta": delta,
            }
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{time.monotonic() - begun:6.1f} s", row, flush=True)


def rows_of(path):
    """Return the runs of a file, if there is one."""
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()] if Path(path).exists() else []


def found_in(path):
    """Return the AUCs of each kind of run, by tables."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows_of(path):
        found[row["table"]][row["run"]].append(row["auc"])
    return found


def summary(path):
    """Return, for each table, how much of the way from a random setting to the best one a search goes, as Markdown.

    The best setting is the one with the best mean on the test part: nobody could know it. Searches pay for themselves.
    """
    headers = (
        *("table", "a random rate", "the best rate", "search among rates", "of the way", "rule"),
        *("a random setting", "the best setting", "search among all", "of the way", "rule − search"),
    )
    lines = [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|"]
    for name, runs in found_in(path).items():
        mean = {label: float(np.mean(values)) for label, values in runs.items()}
        if not {RULE, SEARCH, *(f"rate {rate:g}" for rate in RATES)} <= set(mean):
            continue
        rates = [mean[label] for label in mean if label.startswith("rate")]
        settings = [*rates, mean[RULE]]
        cells = [
            *_way(rates, mean.get(ALONE)),
            f"{mean[RULE]:.4f}",
            *_way(settings, mean.get(SEARCH)),
            f"{mean[RULE] - mean[SEARCH]:+.4f}".replace("-", "−"),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(path):
    """Return all tables of what was measured, as Markdown."""
    return f"{summary(path)}\n\n{table(path)}"


def _way(settings, found):
    """Return the mean and the best of some settings, a search's result, and its share of the way between the two."""
    random, best = float(np.mean(settings)), max(settings)
    if found is None:
        return f"{random:.4f}", f"{best:.4f}", "–", "–"
    return f"{random:.4f}", f"{best:.4f}", f"{found:.4f}", f"{(found - random) / (best - random):.0%}".replace("-", "−")


def table(path):
    """Return the mean of each kind of run on each table, with its standard error, as Markdown."""
    lines = []
    for name, runs in found_in(path).items():
        lines += ["", f"| {name} | runs | mean test AUC | s.e. | least |", "|---|---|---|---|---|"]
        for label, values in runs.items():
            error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            lines.append(f"| {label} | {len(values)} | {np.mean(values):.4f} | {error:.4f} | {min(values):.4f} |")
    return "\n".join(lines[1:])


def main():
    """Run, or print the table of what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--singles", type=int, default=5)
    parser.add_argument("--runs", default="docs/tuning/runs.jsonl")
    parser.add_argument("--only", default="", help="how the names of runs begin that are made")
    parser.add_argument("--page", type=Path, help="a page whose tables are written anew from the runs")
    chosen = parser.parse_args()
    for name in chosen.tables:
        measure(name, chosen.seeds, chosen.singles, chosen.runs, chosen.only)
    if chosen.page:
        before, begin, rest = chosen.page.read_text("utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        chosen.page.write_text(f"{before}{begin}\n\n{measured(chosen.runs)}\n\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
