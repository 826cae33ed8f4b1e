"""ChaCha20 (RFC 8439) as the generator of all of a run's randomness, with keys of 256 bits.

    block(K, c, x)     the 16 words of a ChaCha20 block: key K of 8 words, counter c, nonce (0, 0, x)
    bits(K)            block(K, 0, DRAW), block(K, 1, DRAW), …
    split(K)[j]        the first 8 words of block(K, j, SPLIT)
    fold_in(K, j)      the first 8 words of block(K, j, FOLD)
    seed j             the first 8 words of block(0, j, SEED); a seed of more than 32 bits goes on in the nonce

Nobody has told ChaCha20's blocks under an unknown key from independent uniform words faster than by trying keys
(Bernstein, 2008): it is taken for a pseudo-random function of counter and nonce. What is proved is that nothing more
need be assumed.

*Domains.* DRAW, SPLIT and FOLD are different words in the same place of the input. So whatever is asked of one key, no
input of the function occurs in two roles: words that are drawn and keys that are derived are values of one random
function at different points, hence independent and uniform. A counter has 32 bits, so children with different numbers,
and blocks of one draw, have different inputs too. (JAX's threefry has no such words: there draws and children of one
key can be the same values.)

*Tree.* Derived keys are nodes of the tree of Goldreich, Goldwasser and Micali (1986). Replace the function of one node
after another by a random one, from the root on: when its turn comes, a node's key is a uniform value that was used for
nothing else. So all that a run draws from m keys is told from independent uniform words with an advantage of at most m
times that against one ChaCha20 key, provided that no key serves two draws, which is the rule for every key of JAX.

*Limits.* One key has 2³² blocks, which are 2³⁶ words, 2³² children by `split` and as many by `fold_in`. Beyond that
inputs would repeat, so larger draws and splits are refused; JAX hands over 32 bits of what is folded in.

A key from the operating system's entropy is secret; one from a seed is as secret as the seed, and for tests only.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

from gossamer.base.messages import shown
from gossamer.base.trees import is_key

KEY_WORDS = 8
_BLOCK_WORDS = 16
_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4")
_DRAW, _SPLIT, _FOLD, _SEED = (int.from_bytes(word, "little") for word in (b"draw", b"splt", b"fold", b"seed"))
_COUNTERS = 1 << 32
_FEW_BLOCKS = 1024
_PART = 2048
"""So many blocks are computed at a time: their state stays in a core's cache, which makes large draws three times as
fast. It divides 2³², so that a draw that is rounded up to whole parts does not repeat counters."""


def blocks(key: jax.Array, counter: jax.Array, nonce: tuple[Any, Any, Any]) -> jax.Array:
    """Return ChaCha20's blocks under a key of 8 words, one for each counter: 16 words in the first axis."""
    counter = counter.astype(jnp.uint32)
    tail = [counter, *(jnp.broadcast_to(jnp.asarray(word, jnp.uint32), counter.shape) for word in nonce)]
    head = jnp.concatenate([jnp.asarray(_CONSTANTS), key])
    head = jnp.broadcast_to(head.reshape(-1, *[1] * counter.ndim), (len(head), *counter.shape))
    start = jnp.concatenate([head, jnp.stack(tail)])
    return start + (_rounds_of_rows if counter.size < _FEW_BLOCKS else _rounds_of_words)(start)


def _rounds_of_words(start: jax.Array) -> jax.Array:
    """Return the state after 20 rounds, each of its 16 words an array over the blocks: fast for many blocks.

    The rounds are a loop because XLA's compiler for CPUs does not come to an end with all of them in a row.
    """
    columns = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]

    def double_round(_: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        words = list(state)
        for a, b, c, d in (*columns, *diagonals):
            words[a], words[b], words[c], words[d] = _quarter_round(words[a], words[b], words[c], words[d])
        return tuple(words)

    return jnp.stack(jax.lax.fori_loop(0, 10, double_round, tuple(start)))


def _rounds_of_rows(start: jax.Array) -> jax.Array:
    """Return the same with each row of 4 words as one array: fewer operations, three times as fast for one block."""

    def turned(row: jax.Array, by: int) -> jax.Array:
        return jnp.concatenate([row[by:], row[:by]])

    def double_round(_: jax.Array, rows: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        a, b, c, d = _quarter_round(*rows)
        a, b, c, d = _quarter_round(a, turned(b, 1), turned(c, 2), turned(d, 3))
        return a, turned(b, 3), turned(c, 2), turned(d, 1)

    rows = tuple(start.reshape(4, 4, *start.shape[1:]))
    return jnp.concatenate(jax.lax.fori_loop(0, 10, double_round, rows))


def _quarter_round(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> tuple[jax.Array, ...]:
    def rotated(x: jax.Array, by: int) -> jax.Array:
        return (x << jnp.uint32(by)) | (x >> jnp.uint32(32 - by))

    a = a + b
    d = rotated(d ^ a, 16)
    c = c + d
    b = rotated(b ^ c, 12)
    a = a + b
    d = rotated(d ^ a, 8)
    c = c + d
    b = rotated(b ^ c, 7)
    return a, b, c, d


@jax.jit
def _seeded(seed: jax.Array) -> jax.Array:
    high = seed >> 32 if seed.dtype.itemsize > 4 else jnp.zeros_like(seed)
    return blocks(jnp.zeros(KEY_WORDS, jnp.uint32), seed, (high.astype(jnp.uint32), 0, _SEED))[:KEY_WORDS]


@functools.partial(jax.jit, static_argnames="shape")
def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    children = math.prod(shape)
    if children > _COUNTERS:
        raise ValueError(f"a key has at most 2^32 children, and shape = {shape} has {children}. Split in two steps.")
    numbers = jnp.arange(children, dtype=jnp.uint32).reshape(shape)
    return jnp.moveaxis(blocks(key, numbers, (0, 0, _SPLIT))[:KEY_WORDS], 0, -1)


@jax.jit
def _fold_in(key: jax.Array, number: Any) -> jax.Array:
    return blocks(key, jnp.asarray(number), (0, 0, _FOLD))[:KEY_WORDS]


@functools.partial(jax.jit, static_argnames=("width", "shape"))
def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    size = math.prod(shape)
    words = -(-size * width // 32)
    count = -(-words // _BLOCK_WORDS)
    if count > _COUNTERS:
        raise ValueError(
            f"a key has at most 2^36 random words, and {words} are asked for at once. Split the key and draw in parts."
        )
    # In which order words are used does not matter, as long as it is fixed: no block is taken apart.
    if count <= 2 * _PART:
        drawn = blocks(key, jnp.arange(count, dtype=jnp.uint32), (0, 0, _DRAW))
    else:
        first = jnp.arange(-(-count // _PART), dtype=jnp.uint32) * _PART
        drawn = jax.lax.map(
            lambda start: blocks(key, start + jnp.arange(_PART, dtype=jnp.uint32), (0, 0, _DRAW)), first
        )
    drawn = drawn.reshape(-1)
    if width == 64:
        pairs = drawn[:words].reshape(-1, 2)
        return jax.lax.bitcast_convert_type(pairs, jnp.uint64).reshape(shape)
    kind = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[width]
    return jax.lax.bitcast_convert_type(drawn, kind).reshape(-1)[:size].reshape(shape)


CHACHA20 = define_prng_impl(
    key_shape=(KEY_WORDS,),
    seed=_seeded,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="chacha20",
    tag="cha",
)
"""The generator, for `jax.random.key(..., impl=CHACHA20)`; runs take theirs from `gossamer.base.entropy.new_key`."""


def check_key(name: str, key: Any) -> None:
    """Refuse what is no key of this generator."""
    if not is_key(key):
        raise TypeError(f"{name} = {shown(key)} must be a key, as gossamer.base.entropy.new_key(None) makes one.")
    if jax.random.key_impl(key) != CHACHA20:
        raise ValueError(
            f"{name} = {shown(key)} belongs to the generator {jax.random.key_impl(key)}, and the promise of a run "
            "rests on ChaCha20 with a key of 256 bits. Make the key with gossamer.base.entropy.new_key(seed)."
        )
