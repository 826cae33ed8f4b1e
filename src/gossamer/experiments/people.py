"""Persons with several rows: what protecting a person costs, by four ways to train for it.

    rows + group privacy   every row is a record, and the noise is that for as many rows as one person may have: m times
                           the noise of a row, since m rows move a full pass by m thresholds at most
    one row each           each person's first row, the others are dropped
    person                 a record is a person: the mean over its rows is clipped (`gs.by_person`)
    no privacy             the same model on all rows, without noise or clipping

All promise the same (ε, δ) for a person. The model is logistic regression by full passes, T steps without momentum.
Clip and learning rate of every way are chosen by its mean AUC on development data: other tables of the synthetic kind;
of the RAND table, persons that are neither trained nor judged on. Judged is on fresh persons.

*Synthetic tables.* N persons with m rows of d normal features, whose correlation within a person is ρ; a label is 1
with probability 1/(1 + exp(−2.4⟨x, w⟩)), w of length 1. In ragged tables a person has 1 to m rows, with equal chances.

*RAND health insurance experiment.* Who sees a doctor within a year: up to five yearly rows of each person.
"""

import functools
import gzip
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer.base import trees
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.loop import Setup
from gossamer.engine.opening import Lane, set_up
from gossamer.experiments.outputs import write_table
from gossamer.experiments.settings import Settings
from gossamer.methods.base import Report
from gossamer.methods.fields import Count, Output
from gossamer.oracle.people import People
from gossamer.tables.reading import read_table
from gossamer.tables.schema_files import schema_from_dict

WAYS = ("rows + group privacy", "one row each", "person", "no privacy")
CLIPS, RATES = (0.03, 0.1, 0.3, 1.0), (0.25, 1.0, 4.0, 16.0)
STEPS, SEEDS, DEVELOPMENT = 50, 10, 3
DELTA = 1e-5
LOSS = gs.objectives.logistic
FILE = "randhie.csv.gz"


@dataclass(frozen=True, repr=False)
class Tried(gs.methods.Method[gs.ERM]):
    """Gradient descent whose clip and rate are parameters that stay as they are: many settings compile once."""

    steps: Count = STEPS
    output: Output = "last"
    problems = (gs.ERM,)

    def schedule(self, n: int) -> gs.Schedule:
        """Return `steps` full passes."""
        return gs.Schedule((gs.Query("gradient", count=self.steps, clip="chosen on other data"),))

    def init(self, problem: gs.ERM, params: PyTree) -> PyTree:
        """Start from the parameters."""
        return params

    def step(self, problem: gs.ERM, ask: Any, state: PyTree, t: jax.Array) -> tuple[PyTree, Report]:
        """Move against the noisy mean, in units of the clip: rates then mean the same at every clip."""
        answer = ask("gradient", gs.Gradient(problem.loss, state["model"]), clip=state["clip"])
        moved = jax.tree.map(lambda x, g: x - state["rate"] * g / state["clip"] ** 0.5, state["model"], answer)
        return {**state, "model": moved}, Report(state, trees.norm(answer))

    def params(self, state: PyTree) -> PyTree:
        """Return all parameters."""
        return state


class Table(NamedTuple):
    """Rows of persons, and rows to judge on."""

    rows: np.ndarray
    targets: np.ndarray
    ids: np.ndarray
    judged: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Kind:
    """One kind of table."""

    name: str
    epsilon: float
    most: int
    """Rows of a person that count: a public number."""
    draw: Callable[[int, bool], Table]
    """`draw(seed, development)` → a table."""


def train(kind: Kind, way: str, table: Table, settings: np.ndarray, seed: int) -> np.ndarray:
    """Return the AUC of one run for each (clip, rate)."""
    rows, targets, ids, judged = table
    if way == "no privacy":
        model = LogisticRegression(C=1e3, max_iter=1000).fit(rows, targets)
        return np.full(len(settings), _auc(model.coef_[0], judged))
    people = gs.by_person((rows, targets), ids, rows=1 if way == "one row each" else kind.most)
    data, present, problem, n = people.with_room(), None, gs.ERM(people.lifted(LOSS)), people.n
    if way == "rows + group privacy":  # in as many rows for every seed, of which some are not there
        flat = people.gathered()
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(-1, *leaf.shape[2:]), flat.rows)
        present, problem, n = jnp.asarray(flat.present).reshape(-1), gs.ERM(LOSS), kind.most * people.n
    planned = gs.plan(Tried(), n, gs.Budget(kind.epsilon, DELTA))
    # Full passes: the noise depends on steps and budget alone, so that m rows cost as one does with m times the noise.
    group = kind.most if way == "rows + group privacy" else 1
    noise = {name: group * value for name, value in planned.noise().items()}
    keys = jax.random.split(new_key(seed), len(settings))
    weights = _outputs(set_up(planned, problem), (noise, data, present), jnp.asarray(settings, jnp.float32), keys)
    return np.array([_auc(w, judged) for w in np.asarray(weights)])


@functools.partial(jax.jit, static_argnames=("setup",))
def _outputs(setup: Setup, shared: tuple[Any, ...], settings: jax.Array, keys: jax.Array) -> jax.Array:
    noise, data, present = shared
    rows = data.rows[0] if isinstance(data, People) else data[0]
    init = {"weights": jnp.zeros(rows.shape[1]), "intercept": jnp.zeros(())}

    def one(run: tuple[jax.Array, jax.Array]) -> jax.Array:
        (clip, rate), key = run
        lane = Lane(setup, noise, {"model": init, "clip": clip, "rate": rate}, key)
        return lane.finish(lane.oracle(data, present)).choice.params["model"]["weights"]

    return jax.lax.map(one, (settings, keys))


def _auc(weights: np.ndarray, judged: tuple[np.ndarray, np.ndarray]) -> float:
    return float(roc_auc_score(judged[1], judged[0] @ weights)) if np.isfinite(weights).all() else 0.5


def synthetic(persons: int, most: int, columns: int, correlation: float, ragged: bool) -> Callable[[int, bool], Table]:
    """Return what draws synthetic tables; those for development are others."""

    def draw(seed: int, development: bool) -> Table:
        rng = np.random.default_rng((seed, persons, int(development)))
        w = rng.normal(size=columns)
        w /= np.linalg.norm(w)

        def rows_of(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            own = np.repeat(rng.normal(size=(len(counts), columns)), counts, axis=0)
            rows = math.sqrt(correlation) * own + math.sqrt(1 - correlation) * rng.normal(size=own.shape)
            targets = rng.random(len(rows)) < 1 / (1 + np.exp(-2.4 * rows @ w))
            return (rows / math.sqrt(columns)).astype(np.float32), targets.astype(np.float32)

        counts = rng.integers(1, most + 1, persons) if ragged else np.full(persons, most)
        rows, targets = rows_of(counts)
        return Table(rows, targets, np.repeat(np.arange(persons), counts), rows_of(np.ones(20_000, int)))

    return draw


_NUMBERS = {
    "coins": (0, 100),
    "income": (0, 30_000),
    "age": (0, 65),
    "black": (0, 1),
    "educdec": (0, 25),
    "family_size": (1, 14),
    "mhi": (0, 100),
    "disea": (0, 60),
    "physlm": (0, 1),
    "ghindx": (0, 100),
    "year": (1, 5),
}
"""Ranges that the forms of the experiment allow, or that are generous: none is read from the table."""
_RAND = {
    "target": "any_visit",
    "classes": ["no", "yes"],
    "person": "person",
    "rows_per_person": 5,
    "columns": {
        **{
            name: {"kind": "number", "low": low, "high": high, "missing": True}
            for name, (low, high) in _NUMBERS.items()
        },
        "site": {"kind": "category", "values": [str(i) for i in range(1, 7)]},
        "female": {"kind": "category", "values": ["0", "1"]},
        "child": {"kind": "category", "values": ["0", "1"]},
    },
}


def rand(file: Path) -> Callable[[int, bool], Table]:
    """Return what cuts the RAND table: half of the persons are trained on, one quarter developed on, one judged on."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "randhie.csv"
        plain.write_bytes(gzip.decompress(file.read_bytes()))
        table, schema = read_table(plain), schema_from_dict(_RAND)
        rows, targets = schema.encode(table) / schema.row_norm, schema.class_codes(table).astype(np.float32)
        ids = np.array(schema.person_of(table))
    names = np.unique(ids)

    def draw(seed: int, development: bool) -> Table:
        parts = np.array_split(np.random.default_rng(0).permutation(names), 4)  # one cut for all seeds
        own, judged = (np.isin(ids, part) for part in (np.concatenate(parts[:2]), parts[2 if development else 3]))
        return Table(rows[own], targets[own], ids[own], (rows[judged], targets[judged]))

    return draw


def kinds(settings: Settings) -> Iterator[Kind]:
    """Yield the kinds of tables; that of RAND if its file is there."""
    persons, columns = (40, 5) if settings.quick else (500, 40)
    for correlation, ragged in (
        ((0.3, False),) if settings.quick else ((0.0, False), (0.3, False), (0.9, False), (0.3, True))
    ):
        name = f"synthetic, {persons} persons, ρ = {correlation:g}" + (", ragged" if ragged else "")
        yield Kind(name, 1.0, 10, synthetic(persons, 10, columns, correlation, ragged))
    file = None if settings.data_dir is None else settings.data_dir / FILE
    if file is not None and file.exists() and not settings.quick:
        draw = rand(file)
        for epsilon in (0.3, 1.0):
            yield Kind(f"RAND, ε = {epsilon:g}", epsilon, 5, draw)


def main(settings: Settings) -> None:
    """Write every run as a line of people.jsonl, and the table of their means."""
    grid = np.array([(clip, rate) for clip in CLIPS for rate in RATES])
    runs: list[dict[str, Any]] = []
    seeds, development = (2, 1) if settings.quick else (SEEDS, DEVELOPMENT)
    with (settings.out / "people.jsonl").open("w", encoding="utf-8") as file:
        for kind in kinds(settings):
            for way in WAYS:
                first = 10_000 * settings.seed
                tried = [train(kind, way, kind.draw(k, True), grid, k) for k in range(first, first + development)]
                best = grid[int(np.mean(tried, axis=0).argmax())]
                for seed in range(first, first + seeds):
                    # One compiled program for all: the settings, or as many runs of one, of which the first counts.
                    auc = train(kind, way, kind.draw(seed, False), np.tile(best, (len(grid), 1)), 1000 + seed)[0]
                    told = {"table": kind.name, "way": way, "seed": seed, "clip": best[0], "rate": best[1], "auc": auc}
                    runs.append(told)
                    file.write(json.dumps(told) + "\n")
                    file.flush()
    write_summary(settings, runs)


def write_summary(settings: Settings, runs: list[dict[str, Any]]) -> None:
    """Write the table of the means of runs."""
    seeds = len({run["seed"] for run in runs})
    names = list(dict.fromkeys(run["table"] for run in runs))
    rows = []
    for name in names:
        of = {way: np.array([run["auc"] for run in runs if (run["table"], run["way"]) == (name, way)]) for way in WAYS}
        mean = {way: float(each.mean()) for way, each in of.items()}
        group, person, free = (mean[way] for way in ("rows + group privacy", "person", "no privacy"))
        gain = of["person"] - of["rows + group privacy"]
        error = float(gain.std(ddof=1) / math.sqrt(len(gain)))
        rows.append(
            [
                name,
                *(mean[way] for way in WAYS),
                f"{person - group:+.3f} ± {error:.3f}",
                (person - group) / (free - group),
            ]
        )
    write_table(
        settings.out / "people",
        "Protecting persons with several rows: test AUC",
        ["table", *WAYS, "person − group", "share of the gap closed"],
        rows,
        settings.command("people"),
        notes=[
            f"Means of {seeds} seeds; ± is a standard error of the paired differences. δ = {DELTA:g} for a person, "
            f"replace-one; ε = 1 unless the table says another. {STEPS} full passes.",
            "Synthetic: a new table for each seed. RAND: one cut of the persons; seeds differ in the noise alone.",
            "The gap is that between rows with group privacy and no privacy.",
            f"Clip and rate are the best of {len(CLIPS)} × {len(RATES)} on development data. At the edge of that grid "
            f"(clip {min(CLIPS):g}, rate {max(RATES):g}) chosen: {_at_the_edge(runs)}.",
        ],
    )


def _at_the_edge(runs: list[dict[str, Any]]) -> str:
    """Say for which tables and ways the best setting was at the end of the grid where noise asks for more."""
    found = [f"{r['table']}: {r['way']}" for r in runs if (r["clip"], r["rate"]) == (min(CLIPS), max(RATES))]
    return "; ".join(dict.fromkeys(found)) or "none"
