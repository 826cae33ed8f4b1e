"""Does each robust model beat the zero model, and plain logistic regression, in the objective that it is trained for?

    python examples/dro_objectives.py [epsilon]

Prints the table of docs/dro.md: linear models with default settings, on a made-up table with 5 % flipped labels and on
Adult (test rows). Adult is downloaded if it is not in $GOSSAMER_DATA. Seeds run side by side: not for releases.
"""

import sys

import jax
import numpy as np

import gossamer as gs
from gossamer import datasets
from gossamer.experiments.sweep import sweep
from gossamer.learn import PrivateDROClassifier, PrivateLogisticRegression

KINDS = {
    "χ²": {"divergence": gs.ChiSquare()},
    "KL": {"divergence": gs.KL()},
    "KL-CVaR(0.1)": {"divergence": gs.KLCVaR(0.1)},
    "Cressie–Read(3)": {"divergence": gs.CressieRead(3.0)},
    "KL ball, radius 0.1": {"radius": 0.1},
}


def flipped(seed, n=10_000, d=10):
    """Return rows of norm 1 whose labels are the side of a plane, but for 5 % of them."""
    rng = np.random.default_rng(seed)
    X, normal = rng.normal(size=(n, d)), rng.normal(size=d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    right = rng.uniform(size=n) >= 0.05
    return X, ((X @ normal > 0) == right).astype(int)


def scores(estimator, data, test_rows, runs):
    """Return the scores of test rows by `runs` fits with seeds of their own, and the problem that was solved."""
    task = estimator.pose(*data)
    found = sweep(
        task.problem, task.data, task.method, estimator.budget(len(data[1])), init=task.init, seed=0, runs=runs
    )
    layer = found if isinstance(found, dict) else found[0]
    weights = np.asarray(layer["weights"], np.float64).reshape(runs, -1)
    offsets = np.asarray(layer["intercept" if "intercept" in layer else "bias"], np.float64).reshape(runs, 1)
    return weights @ (test_rows / estimator.data_norm).T + offsets, task.problem


def objectives(problem, scores, y):
    """Return the exact worst case of each fit's losses."""
    return [problem.worst_case(np.logaddexp(0, each) - y * each).value for each in scores]


def table(name, data, test, data_norm, epsilon, runs):
    """Print a row for each divergence."""
    public = {"epsilon": epsilon, "data_norm": data_norm, "classes": [0, 1]}
    plain, _ = scores(PrivateLogisticRegression(**public), data, test[0], runs)
    for kind, options in KINDS.items():
        own, problem = scores(PrivateDROClassifier(**public, **options), data, test[0], runs)
        zero = objectives(problem, np.zeros((1, len(test[1]))), test[1])
        cells = (
            ", ".join(f"{v:.3f}" for v in values)
            for values in (zero, objectives(problem, plain, test[1]), objectives(problem, own, test[1]))
        )
        print(f"| {name} | {kind} | {epsilon:g} | {' | '.join(cells)} |", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    epsilon = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print("| table | divergence | ε | zero model | logistic regression | trained for it |")
    print("|---|---|---:|---:|---|---|")
    made_up = flipped(0)
    table("5 % flipped", made_up, made_up, 1.0, epsilon, runs=5)
    train, test = datasets.adult()
    table("Adult", (train.X, train.y), (test.X, test.y), train.row_norm, epsilon, runs=3)
