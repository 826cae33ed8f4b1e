"""One way to open the door: from a plan, a problem and a table to a run that can be advanced.

`open_run` is for one run, compiled piece by piece: this is what `gs.solve` does. `Lane` is for a run inside of compiled
code, one of many with numbers of their own: attacks and experiments train thousands at a time.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gossamer.base import processes
from gossamer.base.messages import is_whole, plain, shown
from gossamer.base.trees import PyTree
from gossamer.engine import loop
from gossamer.engine.loop import Carry, Keys, Setup
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Door, Oracle, Secrets
from gossamer.oracle.lattice import Lattice
from gossamer.oracle.records import Records, place
from gossamer.privacy import accounting, arithmetic
from gossamer.privacy.planning import Plan
from gossamer.privacy.schedule import Schedule


def open_run(
    planned: Plan,
    problem: Problem,
    data: PyTree | Records,
    *,
    init: PyTree,
    key: jax.Array,
    backend: Backend = "auto",
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    shards: int | None = None,
) -> "Run":
    """Open the door of a planned run.

    Args:
      planned: the method, and the queries with their noise.
      problem: what to solve.
      data: the table, or records that are in their place already.
      init: where to start: arrays that are all trained.
      key: of all randomness of the run.
      backend: how per-record gradients are clipped.
      microbatch: how many records' gradients are in memory at a time.
      mesh: over which the records are spread.
      shards: in how many shards.
    """
    records = data if isinstance(data, Records) else place(data, mesh, shards)
    setup = set_up(planned, problem, backend, microbatch, records)
    return Run(setup, records, planned.noise(), init, keys=loop.split(key), mesh=mesh)


@dataclass(frozen=True, eq=False)
class Run:
    """A run with its door open, on one device or on a mesh. Where it stands is a `Carry`, which `advance` moves on."""

    setup: Setup
    records: Records
    noise: dict[str, Any]
    init: PyTree
    keys: Keys
    mesh: Mesh | None = None

    @functools.cached_property
    def start(self) -> Carry:
        """Where the run stands before its first step."""
        return loop.start(self.setup, self.init, self.keys.output)

    @functools.cached_property
    def secrets(self) -> Secrets:
        """What the oracle alone may hold."""
        keys, noise = processes.on_mesh((self.keys, self.noise), self.mesh)
        if self.setup.door.shards.count == 1 and self.mesh is None:
            return loop.make_secrets(self.setup.door, self.records.data, noise, keys)
        return loop.make_sharded_secrets(self.setup.door, self.records.data, noise, keys, self.mesh)

    def advance(self, carry: Carry, stop: int) -> Carry:
        """Run on until a step; return when it is done."""
        carry = loop.advance(self.setup, self.secrets, *self._inputs(carry, stop), mesh=self.mesh)
        return jax.block_until_ready(processes.off_mesh(carry, self.mesh))

    def finish(self) -> Carry:
        """Run from the first step to the last."""
        return self.advance(self.start, self.setup.method.steps)

    def program(self) -> str:
        """Return the program that `advance` compiles, as text."""
        return loop.advance.lower(self.setup, self.secrets, *self._inputs(self.start, 0), mesh=self.mesh).as_text()

    def program_alone(self) -> str:
        """Return the program that one device would compile for these shards: the same for all that may continue it."""
        door = self.setup.door
        alone = dataclasses.replace(door, cut=dataclasses.replace(door.shards, axes=(), devices=1))
        shapes = jax.eval_shape(lambda *inputs: inputs, self.secrets, self.start, np.int32(0))
        return loop.advance.lower(dataclasses.replace(self.setup, door=alone), *shapes).as_text()

    def _inputs(self, carry: Carry, stop: int) -> tuple[Carry, Any]:
        return processes.on_mesh(carry, self.mesh), processes.on_mesh(np.int32(stop), self.mesh)


class Lane:
    """A run inside of compiled code: its noise, its start and its key may be traced."""

    def __init__(self, setup: Setup, noise: dict[str, Any], init: PyTree, key: jax.Array):
        self.setup, self.noise, self.init = setup, noise, init
        self._keys = loop.split(key)

    def oracle(self, data: PyTree, present: jax.Array | None = None, kind: type[Oracle] = Oracle) -> Oracle:
        """Return an oracle over these records, of which those count that are `present`."""
        door = self.setup.door
        return kind(door, loop.make_secrets(door, data, self.noise, self._keys, present))

    def start(self, memory: PyTree = None) -> Carry:
        """Return where the run stands before its first step."""
        return loop.start(self.setup, self.init, self._keys.output, memory)

    def finish(self, oracle: Any, memory: PyTree = None) -> Carry:
        """Run from the first step to the last, with this oracle and what it keeps beside the ledger."""
        return loop.advance_by(self.setup, oracle, self.start(memory), jnp.int32(self.setup.method.steps))


def set_up(
    planned: Plan,
    problem: Problem,
    backend: Backend = "auto",
    microbatch: int | None = None,
    records: Records | None = None,
) -> Setup:
    """Return what a plan fixes about its runs; without `records`, the table is to be in one place.

    The door's schedule has no noise: that is given to the compiled loop as numbers.
    """
    microbatch = plain(microbatch)
    if microbatch is not None and not is_whole(microbatch):
        raise ValueError(
            f"microbatch = {shown(microbatch)} must be a whole number of at least 1, or None to choose it by memory."
        )
    n, capacities = planned.n, planned.capacities
    bare = Schedule(tuple(dataclasses.replace(query, noise_multiplier=None) for query in planned.schedule))
    door = Door(n, bare, capacities, backend, microbatch)
    if n >= 2**31 - 1 and door.needs_order:
        raise ValueError(f"n = {n}: disjoint blocks are numbered by 32 bits, so that n must be below 2^31.")
    lattice = Lattice(arithmetic.lattice_bits(n)) if planned.budget.is_private else None
    door = dataclasses.replace(door, lattice=lattice, elsewhere=planned.elsewhere)
    if records is not None:
        if records.n != n:
            raise ValueError(f"the plan is for n = {n} records, but the table has {records.n}.")
        shards = records.shards
        room = [(name, accounting.shard_capacity(bare[name].sampling, n, k, shards.count)) for name, k in capacities]
        door = dataclasses.replace(door, capacities=tuple(room), cut=shards, store=records.store)
    return Setup(planned.method, problem, door)
