"""What a table's columns mean and which bounds are public: the contract between a table and a model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gossamer.base.leak import Leak
from gossamer.base.messages import first_few, is_whole, quoted
from gossamer.tables.encoding import LARGEST, Declaration, Encoding, first_row, remarks_on, require_numbers
from gossamer.tables.ids import Ids, persons_of
from gossamer.tables.kinds import Amount, Category, Hashed, Ignore, Number, Undeclared, require_distinct
from gossamer.tables.table import MISSING, Column, Table, is_missing

_DECLARED = {
    Number: "range",
    Amount: "upper bound",
    Category: "list of categories",
    Hashed: "choice to hash it",
    Undeclared: "choice to declare nothing",
    Ignore: "choice to ignore it",
}


@dataclass(frozen=True)
class Schema(Encoding):
    """Which column is predicted, what the others are, and what is public about them.

    Columns of a table that are not in the schema are ignored.
    """

    target: str
    classes: tuple[str, ...]
    """The public list of the target's values. Of two, the last is the positive one: scores are for it. () if the target
    is a number."""
    columns: Mapping[str, Declaration]
    group: str | None = None
    """The column that says to which group a record belongs. It is a feature only if `columns` has it too."""
    groups: tuple[str, ...] = ()
    """The public list of the groups."""
    classes_read_from_data: bool = False
    groups_read_from_data: bool = False
    target_range: tuple[float, float] | None = None
    """The public lowest and highest value of a target that is a number."""
    target_range_read_from_data: bool = False
    target_undeclared: Literal["classes", "number"] | None = None
    """What the target is, if its classes or its range are not declared: a run has to buy them."""
    person: str | None = None
    """The column of ids that say whose row it is: a person is then protected with all its rows. It is no feature."""
    rows_per_person: int = 10
    """How many rows of a person count at most."""
    id: str | None = None
    """The column that names a row, which predictions repeat. It is no feature."""

    def __post_init__(self) -> None:
        if self.target_range is not None:
            self._check_range(self.target_range)
        elif self.target_undeclared is None:
            require_values("classes", self.classes)
            if len(self.classes) < 2:
                raise ValueError(f"classes = {list(self.classes)} must have at least two values.")
        if self.target in self.columns:
            raise ValueError(f"target = {self.target!r} is also in columns; a model may not see what it predicts.")
        if self.group == self.target:
            raise ValueError(f"group = {self.group!r} is also the target; name another column.")
        if self.group is not None:
            if not self.groups:
                raise ValueError(
                    f"group = {self.group!r} needs the public list of its values in the line after it, such as groups "
                    '= ["a", "b"].'
                )
            require_values("groups", self.groups)
        elif self.groups:
            raise ValueError("groups are listed but group, the column that has them, is not named.")
        self._check_names_of_rows()
        for name, declared in self.columns.items():
            if isinstance(declared.kind, Category):
                require_values(f"column {name!r}: values", declared.kind.values)
        if not self.width and not self.undeclared:
            kinds = {name: declared.kind for name, declared in self.columns.items()}
            reasons = [f"{name!r} ({kind.reason})" for name, kind in kinds.items() if isinstance(kind, Ignore)]
            raise ValueError(f"no column is left to learn from. Ignored are: {first_few(reasons)}.")

    def _check_names_of_rows(self) -> None:
        for role, name in (("person", self.person), ("id", self.id)):
            if name is not None and name in (self.target, self.group):
                raise ValueError(f"{role} = {name!r} is also the target or the group; name another column.")
            if name in self.features or name in self.undeclared:
                raise ValueError(
                    f"{role} = {name!r} is also in columns; who somebody is must not be learnt from. Take that part "
                    'out, or write kind = "ignore" there.'
                )
        if not is_whole(self.rows_per_person):
            raise ValueError(f"rows_per_person = {quoted(self.rows_per_person)} must be a whole number of at least 1.")

    def _check_range(self, target_range: tuple[float, float]) -> None:
        if self.classes:
            raise ValueError("classes and target_range are both given; a target has classes or is a number. Keep one.")
        try:
            Number(*target_range)
        except ValueError as error:
            raise ValueError(f"target_range: {error}") from None

    @property
    def is_open(self) -> bool:
        """Whether a run has to buy something that is not declared."""
        return bool(self.undeclared or self.target_undeclared)

    def with_target(self, classes: Sequence[str], target_range: tuple[float, float] | None) -> "Schema":
        """Return the schema with what was bought of its target; a schema that declares it stays as it is."""
        if self.target_undeclared is None:
            return self
        return replace(self, classes=tuple(classes), target_range=target_range, target_undeclared=None)

    def target_texts(self, table: Table) -> np.ndarray:
        """Return each row's target as text, whatever is declared of it."""
        column = table[self.target]
        _require_known("target", self.target, column, table)
        return np.array(column.values, object)[column.codes]

    def leaks(self) -> tuple[Leak, ...]:
        """Return, for the certificate, each declaration that nobody has confirmed as public."""
        found = [Leak(self.target, "list of classes", "target")] if self.classes_read_from_data else []
        if self.target_range_read_from_data:
            found.append(Leak(self.target, "range", "target"))
        if self.groups_read_from_data:
            found.append(Leak(str(self.group), "list of groups", "group"))
        for name, declared in self.columns.items():
            if declared.read_from_data:
                found.append(Leak(name, _DECLARED[type(declared.kind)], "column"))
        return tuple(found)

    def remarks(self, table: Table) -> tuple[str, ...]:
        """Return sentences for the owner of the table, not for publication, about what is probably not meant."""
        found = []
        spelled = Counter(map(str.casefold, self.classes))
        alike = [label for label in self.classes if spelled[label.casefold()] > 1]
        if alike:
            found.append(f"classes that differ in nothing but case count as different: {first_few(map(repr, alike))}.")
        known = {self.target, self.group, self.person, self.id, *self.columns}
        extra = [name for name in table.names if name not in known]
        if extra:
            found.append(f"columns that the schema does not mention are ignored: {', '.join(map(repr, extra))}.")
        for name, declared in self.columns.items():
            if isinstance(declared.kind, Ignore) and declared.kind.reason:
                found.append(f"column {name!r} is left out: {declared.kind.reason}")
            if name in table:
                found += remarks_on(name, declared, table)
        return tuple(found)

    def labels(self, table: Table) -> np.ndarray:
        """Return each row's class."""
        return np.array(self.classes)[self.class_codes(table)]

    def class_codes(self, table: Table) -> np.ndarray:
        """Return each row's class as its place in `classes`."""
        return _members("target", self.target, "classes", self.classes, table)

    @property
    def target_bound(self) -> float:
        """How far a target that is a number can be from the middle of its range."""
        return (self._range[1] - self._range[0]) / 2

    @property
    def target_middle(self) -> float:
        """The middle of the range of a target that is a number."""
        return (self._range[0] + self._range[1]) / 2

    @property
    def _range(self) -> tuple[float, float]:
        if self.target_range is None:
            raise ValueError(f"target {self.target!r} has classes, and no range.")
        return self.target_range

    def targets(self, table: Table) -> np.ndarray:
        """Return each row's class, or its target as a number."""
        return self.labels(table) if self.target_range is None else self.target_numbers(table)

    def target_numbers(self, table: Table) -> np.ndarray:
        """Return each row's target, which must be a number; it may lie outside the range."""
        column = table[self.target]
        _require_known("target", self.target, column, table)
        require_numbers(self.target, column, table, np.ones(len(column.values), bool))
        numbers = np.clip(column.cells(), -LARGEST, LARGEST)
        strange = np.isnan(numbers)
        if strange.any():
            place = table.place(first_row(strange, column))
            raise ValueError(
                f"{table.source}, {place}: the target {self.target!r} is to be a number, and something else stands "
                "there. Correct it, or drop such rows (a row of totals at the end of an export is one)."
            )
        return numbers[column.codes]

    def person_of(self, table: Table) -> Ids | None:
        """Return whose row each is; None if rows are protected and not persons."""
        if self.person is None:
            return None
        column = table[self.person]
        ids = Ids([None if code < 0 else column.values[code] for code in column.codes.tolist()])
        ids.name = self.person
        missing = persons_of(ids).codes < 0
        if missing.any():
            raise ValueError(
                f"{table.source}, {table.place(int(np.argmax(missing)))}: there is no id in the person column "
                f"{self.person!r}, so that nobody can say whose row it is. Fill it in, or drop such rows; if each of "
                "them is of a person of its own, give each an id that nobody else has."
            )
        return ids

    def ids_of(self, table: Table) -> list[str]:
        """Return the text that names each row, as the table has it; empty where it has none."""
        if self.id is None:
            raise ValueError("the schema names no id. Give it id = a column.")
        column = table[self.id]
        return [column.values[code] if code >= 0 else "" for code in column.codes.tolist()]

    def group_of(self, table: Table) -> np.ndarray:
        """Return each row's group."""
        if self.group is None:
            raise ValueError("the schema names no group. Give it group = a column and groups = its public values.")
        return np.array(self.groups)[_members("group", self.group, "groups", self.groups, table)]


def require_values(name: str, values: Sequence[str]) -> None:
    """Refuse a list of values of which some cannot occur in a table."""
    require_distinct(name, values)
    for value in values:
        if is_missing(value):
            raise ValueError(
                f"{name} has {quoted(value)}, which stands for a missing value (as do {MISSING}, in any case). Leave "
                "it out, or write it differently in the table and here."
            )
        if value != value.strip() or "\0" in value:
            raise ValueError(f"{name} has {quoted(value)}: remove spaces around it and NUL characters.")


def _members(role: str, name: str, listed: str, allowed: Sequence[str], table: Table) -> np.ndarray:
    """Return the place of each row's value in the list of those that are allowed."""
    column = table[name]
    _require_known(role, name, column, table)
    order = {value: place for place, value in enumerate(allowed)}
    places = np.array([order.get(value, -1) for value in column.values])
    strange = places < 0
    if strange.any():
        place = table.place(first_row(strange, column))
        raise ValueError(
            f"{table.source}, {place}: the {role} column {name!r} has a value that is not one of {listed} = "
            f"{first_few(map(repr, allowed))}. Compare spelling and case; add it there, or drop such rows."
        )
    return places[column.codes]


def _require_known(role: str, name: str, column: Column, table: Table) -> None:
    """Refuse a column with missing values."""
    missing = int(np.count_nonzero(column.codes < 0))
    if missing:
        raise ValueError(
            f"{table.source}: {missing} of {table.n} rows have no value in the {role} column {name!r}. Drop them "
            f"first, as by pandas: pd.read_csv(...).dropna(subset=[{name!r}]).to_csv(..., index=False)."
        )
