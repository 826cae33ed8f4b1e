"""What it costs to release only the best of a secret number of trials.

A trial is a private mechanism: it draws a setting from a public law, trains, and scores what came out. Its output is
all of that, score included. Trials are independent and alike; their number K has a public law with probability
generating function f and knows no record (`gossamer.privacy.trials`). Only the output with the best score is released;
ties are broken by independent coins. How outputs are ranked depends on the outputs alone.

*Theorem.* Let P and Q be the laws of one trial on two neighbouring tables, H_γ(P‖Q) = sup_S P(S) − γQ(S), and
G(p) = inf {Q(S) : P(S) ≥ p} their trade-off curve. For ε ≥ 0 let

    ψ(w) = sup over 0 ≤ p ≤ 1 of [f'(p) − e^ε w f'(G(p))]₊.

Then the released best, A, has H_{e^ε}(A_P‖A_Q) ≤ E_P ψ(dQ/dP), and that is at most the same expression for any pair
that dominates (P, Q): whose profile H_γ is as large for every γ ≥ 0.

*Proof.*

1. Let F_P(y) be the chance that a trial is ranked at or below y; it is continuous, as coins break ties. The best of k
   trials is y with density k F_P(y)^(k−1) dP(y). Averaged over K that is f'(F_P(y)) dP(y). K = 0 releases nothing, with
   the same chance on both tables. So H_{e^ε} = ∫ [f'(F_P) − e^ε f'(F_Q) dQ/dP]₊ dP: where P has no mass, nothing is
   added.
2. "Ranked at or below y" is an event, so F_Q(y) ≥ G(F_P(y)). f' rises, as f has no negative coefficient: the
   integrand is at most [f'(p) − e^ε (dQ/dP) f'(G(p))]₊ at p = F_P(y), hence at most ψ(dQ/dP).
3. ψ is a supremum of falling lines and 0: convex, falling, and bounded by f'(1). So it is ψ(∞) + ∫ (t − w)₊ dν(t) with
   ν ≥ 0, and E_P (t − dQ/dP)₊ = t H_{1/t}(P‖Q). A dominating pair makes each H larger, and G smaller, which makes ψ
   larger. ∎

So all that is needed of a trial is values of its profile, and upper bounds on them do:

    δ ≤ ψ(∞) + Σ_k ν_k t_k δ_trial(−ln t_k),
    G(p) ≥ max over e of e^(−e) (p − δ(e)) and 1 − e^e (1 − p) − δ_reverse(e).

ψ(∞) is f'(p*), p* the largest p at which f'(G(p)) = 0. It is 0, unless f'(0) = 0: K is never 1.

*How ψ is bounded.* G is bounded by a maximum of finitely many lines, which is convex, and f' is convex and rises: so
f'(G(p)) is at least its tangent in the middle of a cell [p_j, p_(j+1)], and f'(p) at most its chord. Their difference
is linear in p, so at most the larger of its values at both ends: two lines in w for each cell. The rest is the upper
envelope of lines.

*Several kinds of trials.* The setting is part of the output and has the same law on both tables, so H_γ of a trial is
the average of those given the setting: the pointwise maximum of their profiles is an upper bound.

*Samples that are cut.* If a trial differs from the ideal one with chance τ at most, the whole differs with chance
τ·E K: that adds (1 + e^ε)·τ·E K to δ.

*All trials released.* K and all outputs together have δ(ε) = Σ_k P(K = k) δ_k(ε), δ_k the profile of k trials. The
best is a function of them. Near ε = 0 that is less than the theorem's bound.

The bounds of Koskela, Redberg and Wang (2024) follow by bounding f'(p) and f'(G(p))/f'(p) separately. Those of Liu and
Talwar (2019) and of Papernot and Steinke (2022) are for pure and for Rényi privacy. This theorem needs trials that are
independent and alike: settings that are proposed by earlier results, drawn without repetition, or stopping at a good
score, are other mechanisms and not covered.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gossamer.base.messages import is_number, is_whole, shown
from gossamer.privacy.trials import Trials

Profile = Callable[[np.ndarray], np.ndarray]
"""An upper bound on δ(ε) of one trial for each ε ≥ 0 of an array."""
_ROUNDING = 1e-9
"""What float64 may get wrong in sums of positive numbers, with room to spare: the result is made larger by it."""
_ULPS = 1e-14
_TANGENTS = 800
_NEGLIGIBLE = 2e-10
_FARTHEST = 64.0
_STEEPEST = 36.0
"""Cells are even in ln(p/(1 − p)), up to this: beyond it p is 0 or 1 in float64."""


def select(
    profile: Profile,
    trials: Trials,
    epsilon: float,
    *,
    reverse: Profile | None = None,
    together: Callable[[int, float], float] | None = None,
    cells: int = 4000,
) -> float:
    """Return δ at ε of releasing only the best of a secret number of trials, for any mechanism of your own.

    The module's docstring has the theorem, its proof, and what it asks for.

    Args:
      profile: `profile(epsilons)` → an upper bound on δ of one trial for each ε ≥ 0, for both orders of the two tables
        if no `reverse` is given.
      trials: the law of the number of trials, such as `gs.privacy.negative_binomial(10)`.
      epsilon: ε ≥ 0 of the whole.
      reverse: the profile with the two tables exchanged. Both orders of the whole are then looked at.
      together: `together(k, epsilon)` → δ of k trials that are all released; used where it gives less.
      cells: how finely to look; any number gives an upper bound.

    Example:
      >>> def randomized_response(epsilons):  # one trial keeps ε = 0.1, δ = 0
      ...     return np.maximum(0.0, (np.exp(0.1) - np.exp(epsilons)) / (1 + np.exp(0.1)))
      >>> from gossamer.privacy.trials import negative_binomial
      >>> select(randomized_response, negative_binomial(10, eta=1), 0.3)
      0.0
    """
    if not (is_number(epsilon) and 0 <= epsilon < math.inf):
        raise ValueError(f"epsilon = {shown(epsilon)} must be a finite number of at least 0.")
    if not is_whole(cells):
        raise ValueError(f"cells = {shown(cells)} must be a whole number of at least 1.")
    orders = [_Order(profile, profile)] if reverse is None else [_Order(profile, reverse), _Order(reverse, profile)]
    bound = max(_one_order(order, trials, float(epsilon), cells) for order in orders)
    if together is not None:
        all_of_them = math.fsum(
            chance * together(k, float(epsilon)) for k, chance in enumerate(trials.chances) if k and chance
        )
        bound = min(bound, all_of_them)
    return min(1.0, bound * (1 + _ROUNDING))


class _Order(NamedTuple):
    """The profiles of a pair: forth is H(P‖Q), back is H(Q‖P)."""

    forth: Profile
    back: Profile

    def at(self, epsilons: np.ndarray) -> np.ndarray:
        """Return H(P‖Q) for any real ε: H_γ(P‖Q) = 1 − γ + γ H_{1/γ}(Q‖P)."""
        out = np.empty_like(epsilons)
        low = epsilons < 0
        out[~low] = _checked(self.forth, epsilons[~low])
        out[low] = -np.expm1(epsilons[low]) + np.exp(epsilons[low]) * _checked(self.back, -epsilons[low])
        return np.minimum(out, 1.0)


def _checked(profile: Profile, epsilons: np.ndarray) -> np.ndarray:
    deltas = np.asarray(profile(epsilons), float)
    if deltas.shape != epsilons.shape or not np.all(deltas >= 0):
        raise ValueError("profile must return a number of at least 0 for each ε of the array that it is given.")
    return np.minimum(deltas, 1.0)


def _one_order(order: _Order, trials: Trials, epsilon: float, cells: int) -> float:
    """Return the theorem's bound on H_{e^ε}(A_P‖A_Q)."""
    if trials.chances[0] + trials.chances[1] == 1:  # f' is constant: the best of at most one trial is that trial
        return trials.chances[1] * float(order.at(np.array([epsilon]))[0])
    high, low = _lines(order, trials, cells)
    bends, slopes, rest = _envelope(high, math.exp(epsilon) * low)
    return rest + float(np.sum(slopes * bends * order.at(-np.log(bends))))


def _lines(order: _Order, trials: Trials, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs (a, b): for every p, f'(p) − v f'(G(p)) is at most the largest a − v b, whatever v ≥ 0 is."""
    edges = np.concatenate([[0.0], 1 / (1 + np.exp(-np.linspace(-_STEEPEST, _STEEPEST, cells))), [1.0]])
    middles = (edges[1:] + edges[:-1]) / 2
    least, slope = _trade_off(order, middles)
    tangent = trials.slope(least)
    rise = trials.bend(least) * slope
    values = trials.slope(edges)
    floor = trials.slope(np.array(0.0))
    # Rounded down: a tangent that is a little too high would not be a lower bound.
    ends = [(1 - _ROUNDING) * tangent + rise * (end - middles) for end in (edges[:-1], edges[1:])]
    return np.concatenate([values[:-1], values[1:]]), np.maximum(np.concatenate(ends), (1 - _ROUNDING) * floor)


def _trade_off(order: _Order, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a lower bound on G at each p, at least 0, and the slope there of the line that gives it."""
    largest = 0.125
    while largest < _FARTHEST and float(order.at(np.array([largest]))[0]) > _NEGLIGIBLE:
        largest *= 2
    e = largest * np.linspace(0.0, 1.0, _TANGENTS) ** 2
    slopes = np.concatenate([[0.0], np.exp(-e), np.exp(e)])
    heights = np.concatenate([[0.0], -np.exp(-e) * order.at(e), 1 - np.exp(e) - _Order(*order[::-1]).at(e)])
    slopes, heights = slopes * (1 - _ULPS), heights - np.abs(heights) * _ULPS
    best, value = np.zeros(p.shape, int), np.zeros(p.shape)
    for i, (slope, height) in enumerate(zip(slopes, heights, strict=True)):
        here = height + slope * p
        better = here > value
        best[better], value[better] = i, here[better]
    return value, slopes[best]


def _envelope(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the upper envelope of the lines a − b w and of 0 for w ≥ 0: its bends, how much it bends, its limit."""
    order = np.lexsort((high, -low))
    a, b = [*high[order].tolist(), 0.0], [*low[order].tolist(), 0.0]
    kept: list[tuple[float, float]] = []
    bends: list[float] = []  # where the line before each kept one, but for the first, is overtaken
    for line in zip(a, b, strict=True):  # steep ones first: they lead near w = 0
        if kept and line[1] == kept[-1][1]:
            if line[0] <= kept[-1][0]:
                continue
            _drop(kept, bends)
        while kept:
            at = (kept[-1][0] - line[0]) / (kept[-1][1] - line[1])
            if at > (bends[-1] if bends else 0.0):
                bends.append(at)
                break
            _drop(kept, bends)
        kept.append(line)
    slopes = [before[1] - after[1] for before, after in itertools.pairwise(kept)]
    return np.array(bends), np.array(slopes), kept[-1][0]


def _drop(kept: list[tuple[float, float]], bends: list[float]) -> None:
    kept.pop()
    if bends:
        bends.pop()
