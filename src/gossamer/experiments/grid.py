"""A table of runs, tasks × methods × ε × seeds, in which every method's learning rate is chosen in the same way.

Each run is made once and kept (`Cache`), so that an interrupted experiment goes on where it was. The learning rate is
the best of a few for small ε and of a few for large ε, each by one run that is scored on held-out training records.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax

from gossamer.experiments.cache import Cache
from gossamer.experiments.settings import Settings
from gossamer.privacy.budget import Neighbors

FACTORS = (1.0, 0.5, 2.0)
"""Of a method's own learning rate."""
SEARCHED = (0.5, 5.0)
"""The ε at which factors are tried: the first for all below the second."""


@dataclass(frozen=True)
class Cell:
    """One run: of a method on a task, which is a hashable description of data and model."""

    task: Any
    method: str
    epsilon: float
    neighbors: Neighbors = "replace_one"
    seed: int = 0


class Grid(ABC):
    """Runs and their outcomes. A subclass says what decides a run, and makes it."""

    criterion: str
    """The outcome by which learning rates are chosen."""
    tried: tuple[float, ...] = FACTORS

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache = Cache(settings.out / "runs.jsonl")
        self.factors: dict[Cell, float] = {}

    @abstractmethod
    def describe(self, cell: Cell, factor: float, held_out: bool) -> list[Any]:
        """Return all that decides a run, for the cache."""

    @abstractmethod
    def make(self, cell: Cell, factor: float, held_out: bool) -> dict[str, float]:
        """Train once, and return what is measured."""

    def outcomes(self, cell: Cell, seeds: int) -> list[dict[str, Any]]:
        """Return the outcomes of a cell's runs, with its own factor and this many seeds."""
        factor, first = self.factor(cell), self.settings.seed
        found = [self.run(dataclasses.replace(cell, seed=first + i), factor) for i in range(seeds)]
        jax.clear_caches()  # hundreds of compiled programs would use up the mappings that a process may have
        return found

    def factor(self, cell: Cell) -> float:
        """Return which of the factors tried did best on held-out records, with replace-one neighbours."""
        epsilon = max(e for e in SEARCHED if e <= cell.epsilon)
        chosen = dataclasses.replace(cell, epsilon=epsilon, neighbors="replace_one", seed=self.settings.seed)
        if chosen not in self.factors:
            tried = self.tried[:1] if self.settings.quick else self.tried
            scores = {factor: self.run(chosen, factor, held_out=True)[self.criterion] for factor in tried}
            self.factors[chosen] = max(scores, key=scores.__getitem__)
        return self.factors[chosen]

    def run(self, cell: Cell, factor: float, held_out: bool = False) -> dict[str, Any]:
        """Return the outcome of a run, from the cache if it is there."""
        described = self.describe(cell, factor, held_out)
        return self.cache.get(described) or self.cache.put(described, **self.make(cell, factor, held_out))
