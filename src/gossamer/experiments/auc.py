"""AUC of a private network on images, balanced and imbalanced (paper MINIMAX, Table 1).

The paper: MNIST and Fashion-MNIST made binary by a random partition of the ten classes into two halves; a perceptron
784-256-128-1; ε ∈ {0.5, 1, 5, 10} and none, δ = n^−1.1; imbalanced means 10 % positives in training, with a balanced
test. Here: classes 0 to 4 against 5 to 9, and replace-one neighbours with every query accounted for.
Besides SGDA and PrivateDiff, DP-SGD trains the same network on cross-entropy: what one would otherwise do.

Pixels are standardised by constants that were published long ago. Settings were chosen on 10 000 training images that
were held out (`--data held-out` shows their scores); the test images are used for the table alone.
"""

import dataclasses
import functools
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer import datasets
from gossamer.budget import Neighbors
from gossamer.experiments.outputs import save_figure, write_certificates, write_table
from gossamer.experiments.settings import Settings
from gossamer.models import MLP, init_mlp

PyTree = Any
EPSILONS = (0.5, 1.0, 5.0, 10.0, math.inf)
HIDDEN: tuple[int, ...] = (256, 128)
HELD_OUT = 10_000
SEEDS = 3
SCALAR_SCALE = 0.4
CROSS_ENTROPY = "SGD, cross-entropy"
METHODS = ("SGDA", "PrivateDiff", CROSS_ENTROPY)
SCALES = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
"""Mean and standard deviation of a pixel in [0, 1]: constants that are part of every tutorial."""


@dataclass(frozen=True)
class Variant:
    """A data set, and the share of positives to train on."""

    title: str
    images: str
    share: float
    published: dict[str, tuple[float, ...]] = dataclasses.field(compare=False)
    """Table 1 for each of EPSILONS."""


VARIANTS = (
    Variant(
        "Fashion-MNIST",
        "fashion_mnist",
        0.5,
        {"SGDA": (0.9203, 0.9403, 0.9412, 0.9426, 0.9661), "PrivateDiff": (0.9569, 0.9609, 0.9657, 0.9660, 0.9659)},
    ),
    Variant(
        "MNIST",
        "mnist",
        0.5,
        {"SGDA": (0.8837, 0.9022, 0.9544, 0.9532, 0.9901), "PrivateDiff": (0.9608, 0.9729, 0.9860, 0.9878, 0.9901)},
    ),
    Variant(
        "imbalanced Fashion-MNIST",
        "fashion_mnist",
        0.1,
        {"SGDA": (0.8398, 0.9317, 0.9352, 0.9414, 0.9567), "PrivateDiff": (0.9442, 0.9491, 0.9551, 0.9551, 0.9569)},
    ),
    Variant(
        "imbalanced MNIST",
        "mnist",
        0.1,
        {"SGDA": (0.7739, 0.8406, 0.8928, 0.9105, 0.9588), "PrivateDiff": (0.9033, 0.9209, 0.9467, 0.9499, 0.9593)},
    ),
)


@dataclass(frozen=True)
class Warmup:
    """A learning rate that rises linearly in the first steps, while clipped gradients still agree with each other."""

    rate: float
    steps: int = 15

    def __call__(self, t: jax.Array) -> jax.Array:
        """Return the rate of step t."""
        return self.rate * jnp.minimum(1.0, (t + 1.0) / self.steps)


@dataclass(frozen=True)
class CrossEntropy:
    """The logistic loss of a network's score for labels 0 and 1."""

    network: MLP

    def __call__(self, layers: PyTree, record: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Return the loss of one record."""
        features, label = record
        score = self.network(layers, features)
        return jax.nn.softplus(score) - label * score


@dataclass(frozen=True)
class Cell:
    """One run."""

    variant: Variant
    method: str
    epsilon: float
    neighbors: Neighbors
    seed: int

    @property
    def group(self) -> "Cell":
        """The cell of the table that this run belongs to: the same for all seeds."""
        return dataclasses.replace(self, seed=0)


@dataclass(frozen=True)
class Choice:
    """What was chosen for one ε: the same for both data sets."""

    batch_size: int
    steps: int
    clip: float
    rate: float
    activation: str = "relu"


BALANCED = {
    0.5: Choice(2048, 120, 2.0, 0.8),
    1.0: Choice(2048, 150, 2.0, 1.2),
    5.0: Choice(2048, 250, 1.0, 4.0),
    10.0: Choice(2048, 250, 1.0, 4.0),
    math.inf: Choice(1024, 400, 1.0, 4.0),
}
IMBALANCED = {
    0.5: Choice(2048, 150, 4.0, 0.16, "tanh"),
    1.0: Choice(2048, 150, 4.0, 0.3, "tanh"),
    5.0: Choice(2048, 150, 2.0, 2.0),
    10.0: Choice(2048, 200, 2.0, 2.5),
    math.inf: Choice(1024, 400, 2.0, 3.0),
}


def choose(cell: Cell) -> Choice:
    """Return the settings of a cell. Cross-entropy does not weigh classes, so its gradients are those of balance."""
    rare = cell.variant.share < 0.5 and cell.method != CROSS_ENTROPY
    return (IMBALANCED if rare else BALANCED)[cell.epsilon]


def configure(cell: Cell, n: int) -> gs.methods.Method:
    """Return the method of a cell for n records; batches are cut for tables that are hardly larger than them."""
    choice = choose(cell)
    eta = Warmup(choice.rate)
    common: dict[str, Any] = {"steps": choice.steps, "batch_size": min(choice.batch_size, n // 4)}
    match cell.method:
        case "SGDA":
            return gs.methods.SGDA(learning_rate_x=eta, learning_rate_y=eta, clip_x=choice.clip, **common)
        case "PrivateDiff":
            return gs.methods.PrivateDiff(
                learning_rate_x=eta,
                clip_x=choice.clip,
                clip_y=0.5,
                smoothness_x=0.3,
                clip_floor=0.1 * choice.clip,
                dimension_ratio=1 / 234_000,
                **common,
            )
        case _:
            return gs.methods.SGD(learning_rate=Warmup(choice.rate / 2), clip=choice.clip, **common)


def load(variant: Variant, settings: Settings) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the records to train on and those to score; imbalanced training drops positives at random."""
    if settings.data not in (None, "held-out"):
        raise ValueError(f"data = {settings.data!r} must be held-out, or not given for the test images.")
    split = getattr(datasets, variant.images)(settings.data_dir)
    mean, deviation = SCALES[variant.images]

    def records(part: datasets.Images) -> tuple[np.ndarray, np.ndarray]:
        return ((part.images / 255 - mean) / deviation).astype(np.float32), (part.labels >= 5).astype(np.float32)

    (X, y), test = records(split.train), records(split.test)
    order = np.random.default_rng(0).permutation(len(y))
    if settings.data == "held-out":
        held, order = order[:HELD_OUT], order[HELD_OUT:]
        test = X[held], y[held]
    negative, positive = order[y[order] == 0], order[y[order] == 1]
    if variant.share < 0.5:
        positive = positive[: round(len(negative) * variant.share / (1 - variant.share))]
    rows = np.sort(np.concatenate([negative, positive]))
    return (X[rows], y[rows]), test


def solve(cell: Cell, method: gs.methods.Method, train: tuple[Any, Any], hidden: tuple[int, ...]) -> gs.Result:
    """Train once."""
    n, inputs = train[0].shape
    budget = gs.Budget(cell.epsilon, n**-1.1, cell.neighbors)
    activation = choose(cell).activation
    layers = init_mlp(jax.random.key(cell.seed), inputs, hidden, activation)
    if isinstance(method, gs.methods.SGD):
        problem: Any = gs.ERM(CrossEntropy(MLP(activation)))
        init: Any = layers
    else:
        problem = gs.objectives.auc(MLP(activation, sigmoid=True), cell.variant.share, scalar_scale=SCALAR_SCALE)
        # Where every score is ½, a = b = ½ and α = 1 is the saddle point: public, as the starting point is.
        half, one = jnp.float32(0.5 / SCALAR_SCALE), jnp.float32(1.0 / SCALAR_SCALE)
        init = {"model": layers, "a": half, "b": half}, one
    return gs.solve(problem, train, method, budget, init=init, seed=cell.seed, progress=False)


def area(cell: Cell, params: PyTree, test: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the area under the ROC curve of the trained network."""
    layers = params if cell.method == CROSS_ENTROPY else params[0]["model"]
    X, y = test
    score = functools.partial(MLP(choose(cell).activation), layers)
    return float(roc_auc_score(y, jax.vmap(score)(jnp.asarray(X))))


def passes(settings: Settings) -> Iterator[list[Cell]]:
    """Yield all runs, one seed of the whole table after the other, then SGDA with the weaker neighbours."""
    variants, epsilons, seeds = (VARIANTS[1::2], (1.0,), 1) if settings.quick else (VARIANTS, EPSILONS, SEEDS)
    parts: tuple[tuple[Neighbors, tuple[str, ...]], ...] = (("replace_one", METHODS), ("add_remove", METHODS[:1]))
    for neighbors, names in parts:
        limits = [e for e in epsilons if neighbors == "replace_one" or e < math.inf]
        for seed in range(settings.seed, settings.seed + seeds):
            yield [Cell(v, name, e, neighbors, seed) for name in names for v in variants for e in limits]


class Cache:
    """Finished runs in a file of one JSON line each, so that an interrupted experiment goes on where it was."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.found = {json.dumps(line["run"]): line for line in map(json.loads, lines)}

    def get(self, run: list[Any]) -> dict[str, Any] | None:
        """Return the outcome of a run that was configured in exactly this way."""
        return self.found.get(json.dumps(run))

    def put(self, run: list[Any], **outcome: float) -> dict[str, Any]:
        """Write an outcome at once."""
        line = {"run": run, **outcome}
        self.found[json.dumps(run)] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line


def main(settings: Settings) -> None:
    """Write the table and the figure, anew after each pass, and the certificates of MNIST."""
    cache = Cache(settings.out / "runs.jsonl")
    tables = {variant: load(variant, settings) for variant in VARIANTS}
    areas: dict[Cell, list[float]] = {}
    for cells in passes(settings):
        for cell in cells:
            areas.setdefault(cell.group, []).append(measure(cell, *tables[cell.variant], settings, cache))
        write(settings, areas)


def measure(cell: Cell, train: tuple[Any, Any], test: tuple[Any, Any], settings: Settings, cache: Cache) -> float:
    """Return the AUC of a run, from the cache if it is there."""
    n = len(train[1])
    method, hidden = configure(cell, n), HIDDEN
    if settings.quick:
        method, hidden = dataclasses.replace(method, steps=20), (8,)  # type: ignore[type-var]  # methods are dataclasses
    run = [cell.variant.title, repr(cell.epsilon), cell.neighbors, cell.seed, n, settings.data, repr(method)]
    outcome = cache.get(run)
    if outcome is None:
        begun = time.monotonic()
        result = solve(cell, method, train, hidden)
        outcome = cache.put(run, auc=area(cell, result.params, test), seconds=time.monotonic() - begun)
        if cell.variant.title == "MNIST":
            name = f"{cell.method.split(',')[0]}-{cell.neighbors}-{cell.epsilon:g}"
            write_certificates(settings.out / "certificates", {name: result.certificate})
    return outcome["auc"]


def write(settings: Settings, areas: dict[Cell, list[float]]) -> None:
    """Write the table and the figure; a cell's spread is the standard deviation over seeds."""
    rows = []
    for cell, values in areas.items():
        published = cell.variant.published.get(cell.method)
        rows.append(
            [
                cell.variant.title,
                cell.method,
                cell.neighbors,
                cell.epsilon,
                float(np.mean(values)),
                float(np.std(values, ddof=1)) if len(values) > 1 else None,
                len(values),
                published[EPSILONS.index(cell.epsilon)] if published else None,
                cell.variant.published["PrivateDiff"][EPSILONS.index(cell.epsilon)],
            ]
        )
    scored = "10 000 held-out training images" if settings.data == "held-out" else "the test images"
    write_table(
        settings.out / "table",
        "AUC, classes 0 to 4 against 5 to 9",
        ["data", "method", "neighbors", "ε", "AUC", "deviation", "seeds", "published", "published PrivateDiff"],
        rows,
        settings.command("auc"),
        [
            f"Scored on {scored}; the deviation is that of one run, over seeds. δ = n^−1.1.",
            "Published: Table 1 of the paper, whose classes are divided at random, so that the task is another one.",
            "Its PrivateDiff is not private as printed, see docs/soundness.md.",
        ],
    )
    save_figure(settings.out / "auc", functools.partial(draw, areas), size=(9.0, 7.0))


def draw(areas: dict[Cell, list[float]], figure: Any) -> None:
    """Draw AUC against ε, one panel for each variant; without privacy is drawn at the right edge."""
    edge = 30.0
    for axes, variant in zip(figure.subplots(2, 2).flat, VARIANTS, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for cell, values in areas.items():
            if cell.variant == variant:
                name = cell.method if cell.neighbors == "replace_one" else f"{cell.method}, add/remove"
                lines.setdefault(name, []).append((min(cell.epsilon, edge), float(np.mean(values))))
        for name, points in lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", linestyle=":" if "add" in name else "-", label=name)
        x = [min(epsilon, edge) for epsilon in EPSILONS]
        for name, figures in variant.published.items():
            axes.plot(x, figures, marker="x", linestyle="--", linewidth=0.8, label=f"{name}, published")
        axes.set_xscale("log")
        axes.set_xticks(x, ["0.5", "1", "5", "10", "none"])
        axes.minorticks_off()
        axes.set_title(variant.title)
        axes.set_xlabel("ε")
        axes.set_ylabel("test AUC")
    axes.legend(fontsize="small")
