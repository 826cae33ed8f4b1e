"""How long a fit of a table takes, with compilation and after it: `python benchmarks/tables.py [adult census million]`.

Seconds by the clock and of CPU, each case in a process of its own. The aims, on two idle cores: Adult 1 s after
compilation and 4 s with it, census 15 s, 10⁶ rows of 50 columns 30 s. Adult and census need GOSSAMER_DATA.
"""

import subprocess
import sys
import time
from typing import Any

import numpy as np

from gossamer.experiments import sources
from gossamer.learn import PrivateAdditiveClassifier, PrivateLogisticRegression

CASES = ("adult", "census", "million")


def made_up(n: int = 1_000_000, d: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of a linear model."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d)).astype(np.float32)
    return X, (X @ rng.normal(size=d) + rng.logistic(size=n) > 0).astype(int)


def main(case: str) -> None:
    model: Any
    if case == "million":
        X, y = made_up()
        model = PrivateLogisticRegression(1.0, data_norm=50**0.5, classes=[0, 1], random_state=0)
    else:
        task = sources.load(case)
        train, _ = task.split(0)
        X, y = task.X.take(train), task.y[train]
        model = PrivateAdditiveClassifier(1.0, 1e-6 if case == "adult" else None, random_state=0, **task.options)
    for when in ("with compilation", "after compilation"):
        began, cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        print(
            f"{case}, {when}: {time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of CPU", flush=True
        )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        for each in sys.argv[1:] or CASES:
            subprocess.run([sys.executable, __file__, each], check=False)
