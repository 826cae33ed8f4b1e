"""What every method is: a frozen configuration with a schedule and one pure step."""

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.messages import plain
from gossamer.base.trees import PyTree
from gossamer.methods.fields import Count, LearningRate, Output, check_field, rules_of
from gossamer.objectives.erm import ERM
from gossamer.objectives.problem import Problem
from gossamer.oracle.ask import Ask
from gossamer.privacy.schedule import Query, Schedule

P = TypeVar("P", bound=Problem)
State = Any


class Report(NamedTuple):
    """What a step tells besides its state; public, since it is computed from private answers."""

    at: PyTree
    """The point x_t at which the gradient was estimated."""
    gradient_norm: jax.Array
    """The norm of that estimate."""


class Method(ABC, Generic[P]):
    """A published algorithm with its hyper-parameters: subclasses are frozen dataclasses.

    It never sees data: its step is handed `ask`. `Method[Minimax]` tells the type checker which problem the functions
    take; `problems` tells `gs.solve`.
    """

    problems: ClassVar[tuple[type[Problem], ...]] = (ERM,)
    """The kinds of problem that it can solve, their subclasses included."""

    steps: Count
    output: Output = "last"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """Refuse hyper-parameters that make no sense: every field by its type (`gs.methods.fields`)."""
        # What the loop relies on is checked by the types here, whatever a subclass annotates.
        own = {"steps": self.steps, "output": self.output}
        for name, value in own.items():
            check_field(name, value, rules_of(Method)[name])
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            check_field(field.name, getattr(self, field.name), rules_of(type(self))[field.name])

    def check_problem(self, problem: P) -> None:
        """Refuse a problem of the right kind that this method cannot solve, naming what it needs."""

    def sized(self, params: PyTree) -> Self:
        """Return these settings with those filled in that follow from the sizes of the parameters, which are public.

        `gs.solve` and the attacks call it with where they start, and the certificate shows what came of it. For the
        plan of such a run: `gs.plan(method.sized(init), n, budget)`.
        """
        return self

    @abstractmethod
    def schedule(self, n: int) -> Schedule:
        """Declare what will be asked of a table of n records."""

    @abstractmethod
    def init(self, problem: P, params: PyTree) -> State:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, problem: P, ask: Ask, state: State, t: jax.Array) -> tuple[State, Report]:
        """Make step t = 0, 1, …: the algorithm itself."""

    @abstractmethod
    def params(self, state: State) -> PyTree:
        """Return the current iterate."""

    def public(self, state: State) -> dict[str, jax.Array]:
        """Return other public numbers of a state, such as a dual variable: columns of the history."""
        return {}


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


def typical_rate(name: str, learning_rate: LearningRate, steps: int) -> float:
    """Return the root mean square of the learning rates of a run: what the noise's split takes a step for.

    A schedule may begin at 0 (warm-up) or end there. One that is 0 throughout, or not a number, is refused by `name`.
    """
    if not callable(learning_rate):
        return float(learning_rate)
    rates = np.array([learning_rate(t) for t in np.unique(np.linspace(0, steps - 1, 100).astype(int))], np.float64)
    typical = float(np.sqrt(np.mean(np.square(rates))))
    if not 0 < typical < math.inf:
        raise ValueError(f"{name} has a mean square of {typical:g} over {steps} steps. It must be finite and above 0.")
    return typical
