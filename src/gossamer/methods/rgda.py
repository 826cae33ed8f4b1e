"""DP-RGDA: recursive gradient descent ascent that leaves saddle points (paper SOSP, Algorithms 2 and 3).

    name here              paper     meaning
    steps                  T         outer iterations
    inner_steps            K         iterates of y in each of them, one of which is kept
    period                 q         outer iterations between refreshes
    learning_rate_x        η         length of a descent step, which is normalised
    learning_rate_y        λ         step size of the ascent
    tolerance              α         a gradient shorter than this starts an escape
    radius                 r         of the ball from which an escape's perturbation is drawn
    escape_rate            η_H       step size within an escape
    escape_steps           t_thres   steps after which an escape gives up, and its starting point is the answer
    movement               D̄         mean squared movement at which an escape has succeeded
    clip_x, clip_y         C_v       bounds on one record's gradient norm in x and in y
    smoothness_x, _y       C_u       how fast one record's gradient in x, and in y, changes with the pair (x, y)
    refresh_batch_size     S_1       expected size of the sample of a refresh; None: all records
    batch_size             S_2       expected size of the sample of a difference
    single_pass                      population risk: every record is used once

Privacy. Every period-th outer step begins with "gradient", the joint query Q((∇x f, ∇y f)(x_t, y_t), …, S_1/n). All
else is "difference", Q((∇x f, ∇y f)(x, y) − (∇x f, ∇y f)(x′, y′), …, S_2/n), whose thresholds min(2C, L‖Δ(x, y)‖)
are functions of private outputs: T·K − ⌈T/q⌉ differences in all. Selection, perturbation and the test of an escape
compute with answers (`gossamer.methods.escapes`). So does the end of the run: what is not asked after it counts as
spent.

Single pass. Every query asks a block of rows of its own, in a random order: ⌈T/q⌉·S_1 + (T·K − ⌈T/q⌉)·S_2 ≤ n rows. A
record meets one query at most, so that the run costs as much as one Gaussian query, under neighbours that replace a
record; all queries then have the same noise multiplier.

What differs from print. (a) There the mean of a batch is clipped; here each record. (b) There T differences are counted
for the noise, and T·K are asked; here all are in the schedule. (c) x_{t,−1} = x_{t−1} in line 3 of Algorithm 3 adds the
change since x_{t−1} to an estimate that was just refreshed at x_t; here a refresh takes the place of the first
difference. (d) The y that is kept is one of y_{t,0}, …, y_{t,K−1}, so that K = 1, for which the proofs are written,
leaves y where it starts: at least 2 are needed. (e) When T steps are over, print returns the point where the last
escape began, even if that escape succeeded, which shows it to be a saddle; here it is returned only while an escape is
going on, and the current point else. (f) t_thres in Lemma 6 lacks a factor 1/α_H: a distance grows by 1 + η_H α_H in
each step.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import geometry, gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, sampling_rate
from gossamer.methods.escapes import Escape, ball
from gossamer.methods.fields import Clip, Count, FixedRate, Noise, Output, Positive, Smoothness, Whole
from gossamer.methods.sgda import Ascent, noise_split
from gossamer.methods.theory import Walk, batch_for, condition_number, positive, signal, walk, whole
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask, Difference, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Blocks, Poisson, Sampling
from gossamer.privacy.schedule import Query, Schedule

_FAILURE = 0.05
"""The probability with which a perturbation may miss the direction of escape, in `for_problem`."""


class RGDAState(NamedTuple):
    """The iterates, the x before, the estimate (v, u) at (x before, y), and where the escape stands."""

    x: PyTree
    y: PyTree
    before: PyTree
    estimate: PyTree
    escape: Escape
    """Its anchor is a pair (x, y)."""
    moved: jax.Array
    """Σ‖v_j‖² since the last escape began."""


@dataclass(frozen=True)
class RGDA(Method[Minimax]):
    """DP-RGDA: normalised descent along a carried gradient, inner ascent in y, and escapes from saddle points.

    After an escape that gave up the run is finished: nothing more is asked, the history's `gradient_norm` is NaN from
    there on, and the answer is the point where that escape began. The output rules are about the pair (x, y).

    Args:
      steps: outer iterations T.
      inner_steps: K of at least 2; K − 1 ascents in each outer iteration.
      period: outer iterations between refreshes.
      learning_rate_x: length of a descent step.
      learning_rate_y: step size of the ascent.
      tolerance: norm of the gradient below which an escape starts.
      radius: of the perturbation.
      escape_rate: step size within an escape.
      escape_steps: length of an escape that gives up.
      movement: mean squared length of an escape's steps at which it has succeeded.
      clip_x: bound on one record's gradient in x.
      clip_y: bound on one record's gradient in y.
      smoothness_x: bound on how fast one record's gradient in x changes with (x, y).
      smoothness_y: bound on how fast its gradient in y does.
      batch_size: expected number of records in a difference.
      refresh_batch_size: expected number of records in a refresh; None asks all of them.
      single_pass: whether every record is used in one query only (for the population risk).
      ascent: "gradient", or "public" if records do not meet y; then one query is asked in each outer iteration.
      noise: relative noise of ("gradient", "difference"); None splits it automatically.
      output: "last" (see above), "average", "random" or "smallest_gradient".
    """

    steps: Count = 300
    inner_steps: Annotated[int, Whole(2, because="with 1, y is never moved")] = 3
    period: Count = 10
    learning_rate_x: FixedRate = 0.1
    learning_rate_y: FixedRate = 0.5
    tolerance: Positive = 0.1
    radius: Positive = 0.1
    escape_rate: Positive = 0.5
    escape_steps: Count = 30
    movement: Positive = 1e-3
    clip_x: Clip = 1.0
    clip_y: Clip = 1.0
    smoothness_x: Smoothness = 1.0
    smoothness_y: Smoothness = 1.0
    batch_size: Count = 256
    refresh_batch_size: Count | None = None
    single_pass: bool = False
    ascent: Ascent = "gradient"
    noise: Noise = None
    output: Output = "last"

    problems: ClassVar[tuple[type[Problem], ...]] = (Minimax,)

    @classmethod
    def for_problem(
        cls,
        n: int,
        d: int,
        budget: Budget,
        *,
        smoothness: float,
        strong_concavity: float,
        hessian_smoothness: float,
        gap: float,
        **options: Any,
    ) -> "RGDA":
        """Return the settings of Theorem 1, or with `single_pass=True` of Theorem 2; the noise is calibrated as always.

        With s = nε/√(d ln(1/δ)), κ = l/μ, L = l(1 + κ) the smoothness of Φ and M = clip_x: T = (lF₀/M²)^(1/3) s^(4/3)
        steps, a refresh of all records every s²/T of them, differences of max(s²/T, n/√T) records (Lemma 5, which
        balances √(lF₀/T) against M·T/s²), and a gradient that is then known up to e = (lF₀M)^(1/3) s^(−2/3).

        An escape (Lemmas 6 and 7) from a curvature below −α_H = −√(ρα) has η_H = 1/(2L) and grows by 1 + η_H α_H in a
        step from δ₂r/√d, so that t = 2ι/(η_H α_H) steps with ι = ln(8√d/δ₂) take it from r = R/2 to R = α_H/ρ, and
        D̄ = (R/t)². Noise alone moves x by η_H e in a step: it is not taken for an escape if α = 2ιe. K = 1 + ⌈κ⌉ and
        η = α/L, half the step at which descent ends. All other constants that the paper hides are 1.

        The population's risk (Theorem 2, Lemma 8). Lemma 8 prints S_1 = n for every refresh, which meets each record
        more than once. In a single pass all n records are shared out instead: with ν the multiplier of one Gaussian
        query, e the largest of the sampling errors and noises M/√S_1, M√d·ν/S_1 of a refresh and, for steps of η, of
        q·K differences, T = LF₀/e² and q from the balance of both, e is the least for which ⌈T/q⌉S_1 + TK·S_2 ≤ n. It
        falls like n^(−1/3) by sampling, which is the theorem's, and like s^(−3/7) by noise; the theorem's s^(−1/2) uses
        records again.

        Args:
          n: number of records.
          d: the larger of the dimensions of x and y.
          budget: what may be spent; ε must be finite.
          smoothness: l, of one record's loss in both players.
          strong_concavity: μ, of the mean loss in y.
          hessian_smoothness: ρ, of the Hessian of Φ.
          gap: F₀, how far Φ is above its minimum at the start.
          options: other settings, such as the thresholds, which should bound one record's gradients.
        """
        s, condition = signal(n, d, budget), condition_number(smoothness, strong_concavity)
        positive(hessian_smoothness=hessian_smoothness)
        bound, inner_steps = options.get("clip_x", cls.clip_x), 1 + math.ceil(condition)
        value_smoothness = smoothness * (1 + condition)
        log = math.log(8 * math.sqrt(d) / _FAILURE)
        if options.get("single_pass", cls.single_pass):
            positive(gap=gap)
            noise = math.sqrt(d) * 2 * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon
            once = _single_pass(n, noise, descent=value_smoothness * gap, bound=bound, inner_steps=inner_steps)
            (steps, period, batch, error), refresh = once
            batch, options = whole(batch), {"refresh_batch_size": refresh, **options}
        else:
            steps, period, batch, error = walk(n, s, smoothness=smoothness, gap=gap, bound=bound)
            carried = steps * inner_steps - gradients.refreshes(steps, period)[0]
            batch = batch_for(batch, carried, n, budget)
        tolerance = 2 * log * error
        curvature = math.sqrt(hessian_smoothness * tolerance)
        reach, rate = curvature / hessian_smoothness, 1 / (2 * value_smoothness)
        escape_steps = math.ceil(2 * log / (rate * curvature))
        theory = dict(
            steps=steps,
            inner_steps=inner_steps,
            period=period,
            learning_rate_x=tolerance / value_smoothness,
            learning_rate_y=1 / smoothness,
            tolerance=tolerance,
            radius=reach / 2,
            escape_rate=rate,
            escape_steps=escape_steps,
            movement=(reach / escape_steps) ** 2,
            smoothness_x=smoothness,
            smoothness_y=smoothness,
            batch_size=batch,
        )
        return cls(**{**theory, **options})

    def check(self) -> None:
        """Refuse a single pass whose refreshes ask all records, besides what every method refuses."""
        super().check()
        if self.single_pass and self.refresh_batch_size is None:
            raise ValueError("single_pass needs a refresh_batch_size: a refresh of all records leaves none to differ.")

    def check_problem(self, problem: Minimax) -> None:
        """Refuse a problem that does not offer this ascent, and a best response, which has no inner iterates."""
        if self.ascent == "best_response":
            raise ValueError("ascent = 'best_response' has no inner iterates to select from. Use SGDA or PrivateDiff.")
        if not isinstance(problem.regularizer, geometry.Zero):
            raise ValueError(
                f"regularizer = {problem.regularizer!r}: RGDA takes none, because its steps and escapes follow the "
                "gradient alone. Use SGDA or PrivateDiff, or add a smooth penalty to public(x, y, key)."
            )
        problem.check_ascent(self.ascent)

    def schedule(self, n: int) -> Schedule:
        """Return the refreshes and the differences."""
        fresh, carried = self._counts()
        rate = sampling_rate(self.batch_size, n)
        refresh_rate = 1.0 if self.refresh_batch_size is None else sampling_rate(self.refresh_batch_size, n)
        both = self.ascent == "gradient"
        rule = f"{self.clip_x:g}" + (f" in x, {self.clip_y:g} in y" if both else "")
        refresh: Sampling = Poisson(refresh_rate)
        sampling: Sampling = Poisson(rate)
        if self.single_pass:
            assert self.refresh_batch_size is not None  # `check` refuses it
            refresh, sampling = Blocks(self.refresh_batch_size), Blocks(self.batch_size)
        gradient = Query("gradient", fresh, refresh, rule, weight=(self.clip_x / refresh_rate) ** 2)
        if not carried:
            return declare(self.noise, gradient)
        rules = [("x", self.clip_x, self.smoothness_x), ("y", self.clip_y, self.smoothness_y)][: 1 + both]
        rule = ", ".join(f"min({2 * clip:g}, {smooth:g}·distance) in {name}" for name, clip, smooth in rules)
        # The estimate carries the noise of half the differences between two refreshes, for steps of the usual length.
        typical = min(2 * self.clip_x, self.smoothness_x * self.learning_rate_x)
        weight = carried / fresh / 2 * (typical / rate) ** 2
        difference = Query("difference", carried, sampling, rule, weight=weight, gradients=2)
        # Disjoint blocks cost as much as the least noisy of them: any other split would only add noise.
        noise = (1.0, 1.0) if self.single_pass and self.noise is None else self.noise
        return declare(noise, gradient, difference)

    def init(self, problem: Minimax, params: PyTree) -> RGDAState:
        """Start in descent with no estimate: the first step refreshes it."""
        x, y = params
        estimate = trees.zeros_like(self._point(problem, x, y)[1])
        return RGDAState(x, y, x, estimate, escape=Escape.none(params), moved=jnp.float32(0))

    def step(self, problem: Minimax, ask: Ask, state: RGDAState, t: jax.Array) -> tuple[RGDAState, Report]:
        """Make outer iteration t, unless an escape has given up: then the answer is known."""

        def outer(ask: Ask) -> tuple[RGDAState, Report]:
            y, estimate = self._track(problem, ask, state, t)
            v = trees.add(
                estimate[0], problem.public_gradient((state.x, y), jax.random.fold_in(ask.key, self.inner_steps))[0]
            )
            return self._move(problem, state, y, estimate, v=v, t=t), Report((state.x, y), trees.norm(v))

        return state.escape.unless_finished(ask, state, outer)

    def _track(self, problem: Minimax, ask: Ask, state: RGDAState, t: jax.Array) -> tuple[PyTree, PyTree]:
        """Algorithm 3: carry (v, u) along K iterates of y; return the one of the least gradient mapping, and (v, u)."""
        refreshed = t % min(self.period, self.steps) == 0
        there, estimate = (state.before, state.y), state.estimate
        if self.ascent == "public":
            estimate = self._carry(problem, ask, refreshed, (state.x, state.y), there, estimate=estimate)

        def inner(ask: Ask, k: jax.Array, carry: tuple) -> tuple:
            y, there, estimate, best = carry
            here = (state.x, y)
            _, u = problem.public_gradient(here, jax.random.fold_in(ask.key, k))
            if self.ascent == "gradient":
                estimate = self._carry(problem, ask, refreshed & (k == 0), here, there, estimate=estimate)
                u = trees.add(u, estimate[1])
            after = problem.project_y(trees.add(y, u, self.learning_rate_y))  # line 16
            mapping = trees.distance(y, after) / self.learning_rate_y
            best = trees.select(mapping < best[0], (mapping, y, estimate), best)  # line 18
            return after, here, estimate, best

        first = (state.y, there, estimate, (jnp.float32(jnp.inf), state.y, estimate))
        _, y, estimate = ask.loop(self.inner_steps, inner, first)[3]
        return y, estimate

    def _carry(
        self, problem: Minimax, ask: Ask, refreshed: jax.Array, here: PyTree, there: PyTree, estimate: PyTree
    ) -> PyTree:
        """Algorithm 3, lines 4 to 15: ask for (v, u) afresh, or carry it over from where it was estimated last."""
        (loss, at), (_, other) = self._point(problem, *here), self._point(problem, *there)

        def fresh(ask: Ask) -> PyTree:
            clips = (self.clip_x, self.clip_y)
            return self._ask(ask, "gradient", Gradient(loss, at), clips, clips)

        def change(ask: Ask) -> PyTree:
            distance, scales = trees.distance(at, other), (self.smoothness_x, self.smoothness_y)
            bounds = zip((self.clip_x, self.clip_y), scales, strict=True)
            clips = tuple(jnp.minimum(2 * clip, scale * distance) for clip, scale in bounds)
            return self._ask(ask, "difference", Difference(loss, at, other), clips, scales)

        return gradients.carried_along(ask, True if self._counts()[1] == 0 else refreshed, fresh, change, estimate)

    def _move(
        self, problem: Minimax, state: RGDAState, y: PyTree, estimate: PyTree, v: PyTree, t: jax.Array
    ) -> RGDAState:
        """Algorithm 2, lines 4 to 21: descend, or start, continue or end an escape."""
        norm, escaping = trees.norm(v), state.escape.escaping
        since, moved = state.escape.since + 1, state.moved + norm**2
        begins = state.escape.descending & (norm < self.tolerance)  # lines 7 to 9
        succeeds = escaping & (self.escape_rate**2 * moved > since * self.movement)  # line 13
        size = jnp.where(escaping, self.escape_rate, self.learning_rate_x / norm)  # lines 17 and 6
        size = jnp.where(succeeds, jnp.sqrt(since * self.movement / moved), size)  # line 14
        shift = trees.select(begins, ball(self.radius, v, t), jax.tree.map(lambda leaf: -size * leaf, v))
        return RGDAState(
            x=problem.project_x(trees.add(state.x, shift)),
            y=y,
            before=state.x,
            estimate=estimate,
            escape=state.escape.after(begins, escaping & ~succeeds, (state.x, y), self.escape_steps),  # line 19
            moved=jnp.where(begins, 0.0, moved),
        )

    def _point(self, problem: Minimax, x: PyTree, y: PyTree) -> tuple[Any, PyTree]:
        """Return the loss as a function of what records meet, and the point at which it is (x, y)."""
        return (problem.record_loss, (x, y)) if self.ascent == "gradient" else problem.in_x(x, y)

    def _ask(self, ask: Ask, name: str, h: Any, clips: tuple, scales: tuple[float, ...]) -> PyTree:
        """Ask for both blocks at once, their noise split by these scales, or for x alone if records do not meet y."""
        return ask(name, h, clips[0]) if self.ascent == "public" else ask(name, h, clips, noise_split(h.at, scales))

    def _counts(self) -> tuple[int, int]:
        """Return the number of refreshes and of differences."""
        fresh, _ = gradients.refreshes(self.steps, self.period)
        return fresh, self.steps * (self.inner_steps if self.ascent == "gradient" else 1) - fresh

    def params(self, state: RGDAState) -> PyTree:
        """Return the pair (x, y), during and after an escape that where it began."""
        return state.escape.answer((state.x, state.y))


def _single_pass(n: int, noise: float, *, descent: float, bound: float, inner_steps: int) -> tuple[Walk, int]:
    """Return the walk of least error whose queries ask n records in all, each once, and the size of a refresh.

    Steps of e/L change one record's gradient by e at most, so q·K differences of S_2 records are off by
    e·√(qK/S_2) and e·√(qK)·noise/S_2; refreshes by M/√S_1 and M·noise/S_1. Both are e at these sizes, with `noise`
    the length of a sum's noise in units of the threshold.
    """

    def shared_out(error: float) -> tuple[int, int, Walk]:
        ratio = max(1.0, bound / error)
        refresh, steps = whole(max(ratio**2, ratio * noise)), whole(descent / error**2)
        choices = []
        for power in (1.0, 2 / 3):  # refreshes and differences need as many records: by sampling, by noise
            period = whole(ratio**power / inner_steps, steps)
            length, fresh = period * inner_steps, gradients.refreshes(steps, period)[0]
            difference = whole(max(length, math.sqrt(length) * noise))
            rows = fresh * refresh + (steps * inner_steps - fresh) * difference
            choices.append((rows, refresh, Walk(steps, period, difference, error)))
        return min(choices)

    low, high = bound * 1e-6, bound * math.sqrt(n) * (1 + noise) * 1e6 + math.sqrt(descent)
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if shared_out(middle)[0] <= n else (middle, high)
    rows, refresh, found = shared_out(high)
    if rows > n:
        raise ValueError(f"n = {n} records are too few for one pass: even one step asks {rows}. Leave out single_pass.")
    return found, refresh
