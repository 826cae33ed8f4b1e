"""Which records a query meets, and what that costs: all of them, a Poisson sample, or a block of its own.

Each object knows its own mathematics: its cost to the accountants, its event in dp-accounting, the public number that
sums are divided by, the room its samples need. It draws through whatever `Sampler` it is handed: the oracle has the
only one. The fourth kind, a perturbed objective, is in `gossamer.privacy.perturbed`, beside its proof.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import dp_accounting

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number, is_whole, plain, shown
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.saddle_point import Cost

Drawn = TypeVar("Drawn", covariant=True)


class Sampler(Protocol[Drawn]):
    """The three ways to draw."""

    def everything(self) -> Drawn:
        """Return all records."""

    def poisson(self, rate: float) -> Drawn:
        """Return each record with this probability, on its own."""

    def block(self, rows: int) -> Drawn:
        """Return so many records that no other block of the run has."""


class Surcharge(NamedTuple):
    """What a query costs beyond the Gaussian queries that stand for it: (0, 1) for every mean query."""

    epsilon: float
    """To be added to ε."""
    factor: float
    """δ is multiplied by it."""


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

    def __post_init__(self) -> None:
        whole = is_whole(self.length) and is_whole(self.first, least=0) and is_whole(self.share)
        if not (whole and self.first + self.share <= self.length):
            raise ValueError(f"{self} must have whole numbers, and no answers at places beyond its length.")


class Sampling(ABC):
    """How one kind of query meets the records. The defaults are those of a query without chance or blocks."""

    kind: ClassVar[str]
    """Its name in files."""
    has_capacity: ClassVar[bool] = False
    """Whether the size of a sample is random, so that it needs a static room (`capacity`) that it may outgrow."""

    @property
    def reserved(self) -> int:
        """How many records each sample keeps for itself: a record meets one sample, at most, of all that do so."""
        return 0

    @property
    def stream(self) -> Stream | None:
        """Where the answers stand in streams of correlated noise; None: every answer's noise is its own."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Return what a sample is, in words."""

    @abstractmethod
    def size(self, n: int) -> float:
        """Return the expected number of records in a sample: the public number that sums are divided by."""

    @abstractmethod
    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return what `count` answers cost, to both accountants."""

    @abstractmethod
    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Return `count` answers as an event of dp-accounting."""

    @abstractmethod
    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Draw a sample."""

    def surcharge(self, count: int, neighbors: Neighbors) -> Surcharge:
        """Return what must be paid besides `cost`."""
        return Surcharge(0.0, 1)

    def check(self, neighbors: Neighbors) -> None:  # noqa: B027  (most have nothing to refuse)
        """Refuse neighbours for which `cost` is not what one record costs."""

    def capacity(self, n: int, log_allowed: float) -> int:
        """Return room that a sample of n records outgrows with a log probability of `log_allowed` at most."""
        return math.ceil(self.size(n))

    def log_overflow(self, n: int, capacity: int) -> float:
        """Return an upper bound on the log probability that a sample outgrows its room."""
        return -math.inf

    def sampling_error(self, n: int) -> float:
        """Return an upper bound on the total variation distance of a sample, before it is cut, from its ideal law."""
        return 0.0

    def chance(self, seen: Any) -> Any:
        """Return how probable it is that a record is in a sample, to an attacker who knows all that `cost` lets him.

        Where chance is no part of the cost he is taken to know the sample: `seen` says whether the record is in it.
        """
        return seen


@dataclass(frozen=True)
class All(Sampling):
    """Every record, every time."""

    kind: ClassVar[str] = "all"
    rate: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return "all records"

    def size(self, n: int) -> float:
        """Return n."""
        return float(n)

    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return so many Gaussian queries."""
        return Cost(1.0, noise_multiplier, count)

    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Return so many Gaussian events."""
        return dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise_multiplier), count)

    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Take everything."""
        return sampler.everything()


@dataclass(frozen=True)
class Poisson(Sampling):
    """Every record on its own with probability `rate`; at rate 1 a query takes it for `All()`.

    Samples are cut at a static size. Chernoff's bound exp(−n·KL(k/n ‖ q)) on P(Binomial(n, q) ≥ k) says how rarely.
    """

    rate: float
    kind: ClassVar[str] = "poisson"
    has_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", plain(self.rate))
        if not (is_number(self.rate) and 0 < self.rate <= 1):
            raise ValueError(
                f"rate = {shown(self.rate)} must be in (0, 1]. It is batch_size/n: choose a batch_size of at most n."
            )

    def __str__(self) -> str:
        return f"a Poisson sample at rate {self.rate:.4g}"

    def size(self, n: int) -> float:
        """Return rate·n."""
        return self.rate * n

    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return so many Poisson-sampled Gaussian queries."""
        return Cost(self.rate, noise_multiplier, count)

    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Return so many Poisson-sampled Gaussian events."""
        once = dp_accounting.PoissonSampledDpEvent(self.rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        return dp_accounting.SelfComposedDpEvent(once, count)

    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Toss a coin for every record."""
        return sampler.poisson(self.rate)

    def capacity(self, n: int, log_allowed: float) -> int:
        """Return the smallest multiple of 8 that is outgrown rarely enough, or n, which is never outgrown."""
        low, high = math.ceil(n * self.rate), n
        while low < high:
            middle = (low + high) // 2
            if self.log_overflow(n, middle) <= log_allowed:
                high = middle
            else:
                low = middle + 1
        return min(n, 8 * math.ceil(low / 8))

    def log_overflow(self, n: int, capacity: int) -> float:
        """Return Chernoff's bound on the log probability of more than `capacity` of n records."""
        k = capacity + 1
        share = k / n
        if share <= self.rate:
            return 0.0
        if share >= 1.0:
            return n * math.log(self.rate) if k == n else -math.inf
        return -n * (share * math.log(share / self.rate) + (1 - share) * math.log((1 - share) / (1 - self.rate)))

    def sampling_error(self, n: int) -> float:
        """Return n·2⁻¹¹⁷ for probabilities in tables, and n²·2⁻¹²⁷ for slots: `gossamer.oracle.sampling` proves it."""
        return n * 2.0**-117 + n**2 * 2.0**-127

    def chance(self, seen: Any) -> Any:
        """Return the rate: the coin is what the accountants count on."""
        return self.rate


@dataclass(frozen=True)
class Blocks(Sampling):
    """Each sample is a block of `rows` records, disjoint from every other block of the schedule.

    Which records make a block is decided by one random order of the table, before the run and whatever is answered.
    A record meets at most one block, so all blocks together cost as much as the least noisy answer about one of them
    (parallel composition; `Schedule.at_worst`). This needs neighbours with the same number of records: one more would
    move the others between blocks.
    """

    rows: int
    stream: Stream | None = None
    kind: ClassVar[str] = "blocks"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", plain(self.rows))
        if not is_whole(self.rows):
            raise ValueError(f"rows = {shown(self.rows)} must be a whole number of at least 1: the size of each block.")
        if not (self.stream is None or isinstance(self.stream, Stream)):
            raise TypeError(f"stream = {shown(self.stream)} must be a Stream, or None for independent noise.")

    def __str__(self) -> str:
        words = f"a block of {self.rows} records of its own"
        if self.stream is None:
            return words
        return f"{words}, noise correlated within streams of {self.stream.length} answers ({self.stream.strategy})"

    @property
    def reserved(self) -> int:
        """All of its records."""
        return self.rows

    def size(self, n: int) -> float:
        """Return the size of a block."""
        return float(self.rows)

    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return one Gaussian query: no record meets two of the blocks."""
        return Cost(1.0, noise_multiplier, 1)

    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Return one Gaussian event."""
        return dp_accounting.GaussianDpEvent(noise_multiplier)

    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Cut the next block."""
        return sampler.block(self.rows)

    def check(self, neighbors: Neighbors) -> None:
        """Refuse neighbours with different numbers of records."""
        if neighbors == "add_remove":
            raise AccountingError(
                "a schedule with disjoint blocks has no guarantee under neighbors = 'add_remove': one record more "
                "moves the others between blocks. Use neighbors = 'replace_one'."
            )
