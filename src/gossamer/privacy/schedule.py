"""What will be asked of the data: queries, declared before the run."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dp_accounting

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number, is_whole, plain, shown
from gossamer.privacy import arithmetic
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.discovery import Discovery
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import All, Blocks, Poisson, Sampling, Stream, Surcharge

KINDS: dict[str, type[Sampling]] = {kind.kind: kind for kind in (All, Poisson, Blocks, PerturbedObjective, Discovery)}


@dataclass(frozen=True)
class Query:
    """One kind of private query and how often it may be asked.

    A mean query draws a sample S of the n records, clips each record's vector at C, adds the clipped vectors up, adds
    Gaussian noise of standard deviation `noise_multiplier`·C once, and divides by the public number `sampling.size(n)`.

    Args:
      name: what the method calls it when it asks.
      count: how many times it may be asked; once more and the answer is NaN.
      sampling: which records an answer is about: `gs.All()`, `gs.Poisson(rate)` or `gs.Blocks(rows)`.
      clip: the rule for the threshold, in words, for the certificate, as the method declares it. Nothing checks it, and
        the guarantee does not rest on it: the noise is σ times whatever threshold is asked with.
      weight: how much the variance of this query's noise weighs in the method's error (a_j of the automatic split).
      noise: this query's noise relative to the others', instead of the automatic split.
      noise_multiplier: set by calibration.
      gradients: how many gradients of each record an answer takes, two for a difference; only forecasts read it.
      dual: whether it asks about the second player or the dual variable alone; only forecasts read it.
      acute: whether any two records' vectors are at an angle of at most 90 degrees, as counts and second moments are.
        The door then answers nothing else by this query (`gossamer.oracle.queries.ACUTE`), and a replaced record
        moves the sum by √2 thresholds at most, where any other query is charged for two.
    """

    name: str
    count: int
    sampling: Sampling = dataclasses.field(default_factory=All)
    clip: str = ""
    weight: float = 1.0
    noise: float | None = None
    noise_multiplier: float | None = None
    gradients: int = 1
    dual: bool = False
    acute: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        if type(self.sampling) not in KINDS.values():
            raise TypeError(
                f"query {self.name!r}: sampling = {shown(self.sampling)} must be gs.All(), gs.Poisson(rate) or "
                "gs.Blocks(rows): their costs are proved."
            )
        if self.acute and type(self.sampling) is not All:
            raise ValueError(
                f"query {self.name!r}: acute = True needs gs.All(): what a sample saves is proved for two thresholds."
            )
        if self.sampling == Poisson(1.0):
            object.__setattr__(self, "sampling", All())
        for name in ("count", "gradients"):
            value = getattr(self, name)
            if not is_whole(value):
                raise ValueError(f"query {self.name!r}: {name} = {shown(value)} must be a whole number of at least 1.")
        for name in ("weight", "noise"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value < math.inf):
                raise ValueError(f"query {self.name!r}: {name} = {shown(value)} must be a finite number above 0.")

    def cost(self, neighbors: Neighbors | None = None) -> Cost:
        """Return what all answers together cost, once the noise is calibrated and has paid for what is rounded.

        Accountants charge a replaced record for two thresholds. Vectors a and b of norm at most C at an acute angle are
        apart by ‖a − b‖² = ‖a‖² + ‖b‖² − 2aᵀb ≤ 2C²: √2 thresholds, which is what √2 times the noise would be to two.
        An added or removed record moves the sum by C either way. Without `neighbors` no angle is believed: an upper
        bound under both relations.
        """
        return self.sampling.cost(self._noise_to_two(neighbors) / (1 + arithmetic.INFLATION), self.count)

    def event(self, neighbors: Neighbors | None = None) -> dp_accounting.DpEvent:
        """Return all answers together as an event of dp-accounting, whose PLD doubles the sensitivity as well."""
        return self.sampling.event(self._noise_to_two(neighbors), self.count)

    def _noise_to_two(self, neighbors: Neighbors | None) -> float:
        """Return the multiplier of the query that costs the same but has no angle to show for it."""
        angle = math.sqrt(2) if self.acute and neighbors == "replace_one" else 1.0
        return self.calibrated_noise() * angle

    def calibrated_noise(self) -> float:
        """Return the noise multiplier, or refuse a query that has none yet."""
        if self.noise_multiplier is None:
            raise AccountingError(f"query {self.name!r} has no noise multiplier yet; calibrate the schedule first.")
        return self.noise_multiplier

    def automatic_noise(self) -> float:
        """Return this query's share in the automatic split, σ ∝ (c q²/a)^¼.

        It minimises Σ a_j σ_j², the noise that reaches the method's error, at constant Σ c_j q_j²/σ_j², the
        leading term of the privacy cost. A record meets one of the disjoint samples at most, so there c q² is 1.
        """
        cost = self.sampling.cost(1.0, self.count)
        return (cost.count * cost.rate**2 / self.weight) ** 0.25


@dataclass(frozen=True)
class Schedule:
    """All queries that a method may ask. Iterating gives the queries."""

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", plain(self.queries))
        if not (isinstance(self.queries, tuple) and all(isinstance(query, Query) for query in self.queries)):
            raise TypeError(f"queries = {shown(self.queries)} must be a tuple of gs.Query(name, count, ...).")
        names = [query.name for query in self.queries]
        if len(set(names)) < len(names):
            raise ValueError(f"schedule: query names must differ, got {names}.")
        explicit = [query.name for query in self.queries if query.noise is not None]
        if explicit and len(explicit) < len(names):
            missing = sorted(set(names) - set(explicit))
            raise ValueError(
                f"schedule: noise is given for {explicit} but not for {missing}. Give it for every query, "
                "or for none (the automatic split)."
            )

        streams = [query.sampling.stream for query in self.queries if query.sampling.stream is not None]
        in_order = sorted(streams, key=lambda stream: stream.first)
        overlap = any(a.first + a.share > b.first for a, b in itertools.pairwise(in_order))
        if len({(stream.strategy, stream.length) for stream in streams}) > 1 or overlap:
            raise ValueError(
                f"schedule: {streams} must be parts of one stream: one strategy, one length, and no place twice (two "
                "answers at one place would carry the same noise)."
            )

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __getitem__(self, name: str) -> Query:
        for query in self.queries:
            if query.name == name:
                return query
        known = ", ".join(repr(query.name) for query in self.queries)
        raise KeyError(f"{name!r} was not scheduled; this schedule has {known}")

    @property
    def is_calibrated(self) -> bool:
        """Whether every query has its noise multiplier."""
        return all(query.noise_multiplier is not None for query in self.queries)

    def ratios(self) -> tuple[float, ...]:
        """Return the noise of each query relative to the others: as given, or by the automatic split."""
        return tuple(query.automatic_noise() if query.noise is None else query.noise for query in self.queries)

    def with_noise(self, noise_multipliers: tuple[float, ...]) -> "Schedule":
        """Return the schedule with these noise multipliers."""
        return Schedule(
            tuple(
                dataclasses.replace(query, noise_multiplier=float(noise))
                for query, noise in zip(self.queries, noise_multipliers, strict=True)
            )
        )

    def wordless(self) -> "Schedule":
        """Return the schedule without the rules for thresholds, which are words and cost nothing."""
        return Schedule(tuple(dataclasses.replace(query, clip="") for query in self.queries))

    def at_worst(self) -> tuple[Query, ...]:
        """Return the calibrated queries that the record meets for which the schedule is most telling.

        Of disjoint blocks a record meets one, at worst the least noisy (parallel composition). It comes last.
        """
        apart = [query for query in self.queries if query.sampling.reserved]
        others = [query for query in self.queries if not query.sampling.reserved]
        return (*others, *([min(apart, key=Query.calibrated_noise)] if apart else []))

    def surcharge(self, neighbors: Neighbors) -> Surcharge:
        """Return what must be paid besides the queries' costs: it adds up in ε, and multiplies in δ."""
        parts = [query.sampling.surcharge(query.count, neighbors) for query in self.queries]
        return Surcharge(
            arithmetic.EPSILON + sum(part.epsilon for part in parts),
            arithmetic.FACTOR * math.prod(part.factor for part in parts),
        )

    def check(self, n: int, neighbors: Neighbors) -> None:
        """Refuse a table that is too small for the blocks, and neighbours for which the costs do not hold."""
        for query in self.queries:
            query.sampling.check(neighbors)
        rows = sum(query.count * query.sampling.reserved for query in self.queries)
        if rows > n:
            raise AccountingError(
                f"the disjoint blocks need {rows} rows but there are n = {n}. Use fewer steps or smaller blocks."
            )

    def dp_event(self, neighbors: Neighbors | None = None) -> dp_accounting.DpEvent:
        """Return the calibrated schedule as an event of dp-accounting, for any accountant of your choice.

        Its noise multipliers are relative to one record's norm bound C, as dp-accounting's PLD accountant
        expects under both neighbouring relations. (Its RDP accountant knows no factor 2 for REPLACE_ONE.)

        Args:
          neighbors: under which relation the event will be accounted for. It matters to `acute` queries alone, which
            cost less under "replace_one"; None gives an upper bound under both.
        """
        if not self.is_calibrated:
            raise ValueError("schedule: the noise is not calibrated yet; take the schedule of gs.plan(...).")
        return dp_accounting.ComposedDpEvent([query.event(neighbors) for query in self.at_worst()])

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the queries as plain dictionaries."""
        rows = [dataclasses.asdict(query) for query in self.queries]
        for row, query in zip(rows, self.queries, strict=True):
            row["sampling"] = {"kind": query.sampling.kind, **row["sampling"]}
        return rows

    @classmethod
    def from_dicts(cls, rows: list[dict[str, Any]], n: int | None = None) -> "Schedule":
        """Rebuild a schedule from `to_dicts`.

        Args:
          rows: one dictionary for each query.
          n: the number of records. Rows that Gossamer 0.1 wrote need it: they have shares of n in place of a sampling.
        """
        return cls(tuple(Query(**_current(row, n)) for row in rows))


def _current(row: dict[str, Any], n: int | None) -> dict[str, Any]:
    """Return the arguments of a query, from a row of any version."""
    row = dict(row)
    if "sampling" not in row:
        old = {name: row.pop(name) for name in ("rate", "disjoint", "jacobian", "stream") if name in row}
        return {**row, "sampling": _old_sampling(n, **old)}
    fields = dict(row["sampling"])
    kind = KINDS[fields.pop("kind")]
    if fields.get("stream") is not None:
        fields["stream"] = Stream(**fields["stream"])
    return {**row, "sampling": kind(**fields)}


def _old_sampling(
    n: int | None,
    rate: float = 1.0,
    disjoint: bool = False,
    jacobian: float | None = None,
    stream: dict[str, Any] | None = None,
) -> Sampling:
    """Return the sampling of a row that Gossamer 0.1 wrote."""
    chance = Poisson(rate)
    if (jacobian is not None and (disjoint or rate != 1)) or (stream is not None and not disjoint):
        raise ValueError("a perturbed objective needs all records, and a stream needs disjoint blocks.")
    if jacobian is not None:
        return PerturbedObjective(jacobian)
    if not disjoint:
        return chance
    if n is None:
        raise ValueError("the size of disjoint blocks is given as a share of n: pass n, the number of records.")
    # A rate of b/n means b whatever float64 makes of it.
    return Blocks(math.floor(rate * n + 1e-6), None if stream is None else Stream(**stream))
