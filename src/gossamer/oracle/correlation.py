"""Noise that nearly cancels in running sums: the binary tree, and a factorization of the matrix of prefix sums.

A stream is T answers x_1, …, x_T (each in units of its threshold) of which the running sums are wanted. Independent
noise on each answer adds up to √t. With a lower triangular strategy matrix C the answers are released as

    y = x + σ C⁻¹ z,       z_1, …, z_T independent standard normals,

so that C y = C x + σ z, and the running sums A y (A_ij = 1 for j ≤ i) carry the noise σ A C⁻¹ z.

Privacy. Let every record meet at most one of the T answers, and every column of C have norm at most 1. Take two
neighbouring tables; the record in which they differ meets answer s alone. Since C is lower triangular, y_1, …, y_{k−1}
determine the first k − 1 entries of C y, and given them entry k is a Gaussian of deviation σ whose mean
Σ_{j≤k} C_kj x_j is a function of earlier answers and of the records. For k < s that function is the same for both
tables. From s on the means differ by C_ks v, where v is the difference of the two x_s: fixed once y_1, …, y_{s−1} are,
and ‖v‖ ≤ 2 (replace one). Later x_j are the same functions of the answers for both. So given the first s − 1
answers the rest is a Gaussian mechanism whose mean moves by (Σ_k C_ks²)^½ ‖v‖ ≤ 2: one Gaussian query of multiplier σ,
adaptive as the answers may be (Denisov et al., 2022, Theorem 2.1), and whatever the thresholds were. Streams on
disjoint records have independent z: a record still meets one answer of one stream.

On the lattice of `gossamer.oracle.lattice` answers and draws are whole numbers. The tree's matrix N = L·C, L the length
of its longest column, has whole entries and so has its inverse: y = K + N⁻¹J with J = rint(σL2^β Z), and N y = N K + J.
The proof above then holds for the bits, as the theorem there does: N K moves by at most L times what K moves by. The
factorization's C⁻¹ is not whole. Its mixture of draws is rounded to whole numbers, K + rint(C⁻¹J): a function of the
ideal stream if that mixture were exact, but it is computed in float64. So the guarantee of a factorization is about
real numbers, and certificates say so.

Strategies, both scaled to columns of norm 1 at most:

* "tree": row b of C adds up x over (b − lowbit(b), b], the node of the binary tree that ends at b. These are the T
  nodes that the prefixes of paper ZO, Algorithm 5 use; ⌊log2 T⌋ + 1 of them lie over the first leaf, and no leaf has
  more (`nodes_over_leaves` counts).
* "factorization": the Toeplitz square root of A, C = A C⁻¹, optimal among Toeplitz matrices for the largest noise
  (Fichtenberger et al., 2023).
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg

from gossamer.base.trees import PyTree
from gossamer.privacy.sampling import Stream

STRATEGIES = ("factorization", "tree")
_DRAWN_AT_A_TIME = 1 << 18
"""How many normals of a stream are in memory at a time."""


def nodes_over_leaves(length: int) -> np.ndarray:
    """Return how many nodes of the binary tree lie over each of its leaves."""
    return np.sum(_tree_nodes(length), axis=0)


def strategy_matrix(strategy: str, length: int) -> np.ndarray:
    """Return C in float64, lower triangular, its longest column of norm 1."""
    if strategy == "tree":
        matrix = _tree_nodes(length).astype(np.float64)
    elif strategy == "factorization":
        matrix = linalg.toeplitz(_square_root(length), np.zeros(length))
    else:
        raise ValueError(f"strategy = {strategy!r} must be one of {', '.join(map(repr, STRATEGIES))}.")
    return matrix / _longest_column(matrix)


def running_noise(strategy: str, length: int) -> np.ndarray:
    """Return the deviation of the noise in each running sum, in units of σ."""
    return np.linalg.norm(np.cumsum(_inverse(strategy_matrix(strategy, length)), axis=0), axis=1)


@functools.lru_cache(maxsize=32)
def mixture(strategy: str, length: int) -> np.ndarray:
    """Return C⁻¹ divided by `scale`: whole numbers for the tree, float64 for the factorization."""
    if strategy == "tree":
        return np.rint(_inverse(_tree_nodes(length).astype(np.float64))).astype(np.int64)
    return _inverse(strategy_matrix(strategy, length)) * (1 + 1e-9)  # more than it lost to rounding


def scale(stream: Stream) -> float:
    """Return by how much the draws of a stream are larger than σ: the tree's nodes, unscaled, are whole numbers."""
    return math.sqrt(max(nodes_over_leaves(stream.length))) if stream.strategy == "tree" else 1.0


def answer_noise(stream: Stream | None) -> float:
    """Return the deviation of the noise in the first answer that a query gives in a stream, in units of σ."""
    if stream is None:
        return 1.0
    return scale(stream) * float(np.linalg.norm(mixture(stream.strategy, stream.length)[stream.first]))


def mixed(stream: Stream, place: jax.Array, draw: Callable[[jax.Array], PyTree], like: PyTree) -> PyTree:
    """Return Σ_j (C⁻¹)_{place, j} draw(j), in the shape of `like`: draws are made again for every answer, not kept.

    An answer of the tree needs two draws on average and ⌊log2 T⌋ + 1 at most. One of the factorization needs all draws
    up to its place, T/2 on average.
    """
    if stream.strategy == "tree":
        return _mixed_along_a_tree(place, draw)
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(like))
    chunk = max(1, min(stream.length, _DRAWN_AT_A_TIME // max(1, size)))
    count = -(-stream.length // chunk)

    with jax.enable_x64(True):
        row = jnp.asarray(mixture(stream.strategy, stream.length))[place]
        row = jnp.pad(row, (0, count * chunk - stream.length)).reshape(count, chunk)
        places = jnp.arange(count * chunk).reshape(count, chunk)

        def add(i: jax.Array, total: PyTree) -> PyTree:
            draws = jax.vmap(draw)(places[i])
            return jax.tree.map(lambda t, z: t + _weighted(row[i], z), total, draws)

        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, row.dtype), like)
        needed = jnp.asarray(place, jnp.int32) // chunk + 1  # draws behind the place have no part in it
        total = jax.lax.fori_loop(jnp.int32(0), needed, add, zero)
        return jax.tree.map(lambda leaf: jnp.rint(leaf).astype(jnp.int64), total)


def _mixed_along_a_tree(place: jax.Array, draw: Callable[[jax.Array], PyTree]) -> PyTree:
    """Return J_b − Σ J_{b − 2^j} over 2^j < lowbit(b), b = place + 1, in whole numbers: row b of N⁻¹.

    The node that ends at b lies over leaf b and over its children, which end at b − 1, b − 2, b − 4, …: so that is what
    is left of it for leaf b alone.
    """
    end = jnp.asarray(place, jnp.int32) + 1
    children = jax.lax.population_count((end & -end) - 1)

    def subtract(j: jax.Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.subtract, total, draw(end - 1 - jnp.left_shift(jnp.int32(1), j)))

    with jax.enable_x64(True):
        return jax.lax.fori_loop(jnp.int32(0), children, subtract, draw(end - 1))


def _weighted(weights: jax.Array, draws: jax.Array) -> jax.Array:
    return jnp.sum(weights.reshape(-1, *(1,) * (draws.ndim - 1)) * draws, axis=0)


def _tree_nodes(length: int) -> np.ndarray:
    """Return the matrix whose entry (b, i) says whether the node that ends at leaf b + 1 lies over leaf i + 1."""
    ends, leaves = np.arange(1, length + 1)[:, None], np.arange(1, length + 1)
    return (ends - (ends & -ends) < leaves) & (leaves <= ends)


def _square_root(length: int) -> np.ndarray:
    """Return the first column of the Toeplitz square root of A: the coefficients of (1 − x)^-1/2.

    In NumPy, where float64 does not depend on what the program around it has switched on.
    """
    k = np.arange(1, length)
    return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))


def _inverse(lower: np.ndarray) -> np.ndarray:
    return linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)


def _longest_column(matrix: np.ndarray) -> float:
    return float(np.max(np.linalg.norm(matrix, axis=0)))
