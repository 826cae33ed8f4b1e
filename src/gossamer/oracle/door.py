"""The one door to the data: the private mean query. Methods are handed an `ask` for it (`gossamer.oracle.ask`).

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

import functools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
from gossamer.oracle.stored import Store, StoredPeople
from gossamer.privacy.arithmetic import LATTICE_BITS
from gossamer.privacy.sampling import Stream
from gossamer.privacy.schedule import Query, Schedule

Count = jax.Array


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
    cut: Shards | None = None
    """How the records are spread; None: they are in one piece."""
    store: Store | None = None
    """Where the records are, if they stay on disk."""
    lattice: Lattice | None = field(default_factory=lambda: Lattice(LATTICE_BITS))
    """On which sums are exact; None: nothing is promised, and nothing is added to plain sums."""
    elsewhere: int = 0
    """How many kinds of query other doors of the same run answer: those of its other stages."""

    @property
    def shards(self) -> Shards:
        """Return how the records are spread."""
        return Shards(self.n) if self.cut is None else self.cut

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
    """Of its rows, and of where in the sample's room they are put."""
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
        # Outside of the loop, as a key takes microseconds to make.
        self._kinds = [jax.random.fold_in(secrets.key, kind) for kind in range(len(door.schedule.queries))]

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
        # All draws of the run, as if each kind of query had as many: what the sampler's error is charged for.
        draws = query.count if stream is None else -(-query.count // stream.share) * stream.length
        kinds = len(self.door.schedule.queries) + self.door.elsewhere
        numbers = kinds * draws * sum(leaf.size for leaf in jax.tree.leaves(total))
        affordable = lattice.affords(multiplier * max(weights), numbers)
        total = jax.tree.map(lambda leaf: withheld(leaf, ~affordable), total)
        return lattice.released(total, noise, clip, size), memory

    def keys(self, query: Query, index: Count) -> "Keys":
        """Return the keys of one answer."""
        return Keys(*jax.random.split(self.key(query, index), len(Keys._fields)))

    def drawn(self, query: Query, index: Count, keys: "Keys") -> Sample:
        """Draw the sample of one answer, and the place in it that is looked at more closely."""
        sample = self.sample(query, index, keys)
        # Of one word, whose remainders are equally probable up to 2^-32: it decides which record is looked at, no more.
        spot = jax.random.bits(keys.spot, (), jnp.uint32) % np.uint32(sample.mask.shape[-1])
        sample = sample._replace(spot=spot.astype(jnp.int32))
        if self.door.store is None or sample.rows is None:
            return sample
        return sample._replace(coming=self.sample(query, index + 1, self.keys(query, index + 1)).rows)

    def noise_multiplier(self, query: Query) -> jax.Array:
        """Return the calibrated noise of a query."""
        return self._secrets.noise[query.name]

    def key(self, query: Query, index: Count) -> jax.Array:
        """Return the key of one query: a function of its kind and of its number, never used twice."""
        return jax.random.fold_in(self._kinds[self.door.schedule.queries.index(query)], index)

    def sample(self, query: Query, index: Count, keys: "Keys") -> Sample:
        """Draw the rows of a sample, padded, and the mask of those that count: for each shard on this device."""
        shards, secrets = self.door.shards, self._secrets

        def draw(shard: jax.Array | int, order: jax.Array, present: jax.Array | None) -> Sample:
            return query.sampling.draw(
                Sampler(
                    shards=shards,
                    order=order,
                    present=present,
                    key=self.sample_key(keys.sample, shard),
                    capacity=self.door.capacity(query),
                    first=self.door.first_row(query) + index * query.sampling.reserved,
                    shard=shard,
                )
            )

        if shards.count == 1:
            return draw(0, secrets.order, secrets.present)
        by_shard = jax.tree.map(lambda leaf: leaf.reshape(shards.here, -1), (secrets.order, secrets.present))
        return jax.lax.map(lambda of: draw(*of), (shards.numbers(), *by_shard))

    def sample_key(self, key: jax.Array, shard: jax.Array | int) -> jax.Array:
        """Return a key of a shard's part of a sample."""
        return key if self.door.shards.count == 1 else jax.random.fold_in(key, shard)

    def clipped_sum(self, h: Any, sample: Sample, clip: Clip) -> PyTree:
        """Return Σ clip(h(z_i)) over a sample, on all shards, in lattice points (or, without a lattice, as it is)."""
        door = self.door
        people = self._secrets.data if isinstance(self._secrets.data, People) else door.store
        rows = people.length if isinstance(people, People | StoredPeople) else door.n
        locality.check(h, self.record(), (door.n, rows))

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

        def one(shard: jax.Array, drawn: tuple[Any, ...]) -> PyTree:
            part = Sample(*drawn)
            if part.rows is None:
                return door.shards.in_tiles(lambda start: self._tile(shard, start), part.mask, total)
            return total(self._batch(part, shard), part.mask)

        return door.shards.each(one, (sample.rows, sample.mask, sample.coming))

    def record(self) -> PyTree:
        """Return the shape of one record."""
        if self.door.store is not None:
            return self.door.store.record()
        if isinstance(self._secrets.data, People):
            return self._secrets.data.record()
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self._secrets.data)

    def _batch(self, sample: Sample, shard: jax.Array | int = 0) -> PyTree:
        """Return the records of a sample of one shard."""
        rows, data, store = sample.rows, self._secrets.data, self.door.store
        if rows is None:
            return data
        if store is not None:
            return store.sample(jnp.int32(shard), rows, rows if sample.coming is None else sample.coming)
        places = self._begin(shard) + rows
        return data.take(places) if isinstance(data, People) else jax.tree.map(lambda leaf: leaf[places], data)

    def _tile(self, shard: jax.Array, start: jax.Array) -> PyTree:
        """Return consecutive records of one shard, with zeros, or the last person again, behind the last."""
        shards, store, data = self.door.shards, self.door.store, self._secrets.data
        if store is not None:
            return store.tile(shard, start)
        begin = self._begin(shard)
        if isinstance(data, People):
            return data.take(jnp.minimum(begin + start + jnp.arange(shards.tile, dtype=jnp.int32), data.n - 1))

        def cut(leaf: jax.Array) -> jax.Array:
            if len(leaf) == shards.tile:
                return leaf
            inside = functools.partial(jax.lax.dynamic_slice_in_dim, leaf, begin + start, shards.tile)
            if (rest := len(leaf) % shards.tile) == 0:
                return inside()
            filler = [(0, shards.tile - rest), *[(0, 0)] * (leaf.ndim - 1)]
            return jax.lax.cond(start + shards.tile <= len(leaf), inside, lambda: jnp.pad(leaf[-rest:], filler))

        return jax.tree.map(cut, data)

    def _begin(self, shard: jax.Array | int) -> jax.Array | int:
        """Return where a shard begins in this device's arrays."""
        shards = self.door.shards
        return (shard % shards.here) * shards.rows

    def noise(self, key: jax.Array, like: PyTree, multiplier: jax.Array, weights: tuple[float, ...]) -> PyTree:
        """Return Gaussian noise in the shape of a sum, in lattice points: σ thresholds, σ·w_j in block j."""
        blocks = like if len(weights) > 1 else (like,)
        keys = jax.random.split(key, len(blocks)) if len(weights) > 1 else [key]
        lattice = self.door.lattice
        assert lattice is not None
        with jax.enable_x64(True):
            draws = tuple(
                _like(k, block, jnp.asarray(multiplier, jnp.float64) * w * 2.0**lattice.bits)
                for k, block, w in zip(keys, blocks, weights, strict=True)
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


def _like(key: jax.Array, tree: PyTree, deviation: jax.Array) -> PyTree:
    """Return whole numbers of this deviation in the shape of a pytree."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])
    # All at once: the sampler takes longer to compile than to run.
    drawn = jnp.split(integers(key, (int(ends[-1]),), deviation), ends[:-1])
    return jax.tree.unflatten(structure, [z.reshape(leaf.shape) for z, leaf in zip(drawn, leaves, strict=True)])
