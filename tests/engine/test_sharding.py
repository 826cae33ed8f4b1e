"""Eight devices give what one gives: the same answers, the same law, the same certificate."""

import dataclasses
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from scipy import stats
from testkit.catalogue import BUDGET, ENTRIES, N
from testkit.rings import deep_but

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop, solving
from gossamer.engine.opening import open_run, set_up
from gossamer.oracle import stored
from gossamer.oracle.door import Door, Oracle, Question, Secrets
from gossamer.oracle.shards import Shards, local_rows, spread
from gossamer.privacy import accounting
from gossamer.privacy.certificate import certify
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query

DEVICES = 8
MESH = Mesh(jax.devices()[:DEVICES], ("records",))
FREE = gs.Budget(np.inf, 1e-3)


def close(one, other):
    """Whether results agree to float32 rounding."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def everything_sampled(method):
    """Return the method with every record in every sample."""
    names = {field.name for field in dataclasses.fields(method)}
    sizes = {name: N for name in ("batch_size", "refresh_batch_size", "difference_batch_size") if name in names}
    return method if getattr(method, "single_pass", False) else dataclasses.replace(method, **sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", deep_but([name for name in ENTRIES if "one pass" not in name and name != "O2NC"], "GD", "PrivateDiff")
)
def test_without_noise_eight_devices_are_one(name):
    """And the compiled loop has one all-reduce for every query, no larger than what is asked for."""
    entry = ENTRIES[name]
    method = everything_sampled(entry.method)
    alone = entry.solve(method, FREE, seed=0)
    params, problem, _ = solving.split_params(entry.problem, entry.init)
    planned = gs.plan(method, N, FREE)
    run = open_run(planned, problem, entry.data, init=params, key=new_key(0), mesh=MESH)
    program = loop.advance.lower(run.setup, run.secrets, run.start, jnp.int32(0), MESH).compile()
    close(program(run.secrets, run.start, jnp.int32(method.steps)).choice.params, alone.params)
    reduced = [line.split(" all-reduce(")[0] for line in program.as_text().splitlines() if " all-reduce(" in line]
    assert len(reduced) == len(planned.schedule.queries)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    moments = size * (size + 1) // 2 if any(query.acute for query in planned.schedule) else 0
    for line in reduced:
        (length,) = (int(word) for word in line.split("f32[")[1].split("]")[0].split(","))
        # With values and derivatives that are asked for together with a gradient; or one triangle of second moments.
        assert length <= max(size + 3, moments)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["SGD", "O2NC"])
def test_samples_of_shards(name):
    """The same shards one after another on one device, by vmap: samples, blocks and noise are the same."""
    entry = ENTRIES[name]
    spread_out = entry.solve(seed=0, mesh=MESH)
    params, problem, _ = solving.split_params(entry.problem, entry.init)
    planned = gs.plan(entry.method.sized(params), N, BUDGET)
    assert spread_out.certificate == certify(planned, problem, 0, False)
    run = open_run(planned, problem, entry.data, init=params, key=new_key(0), mesh=MESH)
    secrets = run.secrets
    assert run.program().count("stablehlo.all_reduce") == len(planned.schedule.queries)
    by_shard = Secrets(
        data=jax.tree.map(lambda leaf: np.asarray(leaf).reshape(DEVICES, -1, *leaf.shape[1:]), secrets.data),
        noise=secrets.noise,
        key=secrets.key,
        order=np.asarray(secrets.order).reshape(DEVICES, -1),
        present=np.asarray(secrets.present).reshape(DEVICES, -1),
    )
    axes = Secrets(data=0, noise=None, key=None, order=0, present=0)

    def shard(secrets):
        oracle = Oracle(run.setup.door, secrets)
        return loop.advance_by(run.setup, oracle, run.start, jnp.int32(entry.method.steps)).choice.params

    one_by_one = jax.jit(jax.vmap(shard, in_axes=(axes,), axis_name="records"))(by_shard)
    close(jax.tree.map(lambda leaf: leaf[0], one_by_one), spread_out.params)


def bits(result):
    """Return all that a run releases, as one array of bytes."""
    return np.concatenate([np.asarray(leaf).ravel().view(np.uint8) for leaf in jax.tree.leaves(result)])


def network(params, record):
    """The loss of a small network with one hidden layer."""
    x, label = record
    return jax.nn.softplus(-label * (jnp.tanh(x @ params[0] + params[1]) @ params[2]))


def network_run(method, backend, data, **options):
    """Train it; return all that is released."""
    numbers = np.random.default_rng(1)
    start = (numbers.normal(size=(6, 5)) / 2, np.zeros(5), numbers.normal(size=5))
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), start)
    budget = gs.Budget(4.0, 1e-3)
    result = gs.solve(
        gs.ERM(network), data, method, budget, init=start, seed=0, progress=False, backend=backend, **options
    )
    return bits((result.params, result.history))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "SGD",
        pytest.param("RGDA in one pass", marks=pytest.mark.deep),
        # Only as users compile it: without LLVM's optimisations some of its directions differ in their last bits.
        pytest.param("O2NC", marks=[pytest.mark.deep, pytest.mark.hostile]),
    ],
)
def test_eight_devices_are_one_in_every_bit(name):
    """Samples, blocks, sums, noise and all that follows; other shards are other samples, and give other bits."""
    entry = ENTRIES[name]
    for seed in range(3):
        alone = bits(entry.solve(seed=seed, shards=8).params)
        np.testing.assert_array_equal(bits(entry.solve(seed=seed, mesh=MESH).params), alone)
    if name == "SGD":  # the control: compiling the others once more, as users do, takes a minute each
        assert (bits(entry.solve(seed=seed, shards=4).params) != alone).any()


@pytest.mark.deep
def test_a_run_continues_on_other_devices(tmp_path, monkeypatch):
    """Saved on four devices, it ends on eight, on two, or on one without a mesh, with the bits of a whole run."""
    entry = ENTRIES["SGD"]
    whole = bits(entry.solve(seed=0, shards=8).params)
    save = gs.Checkpoints.save

    def killed(self, identity, run):
        save(self, identity, run)
        if run[1].t > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(gs.Checkpoints, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        entry.solve(
            seed=0, mesh=Mesh(jax.devices()[:4], ("records",)), checkpoints=gs.Checkpoints(tmp_path / "run", every=2)
        )
    monkeypatch.undo()
    for options in ({"shards": 8}, {"mesh": MESH}, {"mesh": Mesh(jax.devices()[:2], ("records",))}):
        again = tmp_path / f"again{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tmp_path / "run", again)
        resumed = entry.solve(seed=1, checkpoints=gs.Checkpoints(again, resume=True), **options)
        np.testing.assert_array_equal(bits(resumed.params), whole)


@pytest.mark.deep
@pytest.mark.hostile
@pytest.mark.parametrize(("backend", "sampled"), [("ghost", True), ("vmap", False)])
def test_the_same_bits_on_any_number_of_devices_and_from_disk(backend, sampled, tmp_path, monkeypatch):
    """Shards of several blocks, read in several tiles of which the last is not full."""
    monkeypatch.setattr(stored, "SMALL_BYTES", 0)
    monkeypatch.setattr(stored, "CHUNK_BYTES", 64 * 7 * 4)
    numbers = np.random.default_rng(0)
    rows = numbers.normal(size=(1501, 6)).astype(np.float32)
    memory = (rows, np.sign(numbers.normal(size=1501)).astype(np.float32))
    for name, leaf in zip("xy", memory, strict=True):
        np.save(tmp_path / f"{name}.npy", leaf)
    disk = tuple(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    size = 600 if sampled else 1501
    method = gs.methods.Spider(steps=4, period=2, batch_size=size, refresh_batch_size=600 if sampled else None)
    one_piece = network_run(method, backend, memory)
    np.testing.assert_array_equal(network_run(method, backend, disk), one_piece)
    alone = network_run(method, backend, memory, shards=8)
    for devices in (1, 2, 4, 8):
        mesh = Mesh(jax.devices()[:devices], ("records",))
        np.testing.assert_array_equal(network_run(method, backend, memory, mesh=mesh), alone)
    np.testing.assert_array_equal(network_run(method, backend, disk, mesh=mesh), alone)
    assert (one_piece != alone).any()


class NoiseOnEveryShard(Oracle):
    """Unsound for utility, and not what is certified: every shard adds noise before the sums are added up."""

    def clipped_sum(self, h, sample, clip):
        total = super().clipped_sum(h, sample, clip)
        key = jax.random.fold_in(jax.random.key(99), self.door.shards.numbers()[0])
        key = jax.random.fold_in(key, jnp.sum(jnp.where(sample.mask, sample.rows, 0)))  # other noise for each sample
        noise = self.noise(key, total, jnp.float32(1.0), (1.0,))
        with jax.enable_x64(True):
            return jax.tree.map(lambda a, z: a + z, total, self.door.shards.add_up(noise))


class OneSampleKey(Oracle):
    """Unsound: all shards draw with one key, so that rows of different shards are sampled together."""

    def sample_key(self, key, shard):
        return key


DRAWS = 2000
ROWS = np.linspace(0.1, 1.0, N, dtype=np.float32)[:, None]
QUERY = Query("mean", DRAWS, Poisson(0.3))


@functools.cache
def answers(kind, sharded, noise):
    """Draw many answers to one sampled mean."""
    schedule = gs.Schedule((QUERY,))
    capacity = N  # nothing is cut: it is the law of the samples that is compared
    mesh = MESH if sharded else None
    shards = Shards.over(mesh, N)
    door = Door(N, schedule, (("mean", shards.rows if sharded else capacity),), "vmap", None, shards)
    keys = loop.split(new_key(5))
    level = {"mean": jnp.float32(noise)}

    def draw(secrets):
        oracle = kind(door, secrets)
        return jax.lax.map(
            lambda i: oracle.answer(Question(QUERY, i, lambda z: z, jnp.float32(1.0), (1.0,)), None)[0],
            jnp.arange(DRAWS),
        )

    if not sharded:
        return np.asarray(jax.jit(draw)(loop.make_secrets(door, jnp.asarray(ROWS), level, keys)))[:, 0]
    secrets = loop.make_sharded_secrets(door, spread(ROWS, shards, MESH, 0), level, keys, MESH)
    rows = P(MESH.axis_names)
    specs = Secrets(data=rows, noise=P(), key=P(), order=rows, present=rows)
    run = jax.shard_map(draw, mesh=MESH, in_specs=(specs,), out_specs=P(), check_vma=False)
    return np.asarray(jax.jit(run)(secrets))[:, 0]


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "same"), [(Oracle, True), (NoiseOnEveryShard, False), (OneSampleKey, False)])
def test_the_law_of_an_answer(kind, same):
    """Kolmogorov and Smirnov on 2000 answers each, with and without noise: p below 1e-4 means that the laws differ."""
    p = [stats.ks_2samp(answers(kind, True, noise), answers(Oracle, False, noise)).pvalue for noise in (0.0, 1.0)]
    assert (min(p) > 1e-4) == same, p


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "same"), [(Oracle, True), (OneSampleKey, False)])
def test_the_moments_of_a_sample(kind, same):
    """Σ z·[sampled]: its mean and variance are known; 5 standard errors."""
    total = answers(kind, True, 0.0) * QUERY.sampling.size(N)
    z = ROWS[:, 0].astype(np.float64)
    mean, variance = 0.3 * z.sum(), 0.3 * 0.7 * (z**2).sum()
    assert abs(total.mean() - mean) < 5 * np.sqrt(variance / DRAWS) * (1 if same else 3)
    error = np.sqrt(2 / DRAWS) * variance  # of a variance of nearly normal sums
    assert (abs(total.var() - variance) < 5 * error) == same


@pytest.mark.slow
def test_shards_are_cut_no_more_often_than_the_certificate_says():
    """Exact binomial tails against the bound on the whole table."""
    for n, rate, shards in ((10_000, 0.01, 8), (1000, 0.2, 7), (61, 0.13, 8), (10**6, 1e-3, 64)):
        for allowed in (-20.0, -40.0):
            sampling = Poisson(rate)
            size = sampling.capacity(n, allowed)
            local = accounting.shard_capacity(sampling, n, size, shards)
            rows = -(-n // shards)
            assert local <= rows
            ours = stats.binom.logsf(local, rows, rate) + np.log(shards) if local < rows else -np.inf
            assert ours <= sampling.log_overflow(n, size)
    assert accounting.shard_capacity(Poisson(0.5), 61, 61, 8) == 8  # what is never cut is never cut


def test_every_row_is_somewhere():
    for n in (8, 9, 61, 64):
        shards = Shards.over(MESH, n)
        rows = [range(shards.first(k), shards.first(k) + shards.size(k)) for k in range(DEVICES)]
        assert [row for part in rows for row in part] == list(range(n))
        assert max(map(len, rows)) == shards.rows
        assert local_rows(n, MESH) == slice(0, n)


def test_what_a_mesh_refuses():
    entry = ENTRIES["GD"]
    with pytest.raises(ValueError, match="fewer than the mesh has devices"):
        entry._replace(data=jax.tree.map(lambda leaf: leaf[:5], entry.data)).solve(seed=0, mesh=MESH)
    with pytest.raises(ValueError, match="shards = 12 must be a multiple of the number of devices"):
        entry.solve(seed=0, mesh=MESH, shards=12)
    with pytest.raises(ValueError, match=r"shards = 62 .* at most the number of records"):
        entry.solve(seed=0, shards=62)
    with pytest.raises(ValueError, match="diagnostics=True does not go with a mesh"):
        entry.solve(seed=0, mesh=MESH, diagnostics=True)


@pytest.mark.deep
def test_a_mesh_of_two_axes_and_a_checkpoint(tmp_path):
    entry = ENTRIES["SGD"]
    grid = Mesh(np.array(jax.devices()[:DEVICES]).reshape(4, 2), ("hosts", "devices"))
    flat = entry.solve(seed=0, mesh=MESH, checkpoints=gs.Checkpoints(tmp_path, every=2))
    close(entry.solve(seed=0, mesh=grid).params, flat.params)
    again = entry.solve(seed=1, mesh=MESH, checkpoints=gs.Checkpoints(tmp_path, resume=True))
    close(again.params, flat.params)
    with pytest.raises(ValueError, match="another program"):
        entry.solve(seed=0, checkpoints=gs.Checkpoints(tmp_path, resume=True))


def test_places_of_blocks_must_fit_in_32_bits():
    method = gs.methods.RGDA(steps=2, period=2, inner_steps=2, batch_size=5, refresh_batch_size=9, single_pass=True)
    planned = gs.plan(method, 2**31, gs.Budget(1.0, 1e-9))
    with pytest.raises(ValueError, match="must be below 2"):
        set_up(planned, problem=None)
