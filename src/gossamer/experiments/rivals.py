"""Other packages' private models, each at its own defaults: run with an interpreter that has them, not as a module.

    python rivals.py NAME job.npz answer.npz

A job has the rows to train on and those to predict for, what is public about them, and several ε; the answer has for
each ε the scores, the labels and the seconds. Nothing of Gossamer is imported: the packages want environments of their
own. What each is given beside the records:

    DP-EBM        ranges and lists of values of the columns, the range of the target; ε, δ
    diffprivlib   the bound on a row's norm, or ranges; ε (its δ is 0)
    Opacus        ε, δ; it leaves the training to its user: 10 epochs of batches of 256, SGD at rate 0.5, clip 1
"""

import importlib
import json
import sys
import time
import warnings
from typing import Any

import numpy as np


def dp_ebm(job: dict[str, Any], public: dict[str, Any], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of a DP-EBM."""
    privacy = importlib.import_module("interpret.privacy")
    names = [f"c{place}" for place in range(len(public["lists"]))]
    common = {
        "feature_names": names,
        "feature_types": ["nominal" if known else "continuous" for known in public["lists"]],
        "privacy_bounds": {
            name: tuple(pair) for name, pair in zip(names, public["ranges"], strict=True) if pair is not None
        },
        "epsilon": epsilon,
        "delta": public["delta"],
        "random_state": public["seed"],
    }

    def table(values: np.ndarray) -> np.ndarray:
        out = values.astype(object)
        for place, known in enumerate(public["lists"]):
            if known:
                out[:, place] = [f"v{int(code)}" for code in values[:, place]]
        return out

    if public["target"] is not None:
        low, high = public["target"]
        model = privacy.DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **common)
        predicted = model.fit(table(job["train"]), job["y"]).predict(table(job["test"]))
        return predicted, predicted
    model = privacy.DPExplainableBoostingClassifier(**common).fit(table(job["train"]), job["y"])
    return model.predict_proba(table(job["test"]))[:, 1], model.predict(table(job["test"]))


def diffprivlib(job: dict[str, Any], public: dict[str, Any], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of a linear model of diffprivlib."""
    models = importlib.import_module("diffprivlib.models")
    if public["target"] is not None:
        model = models.LinearRegression(
            epsilon=epsilon,
            bounds_X=(-1.0, 1.0),
            bounds_y=tuple(public["target"]),
            random_state=public["seed"],
        )
        predicted = model.fit(job["train_rows"], job["y"]).predict(job["test_rows"])
        return predicted, predicted
    model = models.LogisticRegression(epsilon=epsilon, data_norm=public["row_norm"], random_state=public["seed"])
    model.fit(job["train_rows"], job["y"])
    found = model.predict_proba(job["test_rows"])
    return found[:, 1] if found.shape[1] == 2 else found, model.predict(job["test_rows"])


def opacus(job: dict[str, Any], public: dict[str, Any], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of a linear layer, trained by Opacus."""
    torch, private = importlib.import_module("torch"), importlib.import_module("opacus")
    data = importlib.import_module("torch.utils.data")
    torch.set_num_threads(1)
    torch.manual_seed(public["seed"])
    classes = np.unique(job["y"]) if public["target"] is None else None
    low, high = (0.0, 1.0) if public["target"] is None else public["target"]
    if classes is None:
        y = torch.tensor((2 * (job["y"] - low) / (high - low) - 1)[:, None], dtype=torch.float32)
        loss, outputs = torch.nn.MSELoss(), 1
    else:
        y = torch.tensor(np.searchsorted(classes, job["y"]))
        loss, outputs = torch.nn.CrossEntropyLoss(), len(classes)
    x = torch.tensor(job["train_rows"] / public["row_norm"], dtype=torch.float32)
    model = torch.nn.Linear(x.shape[1], outputs)
    engine = private.PrivacyEngine()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=data.DataLoader(data.TensorDataset(x, y), batch_size=min(256, len(x) // 4)),
        target_epsilon=epsilon,
        target_delta=public["delta"],
        epochs=10,
        max_grad_norm=1.0,
    )
    for _ in range(10):
        for batch, targets in loader:
            optimizer.zero_grad()
            loss(model(batch), targets).backward()
            optimizer.step()
    with torch.no_grad():
        out = model(torch.tensor(job["test_rows"] / public["row_norm"], dtype=torch.float32)).numpy()
    if classes is None:
        predicted = low + (out[:, 0] + 1) * (high - low) / 2
        return predicted, predicted
    return out[:, 1] - out[:, 0] if len(classes) == 2 else out, classes[out.argmax(axis=1)]


RIVALS = {"DP-EBM": dp_ebm, "diffprivlib": diffprivlib, "Opacus": opacus}


def main(name: str, asked: str, answered: str) -> None:
    """Answer a job."""
    warnings.simplefilter("ignore")
    with np.load(asked) as file:
        job: dict[str, Any] = dict(file)
    public = json.loads(str(job.pop("public")))
    answer: dict[str, Any] = {}
    for place, epsilon in enumerate(public["epsilons"]):
        began = time.perf_counter()
        scores, labels = RIVALS[name](job, public, epsilon)
        answer |= {
            f"scores{place}": scores,
            f"labels{place}": labels,
            f"seconds{place}": np.float64(time.perf_counter() - began),
        }
    np.savez(answered, **answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
