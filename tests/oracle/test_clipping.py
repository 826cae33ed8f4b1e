"""Clipped sums of every backend against a NumPy loop over records."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.oracle.clipping import clip_and_sum

pytestmark = pytest.mark.hostile
RNG = np.random.default_rng(0)


def linear_model():
    X, y = RNG.normal(size=(23, 5)), RNG.integers(0, 2, 23).astype(np.float32)
    params = {"weights": jnp.asarray(RNG.normal(size=5), jnp.float32), "intercept": jnp.float32(0.3)}
    return gs.objectives.logistic, params, (X.astype(np.float32), y)


def multinomial():
    X, y = RNG.normal(size=(23, 5)), RNG.integers(0, 3, 23).astype(np.int32)
    params = {"weights": jnp.asarray(RNG.normal(size=(5, 3)), jnp.float32), "intercept": jnp.zeros(3)}
    return gs.objectives.softmax, params, (X.astype(np.float32), y)


def mlp():
    def loss(params, record):
        x, y = record
        hidden = jnp.tanh(params["in"]["w"] @ x + params["in"]["b"])
        return (params["out"] @ hidden - y) ** 2

    params = {
        "in": {"w": RNG.normal(size=(7, 5)), "b": RNG.normal(size=7)},
        "out": RNG.normal(size=7),
    }
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    return loss, params, (RNG.normal(size=(23, 5)).astype(np.float32), RNG.normal(size=23).astype(np.float32))


def nested():
    """A pytree of tuples, lists and dicts, a scalar and a leaf that is not used."""

    def loss(params, record):
        a, [b, c], _ = params["x"]
        return a * jnp.sum(record["u"]) + jnp.sum(b * record["v"]) + jnp.sum(jnp.sin(c["d"] * record["u"]))

    x = (jnp.float32(0.5), [jnp.ones(4), {"d": jnp.arange(3.0)}], jnp.zeros((2, 2)))
    batch = {"u": RNG.normal(size=(23, 3)).astype(np.float32), "v": RNG.normal(size=(23, 4)).astype(np.float32)}
    return loss, {"x": x}, batch


CASES = {"linear": linear_model(), "multinomial": multinomial(), "mlp": mlp(), "nested": nested()}


def backends(name):
    return ["auto", "ghost", "vmap"] + (["linear"] if name in ("linear", "multinomial") else [])


PAIRS = [
    pytest.param(name, backend, marks=[pytest.mark.slow] if backend == "auto" or name == "multinomial" else [])
    for name in CASES
    for backend in backends(name)
]


@functools.cache
def compiled(name, backend):
    """The clipped sum of a case's gradients, as one program for all tests: (batch, mask, clip) -> sum."""
    loss, params, _ = CASES[name]
    return jax.jit(lambda batch, mask, clip: clip_and_sum(gs.Gradient(loss, params), batch, mask, clip, backend))


def loop_over_records(h, batch, mask, clip):
    """The slow, obvious reference: one record at a time, in float64."""
    total = None
    vectors = jax.jit(lambda record: h(record))  # noqa: PLW0108  (a query has no hash)
    for i in range(len(mask)):
        vector = jax.tree.map(np.float64, vectors(jax.tree.map(lambda leaf, i=i: leaf[i], batch)))
        norm = np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(vector)))
        factor = (min(1.0, clip / norm) if norm > 0 else 1.0) if mask[i] else 0.0
        part = jax.tree.map(lambda leaf, factor=factor: factor * leaf, vector)
        total = part if total is None else jax.tree.map(np.add, total, part)
    return total


def assert_close(ours, expected, scale):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6 * scale)


@pytest.mark.parametrize(("name", "backend"), PAIRS)
@pytest.mark.parametrize("clip", [0.1, 1.0, 1e4])
def test_gradients(name, backend, clip):
    loss, params, batch = CASES[name]
    mask = RNG.random(23) < 0.7
    ours = compiled(name, backend)(batch, mask, clip)
    assert_close(ours, loop_over_records(gs.Gradient(loss, params), batch, mask, clip), 23 * min(clip, 10))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), PAIRS)
def test_differences(name, backend):
    loss, params, batch = CASES[name]
    other = jax.tree.map(lambda leaf: leaf + 0.1, params)
    h = gs.Difference(loss, params, other)
    mask = np.ones(23, bool)
    ours = jax.jit(lambda mask: clip_and_sum(h, batch, mask, 0.2, backend))(mask)
    assert_close(ours, loop_over_records(h, batch, mask, 0.2), 5)


@pytest.mark.parametrize(("name", "backend"), PAIRS)
def test_an_empty_sample_sums_to_zero(name, backend):
    total = compiled(name, backend)(CASES[name][2], np.zeros(23, bool), 1.0)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(total))


@pytest.mark.parametrize(("name", "backend"), PAIRS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_a_poisoned_record_contributes_at_most_its_clip_and_padding_nothing(name, backend, poison):
    """Row 3 is poisoned and counts; row 5 is poisoned and masked, as padding may be."""
    batch = CASES[name][2]
    poisoned = jax.tree.map(
        lambda leaf: (
            leaf
            if leaf.dtype == np.int32
            else np.where(np.isin(np.arange(23), (3, 5)).reshape(-1, *[1] * (leaf.ndim - 1)), np.float32(poison), leaf)
        ),
        batch,
    )
    mask = np.arange(23) != 5
    ours = compiled(name, backend)(poisoned, mask, 1.0)
    clean = compiled(name, backend)(batch, mask & (np.arange(23) != 3), 1.0)
    apart = np.sqrt(
        sum(np.sum((a - b) ** 2) for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(clean), strict=True))
    )
    assert apart <= 1.0 + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "linear", "ghost", "vmap"])
def test_large_gradients(backend):
    """1e6 times the threshold: clipped to it, in the right direction."""
    X = np.array([[1e6, 0.0], [0.0, -1e6]], np.float32)
    params = {"weights": jnp.zeros(2)}
    ours = gs.clipped_sum(gs.objectives.logistic, params, (X, np.zeros(2, np.float32)), clip=1.0, backend=backend)
    np.testing.assert_allclose(ours["weights"], [1.0, -1.0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "linear", "ghost", "vmap"])
def test_zero_gradients(backend):
    params = {"weights": jnp.zeros(2)}
    batch = (np.zeros((4, 2), np.float32), np.zeros(4, np.float32))
    ours = gs.clipped_sum(gs.objectives.logistic, params, batch, clip=1.0, backend=backend)
    np.testing.assert_array_equal(ours["weights"], [0.0, 0.0])
    same = gs.clipped_difference(gs.objectives.logistic, params, params, batch, clip=0.0, backend=backend)
    np.testing.assert_array_equal(same["weights"], [0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ghost", "vmap"])
@pytest.mark.parametrize("microbatch", [1, 4, 7, 23, 100])
def test_microbatches_do_not_change_the_sum(backend, microbatch):
    loss, params, batch = CASES["mlp"]
    whole = compiled("mlp", backend)(batch, np.ones(23, bool), 1.0)
    parts = gs.clipped_sum(loss, params, batch, backend=backend, microbatch=microbatch)
    assert_close(parts, whole, 23)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("backend", ["ghost", "vmap"])
def test_blocks_have_their_own_norms(backend):
    def loss(params, record):
        x, y = params
        return jnp.dot(x, record["u"]) * 10 + jnp.dot(y, record["v"])

    batch = CASES["nested"][2]
    params = (jnp.zeros(3), jnp.zeros(4))
    first, second = gs.clipped_sum(loss, params, batch, clip=(0.5, 2.0), backend=backend)
    mask = np.ones(23, bool)
    np.testing.assert_allclose(first, loop_over_records(lambda z: 10 * z["u"], batch, mask, 0.5), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, loop_over_records(lambda z: z["v"], batch, mask, 2.0), rtol=1e-5, atol=1e-5)


def test_a_joint_query_clips_its_parts_apart():
    batch = CASES["nested"][2]
    h = gs.Joint((gs.Value(lambda z: z["u"]), gs.Value(lambda z: {"sum": jnp.sum(z["v"])})))
    first, second = clip_and_sum(h, batch, jnp.ones(23, bool), (0.5, 0.1))
    mask = np.ones(23, bool)
    np.testing.assert_allclose(first, loop_over_records(lambda z: z["u"], batch, mask, 0.5), rtol=1e-5, atol=1e-5)
    expected = loop_over_records(lambda z: np.sum(z["v"]), batch, mask, 0.1)
    np.testing.assert_allclose(second["sum"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
def test_tables_of_any_type_are_clipped(dtype, backend):
    """Squares of small integers wrap around and those of half floats round: norms must not."""
    rows = np.full((1, 64), 240 if dtype == np.uint8 else 300).astype(dtype)
    params = {"weights": jnp.zeros(64), "intercept": jnp.zeros(())}
    total = gs.clipped_sum(gs.objectives.logistic, params, (rows, np.zeros(1, np.float32)), backend=backend)
    norm = np.sqrt(sum(np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in jax.tree.leaves(total)))
    assert norm == pytest.approx(1.0, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
@pytest.mark.parametrize("clip", [0.0, 1e-27, 1e-13])
def test_a_vanishing_threshold_lets_nothing_through(backend, clip):
    """Squares of 1e-23 are 0 in float32: a norm of 0 must not pass for a short vector."""
    batch = (np.full((3, 2), 1e-23, np.float32), np.zeros(3, np.float32))
    total = gs.clipped_sum(gs.objectives.logistic, {"weights": jnp.zeros(2)}, batch, clip=clip, backend=backend)
    assert np.linalg.norm(total["weights"]) <= 3 * clip


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
def test_a_tiny_row_with_a_huge_error_is_clipped(backend):
    batch = (np.full((1, 100), 1e-19, np.float32), np.full(1, 1.8e19, np.float32))
    total = gs.clipped_sum(gs.objectives.logistic, {"weights": jnp.zeros(100)}, batch, clip=1.0, backend=backend)
    assert np.linalg.norm(np.asarray(total["weights"], np.float64)) <= 1 + 1e-5


@pytest.mark.slow
def test_low_precision_parameters_are_clipped_in_float32():
    loss, params, batch = CASES["mlp"]
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    for backend in ("ghost", "vmap"):
        total = gs.clipped_sum(loss, low, batch, clip=1.0, backend=backend)
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(total))


def test_wrong_backends_and_thresholds_are_refused():
    loss, params, batch = CASES["mlp"]
    with pytest.raises(ValueError, match="backend = 'linear' needs"):
        gs.clipped_sum(loss, params, batch, backend="linear")
    with pytest.raises(ValueError, match="must be one of 'auto'"):
        gs.clipped_sum(loss, params, batch, backend="fast")
    with pytest.raises(ValueError, match="clip has 2 thresholds"):
        gs.clipped_sum(loss, params, batch, clip=(1.0, 2.0), backend="vmap")
