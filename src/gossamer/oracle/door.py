"""The one door to the data: the private mean query, and the `ask` that methods are handed.

    Q(h, C):  draw a sample S of the n records: all of them, each with probability q, or a block of its own
              answer ( Σ_{i∈S} clip(h(z_i), C) + N(0, (σC)² I) ) / m,   m the expected size of S

Sums and noise are whole numbers on a lattice, and the answer is a function of their sum: `gossamer.oracle.lattice` has
the theorem that makes what follows, which is about real numbers, true of the bits that are released.

Privacy, once and for all methods. Let the transcript before a query be fixed; h and C are functions of it and of
public constants. Per-record clipping bounds one record's part of the sum by C, so adding or removing a record moves
the sum by at most C, replacing one by at most 2C, and after division of sum and noise by C the query is exactly the
(sampled) Gaussian mechanism with noise multiplier σ, whatever C was. The normaliser m is public. The queries of
a run are an adaptive composition of such mechanisms, whose cost depends on their sampling, σ and number alone; these
are fixed by the schedule before the run. (Blocks of one random partition are disjoint: given the partition, which does
not depend on any record, a replaced record is in one of them.) All else that a method computes is post-processing.

Joint queries. k blocks with thresholds C_j on the same sample are one such query: block j gets noise σ·w_j·C_j. The
blocks divided by w_j·C_j make a vector of norm at most (Σ 1/w_j²)^½ ≤ 1 per record.

Streams. A schedule may correlate the noise of disjoint queries: `gossamer.oracle.correlation` has the proof that a
record still costs one Gaussian of multiplier σ.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

from gossamer.base.trees import PyTree
from gossamer.oracle import locality
from gossamer.oracle.clipping import Backend, Clip, clip_and_sum
from gossamer.oracle.clipping.factors import withheld
from gossamer.oracle.correlation import mixed, scale
from gossamer.oracle.integer_noise import integers
from gossamer.oracle.lattice import Lattice
from gossamer.oracle.people import People
from gossamer.oracle.sampling import Sample, Sampler
from gossamer.oracle.shards import Shards
from gossamer.oracle.stored import Store
from gossamer.privacy.arithmetic import LATTICE_BITS
from gossamer.privacy.sampling import Stream
from gossamer.privacy.schedule import Query, Schedule

Count = jax.Array
_LARGEST_CLIP = 1e30


@dataclass(frozen=True)
class Door:
    """What is fixed about a run's queries before it starts; hashable, so that the loop compiles once for it.

    The schedule comes without its noise multipliers: those are numbers that the compiled loop is given.
    """

    n: int
    schedule: Schedule
    capacities: tuple[tuple[str, int], ...]
    """The static size of each sample whose size is random, on each shard."""
    backend: Backend = "auto"
    microbatch: int | None = None
    axes: tuple[str, ...] = ()
    """Over which axes of a mesh the records are spread."""
    devices: int = 1
    store: Store | None = None
    """Where the records are, if they stay on disk."""
    lattice: Lattice | None = field(default_factory=lambda: Lattice(LATTICE_BITS))
    """On which sums are exact; None: nothing is promised, and nothing is added to plain sums."""

    @property
    def shards(self) -> Shards:
        """Return how the records are spread."""
        return Shards(self.n, self.axes, self.devices)

    def capacity(self, query: Query) -> int:
        """Return the static size of this query's samples; room for all records where none was chosen."""
        return dict(self.capacities).get(query.name, self.n)

    def first_row(self, query: Query) -> int:
        """Return where the disjoint blocks of this query begin: behind those of the queries before it."""
        earlier = self.schedule.queries[: self.schedule.queries.index(query)]
        return sum(other.count * other.sampling.reserved for other in earlier)

    @property
    def needs_order(self) -> bool:
        """Whether blocks are cut in a random order of the rows."""
        return any(query.sampling.reserved for query in self.schedule)


class Secrets(NamedTuple):
    """What only the oracle may hold: the records, the noise level of each query, and the key of its randomness."""

    data: PyTree
    noise: dict[str, jax.Array]
    key: jax.Array
    order: jax.Array
    """A random order of a shard's rows, in which disjoint blocks are cut (empty when there are none)."""
    present: jax.Array | None = None
    """Rows that count; None: all. A row that does not count is as good as absent from the table."""


class Keys(NamedTuple):
    """The keys of one answer."""

    sample: jax.Array
    noise: jax.Array
    spot: jax.Array
    """Of the record whose contribution is measured."""


class Question(NamedTuple):
    """One query, as it is asked."""

    query: Query
    number: Count
    """How often it was asked before."""
    h: Any
    """A function of one record."""
    clip: Clip
    weights: tuple[float, ...]
    """The relative noise of each block."""


class Oracle:
    """Answers scheduled queries. Everything that reads a record is in this class."""

    def __init__(self, door: Door, secrets: Secrets):
        self.door = door
        self._secrets = secrets
        self._streamed: tuple[str, PyTree] | None = None

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer a question; return the answer and the oracle's memory (unused here)."""
        query, index, h, clip, weights = asked
        keys = self.keys(query, index)
        sample = self.drawn(query, index, keys)
        total = self.clipped_sum(h, sample, clip)
        size = self.normaliser(query, sample)
        if (lattice := self.door.lattice) is None:
            return jax.tree.map(lambda leaf: leaf / size, total), memory
        lattice.check(total)
        multiplier, stream = self.noise_multiplier(query), query.sampling.stream
        if stream is None:
            noise = self.noise(keys.noise, total, multiplier, weights)
        else:
            noise, multiplier = self.correlated_noise(asked, stream, total), multiplier * jnp.float32(scale(stream))
        # All answers of the run, as if each kind of query had as many: what the sampler's error is charged for.
        numbers = len(self.door.schedule.queries) * query.count * sum(leaf.size for leaf in jax.tree.leaves(total))
        affordable = lattice.affords(multiplier * max(weights), numbers)
        total = jax.tree.map(lambda leaf: withheld(leaf, ~affordable), total)
        return lattice.released(total, noise, clip, size), memory

    def keys(self, query: Query, index: Count) -> "Keys":
        """Return the keys of one answer."""
        return Keys(*jax.random.split(self.key(query, index), len(Keys._fields)))

    def drawn(self, query: Query, index: Count, keys: "Keys") -> Sample:
        """Draw the sample of one answer, and the place in it that is looked at more closely."""
        sample = self.sample(query, index, keys.sample)
        sample = sample._replace(spot=jax.random.randint(keys.spot, (), 0, sample.mask.shape[0]))
        if self.door.store is None or sample.rows is None:
            return sample
        return sample._replace(coming=self.sample(query, index + 1, self.keys(query, index + 1).sample).rows)

    def noise_multiplier(self, query: Query) -> jax.Array:
        """Return the calibrated noise of a query."""
        return self._secrets.noise[query.name]

    def key(self, query: Query, index: Count) -> jax.Array:
        """Return the key of one query: a function of its kind and of its number, never used twice."""
        kind = self.door.schedule.queries.index(query)
        return jax.random.fold_in(jax.random.fold_in(self._secrets.key, kind), index)

    def sample(self, query: Query, index: Count, key: jax.Array) -> Sample:
        """Draw the rows of a sample, padded, and the mask of those that count: the part of it on this shard."""
        return query.sampling.draw(
            Sampler(
                shards=self.door.shards,
                order=self._secrets.order,
                present=self._secrets.present,
                # Each shard draws on its own: with one key for all, rows of different shards would come together.
                key=self.sample_key(key),
                capacity=self.door.capacity(query),
                first=self.door.first_row(query) + index * query.sampling.reserved,
            )
        )

    def sample_key(self, key: jax.Array) -> jax.Array:
        """Return the key of this shard's part of a sample."""
        return jax.random.fold_in(key, self.door.shards.here()) if self.door.axes else key

    def clipped_sum(self, h: Any, sample: Sample, clip: Clip) -> PyTree:
        """Return Σ clip(h(z_i)) over a sample, on all shards, in lattice points (or, without a lattice, as it is)."""
        door = self.door
        people = self._secrets.data if isinstance(self._secrets.data, People) else None
        locality.check(h, self.record(), door.n if people is None else (door.n, people.length))

        def total(batch: PyTree, mask: jax.Array) -> PyTree:
            return clip_and_sum(
                h,
                batch,
                mask,
                clip,
                door.backend,
                microbatch=door.microbatch,
                spot=sample.spot,
                lattice=door.lattice,
            )

        table = people or door.store
        if table is not None and sample.rows is None:
            return door.shards.add_up(table.add_up(total, sample.mask))
        return door.shards.add_up(total(self._batch(sample), sample.mask))

    def record(self) -> PyTree:
        """Return the shape of one record."""
        if self.door.store is not None:
            return self.door.store.record()
        if isinstance(self._secrets.data, People):
            return self._secrets.data.record()
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self._secrets.data)

    def _batch(self, sample: Sample) -> PyTree:
        """Return the records of a sample."""
        rows, data, store = sample.rows, self._secrets.data, self.door.store
        if rows is None:
            return data
        if store is not None:
            return store.sample(rows, rows if sample.coming is None else sample.coming)
        if isinstance(data, People):
            return data.take(rows)
        return jax.tree.map(lambda leaf: leaf[rows], data)

    def noise(self, key: jax.Array, like: PyTree, multiplier: jax.Array, weights: tuple[float, ...]) -> PyTree:
        """Return Gaussian noise in the shape of a sum, in lattice points: σ thresholds, σ·w_j in block j."""
        blocks = like if len(weights) > 1 else (like,)
        lattice = self.door.lattice
        assert lattice is not None
        with jax.enable_x64(True):
            draws = tuple(
                _like(k, block, jnp.asarray(multiplier, jnp.float64) * w * 2.0**lattice.bits)
                for k, block, w in zip(jax.random.split(key, len(blocks)), blocks, weights, strict=True)
            )
        return draws if len(weights) > 1 else draws[0]

    def correlated_noise(self, asked: Question, stream: Stream, like: PyTree) -> PyTree:
        """Return an answer's place in a stream of correlated noise: a fixed mixture of that stream's own draws."""
        query, index, _, _, weights = asked
        self._check_shapes(query, like)
        number, place = index // stream.share, stream.first + index % stream.share
        # One stream of keys for all queries of the schedule, beside those of `key`.
        key = jax.random.fold_in(jax.random.fold_in(self._secrets.key, len(self.door.schedule.queries)), number)
        multiplier = self.noise_multiplier(query) * jnp.float32(scale(stream))

        def draw(j: jax.Array) -> PyTree:
            return self.noise(jax.random.fold_in(key, j), like, multiplier, weights)

        return mixed(stream, place, draw, like)

    def _check_shapes(self, query: Query, like: PyTree) -> None:
        """Refuse answers of different shapes in one stream: their draws come from the same keys, and would be alike."""
        shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), like)
        name, first = self._streamed = self._streamed or (query.name, shapes)
        if shapes != first:
            raise ValueError(
                f"queries {name!r} and {query.name!r} are parts of one stream but answer in different shapes. Ask for "
                "values of one shape, or schedule them without a stream."
            )

    def normaliser(self, query: Query, sample: Sample) -> Any:
        """Return the public number that sums are divided by; never the realised size of the sample."""
        del sample
        return query.sampling.size(self.door.n)


class Ledger(NamedTuple):
    """How often each query was asked so far, and what the oracle keeps beside it."""

    counts: dict[str, Count]
    memory: PyTree = None

    @classmethod
    def empty(cls, schedule: Schedule, memory: PyTree = None) -> "Ledger":
        """Return the ledger of a run that has asked nothing."""
        return cls({query.name: jnp.int32(0) for query in schedule}, memory)


class Ask:
    """What a method is handed: it can ask what was scheduled, and nothing else.

        g = ask("gradient", Gradient(problem.loss, x), clip=self.clip)

    A query beyond its scheduled count answers NaN, which ends the run. Ask inside control flow by `ask.cond` and
    `ask.loop`, which hand their functions an `ask` of their own. Inside a bare `jax.lax` loop or `jax.vmap` it
    refuses: the ledger would count one query for many, and one noise would serve them all.

    `ask.key` is for public randomness, such as directions of search: a key of this step's own, which varies with the
    seed and shares nothing with the oracle's. Split it, or fold a number in, for every draw.
    """

    def __init__(self, oracle: Oracle, ledger: Ledger, key: jax.Array):
        self._oracle = oracle
        self._trace = _current_trace()
        self.ledger = ledger
        self.key = key

    def __call__(self, name: str, h: Callable[[PyTree], PyTree], clip: Clip, weights: tuple[float, ...] = ()) -> PyTree:
        """Return the noisy mean of clip(h(z), clip) over a sample of the records.

        Args:
          name: a query of the schedule.
          h: a function of one record; `Gradient`, `Difference`, `Value` or `Joint`, or any function.
          clip: its threshold, public and possibly traced; or a tuple, one for each block of a tuple-valued h.
          weights: the relative noise w_j of each block, Σ 1/w_j² ≤ 1; equal by default.
        """
        if _current_trace() != self._trace:
            raise RuntimeError(
                f"ask({name!r}, ...) was called inside a JAX transformation that it does not know of. Use ask.cond and "
                "ask.loop instead of jax.lax.cond, jax.lax.scan or jax.vmap, and the `ask` that they hand over."
            )
        query = self._oracle.door.schedule[name]
        index = self.ledger.counts[name]
        asked = Question(query, index, h, jax.tree.map(_valid_threshold, clip), _block_weights(clip, weights))
        answer, memory = self._oracle.answer(asked, self.ledger.memory)
        # Fail closed: what was not scheduled is not answered.
        answer = jax.tree.map(lambda leaf: jnp.where(index < query.count, leaf, jnp.nan), answer)
        self.ledger = Ledger({**self.ledger.counts, name: index + 1}, memory)
        return answer

    def cond(self, predicate: jax.Array, if_true: Callable, if_false: Callable, *operands: PyTree) -> PyTree:
        """Like `jax.lax.cond`; each function takes an `ask` first."""

        def branch(function: Callable) -> Callable:
            def run(ledger: Ledger, *operands: PyTree) -> tuple[PyTree, Ledger]:
                ask = Ask(self._oracle, ledger, self.key)
                return function(ask, *operands), ask.ledger

            return run

        out, self.ledger = jax.lax.cond(predicate, branch(if_true), branch(if_false), self.ledger, *operands)
        return out

    def loop(self, count: Count | int, body: Callable, carry: PyTree) -> PyTree:
        """Apply `body(ask, i, carry) -> carry` for i = 0, …, count − 1; the count may be traced, and must be public."""

        def run(i: jax.Array, state: tuple[PyTree, Ledger]) -> tuple[PyTree, Ledger]:
            carry, ledger = state
            ask = Ask(self._oracle, ledger, self.key)
            carry = body(ask, i, carry)
            return carry, ask.ledger

        carry, self.ledger = jax.lax.fori_loop(0, count, run, (carry, self.ledger))
        return carry


def _current_trace() -> Any:
    """Return what tells one level of JAX's transformations from another."""
    return get_opaque_trace_state(convention="nnx")


def _like(key: jax.Array, tree: PyTree, deviation: jax.Array) -> PyTree:
    """Return whole numbers of this deviation in the shape of a pytree."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])
    # All at once: the sampler takes longer to compile than to run.
    drawn = jnp.split(integers(key, (int(ends[-1]),), deviation), ends[:-1])
    return jax.tree.unflatten(structure, [z.reshape(leaf.shape) for z, leaf in zip(drawn, leaves, strict=True)])


def _valid_threshold(clip: Any) -> jax.Array:
    """A threshold that is negative, NaN or so large that sums could overflow makes the answer NaN, on every table."""
    clip = jnp.asarray(clip, jnp.float32)
    if clip.shape != ():
        raise ValueError(f"clip has shape {clip.shape}; a threshold is one number, or a tuple of one number per block.")
    return jnp.where((clip >= 0) & (clip <= _LARGEST_CLIP), clip, jnp.nan)


def _block_weights(clip: Clip, weights: tuple[float, ...]) -> tuple[float, ...]:
    blocks = len(clip) if isinstance(clip, tuple) else 1
    weights = weights or (math.sqrt(blocks),) * blocks
    if len(weights) != blocks:
        raise ValueError(f"weights = {weights} must be one number for each of the {blocks} blocks.")
    if not sum(w**-2 for w in weights) <= 1 + 1e-9:
        raise ValueError(
            f"weights = {weights} have sum of 1/w^2 = {sum(w**-2 for w in weights):.6g}, above 1: the joint query "
            "would cost more than its schedule says. Multiply them all by the square root of that sum."
        )
    return weights
