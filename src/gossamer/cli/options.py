"""Groups of options: a command takes a few objects, and the command line shows each of their fields as a flag.

What a flag may say can depend on the table of objectives, so flags are made each time that a command is called.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from typer.core import TyperCommand


class OneOf(NamedTuple):
    """Marks a word that must be one of some names."""

    names: Callable[[], Iterable[str]]


class Flags(NamedTuple):
    """Marks a dictionary: each of these flags that is given is an entry of it."""

    of: Callable[[], Mapping[str, Any]]
    """Names with annotations."""


class AloneOrFile(TyperCommand):
    """A command of which a flag may stand alone: the word after it is taken for its file if it ends like one."""

    flag, ending = "--search", ".toml"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put an empty word where the flag stands alone: typer has no flags that may."""
        written: list[str] = []
        for place, word in enumerate(args):
            written.append(word)
            if word == self.flag and not "".join(args[place + 1 : place + 2]).endswith(self.ending):
                written.append("")
        return super().parse_args(ctx, written)


class Command:
    """A function as typer sees it: each field of a dataclass, and each entry of `Flags`, is a flag of its own."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function

    @property
    def __signature__(self) -> inspect.Signature:
        """All flags, as of now."""
        flags = [flag for parameter in self._parameters() for flag in _flags(parameter)]
        return inspect.Signature(flags)

    def __call__(self, **values: Any) -> Any:
        """Call the function with what the flags say."""
        return self._function(**{each.name: _gathered(each, values) for each in self._parameters()})

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self._function, eval_str=True).parameters.values())


def _flags(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the flags that a parameter, or a field of a group, is shown as."""
    if dataclasses.is_dataclass(parameter.annotation):
        return [flag for field in _fields(parameter.annotation) for flag in _flags(field)]
    marked = _mark(parameter, Flags)
    if marked is not None:
        return [_parameter(name, kind, None) for name, kind in marked.of().items()]
    choice = _mark(parameter, OneOf)
    if choice is None:
        return [_parameter(parameter.name, parameter.annotation, parameter.default)]
    words: Any = Literal[tuple(choice.names())]
    rest = [each for each in parameter.annotation.__metadata__ if each is not choice]
    kind = words if parameter.default is not None else words | None
    return [_parameter(parameter.name, Annotated[(kind, *rest)], parameter.default)]


def _gathered(parameter: inspect.Parameter, values: Mapping[str, Any]) -> Any:
    """Return the value of a parameter, or of a field of a group, by what its flags say."""
    if dataclasses.is_dataclass(parameter.annotation):
        fields = {field.name: _gathered(field, values) for field in _fields(parameter.annotation)}
        return parameter.annotation(**fields)  # type: ignore[operator]  # it is a class, not an instance
    marked = _mark(parameter, Flags)
    if marked is None:
        return values[parameter.name]
    return {name: values[name] for name in marked.of() if values[name] is not None}


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(field.name, hints[field.name], field.default) for field in dataclasses.fields(group)]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _mark(parameter: inspect.Parameter, kind: type) -> Any:
    marks = getattr(parameter.annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, kind)), None)
