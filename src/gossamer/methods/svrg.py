"""DP-SVRG: epochs of corrected stochastic steps around an anchor, strongly convex (paper ERM, Algorithm 1).

    name here        paper   meaning
    steps            T       epochs
    inner_steps      m       steps in an epoch; Θ(L/μ) in Theorem 4.2
    learning_rate    η       step size; with `barzilai_borwein` the first one, and the largest
    clip             G       bound on one record's gradient norm (an assumption in print, enforced here)
    smoothness       L       bound on how fast one record's gradient changes; sets the threshold of differences
    batch_size       (1)     expected size of the sample of an inner step
    anchor           x̃       the mean of the last epoch's iterates
    anchor_gradient  ṽ       the private gradient there

Privacy. An epoch asks one query "anchor", Q(∇f(x̃), C, 1), and m queries "difference",
Q(∇f(x) − ∇f(x̃), C_t, b/n) with C_t = min(2C, L‖x − x̃‖), a function of private outputs. *Changed:* in print the exact
∇F(x̃) enters every inner step and only that step's fresh noise covers it, so that T·m full passes must be paid; here
it is noised once, and using the answer again is post-processing: T full passes. Barzilai–Borwein steps are computed
from private values. *Wrong in print:* η = 1/(12L) cannot meet inequality (4), whose second term alone is then 2; it
needs η < 1/(24L) with one record per step (`for_problem` solves the inequality for a batch).

Split. ṽ's noise acts as one error e on the whole epoch; a difference's noise is averaged over the m steps. With C_t
about C the weights in the anchor's units are 1 and 1/(q²m), by which both kinds of query cost the same.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, sampling_rate
from gossamer.methods.fields import Clip, Count, FixedRate, Noise, Output, Smoothness
from gossamer.methods.theory import condition_number, positive
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class SVRGState(NamedTuple):
    """The anchor, and what the Barzilai–Borwein step of the next epoch needs."""

    anchor: PyTree
    before: PyTree
    gradient_before: PyTree
    eta: jax.Array


@dataclass(frozen=True)
class SVRG(Method[ERM]):
    """DP stochastic variance-reduced gradient: one full pass an epoch, cheap corrected steps between.

    Args:
      steps: epochs T.
      inner_steps: m, steps in an epoch.
      learning_rate: η; at most about 1/L.
      clip: bound on one record's gradient.
      smoothness: L, bound on how fast one record's gradient changes.
      batch_size: expected number of records in an inner step.
      barzilai_borwein: whether later epochs take η = ‖Δx̃‖²/(m⟨Δx̃, Δṽ⟩), if that is in (0, learning_rate].
      noise: relative noise of ("anchor", "difference"); None splits it automatically.
      output: "last", "average", "random" or "smallest_gradient", among the anchors.
    """

    steps: Count = 10
    inner_steps: Count = 100
    learning_rate: FixedRate = 1.0
    clip: Clip = 1.0
    smoothness: Smoothness = 1.0
    batch_size: Count = 256
    barzilai_borwein: bool = False
    noise: Noise = None
    output: Output = "last"

    @classmethod
    def for_problem(
        cls,
        n: int,
        d: int,
        budget: Budget,
        *,
        smoothness: float,
        strong_convexity: float,
        gap: float | None = None,
        **options: Any,
    ) -> "SVRG":
        """Return the parameters of Theorem 4.2 for a loss with these constants.

        With b records per step the variance term 8L of inequality (4) is 8L/b. We take η = 1/(2L(1 + 16/b)), whose
        second term is 4/(b + 12), and the m for which the first one is 1/4: with 4 records or more each epoch halves
        the excess risk at least, and with 1 to 3 it leaves at most 0.56 of it. T epochs then reach the order of
        d·clip²·ln(1/δ)/(n²ε²μ), where the noise takes over.

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent.
          smoothness: L, of one record's loss.
          strong_convexity: μ, of the objective.
          gap: how far the objective is above its minimum at the start; None takes clip²/(2μ), which it cannot exceed if
            the clip bounds the gradient.
          options: other settings, such as the clip.
        """
        condition_number(smoothness, strong_convexity, name="strong_convexity")
        clip, batch = options.pop("clip", cls.clip), min(options.pop("batch_size", cls.batch_size), n)
        eta = 1 / (2 * smoothness * (1 + 16 / batch))
        inner = math.ceil(4 / (eta * (1 - 8 * eta * smoothness / batch) * strong_convexity))
        gap = clip**2 / (2 * strong_convexity) if gap is None else gap
        positive(gap=gap)
        signal = (n * min(budget.epsilon, 1e3)) ** 2 * gap * strong_convexity / (d * clip**2 * -math.log(budget.delta))
        theory = dict(
            steps=max(2, math.ceil(math.log2(signal))) if signal > 1 else 2,
            inner_steps=inner,
            learning_rate=eta,
            clip=clip,
            smoothness=smoothness,
            batch_size=batch,
        )
        return cls(**{**theory, **options})

    def schedule(self, n: int) -> Schedule:
        """Return one full pass an epoch and a sample an inner step."""
        rate = sampling_rate(self.batch_size, n)
        return declare(
            self.noise,
            Query("anchor", count=self.steps, clip=f"{self.clip:g}"),
            Query(
                "difference",
                count=self.steps * self.inner_steps,
                sampling=Poisson(rate),
                clip=f"min({2 * self.clip:g}, {self.smoothness:g}·distance to the anchor)",
                weight=1 / (rate**2 * self.inner_steps),
                gradients=2,
            ),
        )

    def init(self, problem: ERM, params: PyTree) -> SVRGState:
        """Start at the first anchor."""
        zero = trees.zeros_like(params)
        return SVRGState(params, params, zero, jnp.float32(self.learning_rate))

    def step(self, problem: ERM, ask: Ask, state: SVRGState, t: jax.Array) -> tuple[SVRGState, Report]:
        """Run one epoch."""
        anchor = state.anchor  # line 2
        gradient = ask("anchor", Gradient(problem.loss, anchor), clip=self.clip)  # line 3
        eta = self._rate(state, gradient) if self.barzilai_borwein else state.eta
        _, mean = gradients.epoch(  # lines 4–9
            problem,
            ask,
            start=anchor,
            anchor=anchor,
            anchor_gradient=gradient,
            count=self.inner_steps,
            eta=eta,
            clip=self.clip,
            smoothness=self.smoothness,
        )
        return SVRGState(mean, anchor, gradient, eta), Report(anchor, trees.norm(gradient))  # line 10

    def params(self, state: SVRGState) -> PyTree:
        """Return x̃."""
        return state.anchor

    def _rate(self, state: SVRGState, gradient: PyTree) -> jax.Array:
        """η = ‖Δx̃‖²/(m⟨Δx̃, Δṽ⟩) (Tan et al., 2016); noise may make it negative or huge, and then η stays."""
        moved = trees.add(state.anchor, state.before, -1.0)
        slope = trees.dot(moved, trees.add(gradient, state.gradient_before, -1.0))
        eta = trees.dot(moved, moved) / (self.inner_steps * slope)
        return jnp.where((eta > 0) & (eta <= self.learning_rate), eta, state.eta)
