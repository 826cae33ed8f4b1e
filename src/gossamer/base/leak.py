"""What was read from the records although it should have been declared: a fact that certificates state."""

from dataclasses import dataclass
from typing import Literal, get_args

Where = Literal["argument", "column", "target", "group", "noted"]


@dataclass(frozen=True)
class Leak:
    """Something that was read from the records, outside the guarantee.

    Args:
      name: the name of the argument or of the column. Names are public; values from the table never stand here.
      what: what was read, such as "the largest row norm" or "range".
      where: what the name belongs to: an "argument" that was not given, or a "column", the "target" or the "group" of
        a schema. "noted": an old certificate tells the leak in words of its own, which are `what`.
    """

    name: str
    what: str
    where: Where

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and isinstance(self.what, str)):
            raise TypeError("name and what of a leak must be texts.")
        if self.where not in get_args(Where):
            raise ValueError(f"a leak must be in one of {', '.join(get_args(Where))}.")
