"""ChaCha20: the vectors of RFC 8439, a second implementation, and that it is a generator of JAX like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from scipy import stats

from gossamer.base import generator
from gossamer.base.entropy import new_key
from gossamer.base.generator import CHACHA20

KEY = new_key(7)
DRAW, SPLIT, FOLD, SEED = (int.from_bytes(word, "little") for word in (b"draw", b"splt", b"fold", b"seed"))


def rotated(x, by):
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def reference(key, counter, nonce):
    """A block as the RFC's pseudo-code has it: one word after another, in NumPy."""
    start = np.array([*np.frombuffer(b"expand 32-byte k", "<u4"), *key, counter, *nonce], np.uint32)
    s = start.copy()

    def quarter(a, b, c, d):
        s[a] += s[b]
        s[d] = rotated(s[d] ^ s[a], 16)
        s[c] += s[d]
        s[b] = rotated(s[b] ^ s[c], 12)
        s[a] += s[b]
        s[d] = rotated(s[d] ^ s[a], 8)
        s[c] += s[d]
        s[b] = rotated(s[b] ^ s[c], 7)

    with np.errstate(over="ignore"):
        for _ in range(10):
            for places in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
                quarter(*places)
            for places in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter(*places)
        return s + start


def words(key):
    return np.asarray(jax.random.key_data(key))


COUNTED = np.frombuffer(bytes(range(32)), "<u4")
ZERO, LAST_BIT, SECOND = (
    np.zeros(8, np.uint32),
    np.frombuffer(bytes(31) + b"\1", "<u4"),
    np.frombuffer(b"\0\xff" + bytes(30), "<u4"),
)
VECTORS = {
    "2.3.2": (
        *(COUNTED, 1, (0x09000000, 0x4A000000, 0)),
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "A.1 #1": (
        *(ZERO, 0, (0, 0, 0)),
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "A.1 #2": (
        *(ZERO, 1, (0, 0, 0)),
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    "A.1 #3": (
        *(LAST_BIT, 1, (0, 0, 0)),
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    "A.1 #4": (
        *(SECOND, 2, (0, 0, 0)),
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    "A.1 #5": (
        *(ZERO, 0, (0, 0, 0x02000000)),
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("count", [1, 40])
def test_the_vectors_of_the_rfc_are_reproduced(name, count):
    """In both layouts: one block, and many at once."""
    key, counter, nonce, expected = VECTORS[name]
    made = np.asarray(generator.blocks(jnp.asarray(key), jnp.full(count, counter, jnp.uint32), nonce))
    assert {made[:, i].astype("<u4").tobytes().hex() for i in range(count)} == {expected}
    assert reference(key, counter, nonce).astype("<u4").tobytes().hex() == expected


@pytest.mark.parametrize("size", [3, 1000, 100_000])
def test_draws_are_the_blocks_of_the_draw_domain(size):
    """Small draws, many blocks, and draws in parts; word-major within each."""
    drawn = np.asarray(jax.random.bits(KEY, (size,), jnp.uint32))
    count = -(-size // 16)
    part = count if count <= 4096 else 2048
    for place in {0, size // 3, size // 2, size - 1}:
        first, within = place // (16 * part), place % (16 * part)
        word, block = divmod(within, part)
        assert drawn[place] == reference(words(KEY), first * part + block, (0, 0, DRAW))[word]


def test_children_are_blocks_of_their_own_domains():
    np.testing.assert_array_equal(
        words(jax.random.split(KEY, (2, 3)))[1, 2], reference(words(KEY), 5, (0, 0, SPLIT))[:8]
    )
    np.testing.assert_array_equal(
        words(jax.random.fold_in(KEY, 2**32 - 1)), reference(words(KEY), 2**32 - 1, (0, 0, FOLD))[:8]
    )
    np.testing.assert_array_equal(words(new_key(9)), reference(ZERO, 9, (0, 0, SEED))[:8])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(words(new_key(9)), reference(ZERO, 9, (0, 0, SEED))[:8])
        large = jax.random.key(3 << 32 | 9, impl=CHACHA20)
    np.testing.assert_array_equal(words(large), reference(ZERO, 9, (3, 0, SEED))[:8])


def overlap(key):
    """Return whether a draw of a key and the children of that key have words in common."""
    with jax.enable_x64(True):
        drawn = np.asarray(jax.random.bits(key, (128,), jnp.uint64)).view(np.uint32)
    derived = np.concatenate([words(jax.random.split(key, 64)).ravel(), words(jax.random.fold_in(key, 1)).ravel()])
    return bool(np.isin(derived, drawn).any())


def test_draws_and_children_of_one_key_have_nothing_in_common():
    """Of 520 and 256 independent words two agree with probability 3e-5. Threefry, the control, draws its
    children: one word has two roles."""
    assert not overlap(KEY)
    assert overlap(jax.random.key(7))


def functions(key, i):
    below = jax.random.fold_in(key, i)
    return (
        jax.random.key_data(jax.random.split(below, (2, 2))),
        jax.random.bits(below, (70,), jnp.uint8),
        jax.random.bits(below, (3, 5), jnp.uint16),
        jax.random.permutation(below, 11),
        jax.random.randint(below, (4,), 0, 1000),
    )


@pytest.mark.deep
def test_compiled_vectorised_and_looped_draws_are_the_eager_ones():
    eager = functions(KEY, 2)
    others = (
        jax.jit(functions)(KEY, jnp.int32(2)),
        jax.tree.map(lambda leaf: leaf[1], jax.jit(jax.vmap(functions, (None, 0)))(KEY, jnp.arange(1, 4))),
        jax.tree.map(lambda leaf: leaf[1], jax.vmap(functions, (0, None))(jnp.stack([new_key(8), KEY]), 2)),
        jax.lax.fori_loop(0, 3, lambda i, _: functions(KEY, i), jax.tree.map(jnp.zeros_like, eager)),
    )
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, eager, other)


def test_shards_draw_what_one_device_draws():
    mesh = Mesh(np.array(jax.devices()), ("rows",))

    def draw(key):
        return jax.random.bits(jax.random.fold_in(key, jax.lax.axis_index("rows")), (40,), jnp.uint32)

    spread = jax.jit(jax.shard_map(draw, mesh=mesh, in_specs=P(), out_specs=P("rows")))(KEY)
    alone = [jax.random.bits(jax.random.fold_in(KEY, i), (40,), jnp.uint32) for i in range(mesh.size)]
    np.testing.assert_array_equal(np.asarray(spread), np.concatenate(alone))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_draws_have_the_width_and_the_law_that_is_asked_for(width):
    """χ² of the lowest and of the highest byte over 2^17 values, 255 degrees of freedom: p above 5.7e-7, that of 5
    standard errors. The control, bytes of which one in 32 was lost, is far outside."""
    with jax.enable_x64(True):
        drawn = np.asarray(jax.random.bits(KEY, (1 << 17,), f"uint{width}"))
    assert drawn.dtype == np.dtype(f"uint{width}")
    for byte in (drawn & np.array(255, drawn.dtype), drawn >> np.array(width - 8, drawn.dtype)):
        counts = np.bincount(byte.astype(np.int64), minlength=256)
        assert stats.chisquare(counts).pvalue > 5.7e-7
        lost = np.where(np.arange(len(byte)) % 32 == 0, 0, byte).astype(np.int64)
        assert stats.chisquare(np.bincount(lost, minlength=256)).pvalue < 5.7e-7


def test_normals_and_uniforms_come_from_it():
    """Mean and variance of 10^5 normals, and the mean of as many uniforms, within 5 standard errors."""
    normal, uniform = (
        np.asarray(draw(KEY, (100_000,)), np.float64) for draw in (jax.random.normal, jax.random.uniform)
    )
    assert abs(normal.mean()) < 5 / np.sqrt(1e5)
    assert abs(normal.var() - 1) < 5 * np.sqrt(2 / 1e5)
    assert abs(uniform.mean() - 0.5) < 5 / np.sqrt(12e5)


def test_more_than_a_key_has_is_refused():
    with pytest.raises(ValueError, match=r"at most 2\^36 random words"):
        jax.eval_shape(lambda: generator._random_bits(jnp.zeros(8, jnp.uint32), 32, (2**18, 2**18 + 1)))
    with pytest.raises(ValueError, match=r"at most 2\^32 children"):
        jax.eval_shape(lambda: generator._split(jnp.zeros(8, jnp.uint32), (2**16, 2**16 + 1)))


def test_a_key_of_another_generator_is_refused():
    generator.check_key("key", KEY)
    with pytest.raises(ValueError, match=r"key = key<fry>\[\] belongs to the generator threefry2x32.*new_key"):
        generator.check_key("key", jax.random.key(0))
    with pytest.raises(TypeError, match=r"key = uint32\[2\] must be a key"):
        generator.check_key("key", jnp.zeros(2, jnp.uint32))
