"""DP-O2NC: non-smooth, non-convex losses from values alone (paper ZO, Algorithms 3 to 5).

    name here       paper   meaning
    steps           K       blocks
    inner_steps     T       rounds of a block
    radius          δ       smoothing radius; a block moves no further than this, D = δ/T in a round
    learning_rate   η       of the online subgradient descent, in units of D/(C√T)
    clip            L       bound on one record's gradient estimate (there dL, from the loss' Lipschitz constant)
    smoothness              bound on how fast one record's estimate changes; sets the threshold of differences
    directions      d       random directions for each record; None: as many as parameters
    batch_size      B2      records of a difference, ⌊n/2KT⌋ (1 in print); a block's first round has B1 = (T + 1) B2
    correlation     TREE    how noise is correlated within a block: "factorization" or "tree"

Privacy. All samples are disjoint: a record meets one answer of the run. "gradient" asks GRAD on B1 records in the first
round of a block and "difference" asks DIFF on B2 in each other; the answers of a block are one stream of correlated
noise (`gossamer.oracle.correlation` has the proof), so a record costs one Gaussian of multiplier σ. Their thresholds
are in the proportion B1 : B2, so that all answers of a block are noisy in the same unit, which is what lets the noise
cancel. Directions and s_t are public random numbers.

Changed. (a) The printed √(2 ln T) for the root of the number of nodes over a leaf is too small at T = 1, 2 and 4:
here the columns of the strategy are measured. (b) The printed bound dL of one direction's term is used for the mean
of d; here the mean is clipped, at a C of order L. (c) DIFF is two-sided (`gossamer.gradients.zeroth`). (d) Theorem 4.9
prints T = min{…}; the bound that it balances, (F* + Lδ)T/(δM) + √d L/√T + d^{3/2}L/(Tρ), needs the max (`for_problem`).

Constraints. The theorem is about a Lipschitz f on all of the space. A problem with a constraint is one about f∘Π, which
is as Lipschitz as f: x moves freely, values are asked at Π(x), and Π of a block's mean point is the answer.

`variance_reduction=False` is the naive oracle (Algorithm 6): GRAD on 2·B2 records in every round, independent noise.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.gradients.zeroth import smoothed_difference, smoothed_gradient
from gossamer.methods.base import Method, Report
from gossamer.methods.fields import Clip, Count, FixedRate, OneOf, Output, Positive, Smoothness, Whole
from gossamer.methods.theory import positive
from gossamer.objectives.black_box import BlackBox
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask
from gossamer.oracle.correlation import STRATEGIES
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Blocks, Stream
from gossamer.privacy.schedule import Query, Schedule

Correlation = Annotated[str, OneOf(STRATEGIES, because="variance_reduction=False has independent noise")]


class O2NCState(NamedTuple):
    """Where the next block starts, and the mean point of the last."""

    x: PyTree
    average: PyTree


class _Round(NamedTuple):
    """Within a block: x_{t+1}, Δ_t, w_t, the estimate g̃_t, and the means of w and of g̃ so far."""

    x: PyTree
    move: PyTree
    w: PyTree
    estimate: PyTree
    average: PyTree
    average_estimate: PyTree


@dataclass(frozen=True)
class O2NC(Method[BlackBox]):
    """DP online-to-non-convex conversion for `gs.BlackBox`: each record is met once.

    Args:
      steps: blocks K. The iterate moves at most `radius` in each.
      inner_steps: rounds T of a block. K and T share the records: n ≥ 2KT.
      radius: the smoothing radius.
      learning_rate: in units of D/(C√T), D = radius/T: 1 suits gradients as long as the clip.
      clip: bound on one record's gradient estimate.
      smoothness: bound on how fast it changes; clip/radius is a first choice, √d times that the worst case.
      directions: how many random directions per record; None: as many as there are parameters.
      correlation: "factorization" or "tree": how the noise of a block's answers is correlated.
      variance_reduction: False asks a fresh gradient with independent noise in every round (the naive oracle).
      output: "random" (the theorem's), "last", "average" or "smallest_gradient", among the blocks' mean points.
    """

    problems: ClassVar[tuple[type[Problem], ...]] = (BlackBox,)

    steps: Count = 20
    inner_steps: Annotated[int, Whole(2, because="a block moves from its second round on")] = 25
    radius: Positive = 0.1
    learning_rate: FixedRate = 1.0
    clip: Clip = 1.0
    smoothness: Smoothness = 10.0
    directions: Count | None = None
    correlation: Correlation = "factorization"
    variance_reduction: bool = True
    output: Output = "random"

    @classmethod
    def for_problem(cls, n: int, d: int, budget: Budget, *, gap: float, **options: Any) -> "O2NC":
        """Return K and T of Theorem 4.9 for n records, with clip for L and the clipped estimate's noise.

        The theorem balances (F* + Cδ)T/(δn), what is left to descend, with √d C/√T, the estimate's deviation, and
        √d Cν/T, its noise of multiplier ν: what one Gaussian query needs, to leading order. An estimate of length C
        changes within the radius, so `smoothness` is C/δ.

        Args:
          n: the number of records.
          d: the number of parameters.
          budget: what may be spent.
          gap: F*, how far the objective may be above its infimum at the start.
          options: other settings, such as the smoothing radius δ and the clip.
        """
        positive(gap=gap)
        clip, radius = options.get("clip", cls.clip), options.get("radius", cls.radius)
        distance = clip * radius * d**0.5 * n / (gap + clip * radius)
        noise = 2 * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon if budget.is_private else 0.0
        T = max(distance ** (2 / 3), (distance * noise) ** 0.5)
        T = max(2, min(round(T), n // 4))
        theory = dict(steps=max(1, n // (2 * T)), inner_steps=T, smoothness=clip / radius)
        return cls(**{**theory, **options})

    def batch_size(self, n: int) -> int:
        """Return the number of records in a difference."""
        size = n // (2 * self.inner_steps * self.steps)
        if size == 0:
            raise ValueError(
                f"steps = {self.steps} and inner_steps = {self.inner_steps} need n ≥ 2·steps·inner_steps = "
                f"{2 * self.steps * self.inner_steps} records, each met once, but n = {n}. Choose fewer."
            )
        return size

    def thresholds(self) -> tuple[float, float]:
        """Return the thresholds of gradients and of differences: per record of their samples, in the same unit."""
        if not self.variance_reduction:
            return self.clip, self.clip
        farthest = 2 * self.radius / self.inner_steps  # ‖w_t − w_{t−1}‖ ≤ 2D
        unit = max(min(2 * self.clip, self.smoothness * farthest), self.clip / (self.inner_steps + 1))
        return (self.inner_steps + 1) * unit, unit

    def schedule(self, n: int) -> Schedule:
        """Return one pass over the records, in disjoint samples."""
        K, T, B2 = self.steps, self.inner_steps, self.batch_size(n)
        gradient, difference = (f"{threshold:g}" for threshold in self.thresholds())
        if not self.variance_reduction:
            return Schedule((Query("gradient", K * T, Blocks(2 * B2), clip=gradient),))
        first = Stream(self.correlation, T, first=0, share=1)
        rest = Stream(self.correlation, T, first=1, share=T - 1)
        return Schedule(
            (
                Query("gradient", K, Blocks((T + 1) * B2, first), clip=gradient),
                Query("difference", K * (T - 1), Blocks(B2, rest), clip=difference, gradients=2),
            )
        )

    def init(self, problem: BlackBox, params: PyTree) -> O2NCState:
        """Start at the given point."""
        return O2NCState(params, params)

    def step(self, problem: BlackBox, ask: Ask, state: O2NCState, t: jax.Array) -> tuple[O2NCState, Report]:
        """Run block t + 1: T rounds of Algorithm 3 with the oracle of Algorithm 4."""
        T, D = self.inner_steps, self.radius / self.inner_steps
        eta = self.learning_rate * D / (self.clip * T**0.5)
        block, s_key = jax.random.split(ask.key)
        between = jax.random.uniform(s_key, (T,))
        gradient_clip, difference_clip = self.thresholds()

        def setting(i: jax.Array | int) -> dict[str, Any]:
            """The black box in round i = 0, 1, … of the block, and its directions."""
            return {
                "value": lambda params, record: problem.evaluate(params, record, t * T + i + 1),
                "radius": self.radius,
                "directions": self.directions,
                "key": jax.random.fold_in(block, i),
                "shared": problem.python,
            }

        # Δ_1 = 0, so that w_1 = x_1 = x_2; Algorithm 4, line 3.
        w = state.x
        g = ask("gradient", smoothed_gradient(at=w, **setting(0)), gradient_clip)

        def one_round(ask: Ask, i: jax.Array, s: _Round) -> _Round:
            # Algorithm 3, lines 3 and 4.
            move = _project(trees.add(s.move, s.estimate, -eta), D)
            w = trees.add(s.x, move, between[i + 1])
            x = trees.add(s.x, move)
            if self.variance_reduction:
                # Algorithm 4, line 5; TREE(t) is in the answers' correlated noise.
                h = smoothed_difference(at=w, other=s.w, **setting(i + 1))
                g = trees.add(s.estimate, ask("difference", h, difference_clip))
            else:
                g = ask("gradient", smoothed_gradient(at=w, **setting(i + 1)), gradient_clip)
            weight = 1.0 / (i + 2.0)
            # Algorithm 3, line 8.
            average = trees.add(s.average, trees.add(w, s.average, -1.0), weight)
            average_estimate = trees.add(s.average_estimate, trees.add(g, s.average_estimate, -1.0), weight)
            return _Round(x, move, w, g, average=average, average_estimate=average_estimate)

        first = _Round(state.x, trees.zeros_like(w), w, g, average=w, average_estimate=g)
        end = ask.loop(T - 1, one_round, first)
        answer = problem.project(end.average)
        return O2NCState(end.x, answer), Report(answer, trees.norm(end.average_estimate))

    def params(self, state: O2NCState) -> PyTree:
        """Return the mean point of the last block."""
        return state.average


def _project(move: PyTree, farthest: float) -> PyTree:
    """Return Π_D(Δ)."""
    length = trees.norm(move)
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, farthest / jnp.maximum(length, 1e-30)), move)
