"""Matrix sensing: find the factors of a low-rank matrix of which each record shows one noisy linear measurement.

Paper SOSP (Section 5) writes it as a game, max over y ∈ R^n of (1/n) Σ y_i(⟨A_i, UVᵀ⟩ − b_i) − y_i²/2. Its y has one
coordinate for each record, and y_i is that record's own residual: a release of y would be a release of the records.
Nobody needs it. The maximum is taken within each record, where y_i* = ⟨A_i, UVᵀ⟩ − b_i, and leaves

    ½(⟨A_i, UVᵀ⟩ − b_i)²

as the loss of one record, a function of (U, V) and of that record alone, which is what a query may ask for. (K ascents
of step λ from 0 within the record would give (1 − (1 − λ)^K)·y_i*: 0.9997 of it for the paper's λ = 0.8 and K = 5.) So
the sound form of the game is empirical risk minimisation, its inner loop costs no query, and Φ is the empirical risk.
"""

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.objectives.erm import ERM
from gossamer.objectives.minimax import Minimax


def _loss(x: PyTree, record: PyTree) -> jax.Array:
    a, b = record
    return (jnp.sum((a @ x["v"]) * x["u"]) - b) ** 2 / 2


def _without_y(x: PyTree, y: jax.Array, record: PyTree) -> jax.Array:
    return _loss(x, record)


def _bowl(x: PyTree, y: jax.Array, key: jax.Array) -> jax.Array:
    return -jnp.sum(y**2) / 2


def sensing() -> ERM:
    """Return matrix sensing with the maximum taken within each record: parameters {"u", "v"}, records (A, b).

    U = V = 0 is a strict saddle, at which no record has a gradient and λ_min = −‖(1/n) Σ b_i A_i‖₂.
    """
    return ERM(_loss)


def sensing_game() -> Minimax:
    """Return the same for methods that solve games: what is left of y is a public number whose best value is 0."""
    return Minimax(_without_y, public=_bowl, private_blocks=("x",))
