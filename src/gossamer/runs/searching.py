"""`gossamer fit --search`: the best of a secret number of trials on a table, each by a recipe of its own.

A grid is a file of TOML, in the words of a recipe:

    trials = 4                      # how many to expect; may be left out
    score = "loss"                  # or "accuracy"; may be left out

    [grid]                          # all combinations
    steps = ["x0.5", "x2"]          # half and twice what the rule says
    learning_rate = [1.0, 4.0]

or, in place of `[grid]`, one `[[settings]]` for each setting. `gossamer.learn.search` has what a search keeps secret:
so a run that searched does not say how long it took.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.base.messages import shown
from gossamer.engine.checkpoints import digest
from gossamer.learn._trials import Candidate
from gossamer.learn.search import PrivateSearch
from gossamer.runs.fitting import named, warn_of
from gossamer.runs.posing import posed
from gossamer.runs.recipe import Recipe
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.engine.checkpoints import Checkpoints
    from gossamer.privacy.budget import Budget

_FIELDS = ("trials", "score", "grid", "settings")


@dataclass(frozen=True)
class Grid:
    """What to search among: settings as `PrivateSearch` takes them, and its own parameters if they are given."""

    settings: Any
    options: dict[str, Any]


class Found(NamedTuple):
    """The best trial of a search."""

    model: Any
    """The fitted estimator."""
    schema: Schema
    """With what was bought."""
    recipe: Recipe
    """That of the trial."""
    setting: dict[str, Any]
    """What of it the grid has set; nothing, if it is as it was given."""


def read_grid(file: str, recipe: Recipe) -> Grid:
    """Return the grid of a file, or without a name the objective's own; refuse what is none by a ValueError."""
    if not file:
        if not recipe.record.search:
            raise ValueError(f"--search needs a grid for objective = {recipe.objective!r}: name a file, grid.toml.")
        return Grid([dict(setting) for setting in recipe.record.search], {})
    try:
        plain = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"--search {file} is no TOML: {error}. See docs/tuning.md for a grid.") from None
    unknown = [name for name in plain if name not in _FIELDS]
    if unknown or ("grid" in plain) == ("settings" in plain):
        raise ValueError(
            f"--search {file} must have either [grid] or [[settings]], and may have trials and score; it has "
            f"{', '.join(plain) or 'nothing'}. See docs/tuning.md for a grid."
        )
    if not all(isinstance(values, list) for values in plain.get("grid", {}).values()):
        raise ValueError(f"--search {file}: [grid] must have lists, such as steps = [10, 20]: {shown(plain['grid'])}.")
    return Grid(plain.pop("grid", None) or plain.pop("settings", []), plain)


def search_table(
    table: Table,
    schema: Schema,
    recipe: Recipe,
    grid: Grid,
    budget: "Budget",
    *,
    seed: int | None = None,
    checkpoints: "Checkpoints | None" = None,
    reserve: Callable[["Budget"], Any] | None = None,
) -> Found:
    """Search on a table within a budget; `gossamer.runs.fitting.fit_table` says what the arguments are."""
    search = PrivateSearch(
        recipe.record.load()(),
        grid.settings,
        budget.epsilon,
        budget.delta,
        neighbors=budget.neighbors,
        random_state=seed,
        checkpoints=checkpoints,
        **grid.options,
    )

    def candidate(setting: dict[str, Any], about: "Budget") -> Candidate:
        return Candidate(setting, *posed(table, schema, recipe.varied(setting), about), schema.leaks())

    # Of a table of which something is bought the rows are not known beforehand, but the file and its schema are.
    known = digest(table.sha256 or table.source, repr(schema)) if schema.is_open else None
    warn_of(schema.leaks())
    planned = search.plan(budget, candidate, known)
    if reserve is not None:
        reserve(budget)
    search.spend(planned)
    chosen = recipe.varied(search.best_params_)
    return Found(*named(search.best_estimator_, schema, chosen), chosen, search.best_params_)
