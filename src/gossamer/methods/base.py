"""What every method is: a frozen configuration with a schedule and one pure step."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gossamer.oracle.door import Ask
from gossamer.output import RULES
from gossamer.schedule import Query, Schedule
from gossamer.values import is_number, is_whole, plain, shown

PyTree = Any
State = Any
LearningRate = float | Callable[[jax.Array], jax.Array]
"""A number, or a function of the step such as an optax schedule."""


class Report(NamedTuple):
    """What a step tells besides its state; public, since it is computed from private answers."""

    at: PyTree
    """The point x_t at which the gradient was estimated."""
    gradient_norm: jax.Array
    """The norm of that estimate."""


class Method(ABC):
    """A published algorithm with its hyper-parameters: subclasses are frozen dataclasses.

    It never sees data: its step is handed `ask`.
    """

    problems: ClassVar[tuple[str, ...]] = ("ERM",)
    """The kinds of problem that it can solve."""

    steps: int
    output: str

    def __post_init__(self):
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """Refuse hyper-parameters that make no sense, naming them."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if field.name in _WHOLE and not is_whole(value):
                raise ValueError(f"{field.name} = {shown(value)} must be a whole number of at least 1.")
            for prefix, what in _BOUNDS.items():
                if field.name.startswith(prefix) and not _is_positive(value):
                    raise ValueError(f"{field.name} = {shown(value)} must be a finite number above 0: {what}.")
            if field.name.startswith("learning_rate") and not (callable(value) or _is_positive(value)):
                raise ValueError(
                    f"{field.name} = {shown(value)} must be a finite number above 0, or a function of the step."
                )
        if self.output not in RULES:
            raise ValueError(f"output = {shown(self.output)} must be one of {', '.join(map(repr, RULES))}.")

    def check_problem(self, problem: Any) -> None:  # noqa: B027  (most methods refuse nothing)
        """Refuse a problem of the right kind that this method cannot solve, naming what it needs."""

    @abstractmethod
    def schedule(self, n: int) -> Schedule:
        """Declare what will be asked of a table of n records."""

    @abstractmethod
    def init(self, problem: Any, params: PyTree) -> State:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, problem: Any, ask: Ask, state: State, t: jax.Array) -> tuple[State, Report]:
        """Make step t = 0, 1, …: the algorithm itself."""

    @abstractmethod
    def params(self, state: State) -> PyTree:
        """Return the current iterate."""

    def public(self, state: State) -> dict[str, jax.Array]:
        """Return other public numbers of a state, such as a dual variable: columns of the history."""
        return {}


_WHOLE = ("steps", "batch_size", "period", "inner_steps")
_BOUNDS = {
    "clip": "it bounds what one record can do",
    "smoothness": "it bounds how fast one record's gradient changes",
}


def _is_positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf


def declare(noise: tuple[float, ...] | None, *queries: Query) -> Schedule:
    """Return the schedule of these queries: with these relative noises, or by the automatic split if None."""
    if noise is None:
        return Schedule(queries)
    if len(noise) != len(queries):
        names = ", ".join(query.name for query in queries)
        raise ValueError(
            f"noise = {noise!r} must be one number for each of the queries {names}; None splits it for you."
        )
    return Schedule(tuple(dataclasses.replace(query, noise=r) for query, r in zip(queries, noise, strict=True)))


def sampling_rate(batch_size: int, n: int) -> float:
    """Return batch_size/n, or refuse a batch larger than the table."""
    if batch_size > n:
        raise ValueError(
            f"batch_size = {batch_size} exceeds n = {n} records. Choose at most n; batch_size = n asks every record."
        )
    return batch_size / n


def rate_at(learning_rate: LearningRate, t: jax.Array) -> jax.Array:
    """Return the learning rate of step t."""
    return learning_rate(t) if callable(learning_rate) else jnp.float32(learning_rate)
