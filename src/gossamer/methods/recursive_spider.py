"""DP Recursive-SPIDER: DRO over a KL ball, with every mean relative to a public level (paper DRO, Algorithm 3).

    name here            paper    meaning
    steps                T        iterations
    period               q        steps between refreshes
    learning_rate        η        step size of x
    learning_rate_dual   η        step size of λ, relative to λ and ρ
    clip                 C1       bound on one record's ĝ∇ℓ
    largest_weight       W        bound on one record's ĝ, which sets the thresholds of both scalars (C3, C5)
    smoothness           C2, C4   how fast a record's loss, and its gradient relative to `clip`/λ, change with x
    smoothness_dual      C2, C4   how fast a record's exponent a changes with ln λ
    momentum             1 − β    weight of the previous s in the new one
    batch_size           b2, b4   expected size of the sample of a difference
    refresh_batch_size   b1, b3   expected size of the sample of a refresh; None: all records
                         ρ, λ0    the problem's `radius` and `smallest_penalty`

With g = exp(ℓ(x; z)/λ) the objective is λ ln E[g] + λρ. For λ = 10⁻³ and ℓ > 0.09 g overflows float32, so it is
measured in units of its last private estimate. Let that be e^{c/λ}: the level c is the loss of a record of weight 1, a
public number. With a = (ℓ − c)/λ and ĝ = min(e^a, W), three means are enough, of the size of 1 however small λ is:

    s = E[ĝ],   v = E[ĝ∇ℓ],   u = E[ĝ ln ĝ];      z_x = v/s,   z_λ = ρ − (u/s − ln s)

Up to the cap, v and u are the paper's E[∇_x g] and E[∂_λ g] in these units, times λ and centred at c. z_x is its
(λ/s)·v, the mean of ∇ℓ under the tilted distribution p ∝ ĝ, and z_λ its (λ/s)·u + ln s + ρ, since u/s − ln s = KL(p,
1/n). A step ends with s as the new unit: v ← v/s, u ← u/s − ln s, c ← c + λ ln s. The first c is 0, the smallest
possible: weights that are all at the cap are uniform, while weights far below it would drown in the noise.

Privacy. Every step asks one joint query about (x_t, λ_t), with c known: at a refresh "gradient", Q(ĝ∇ℓ, ĝ ln ĝ, ĝ),
and else "difference", Q(ĝ_t∇ℓ_t − ĝ_{t−1}∇ℓ_{t−1}, ĝ_t ln ĝ_t − ĝ_{t−1} ln ĝ_{t−1}, ĝ_t − (1 − β)ĝ_{t−1}), each pair
at the same record. x, λ, c and the thresholds are functions of earlier answers, so h is a function of one record and
of private values, and each block is clipped record by record: it is the door's joint query, and the schedule is the
whole cost. The cut of ℓ at B and the cap W are part of h (the gradient is that of the cut loss); clipping comes after
them, so the proof needs neither. A block that is not finite counts as zero. Thresholds are (C, max(1/e, W ln W), W) at
a refresh, as −1/e ≤ w ln w. Between, with r = (smoothness·‖Δx‖ + smoothness_dual·|Δλ|)/λ_t, the first two are
multiplied by min(2, r) and the last by β + (1 − β)·min(1, r). A level taken from the records, such as their largest
loss, would not be private.

What differs from print. (a) Lines 13 and 14 lack "+ v_{t−1}" and "+ u_{t−1}", which the analysis has. (b) Line 16
prints w_t twice, where Lemma 8 has w_{t+1} and w_t, and draws one record for it; here the same sample serves all
three. (c) s is asked afresh at a refresh (β_t = 1). (d) The level, the cap and the cut, without which there is
overflow. What a record at the cap contributed is carried along as if the cap had moved with the level, until the next
refresh. (e) λ starts at B/√(8ρ), above which no λ is best, and moves by η_λ·λ·z_λ/ρ, by half at most: the curvature in
λ is about 2ρ/λ, so such a step suits every λ and ρ. No step of x is longer than λ/smoothness: else exponents would
change by more than 1 in a step, and what is carried along would mean nothing. (f) s is kept above 1/e for the same
reason, and c in [0, B]. (e) and (f) are post-processing.

The cap. min(e^a, W) is the weight of KL-CVaR with α = 1/W, so that what is solved is the ball of `gs.KLCVaR(1/W)`: the
worst case over distributions at distance ρ whose weights are at most W. State it so, and `DRO.objective` reports the
same problem; W is then 1/α. `gs.KL()` has no such bound. A run on it takes W = 10e^ρ unless it is told otherwise:
heavier records make up a share of (ρ + 1/e)/ln W of its worst case at most (as Σ p ln(np) ≤ ρ, and the terms below 0
are −1/e at least), and count as if they weighed W.

Split. The blocks of the joint query get noise by `noise_split`, for d coordinates and two scalars, each relative to
its size: C, W ln W and W stand for 1, ln W and 1, because an error of s or u is one of the length of z_x, not of its
direction. Between refreshes and differences it is as in `Spider`, for a step of length η·C, with r taken for λ = 1, or
in `for_problem` for the λ of the start.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, rate_at, sampling_rate, typical_rate
from gossamer.methods.fields import Clip, Count, LearningRate, Noise, Number, Output, Smoothness
from gossamer.methods.sgda import noise_split
from gossamer.methods.theory import batch_for, positive, signal, walk
from gossamer.objectives.divergences import KLCVaR
from gossamer.objectives.dro import DRO
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask, Difference, Gradient, Joint, Value
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule

_SMALLEST_SUM = math.exp(-1)
_LONGEST_DUAL_STEP = 0.5


class RecursiveSpiderState(NamedTuple):
    """The iterates (x_t, λ_t), the pair before them, and what was learned about that pair, in units of its s."""

    x: PyTree
    dual: jax.Array
    before: PyTree
    dual_before: jax.Array
    estimate: PyTree
    """v/s, the mean of ∇ℓ under p."""
    divergence: jax.Array
    """u/s − ln s = KL(p, 1/n)."""
    level: jax.Array
    """c, the loss of a record of weight 1."""


@dataclass(frozen=True)
class RecursiveSpider(Method[DRO]):
    """DP Recursive-SPIDER for `gs.DRO(loss, gs.KLCVaR(alpha), radius=...)`, or `gs.KL()` in its place.

    The history's `gradient_norm`, and the output rule "smallest_gradient", are about the gradient in x.

    Args:
      steps: iterations T.
      period: steps between refreshes; 1 refreshes always.
      learning_rate: of x, a number or a function of the step.
      learning_rate_dual: of λ, relative to λ and to the radius; below 1.
      clip: bound on one record's gradient times its weight, so above that of the gradient.
      largest_weight: W, bound on one record's weight n·p_i in the worst case. None: that of the problem, 1/α for
        `gs.KLCVaR(alpha)`, and 10e^ρ for `gs.KL()`, which has none.
      smoothness: bound on how fast one record's loss changes with x, and its gradient relative to `clip`/λ; x moves by
        λ/smoothness at most in a step.
      smoothness_dual: bound on how fast one record's exponent changes with ln λ.
      momentum: in [0, 1]; the weight of the old s in the new one.
      batch_size: expected number of records in a difference.
      refresh_batch_size: expected number of records in a refresh; None asks all of them.
      noise: relative noise of ("gradient", "difference"); None splits it automatically.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 200
    period: Count = 2
    learning_rate: LearningRate = 0.25
    learning_rate_dual: LearningRate = 0.1
    clip: Clip = 2.0
    largest_weight: Annotated[float, Number(above=1, because="the mean weight is 1")] | None = None
    smoothness: Smoothness = 1.0
    smoothness_dual: Smoothness = 1.0
    momentum: Annotated[float, Number(least=0, most=1)] = 0.9
    batch_size: Count = 256
    refresh_batch_size: Count | None = None
    noise: Noise = None
    output: Output = "last"

    problems: ClassVar[tuple[type[Problem], ...]] = (DRO,)

    @classmethod
    def for_problem(
        cls,
        n: int,
        d: int,
        budget: Budget,
        *,
        problem: DRO,
        lipschitz: float,
        smoothness: float,
        gap: float,
        **options: Any,
    ) -> "RecursiveSpider":
        """Return the settings of Theorem 8. The noise is calibrated as always, not by the theorem.

        With g and L of the loss, and λ for that of the run: the objective's gradient is a mean of ∇ℓ, at most g long,
        and changes by L_Ψ = L + g²/λ (∇²Ψ = E[∇²ℓ] + Cov(∇ℓ)/λ under p). One record's ĝ∇ℓ is at most Wg long. With s =
        nε/√(d ln(1/δ)): T = (L_ΨΨ₀/(Wg)²)^(1/3) s^(4/3) steps, refreshes of all records every q = s²/T of them and
        η = 1/(2L_Ψ). λ is that of the start, B/√(8ρ): where it falls, steps are bounded by λ/smoothness.

        Theorem 8 prints q = n²ε²/(L²T d ln(1/δ)), whose L² has no place in a number of steps, and η = min(1/(2L), cη²),
        which defines η by itself. Its G and L are of exp(ℓ/λ), which has no bound that is worth a threshold (e^(B/λ));
        ours are relative to the private level. Other constants that it hides are 1.

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent; ε must be finite.
          problem: the ball, for its radius, loss_bound and largest weight.
          lipschitz: g, a bound on one record's ‖∇ℓ‖.
          smoothness: L, of one record's loss.
          gap: Ψ₀, how far the robust objective is above its minimum at the start.
          options: other settings.
        """
        method = cls(**options)
        method.check_problem(problem)
        positive(lipschitz=lipschitz, smoothness=smoothness, gap=gap)
        change = smoothness + lipschitz**2 / problem.largest_penalty
        bound = method._cap(problem) * lipschitz
        steps, period, batch, _ = walk(n, signal(n, d, budget), smoothness=change, gap=gap, bound=bound)
        theory = dict(
            steps=steps,
            period=period,
            learning_rate=1 / (2 * change),
            clip=bound,
            smoothness=lipschitz,
            batch_size=batch_for(batch, max(1, gradients.refreshes(steps, period)[1]), n, budget),
            output="random",
        )
        found = cls(**{**theory, **options})
        return found if found.noise is not None else replace(found, noise=found._noise_at(n, problem.largest_penalty))

    def check_problem(self, problem: DRO) -> None:
        """Refuse a penalised problem."""
        if problem.radius is None:
            raise ValueError(
                f"penalty = {problem.penalty!r}: RecursiveSpider solves a ball, gs.DRO(..., gs.KL(), radius=...). "
                "Use DoubleSpider for a penalised problem."
            )
        largest = problem.log_largest_weight
        if self.largest_weight is None:
            return
        if largest < math.inf and not math.isclose(self.largest_weight, math.exp(largest)):
            raise ValueError(
                f"largest_weight = {self.largest_weight!r} must be that of the problem, 1/alpha = "
                f"{math.exp(largest):.4g}. Leave it out."
            )
        if not math.log(self.largest_weight) > problem.radius:
            raise ValueError(
                f"largest_weight = {self.largest_weight!r} must be above e^radius = {math.exp(problem.radius):.4g}: "
                f"no distribution with smaller weights is at distance radius = {problem.radius!r}."
            )

    def schedule(self, n: int) -> Schedule:
        """Return the refreshes and the differences."""
        fresh, carried = gradients.refreshes(self.steps, self.period)
        refresh_rate = 1.0 if self.refresh_batch_size is None else sampling_rate(self.refresh_batch_size, n)
        rate = sampling_rate(self.batch_size, n)
        largest = self.largest_weight
        scalars = "W ln W, W" if largest is None else f"{_largest_entropy(largest):g}, {largest:g}"
        clips = f"{self.clip:g}, {scalars}"
        gradient = Query("gradient", fresh, Poisson(refresh_rate), clip=clips, weight=1 / refresh_rate**2)
        if not carried:
            return declare(self.noise, gradient)
        shrink = self._shrink(1.0)
        difference = Query(
            "difference",
            carried,
            Poisson(rate),
            clip=f"({clips}), the first two times min(2, r), the last times {1 - self.momentum:g} + {self.momentum:g}·"
            f"min(1, r), r = ({self.smoothness:g}‖Δx‖ + {self.smoothness_dual:g}|Δλ|)/λ",
            weight=max(1, self.period - 1) / 2 * (shrink / rate) ** 2,
            gradients=2,
        )
        return declare(self.noise, gradient, difference)

    def _shrink(self, dual: float) -> float:
        """Return the usual threshold of a difference in units of a refresh's, if λ is `dual`."""
        step = self.clip * typical_rate("learning_rate", self.learning_rate, self.steps)
        return min(2.0, self.smoothness * step / dual)

    def _noise_at(self, n: int, dual: float) -> tuple[float, ...]:
        """Return the automatic split of `schedule`, with r for another λ: a query's weight grows with its square."""
        first, *rest = (query.automatic_noise() for query in self.schedule(n))
        return first, *(noise * math.sqrt(self._shrink(1.0) / self._shrink(dual)) for noise in rest)

    def init(self, problem: DRO, params: PyTree) -> RecursiveSpiderState:
        """Start with no estimates, which the first step refreshes, and with the mildest worst case."""
        dual = jnp.float32(problem.largest_penalty)
        zero = jnp.float32(0)
        return RecursiveSpiderState(
            params, dual, params, dual, estimate=trees.zeros_like(params), divergence=zero, level=zero
        )

    def step(
        self, problem: DRO, ask: Ask, state: RecursiveSpiderState, t: jax.Array
    ) -> tuple[RecursiveSpiderState, Report]:
        """Estimate s, v and u by one joint query; move x and λ; change the unit to s."""
        assert problem.radius is not None  # check_problem
        v, u, s = self._estimates(problem, ask, state, t)  # Alg. 3, lines 4 to 16
        s = jnp.maximum(s, _SMALLEST_SUM)
        gradient, divergence = jax.tree.map(lambda leaf: leaf / s, v), u / s - jnp.log(s)
        norm = trees.norm(gradient)
        eta = jnp.minimum(rate_at(self.learning_rate, t), state.dual / (self.smoothness * jnp.maximum(norm, 1e-30)))
        after = problem.prox(trees.add(state.x, gradient, -eta), eta)  # lines 17 and 18
        relative = rate_at(self.learning_rate_dual, t) * (1 - divergence / problem.radius)
        dual = state.dual * (1 - jnp.clip(relative, -_LONGEST_DUAL_STEP, _LONGEST_DUAL_STEP))
        dual = jnp.clip(dual, problem.smallest_penalty, problem.largest_penalty)
        level = jnp.clip(state.level + state.dual * jnp.log(s), 0.0, problem.loss_bound)
        state = RecursiveSpiderState(
            after, dual, state.x, state.dual, estimate=gradient, divergence=divergence, level=level
        )
        return state, Report(state.before, norm)

    def _estimates(
        self, problem: DRO, ask: Ask, state: RecursiveSpiderState, t: jax.Array
    ) -> tuple[PyTree, jax.Array, jax.Array]:
        """Return v, u and s at (x_t, λ_t) in units of the last s."""
        here, before = (state.x, state.dual), (state.before, state.dual_before)
        largest = self._cap(problem)
        record = _Record(problem, KLCVaR(1 / largest), state.level)
        clips = (self.clip, _largest_entropy(largest), largest)
        weights = noise_split((here[0], here[1], here[1]), (1.0, clips[1] / clips[2], 1.0))

        def fresh(ask: Ask) -> tuple[PyTree, jax.Array, jax.Array]:
            values = (Value(functools.partial(value, here)) for value in (record.entropy, record.weight))
            (v, _), u, s = ask("gradient", Joint((Gradient(record.loss, here), *values)), clips, weights)
            return v, u, s

        def change(ask: Ask) -> tuple[PyTree, jax.Array, jax.Array]:
            moved = trees.distance(state.x, state.before)
            moved_dual = jnp.abs(state.dual - state.dual_before)
            r = (self.smoothness * moved + self.smoothness_dual * moved_dual) / state.dual
            clip, clip_entropy, clip_weight = clips
            thresholds = (
                clip * jnp.minimum(2.0, r),
                clip_entropy * jnp.minimum(2.0, r),
                gradients.storm_clip(clip_weight, self.momentum, clip_weight * r),
            )
            parts = (
                Difference(record.loss, here, before),
                gradients.change(record.entropy, here, before),
                gradients.change(record.weight, here, before, self.momentum),
            )
            (v, _), u, s = ask("difference", Joint(parts), thresholds, weights)
            return v, u, s

        refresh = gradients.is_refresh(t, self.steps, self.period)
        last = (state.estimate, state.divergence, jnp.float32(self.momentum))  # s is in units of the last one
        return gradients.carried_along(ask, refresh, fresh, change, last)

    def _cap(self, problem: DRO) -> float:
        """Return W."""
        if self.largest_weight is not None:
            return self.largest_weight
        assert problem.radius is not None  # check_problem
        largest = problem.log_largest_weight
        return math.exp(largest if largest < math.inf else problem.radius + math.log(10.0))

    def params(self, state: RecursiveSpiderState) -> PyTree:
        """Return x."""
        return state.x

    def public(self, state: RecursiveSpiderState) -> dict[str, jax.Array]:
        """Return λ."""
        return {"dual": state.dual}


def _largest_entropy(largest: float) -> float:
    """Return the largest |w ln w| of a weight in [0, W]."""
    return max(math.exp(-1), largest * math.log(largest))


class _Record(NamedTuple):
    """What one record is asked for at a point (x, λ), relative to the level c; ĝ is the weight of KL-CVaR."""

    problem: DRO
    capped: KLCVaR
    level: jax.Array

    def exponent(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return a = (ℓ − c)/λ."""
        x, penalty = point
        return (self.problem.record_value(x, record) - self.level) / penalty

    def loss(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return λψ*(a) with λ fixed: its gradient in x is ĝ∇ℓ."""
        x, penalty = point
        penalty = jax.lax.stop_gradient(penalty)
        return penalty * self.capped.conjugate(self.exponent((x, penalty), record))

    def weight(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return ĝ."""
        return self.capped.weight(self.exponent(point, record))

    def entropy(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return ĝ ln ĝ."""
        a = jnp.minimum(self.exponent(point, record), self.capped.log_largest_weight)
        return jnp.exp(a) * a
