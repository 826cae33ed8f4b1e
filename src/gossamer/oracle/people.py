"""Records that are persons: all rows of one id, at most a public number of them.

A record of the door is whatever its proof is about, and here it is a `Person`: its rows, and which of them there are.
n is the number of persons, sampling draws persons, h is a function of one person, and clipping bounds what one person
adds, whatever its rows hold and however many there are. So nothing of the proof changes, and both neighbouring
relations are about persons.

*The loss of a person* is a weighted sum over its own rows, `PersonLoss`: their mean, or their sum divided by the cap.
The weights depend on the person's own number of rows and on public numbers; never on the number of rows of the table,
which is not public.

*The cap* keeps the first rows of each person, in the order that they have in the table. Which ones these are depends on
the person's own rows alone. (A public shuffle of the whole table before it would not do: which rows of the others come
first would then depend on how many rows this one has.)

*Memory.* Rows lie flat, those of one person behind one another: R·d numbers for R rows, and two for each person. A
sample, or one tile of a full pass, gathers its persons' rows, always as many as the cap. A person with fewer is filled
up with copies of its first row, whose weight is 0: like every number that a record brings along they are its own, so
that a loss that is not finite at a row of zeros does no harm.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.messages import is_whole, plain, shown
from gossamer.base.trees import PyTree
from gossamer.privacy.facts import Unit, scope_of
from gossamer.tables.ids import persons_of

Weights = Literal["mean", "rows"]


class Person(NamedTuple):
    """One record of `People`; or many, with one more axis before."""

    rows: PyTree
    """As many as the cap; those that are not present are copies of the first."""
    present: jax.Array
    """Which of the rows there are."""


def row_weights(person: Person, weights: Weights) -> jax.Array:
    """Return w_j for each row of a person, or of many: numbers of at least 0 that add up to 1 at most."""
    present = person.present.astype(jnp.float32)
    if weights == "rows":
        return present / present.shape[-1]
    return present / jnp.maximum(jnp.sum(present, axis=-1, keepdims=True), 1.0)


@dataclass(frozen=True)
class PersonLoss:
    """The loss of a person: Σ_j w_j loss(…, row_j) over its own rows.

    Args:
      loss: `loss(params, row)`, or `loss(x, y, row)`, of one row.
      weights: "mean": w_j = 1/(own rows), each person counts once; "rows": w_j = 1/cap, each row counts alike.
    """

    loss: Callable[..., Any]
    weights: Weights = "mean"

    def of_rows(self, person: Person) -> jax.Array:
        """Return w_j for each row of a person, or of many."""
        return row_weights(person, self.weights)

    def __call__(self, *arguments: Any) -> Any:
        """Return the loss of one person, given what the loss of a row is given before the row."""
        *params, person = arguments
        values = jax.vmap(lambda row: self.loss(*params, row))(person.rows)
        return jnp.tensordot(self.of_rows(person).astype(values.dtype), values, axes=1)


@dataclass(frozen=True)
class OwnMean:
    """h of a record: of a person the mean of h over its own rows, and of a row h itself.

    A mean of vectors that are no longer than C is no longer than C, and one of vectors without entries below 0 has
    none. So what a query of rows charges for is enough for persons, and clipping does not shorten them.

    Args:
      h: from a row to arrays.
    """

    h: Callable[[PyTree], PyTree]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        if not isinstance(record, Person):
            return self.h(record)
        weights = row_weights(record, "mean")
        return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), jax.vmap(self.h)(record.rows))


def loss_of_row(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loss of one row of which this is the loss of a person, or is itself."""
    return loss.loss if isinstance(loss, PersonLoss) else loss


@jax.tree_util.register_pytree_node_class
class People:
    """A table of persons, made by `gs.by_person`. It takes the place of `data` in `gs.solve`."""

    def __init__(
        self, rows: PyTree, first: Any, counts: Any, order: Any = None, *, weights: Weights, unit: Unit, length: int
    ):
        """Take rows, where each person's begin and how many there are; those that are on disk in an order of their own.

        Args:
          rows: sorted by persons; or, with an `order`, as they are in their files.
          first: where each person's rows begin, there or in the order.
          counts: how many each person has.
          order: where each row is, sorted by persons; None: rows are sorted.
          weights: of a person's rows.
          unit: what a person is.
          length: that of the whole table.
        """
        self.rows, self.first, self.counts, self.order = rows, first, counts, order
        self.weights, self.unit, self.length = weights, unit, length

    @property
    def n(self) -> int:
        """The number of persons, which is public."""
        return self.first.shape[0]

    @property
    def cap(self) -> int:
        """How many rows of a person count at most."""
        assert self.unit.rows is not None
        return self.unit.rows

    def __repr__(self) -> str:
        return f"<{self.n} persons, at most {self.cap} rows each, weights = {self.weights!r}>"

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return arrays, and what is static."""
        return (self.rows, self.first, self.counts, self.order), (self.weights, self.unit, self.length)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: tuple[Any, ...]) -> "People":
        """Put a table together again."""
        weights, unit, length = static
        return cls(*arrays, weights=weights, unit=unit, length=length)

    @classmethod
    def grouping(cls, ids: Any, cap: int) -> "People":
        """Return persons of whom nothing is known but where their rows are: for `of_table`."""
        return by_person(np.arange(len(persons_of(ids).codes)), ids, cap)

    def of_table(self, arrays: PyTree) -> "People":
        """Return the same persons, of a grouping, with arrays that have one row for each row of the table."""
        return self.of_rows(lambda kept: jax.tree.map(lambda leaf: leaf[kept], arrays))

    def first_of(self, column: np.ndarray) -> np.ndarray:
        """Return what the first row of each person of a grouping has in a column of the table."""
        return column[self.rows[self.first]]

    def of_rows(self, change: Callable[[PyTree], PyTree]) -> "People":
        """Return the same persons with something else of every row, such as one of its columns."""
        return self.holding(change(self.rows), self.first, self.counts, self.order)

    def among(self, persons: np.ndarray) -> "People":
        """Return some of the persons; the others' rows are left where they are."""
        return self.holding(self.rows, self.first[persons], self.counts[persons], self.order)

    def holding(self, rows: PyTree, first: Any, counts: Any, order: Any = None) -> "People":
        """Return a table with the same meaning and other arrays."""
        return People(rows, first, counts, order, weights=self.weights, unit=self.unit, length=self.length)

    def lifted(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """Return the loss of a person for a loss of one row; who has one row at most is that row."""
        return loss if self.cap == 1 else PersonLoss(loss, self.weights)

    def row(self) -> PyTree:
        """Return the shape of one row."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jnp.asarray(leaf[:0]).dtype), self.rows)

    def record(self) -> PyTree:
        """Return the shape of one record; who has one row at most is that row."""
        if self.cap == 1:
            return self.row()
        rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.cap, *leaf.shape), leaf.dtype), self.row())
        return Person(rows, jax.ShapeDtypeStruct((self.cap,), jnp.bool_))  # type: ignore[arg-type]

    def take(self, persons: Any) -> PyTree:
        """Gather some persons as records, one along the leading axis of each array."""
        places, present = self.places(persons)
        if self.cap == 1:
            return jax.tree.map(lambda leaf: leaf[places[:, 0]], self.rows)
        return Person(jax.tree.map(lambda leaf: leaf[places], self.rows), present)

    def gathered(self) -> PyTree:
        """Gather everybody: an ordinary table with one record per person, of n·cap rows in memory."""
        return self.take(slice(None))

    def person(self, number: int) -> PyTree:
        """Return one person as a record."""
        return jax.tree.map(lambda leaf: leaf[0], self.take(np.array([number])))

    def with_room(self) -> "People":
        """Return the same table on a device, with room for as many rows of each person as count at most."""
        places = self.places(slice(None))[0].reshape(-1)
        first = self.cap * jnp.arange(self.n, dtype=jnp.int32)
        rows = jax.tree.map(lambda leaf: jnp.asarray(leaf[places]), self.rows)
        length = self.n * self.cap
        return People(rows, first, jnp.asarray(self.counts), weights=self.weights, unit=self.unit, length=length)

    def replaced(self, number: int, rows: PyTree) -> "People":
        """Return a table with room in which a person has these rows in place of its own; as many count as may."""
        kept = jax.tree.map(lambda leaf: np.asarray(leaf)[: self.cap], rows)
        held = len(jax.tree.leaves(kept)[0])
        places = self.cap * number + np.arange(held)
        changed = jax.tree.map(lambda leaf, new: leaf.at[places].set(jnp.asarray(new, leaf.dtype)), self.rows, kept)
        return self.holding(changed, self.first, self.counts.at[number].set(held))

    def places(self, persons: Any) -> tuple[Any, Any]:
        """Return where the rows of some persons are, (·, cap), and which of them there are."""
        numpy = np if isinstance(self.first, np.ndarray) else jnp
        first, counts = self.first[persons][:, None], self.counts[persons][:, None]
        place = numpy.arange(self.cap, dtype=np.int32)[None, :]
        present = place < counts
        places = numpy.where(present, first + place, first)
        return places if self.order is None else self.order[places], present


def by_person(
    data: PyTree,
    ids: Any,
    rows: int = 10,
    *,
    weights: Weights = "mean",
    column: str | None = None,
    missing: Literal["refuse", "own"] = "refuse",
) -> People:
    """Make a person, and no longer a row, the unit of privacy of a table: a table for `gs.solve`, and for audits.

    All rows with one id are one record, and the guarantee protects the whole of it: what the rows hold, and how many
    there are. Losses are still written for one row; a person's loss is the mean over its own rows. n is the number of
    persons.

    Ids are compared without spaces, case and the form of a number: "7" and " 7.0" are one person.

    Args:
      data: any pytree of arrays with one row per row of the table.
      ids: whose row it is, for each row. They are no part of the records.
      rows: how many rows of a person count at most; of more, the first ones in the table. It must be chosen without
        looking at the table, as the number of rows is not public.
      weights: "mean": each person counts once, whatever the number of its rows. "rows": each row counts alike; a
        person's loss is the sum over its rows divided by `rows`.
      column: the name of the column that the ids are from, for the certificate; None takes that of a pandas Series.
      missing: "refuse" refuses rows without an id; "own" takes each of them for a person of its own, which the
        certificate says.

    Example:
      >>> import gossamer as gs, numpy as np
      >>> table = (np.ones((6, 3)), np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
      >>> gs.by_person(table, ids=["ann", "bob", "Ann ", "eve", "bob", "bob"], rows=2)
      <3 persons, at most 2 rows each, weights = 'mean'>
    """
    rows = plain(rows)
    if not is_whole(rows):
        raise ValueError(f"rows = {shown(rows)} must be a whole number of at least 1: how many rows of a person count.")
    for argument, value, known in (("weights", weights, get_args(Weights)), ("missing", missing, ("refuse", "own"))):
        if value not in known:
            raise ValueError(f"{argument} = {shown(value)} must be one of {', '.join(map(repr, known))}.")
    leaves = jax.tree.leaves(data)
    if not leaves or not all(hasattr(leaf, "shape") and leaf.ndim for leaf in leaves):
        raise ValueError("data must be a pytree of arrays with one row per row of the table, such as (X, y).")
    codes, count = persons_of(ids)
    if {len(leaf) for leaf in leaves} != {len(codes)}:
        raise ValueError("data and ids differ in length. Pass one id for each row of the table.")
    if missing == "refuse" and (codes < 0).any():
        raise ValueError(
            "some rows have no id, so that nobody can say whose they are. Fill the ids in, or drop these rows; or, if "
            "no two of them are of one person, say so: missing='own' takes each of them for a person of its own."
        )
    codes = np.where(codes < 0, count + np.cumsum(codes < 0) - 1, codes)
    order, first, counts = _sorted(codes, rows)
    name = column if column is not None else getattr(ids, "name", None)
    unit = Unit(
        "person",
        column=None if name is None else str(name),
        ids="normalised" if missing == "refuse" else "normalised, missing ones apart",
        rows=rows,
    )
    people = People(data, first, counts, order, weights=weights, unit=unit, length=len(codes))
    if any(isinstance(leaf, np.memmap) for leaf in leaves):
        return people  # they stay on disk
    return people.holding(jax.tree.map(lambda leaf: leaf[order], data), first, counts)


def dense(data: PyTree) -> PyTree:
    """Return a table with one record along the leading axis of each array: of persons, all of them gathered."""
    return data.gathered() if isinstance(data, People) else data


def scope(data: PyTree) -> str:
    """Return whom a run on a table protects, in the words of budget files."""
    return data.unit.scope if isinstance(data, People) else scope_of(None)


def count(data: PyTree) -> int:
    """Return how many records a table has: persons, if it is by persons."""
    return data.n if isinstance(data, People) else len(jax.tree.leaves(data)[0])


def _sorted(codes: np.ndarray, cap: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which rows to keep, person by person, and where each person's begin and how many there are."""
    order = np.argsort(codes, kind="stable")
    own = np.bincount(codes)
    begin = np.cumsum(own) - own
    rank = np.arange(len(codes)) - np.repeat(begin, own)
    counts = np.minimum(own, cap)
    first = np.cumsum(counts) - counts
    if len(codes) >= 2**31 - 1:
        raise ValueError("a table by persons must have fewer than 2^31 rows on one device.")
    return order[rank < cap], first.astype(np.int32), counts.astype(np.int32)
