"""SPIDER that refreshes by drift and leaves saddles: StoSpider (Liu et al., 2023) and AdaSpider (Tao et al., 2025).

They are what paper SOSP compares RGDA with, on losses without a second player.

    name here            there   meaning
    steps                T       iterations
    period                       a bound on refreshes: there are at most ⌈steps/period⌉
    learning_rate        η       step size
    clip                 G       bound on one record's gradient norm (an assumption there, enforced here)
    smoothness           M       bound on how fast one record's gradient changes; sets the threshold of differences
    refresh_batch_size   b       expected size of the sample of a refresh; None: all records
    batch_size           b_t     expected size of the sample of a difference
    drift                κ       Σ‖x_{t+1} − x_t‖² since the last refresh at which the estimate is refreshed
    tolerance            γ, 3χ   a gradient estimate no longer than this starts an escape
    radius               r       of the ball from which an escape's perturbation is drawn
    escape_steps         Γ       StoSpider: steps until the next one may start; AdaSpider: steps until one gives up
    distance             R       AdaSpider: an escape has succeeded at this distance from where it began

Privacy. Every step asks one query: "gradient", Q(∇f(x_t), C, b/n), or "difference", Q(∇f(x_t) − ∇f(x_{t−1}), C_t,
b_t/n) with C_t = min(2C, L‖x_t − x_{t−1}‖). Which of the two depends on private outputs, and so does the number of
refreshes, which is bounded there with some probability only. Here the schedule has ⌈steps/period⌉ refreshes and
steps − 1 differences; when the refreshes are used up, differences go on.

What differs from there. StoSpider's output is chosen by a private test on held-out records; here by the output rules.
AdaSpider repeats an escape from the same point up to Q times before it gives up; here Q = 1. Both add Gaussian noise to
every step: that of the answers serves. An escape's perturbation is drawn from a ball (`gossamer.methods.escapes`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, sampling_rate
from gossamer.methods.escapes import DESCENDING, Escape, ball
from gossamer.methods.fields import Clip, Count, FixedRate, Noise, Output, Positive, Smoothness
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Difference, Gradient
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class DriftState(NamedTuple):
    """The iterate, the one before, the estimate, and where refreshes and escapes stand."""

    x: PyTree
    before: PyTree
    estimate: PyTree
    drift: jax.Array
    left: jax.Array
    """Refreshes that may still be asked."""
    escape: Escape


@dataclass(frozen=True)
class StoSpider(Method[ERM]):
    """Stochastic SPIDER: where the estimate is small it is refreshed, and x perturbed, but not too often.

    Args:
      steps: iterations T.
      period: bounds the refreshes by ⌈steps/period⌉.
      learning_rate: η.
      clip: bound on one record's gradient.
      smoothness: L, bound on how fast one record's gradient changes.
      batch_size: expected number of records in a difference.
      refresh_batch_size: expected number of records in a refresh; None asks all of them.
      drift: the sum of squared steps at which the estimate is refreshed.
      tolerance: norm of the estimate at which an escape starts.
      radius: of the perturbation.
      escape_steps: steps until the next escape may start.
      noise: relative noise of ("gradient", "difference"); None splits it automatically.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 300
    period: Count = 10
    learning_rate: FixedRate = 0.1
    clip: Clip = 1.0
    smoothness: Smoothness = 1.0
    batch_size: Count = 256
    refresh_batch_size: Count | None = None
    drift: Positive = 0.1
    tolerance: Positive = 0.1
    radius: Positive = 0.1
    escape_steps: Count = 30
    noise: Noise = None
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return as many refreshes as are allowed, and a difference for every step but the first."""
        fresh, _ = gradients.refreshes(self.steps, self.period)
        rate = sampling_rate(self.batch_size, n)
        refresh_rate = 1.0 if self.refresh_batch_size is None else sampling_rate(self.refresh_batch_size, n)
        gradient = Query(
            "gradient", fresh, Poisson(refresh_rate), clip=f"{self.clip:g}", weight=(1 / refresh_rate) ** 2
        )
        if self.steps == 1:
            return declare(self.noise, gradient)
        typical = min(2.0, self.smoothness * self.learning_rate)
        rule = f"min({2 * self.clip:g}, {self.smoothness:g}·distance to the last iterate)"
        weight = self.steps / fresh / 2 * (typical / rate) ** 2
        difference = Query("difference", self.steps - 1, Poisson(rate), clip=rule, weight=weight, gradients=2)
        return declare(self.noise, gradient, difference)

    def init(self, problem: ERM, params: PyTree) -> DriftState:
        """Start with no estimate: the first step refreshes it."""
        fresh, _ = gradients.refreshes(self.steps, self.period)
        return DriftState(
            x=params,
            before=params,
            estimate=trees.zeros_like(params),
            drift=jnp.float32(jnp.inf),
            left=jnp.int32(fresh),
            escape=Escape.none(params),
        )

    def step(self, problem: ERM, ask: Ask, state: DriftState, t: jax.Array) -> tuple[DriftState, Report]:
        """Refresh where the last estimate was small; then perturb: x ← prox(x − ηv + ξ)."""
        small = (t > 0) & (trees.norm(state.estimate) <= self.tolerance) & state.escape.descending
        state = self._estimate(problem, ask, state, small)
        shift = jax.tree.map(lambda leaf: -self.learning_rate * leaf, state.estimate)
        shift = trees.add(shift, ball(self.radius, state.estimate, t), jnp.where(small, 1.0, 0.0))
        escape = state.escape.after(small, state.escape.escaping, state.x, self.escape_steps, then=DESCENDING)
        return self._moved(problem, state, shift)._replace(escape=escape), _report(state)

    def params(self, state: DriftState) -> PyTree:
        """Return x."""
        return state.x

    def _estimate(self, problem: ERM, ask: Ask, state: DriftState, wanted: jax.Array) -> DriftState:
        """Refresh the estimate if that is wanted or x has drifted, and a refresh is left; else carry it along."""
        refresh = (wanted | (state.drift >= self.drift)) & (state.left > 0)

        def fresh(ask: Ask) -> PyTree:
            return ask("gradient", Gradient(problem.loss, state.x), self.clip)

        def change(ask: Ask) -> PyTree:
            clip = gradients.difference_clip(self.clip, self.smoothness, state.x, state.before)
            return ask("difference", Difference(problem.loss, state.x, state.before), clip)

        estimate = gradients.carried_along(ask, True if self.steps == 1 else refresh, fresh, change, state.estimate)
        return state._replace(
            estimate=estimate, drift=jnp.where(refresh, 0.0, state.drift), left=state.left - refresh.astype(jnp.int32)
        )

    def _moved(self, problem: ERM, state: DriftState, shift: PyTree) -> DriftState:
        """Move x and add to its drift."""
        after = problem.prox(trees.add(state.x, shift), self.learning_rate)
        drift = state.drift + trees.distance(after, state.x) ** 2
        return state._replace(x=after, before=state.x, drift=drift)


@dataclass(frozen=True)
class AdaSpider(StoSpider):
    """Adaptive DP-SPIDER: an escape from a point that it does not leave makes that point the answer.

    After that the run is finished: nothing more is asked, and the history's `gradient_norm` is NaN.

    Args:
      distance: how far from where it began an escape has succeeded.
      escape_steps: steps after which it gives up.
    """

    distance: Positive = 0.3

    def step(self, problem: ERM, ask: Ask, state: DriftState, t: jax.Array) -> tuple[DriftState, Report]:
        """x ← prox(x − ηv), and a perturbation where v is small; finish after an escape that led nowhere."""

        def move(ask: Ask) -> tuple[DriftState, Report]:
            now = self._estimate(problem, ask, state, jnp.bool_(False))
            begins = now.escape.descending & (trees.norm(now.estimate) <= self.tolerance)
            shift = jax.tree.map(lambda leaf: -self.learning_rate * leaf, now.estimate)
            shift = trees.select(begins, ball(self.radius, now.estimate, t), shift)
            after = self._moved(problem, now, shift)
            near = now.escape.escaping & (trees.distance(after.x, now.escape.anchor) < self.distance)
            return after._replace(escape=now.escape.after(begins, near, now.x, self.escape_steps)), _report(now)

        return state.escape.unless_finished(ask, state, move)

    def params(self, state: DriftState) -> PyTree:
        """Return x, or during and after an escape where it began."""
        return state.escape.answer(state.x)


def _report(state: DriftState) -> Report:
    return Report(state.x, trees.norm(state.estimate))
