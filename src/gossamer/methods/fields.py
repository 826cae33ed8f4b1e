"""What a hyper-parameter may be: every field of a method says so in its type.

    steps: Count = 100                                          a whole number of at least 1
    momentum: Annotated[float, Number(least=0, below=1)] = 0.0  a rule of one field's own
    learning_rate: LearningRate = 0.5                           a number above 0, or a function of the step
    refresh_batch_size: Count | None = None                     a whole number of at least 1, or None

A value must meet one arm of its type: a rule, None, or the plain type (`float` is any finite number, `bool` is True or
False, `str` any text, a class its instances). Types say nothing about two fields at once: that is for `Method.check`.
"""

import functools
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import jax
import optax

from gossamer.base.messages import is_number, is_whole, shown
from gossamer.methods.output import RULES


class Rule(Protocol):
    """One way for a value to be right; `str` of it completes "it must be …"."""

    def allows(self, value: Any) -> bool:
        """Return whether a value is right."""


@dataclass(frozen=True)
class Whole:
    """A whole number of at least `least` and at most `most`; `because` says what the bound is for."""

    least: int = 1
    most: float = math.inf
    because: str = ""

    def allows(self, value: Any) -> bool:
        """Return whether a value is right."""
        return is_whole(value, self.least) and value <= self.most

    def __str__(self) -> str:
        bound = f" of at least {self.least}" if self.most == math.inf else f" from {self.least} to {self.most}"
        return f"a whole number{bound}{_reason(self.because)}"


@dataclass(frozen=True)
class Number:
    """A finite number within bounds: `above` and `below` are outside, `least` and `most` inside."""

    above: float = -math.inf
    least: float = -math.inf
    below: float = math.inf
    most: float = math.inf
    because: str = ""

    def allows(self, value: Any) -> bool:
        """Return whether a value is right."""
        within = is_number(value) and self.above < value < self.below and self.least <= value <= self.most
        return within and math.isfinite(value)

    def __str__(self) -> str:
        bounds = {"above": self.above, "of at least": self.least, "below": self.below, "of at most": self.most}
        words = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        return f"a finite number {words}".rstrip() + _reason(self.because)


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    choices: tuple[str, ...]
    because: str = ""

    def allows(self, value: Any) -> bool:
        """Return whether a value is right."""
        return isinstance(value, str) and value in self.choices

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}{_reason(self.because)}"


@dataclass(frozen=True)
class OfStep:
    """A function of the step, such as an optax schedule."""

    def allows(self, value: Any) -> bool:
        """Return whether a value is right."""
        return callable(value)

    def __str__(self) -> str:
        return "a function of the step"


@dataclass(frozen=True)
class _Plain:
    """What a plain type stands for."""

    test: Callable[[Any], bool]
    words: str

    def allows(self, value: Any) -> bool:
        return self.test(value)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class _Tuple:
    """A tuple of any length, each of whose values meets one of the rules."""

    rules: tuple[Rule, ...]

    def allows(self, value: Any) -> bool:
        return isinstance(value, tuple) and all(any(rule.allows(each) for rule in self.rules) for each in value)

    def __str__(self) -> str:
        return f"a tuple of values, each {_either(self.rules)}"


Count = Annotated[int, Whole(1)]
Positive = Annotated[float, Number(above=0)]
Clip = Annotated[float, Number(above=0, because="it bounds what one record can do")]
Smoothness = Annotated[float, Number(above=0, because="it bounds how fast one record's gradient changes")]
Momentum = Annotated[float, Number(least=0, below=1)]
FixedRate = Annotated[float, Number(above=0, because="this method takes no function of the step")]
LearningRate = Positive | Annotated[Callable[[jax.Array], jax.Array], OfStep()]
"""A number, or a function of the step such as an optax schedule."""
Noise = tuple[Positive, ...] | None
"""The noise of each query relative to the others', in the order of the schedule; None splits it automatically."""
Optimizer = optax.GradientTransformation | None
"""An optax optimiser such as optax.adam(0.01); None is the method's own update."""
Output = Annotated[str, OneOf(RULES)]
"""Which iterate a run returns."""


def check_field(name: str, value: Any, rules: tuple[Rule, ...]) -> None:
    """Refuse a value that meets none of the rules, naming it and what it must be."""
    if not any(rule.allows(value) for rule in rules):
        raise ValueError(f"{name} = {shown(value)} must be {_either(rules)}.")


@functools.cache
def rules_of(kind: type) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of each annotated name of a class."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{kind.__name__} has a field whose type cannot be looked up ({error}). Define the types of its fields "
            "at the top of the module."
        ) from error
    return {name: _rules(hint) for name, hint in hints.items()}


def _rules(hint: Any) -> tuple[Rule, ...]:
    """Return the arms of a type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return tuple(part for part in parts[1:] if hasattr(part, "allows")) or _rules(parts[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(rule for part in parts for rule in _rules(part))
    if origin is tuple and len(parts) == 2 and parts[1] is ...:
        return (_Tuple(_rules(parts[0])),)
    if hint in _PLAIN:
        return (_PLAIN[hint],)
    if isinstance(hint, type):
        return (_Plain(lambda value: isinstance(value, hint), f"a {hint.__name__}"),)
    return (_Plain(lambda value: True, "anything"),)


_PLAIN: dict[Any, Rule] = {
    types.NoneType: _Plain(lambda value: value is None, "None"),
    bool: _Plain(lambda value: isinstance(value, bool), "True or False"),
    int: _Plain(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    float: Number(),
    str: _Plain(lambda value: isinstance(value, str), "a text"),
}


def _either(rules: tuple[Rule, ...]) -> str:
    return ", or ".join(map(str, rules))


def _reason(because: str) -> str:
    return f" ({because})" if because else ""
