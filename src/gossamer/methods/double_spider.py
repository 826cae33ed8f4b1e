"""DP Double-SPIDER: penalised DRO by two estimates that differences carry along (paper DRO, Algorithm 2).

    name here            paper       meaning
    steps                T           iterations
    period               q           steps between refreshes of both estimates
    learning_rate        β           step size of x
    longest_step         β′          no step of x is longer: its rate is min(β, β′/‖v‖)
    learning_rate_dual   α           step size of η
    clip                 C3          bound on one record's gradient in x, which is its weight t times ∇ℓ
    clip_dual            C1          bound on one record's derivative in η, G(1 − t)
    smoothness           L0 + L1√H   how fast one record's gradient in x changes with x: about tL + Mg²/λ
    smoothness_mixed     GM·g/λ      how fast it changes with η, and the derivative in η with x (one mixed derivative)
    smoothness_dual      L2          how fast the derivative in η changes with η: G²M/λ
    batch_size           N2 = N4     expected size of the sample of a difference
    refresh_batch_size   N1 = N3     expected size of the sample of a refresh; None: all records
                         G, λ        the problem's `scale` and `penalty`
                         M, g, L     bounds on (ψ*)″, on ‖∇ℓ‖ and on ∇²ℓ

Privacy. With 𝓛(x, η; z) = λψ*((ℓ(x; z) − Gη)/λ) + Gη, a step asks two queries. First a scalar at (x_t, η_t): "dual",
Q(∂_η𝓛, C1, q1), at a refresh, and else "dual_difference", Q(∂_η𝓛(x_t, η_t) − ∂_η𝓛(x_{t−1}, η_{t−1}), C2, q2). It gives
η_{t+1}, which is private then. Next at (x_t, η_{t+1}) the same for ∇_x𝓛: "gradient" with C3 or "difference" with C4.
Every h is a function of one record and of private values, and clipped by itself; thresholds are functions of private
values: C4 = min(2C3, smoothness·‖Δx‖ + smoothness_mixed·|Δη|), C2 = min(2C1, smoothness_dual·|Δη| +
smoothness_mixed·‖Δx‖). So each is the door's mean query, and the schedule is the whole cost. No constant is trusted: a
record that changes faster is clipped, and one whose loss is not finite counts as zero.

What differs from print. (a) There the mean of a batch is clipped (lines 4, 6, 10, 12), which does not bound what one
record does to it; here each record. (b) There C2 and C4 are twice the larger of the two terms; their sum is never
more, and bounds the same. (c) Constants and the Gaussian mechanism of Definition 3 (which lacks a factor 2) are not
used.

Split. The x-gradient's estimate carries the noise of one refresh and of k differences, k = (period − 1)/2 on average.
An error e of the dual's estimate moves the η at which it vanishes by e/smoothness_dual, and smoothness_mixed passes
that on to the x-gradient: once, where the noise of x has d coordinates. So the weight of the scalar queries is
multiplied by `dimension_ratio` = 1/d, and they get little of the budget. Steps are taken as η·C long for the typical
thresholds.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gossamer import gradients
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, declare, rate_at, sampling_rate, typical_rate
from gossamer.methods.fields import Clip, Count, LearningRate, Noise, Number, Output, Positive, Smoothness
from gossamer.methods.theory import batch_for, positive, signal, walk
from gossamer.objectives.dro import DRO
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask, Difference, Gradient, Value
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class DoubleSpiderState(NamedTuple):
    """The iterates (x_t, η_t), the pair before them, and the estimates v in x and g in η."""

    x: PyTree
    dual: jax.Array
    before: PyTree
    dual_before: jax.Array
    estimate: PyTree
    dual_estimate: jax.Array


@dataclass(frozen=True)
class DoubleSpider(Method[DRO]):
    """DP Double-SPIDER for `gs.DRO(loss, divergence, penalty=...)`.

    The history's `gradient_norm`, and the output rule "smallest_gradient", are about the gradient in x.

    Args:
      steps: iterations T.
      period: steps between refreshes; 1 refreshes always.
      learning_rate: of x, a number or a function of the step.
      longest_step: bound on how far x moves in one step.
      learning_rate_dual: of η, the same.
      clip: bound on one record's gradient in x: its weight times that of the loss, so above the latter.
      clip_dual: bound on one record's derivative in η.
      smoothness: bound on how fast one record's gradient in x changes with x.
      smoothness_mixed: bound on how fast it changes with η, and the derivative in η with x.
      smoothness_dual: bound on how fast the derivative in η changes with η.
      batch_size: expected number of records in a difference.
      refresh_batch_size: expected number of records in a refresh; None asks all of them.
      initial_dual: η_0, best near a loss at the start divided by the problem's scale.
      dimension_ratio: 1/(number of coordinates of x), for the automatic split of the noise; None: `gs.solve` counts
        them, and a plan without parameters takes 0.01.
      noise: relative noise of ("dual", "dual_difference", "gradient", "difference"), as far as they are asked; None
        splits it automatically.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 200
    period: Count = 2
    learning_rate: LearningRate = 0.5
    longest_step: Positive = 1.0
    learning_rate_dual: LearningRate = 0.5
    clip: Clip = 2.0
    clip_dual: Clip = 2.0
    smoothness: Smoothness = 1.0
    smoothness_mixed: Smoothness = 1.0
    smoothness_dual: Smoothness = 1.0
    batch_size: Count = 256
    refresh_batch_size: Count | None = None
    initial_dual: float = 0.0
    dimension_ratio: Annotated[float, Number(above=0, because="it is 1/d")] | None = None
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
        largest_weight: float = 4.0,
        **options: Any,
    ) -> "DoubleSpider":
        """Return the settings of Theorem 7. The noise is calibrated as always, not by Theorem 6.

        With g and L of the loss, W for the largest weight and M the bound on (ψ*)″ up to it: one record's gradient in x
        is at most Wg long (clip), and changes by L₀ = WL + Mg²/λ; ∂_η𝓛 is at most G·max(1, W − 1), and changes by
        L₂ = G²M/λ with η and GMg/λ with x. With s = nε/√(d ln(1/δ)) and e = (L₀F₀·clip)^(1/3) s^(−2/3) there are
        T = (L₀F₀/clip²)^(1/3) s^(4/3) steps, refreshes of all records every q = s²/T of them (s^(2/3) where L₀F₀ =
        clip²: the theorem's), η moves by α = 1/(4L₂) and x by β = min(1/(2L₀), e/(L₀‖v‖)).

        Theorem 7 prints N₁ to N₄ with constants D₀, D₁ and D₂ that it does not bound, and 1/(L₀√n) for the longest
        step, a length in units of gradients. What is meant is the accuracy e over L₀, as in normalised SPIDER. T is
        not printed. L₁ is 0 here: the threshold follows weights up to W, and heavier records are clipped. Constants
        that the theorem hides are 1.

        Args:
          n: number of records.
          d: number of parameters.
          budget: what may be spent; ε must be finite.
          problem: the penalised problem, for its divergence, λ and G.
          lipschitz: g, a bound on one record's ‖∇ℓ‖.
          smoothness: L, of one record's loss.
          gap: F₀, how far the robust objective is above its minimum at the start.
          largest_weight: W, up to which a record's weight counts in full.
          options: other settings.
        """
        if problem.penalty is None:
            raise ValueError(f"radius = {problem.radius!r}: DoubleSpider needs a problem with a penalty.")
        positive(lipschitz=lipschitz, smoothness=smoothness, gap=gap, largest_weight=largest_weight - 1)
        # (ψ*)′(s) = W at s = ψ′(W).
        curvature = problem.divergence.smoothness(float(jax.grad(problem.divergence)(float(largest_weight))))
        if curvature == math.inf:
            raise ValueError(f"divergence = {problem.divergence!r} has no bound on (ψ*)″, which Theorem 7 needs.")
        bound, rate = largest_weight * lipschitz, curvature / problem.penalty
        change = largest_weight * smoothness + rate * lipschitz**2
        steps, period, batch, error = walk(n, signal(n, d, budget), smoothness=change, gap=gap, bound=bound)
        theory = dict(
            steps=steps,
            period=period,
            learning_rate=1 / (2 * change),
            longest_step=error / change,
            learning_rate_dual=1 / (4 * problem.scale**2 * rate),
            clip=bound,
            clip_dual=problem.scale * max(1.0, largest_weight - 1),
            smoothness=change,
            smoothness_mixed=problem.scale * rate * lipschitz,
            smoothness_dual=problem.scale**2 * rate,
            batch_size=batch_for(batch, max(1, gradients.refreshes(steps, period)[1]), n, budget),
            output="random",
        )
        return cls(**{**theory, **options})

    def check_problem(self, problem: DRO) -> None:
        """Refuse the KL ball."""
        if problem.penalty is None:
            raise ValueError(
                f"radius = {problem.radius!r}: DoubleSpider solves a penalised problem, gs.DRO(..., penalty=...). "
                "Use RecursiveSpider for the KL ball."
            )

    def sized(self, params: PyTree) -> "DoubleSpider":
        """Fill in `dimension_ratio`."""
        if self.dimension_ratio is not None:
            return self
        return dataclasses.replace(self, dimension_ratio=1 / trees.count(params))

    def schedule(self, n: int) -> Schedule:
        """Return the refreshes and the differences of both estimates."""
        fresh, carried = gradients.refreshes(self.steps, self.period)
        refresh_rate = 1.0 if self.refresh_batch_size is None else sampling_rate(self.refresh_batch_size, n)
        rate = sampling_rate(self.batch_size, n)
        step = min(self.longest_step, self.clip * typical_rate("learning_rate", self.learning_rate, self.steps))
        typical, typical_dual = self._difference_clips(step, 0.0)
        ratio = 0.01 if self.dimension_ratio is None else self.dimension_ratio
        passed_on = ratio * (self.smoothness_mixed / self.smoothness_dual) ** 2
        queries = []
        for name, share, clip, change, rule in (
            ("dual", passed_on, self.clip_dual, typical_dual, (self.smoothness_mixed, self.smoothness_dual)),
            ("gradient", 1.0, self.clip, typical, (self.smoothness, self.smoothness_mixed)),
        ):
            weight = share * (clip / refresh_rate) ** 2
            dual = name == "dual"
            queries.append(Query(name, fresh, Poisson(refresh_rate), clip=f"{clip:g}", weight=weight, dual=dual))
            if carried:
                queries.append(
                    Query(
                        "dual_difference" if dual else "difference",
                        carried,
                        Poisson(rate),
                        clip=f"min({2 * clip:g}, {rule[0]:g}‖Δx‖ + {rule[1]:g}|Δη|)",
                        weight=share * (self.period - 1) / 2 * (float(change) / rate) ** 2,
                        gradients=2,
                        dual=dual,
                    )
                )
        return declare(self.noise, *queries)

    def init(self, problem: DRO, params: PyTree) -> DoubleSpiderState:
        """Start with no estimates: the first step refreshes them."""
        dual = jnp.float32(self.initial_dual)
        return DoubleSpiderState(
            params, dual, params, dual, estimate=trees.zeros_like(params), dual_estimate=jnp.float32(0)
        )

    def step(self, problem: DRO, ask: Ask, state: DoubleSpiderState, t: jax.Array) -> tuple[DoubleSpiderState, Report]:
        """Move η along its estimate at (x_t, η_t), then x along its estimate at (x_t, η_{t+1})."""
        x, eta = state.x, state.dual
        g = self._dual_gradient(problem, ask, state, t)  # Alg. 2, lines 3 to 7
        eta_after = eta - rate_at(self.learning_rate_dual, t) * g  # line 8
        moved = trees.distance(x, state.before)
        threshold, _ = self._difference_clips(moved, jnp.abs(eta_after - eta))
        loss, here, before = problem.dual_loss(fixed_dual=True), (x, eta_after), (state.before, eta)
        v, _ = gradients.carried_along(  # lines 9 to 13; the answers' part in η is noise, and is dropped
            ask,
            gradients.is_refresh(t, self.steps, self.period),
            fresh=lambda ask: ask("gradient", Gradient(loss, here), self.clip),
            change=lambda ask: ask("difference", Difference(loss, here, before), threshold),
            estimate=(state.estimate, jnp.zeros_like(eta)),
        )
        norm = trees.norm(v)
        beta = jnp.minimum(rate_at(self.learning_rate, t), self.longest_step / norm)
        after = problem.prox(trees.add(x, v, -beta), beta)  # line 14
        return DoubleSpiderState(after, eta_after, x, eta, estimate=v, dual_estimate=g), Report(x, norm)

    def _dual_gradient(self, problem: DRO, ask: Ask, state: DoubleSpiderState, t: jax.Array) -> jax.Array:
        """g ← Q(∂_η𝓛(x, η)) or g + Q(∂_η𝓛(x, η) − ∂_η𝓛(x′, η′))."""
        derivative = problem.dual_loss().in_dual
        here, before = (state.x, state.dual), (state.before, state.dual_before)

        def fresh(ask: Ask) -> jax.Array:
            return ask("dual", Value(functools.partial(derivative, here)), clip=self.clip_dual)

        def change(ask: Ask) -> jax.Array:
            moved = trees.distance(state.x, state.before)
            _, threshold = self._difference_clips(moved, jnp.abs(state.dual - state.dual_before))
            return ask("dual_difference", gradients.change(derivative, here, before), clip=threshold)

        refresh = gradients.is_refresh(t, self.steps, self.period)
        return gradients.carried_along(ask, refresh, fresh, change, state.dual_estimate)

    def _difference_clips(self, moved: Any, moved_dual: Any) -> tuple[jax.Array, jax.Array]:
        """Return C4 and C2 for steps of these lengths in x and η."""
        change = self.smoothness * moved + self.smoothness_mixed * moved_dual
        change_dual = self.smoothness_mixed * moved + self.smoothness_dual * moved_dual
        return jnp.minimum(2 * self.clip, change), jnp.minimum(2 * self.clip_dual, change_dual)

    def params(self, state: DoubleSpiderState) -> PyTree:
        """Return x."""
        return state.x

    def public(self, state: DoubleSpiderState) -> dict[str, jax.Array]:
        """Return η."""
        return {"dual": state.dual}
