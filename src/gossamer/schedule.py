"""What will be asked of the data: queries, declared before the run."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dp_accounting

from gossamer.values import is_number, is_whole, plain, shown


@dataclass(frozen=True)
class Stream:
    """Answers whose noise is correlated, so that running sums of them carry little of it (`oracle.correlation`).

    Args:
      strategy: how it is correlated: "tree" or "factorization".
      length: the number of answers in a stream; the next stream has noise of its own.
      first: the place in every stream, from 0, of the first answer that this query gives.
      share: how many answers of every stream, in a row, this query gives.
    """

    strategy: str
    length: int
    first: int
    share: int

    @property
    def places(self) -> range:
        """Which answers of a stream the query gives."""
        return range(self.first, self.first + self.share)


@dataclass(frozen=True)
class Query:
    """One kind of private mean query and how often it may be asked.

    A query draws a sample S of the n records, clips each record's vector at C, adds the clipped vectors up, adds
    Gaussian noise of standard deviation `noise_multiplier`·C once, and divides by the public number rate·n.

    Args:
      name: what the method calls it when it asks.
      count: how many times it may be asked; once more and the answer is NaN.
      rate: the share of records in a sample. 1: all of them. Below 1: a Poisson sample (every record on its own
        with this probability), or, with `disjoint`, a block of `block_rows(n)` rows.
      disjoint: each of the `count` samples is a block of its own, disjoint from every other such block of the
        schedule: a record meets at most one of them, and all of them together cost as much as the least noisy.
      stream: where this query's answers stand in streams of correlated noise; None: every answer's noise is its own.
      clip: the rule for the threshold, in words, for the certificate, as the method declares it. Nothing checks it, and
        the guarantee does not rest on it: the noise is σ times whatever threshold is asked with.
      weight: how much the variance of this query's noise weighs in the method's error (a_j of the automatic split).
      noise: this query's noise relative to the others', instead of the automatic split.
      noise_multiplier: set by calibration.
      jacobian: marks a perturbed objective, which is no mean query: σ·C is then the deviation of the random linear
        term and this number bounds the logarithm of the ratio of Jacobians (c in `gossamer.perturbed`).
    """

    name: str
    count: int
    rate: float = 1.0
    disjoint: bool = False
    clip: str = ""
    weight: float = 1.0
    noise: float | None = None
    noise_multiplier: float | None = None
    jacobian: float | None = None
    stream: Stream | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        if not is_whole(self.count):
            raise ValueError(f"query {self.name!r}: count = {shown(self.count)} must be a whole number of at least 1.")
        if not (is_number(self.rate) and 0 < self.rate <= 1):
            raise ValueError(
                f"query {self.name!r}: rate = {shown(self.rate)} must be in (0, 1]. It is batch_size/n: "
                "choose a batch_size of at most n."
            )
        for name in ("weight", "noise"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value < math.inf):
                raise ValueError(f"query {self.name!r}: {name} = {shown(value)} must be a finite number above 0.")
        if self.jacobian is not None and not (0 <= self.jacobian < math.inf and self.sampling == "full"):
            raise ValueError(
                f"query {self.name!r}: jacobian = {self.jacobian!r} must be a finite number of at least 0, and a "
                f"perturbed objective needs all records: rate = {self.rate!r} must be 1."
            )

        if self.stream is not None and not self.disjoint:
            raise ValueError(
                f"query {self.name!r}: stream needs disjoint = True: a record that meets two answers of a stream would "
                "cost more than is accounted for."
            )
        if self.stream is not None and not set(self.stream.places) <= set(range(self.stream.length)):
            raise ValueError(f"query {self.name!r}: {self.stream} gives answers at places beyond its length.")

    def block_rows(self, n: int) -> int:
        """Return the size of each disjoint block, ⌊rate·n⌋; a rate of b/n means b whatever float64 makes of it."""
        return math.floor(self.rate * n + 1e-6)

    @property
    def sampling(self) -> str:
        """How records are drawn: "full", "poisson" or "partition"."""
        if self.disjoint:
            return "partition"
        return "full" if self.rate == 1.0 else "poisson"

    def automatic_noise(self) -> float:
        """Return this query's share in the automatic split, σ ∝ (c q²/a)^¼.

        It minimises Σ a_j σ_j², the noise that reaches the method's error, at constant Σ c_j q_j²/σ_j², the
        leading term of the privacy cost. A record meets one of the disjoint samples at most, so there c q² is 1.
        """
        met = 1.0 if self.disjoint else self.count * self.rate**2
        return (met / self.weight) ** 0.25


@dataclass(frozen=True)
class Schedule:
    """All queries that a method may ask. Iterating gives the queries."""

    queries: tuple[Query, ...]

    def __post_init__(self):
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

        streams = [query.stream for query in self.queries if query.stream is not None]
        places = [place for stream in streams for place in stream.places]
        if len({(stream.strategy, stream.length) for stream in streams}) > 1 or len(set(places)) < len(places):
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

    def dp_event(self) -> dp_accounting.DpEvent:
        """Return the calibrated schedule as an event of dp-accounting, for any accountant of your choice.

        Its noise multipliers are relative to one record's norm bound C, as dp-accounting's PLD accountant
        expects under both neighbouring relations. (Its RDP accountant knows no factor 2 for REPLACE_ONE.)
        """
        if not self.is_calibrated:
            raise ValueError("schedule: the noise is not calibrated yet; take the schedule of gs.plan(...).")
        if any(query.jacobian is not None for query in self.queries):
            raise ValueError("schedule: dp-accounting has no event for a perturbed objective; use Certificate.verify.")
        events: list[dp_accounting.DpEvent] = []
        once: list[float] = []
        for query in self.queries:
            assert query.noise_multiplier is not None
            gaussian = dp_accounting.GaussianDpEvent(query.noise_multiplier)
            if query.disjoint:
                once.append(query.noise_multiplier)
                continue
            event = gaussian if query.rate == 1.0 else dp_accounting.PoissonSampledDpEvent(query.rate, gaussian)
            events.append(dp_accounting.SelfComposedDpEvent(event, query.count))
        if once:
            # Parallel composition: a record meets one of the disjoint blocks, at worst the least noisy.
            events.append(dp_accounting.GaussianDpEvent(min(once)))
        return dp_accounting.ComposedDpEvent(events)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the queries as plain dictionaries."""
        return [dataclasses.asdict(query) for query in self.queries]

    @classmethod
    def from_dicts(cls, rows: list[dict[str, Any]]) -> "Schedule":
        """Rebuild a schedule from `to_dicts`."""
        return cls(tuple(Query(**{**row, "stream": _stream(row.get("stream"))}) for row in rows))


def _stream(row: dict[str, Any] | None) -> Stream | None:
    return None if row is None else Stream(**row)
