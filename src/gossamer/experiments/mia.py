"""Membership inference against every robust method: what attacks find, beside what (ε, δ) allows (paper DRO, Table 2).

The paper reports an attack with AUC 0.97 at ε = 0.1, where (ε, 0)-DP allows 0.525: its members are imbalanced and its
non-members are not, so that the label alone tells them apart. Here both are random halves of one pool of MNIST-ST, see
`gossamer.audit.game`. The models are those of the experiment `dro` with one small hidden layer, on few records and for
many steps: what memorises most.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments import pictures
from gossamer.experiments.dro import ENTRIES, LOSS, TASKS, Entry
from gossamer.experiments.grid import Cell
from gossamer.experiments.outputs import save_figure, write_table
from gossamer.experiments.settings import Settings
from gossamer.models import init_mlp

EPSILONS = (0.1, 1.0, 10.0, math.inf)
POOL, HIDDEN, STEPS, MODELS = 600, (32,), 150, 64
DELTA = 1e-4


def attack(entry: Entry, pool: tuple[np.ndarray, np.ndarray], epsilon: float, settings: Settings) -> Any:
    """Return the report of all attacks on a method at one ε."""
    task, n = TASKS[0], len(pool[1]) // 2
    steps, models = (10, 16) if settings.quick else (STEPS, MODELS)
    # One learning rate for all ε: it is the noise that shall make the difference.
    method: Any = dataclasses.replace(entry.method(Cell(task, entry.name, 10.0), n, 1.0), steps=steps)  # type: ignore[type-var]
    layers = init_mlp(jax.random.key(0), pool[0].shape[1], HIDDEN)
    problem = entry.problem(task)
    grouped = isinstance(problem, gs.Minimax)
    records = (*pool, pool[1].astype(np.int32)) if grouped else pool

    def loss(params: Any, record: Any) -> jax.Array:
        return LOSS(entry.layers(params), record[:2])

    return gs.audit.membership_inference(
        problem,
        records,
        method,
        gs.Budget(epsilon, DELTA),
        entry.start(task, layers),
        models=models,
        loss=loss,
        confidence=lambda params, record: jnp.exp(-loss(params, record)),
        seed=settings.seed,
    )


def main(settings: Settings) -> None:
    """Write the table and the figure."""
    train, _ = pictures.load("mnist", "edges", TASKS[0].shares[1], settings.data_dir, held_out=False)
    rows = np.random.default_rng(settings.seed).permutation(len(train[1]))[: 60 if settings.quick else POOL]
    pool = train[0][rows], train[1][rows]
    names = ("SGD",) if settings.quick else tuple(ENTRIES)
    epsilons = EPSILONS[1:2] if settings.quick else EPSILONS
    found = {(name, epsilon): attack(ENTRIES[name], pool, epsilon, settings) for name in names for epsilon in epsilons}
    table = [
        [
            name,
            epsilon,
            kind,
            each.auc.value,
            f"[{each.auc.low:.4f}, {each.auc.high:.4f}]",
            report.certified.auc,
            report.scheduled.auc,
            each.tpr.value,
            report.scheduled.tpr,
            "yes" if each.auc.low <= report.scheduled.auc else "NO",
        ]
        for (name, epsilon), report in found.items()
        for kind, each in report.attacks.items()
    ]
    write_table(
        settings.out / "mia",
        "Membership inference",
        [
            "method",
            "ε",
            "attack",
            "AUC",
            "95 % interval",
            "limit by (ε, δ)",
            "limit by the schedule",
            "TPR at 0.1 % FPR",
            "its limit",
            "within",
        ],
        table,
        settings.command("mia"),
        notes=[
            f"{len(pool[1])} records of MNIST-ST in the pool, half of them in each model; δ = {DELTA:g}, replace-one; "
            "the same settings at every ε.",
            "Within: the lower end of the interval is not above the limit by the schedule.",
        ],
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = np.arange(len(epsilons))
        for name in names:
            best = [max(found[name, e].attacks.values(), key=lambda each: each.auc.value).auc for e in epsilons]
            low, high = ([abs(getattr(auc, end) - auc.value) for auc in best] for end in ("low", "high"))
            axes.errorbar(places, [auc.value for auc in best], yerr=[low, high], marker="o", capsize=3, label=name)
        limits = [found[names[0], e].certified.auc for e in epsilons]
        axes.plot(places, limits, color="black", linestyle="--", label="limit by (ε, δ)")
        axes.set_xticks(places, [f"{e:g}" if e < math.inf else "none" for e in epsilons])
        axes.set_xlabel("ε")
        axes.set_ylabel("AUC of the best attack")
        axes.legend(fontsize="small")

    save_figure(settings.out / "mia", draw)
