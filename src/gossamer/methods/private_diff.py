"""PrivateDiff Minimax: noisy ascent in y, a variance-reduced gradient in x (paper MINIMAX, Algorithms 3 and 4).

    name here               paper     meaning
    steps                   R         rounds
    inner_steps             T2        ascent steps in a round
    period                  T         rounds between refreshes of the gradient in x
    learning_rate_x         η_x       step size of the descent
    learning_rate_y         η_{y_i}   step size of the ascent, a function of the step i within a round; 1/(μi) in print
    clip_x, clip_y          C1, C0    bounds on one record's gradient norm in x and in y
    smoothness_x            C2        how fast one record's gradient in x changes with x
    smoothness_y                      and with y
    clip_floor              C3        the part of a difference's threshold that does not shrink
    batch_size              m         expected size of the sample of an ascent or a refresh
    difference_batch_size   m         expected size of the sample of a difference

Privacy. Round r asks "ascent", Q(∇y f(x_r, y), C0, q), inner_steps times. Then, at (x_r, y_{r+1}), it asks "gradient",
Q(∇x f, C1, q), in every period-th round, and "difference", Q(∇x f(x_r, y_{r+1}) − ∇x f(x_{r−1}, y_r), C_r, q2), in the
others, with C_r = min(2C1, smoothness_x‖Δx‖ + smoothness_y‖Δy‖ + clip_floor), a function of private outputs.

What differs from print. (a) There the ascent is not noisy: noise is added to its result for the output alone, and the
x-gradient is taken at the un-noised y_{r+1}, a function of all records, so that the claimed sensitivity 2C/m is false.
Here every ascent step is a query. (b) There the two gradients of a difference are taken at different samples; here
at the same records. (c) There the noise of y rests on Hardt et al.'s bound on the stability of SGD, which holds in
expectation; the noise of a worst case has to cover the worst case. (d) As y is private here, ‖Δy‖ is public, and the
threshold follows it instead of a bound on it that holds with some probability.

Split. k rounds after a refresh the estimate carries the noise of one refresh and of k differences, k = (period − 1)/2
on average, of variance (σ1 C1/(q n))² and (σ2 C_r/(q2 n))² in each of d_x coordinates; C_r is taken for a step of
length η_x C1 in x and inner_steps·η_y·C0 in y, or of x alone if records do not meet y: y moves there as well, but no
record's gradient with it. The ascents of a round move y by noise of variance
inner_steps·(η_y σ0 C0/(q n))² in each of d_y coordinates, and smoothness_y passes it on to the gradient in x. These are
the queries' weights, with `dimension_ratio` = d_y/d_x. (A best response moves y by its noise once, with clip_y standing
for its threshold.)

Other ascents. "best_response" asks for the statistic of the problem's closed-form maximiser, once a round. "public" is
for problems whose records do not meet y: the ascent asks nothing.
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
from gossamer.methods.sgda import Ascent
from gossamer.methods.theory import batch_for, condition_number, signal, walk
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask, Difference, Gradient, Value
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


class PrivateDiffState(NamedTuple):
    """The iterates (x_r, y_r), the x before, and the estimate v of the gradient in x that records make up."""

    x: PyTree
    y: PyTree
    before: PyTree
    estimate: PyTree


@dataclass(frozen=True)
class PrivateDiff(Method[Minimax]):
    """PrivateDiff: noisy ascent in y, then descent along a gradient in x that is carried along by differences.

    The history's `gradient_norm`, and the output rule "smallest_gradient", are about the gradient in x.

    Args:
      steps: rounds R.
      learning_rate_x: a number or a function of the round such as an optax schedule.
      learning_rate_y: a number, or a function of the step i = 0, …, inner_steps − 1 within a round.
      clip_x: bound on one record's gradient in x.
      clip_y: bound on one record's gradient in y.
      smoothness_x: bound on how fast one record's gradient in x changes with x.
      smoothness_y: bound on how fast it changes with y.
      clip_floor: the part of a difference's threshold that does not shrink with the steps.
      batch_size: expected number of records in an ascent or a refresh.
      difference_batch_size: expected number of records in a difference; None: `batch_size`.
      period: rounds between refreshes; 1 refreshes always.
      inner_steps: ascent steps in a round; 1 for a best response.
      ascent: "gradient"; "best_response" if the problem has one; "public" if records do not meet y.
      dimension_ratio: coordinates of y for each of x, for the automatic split of the noise; None: `gs.solve` counts
        them, and a plan without parameters takes 1.
      noise: relative noise of ("ascent", "gradient", "difference"), as far as they are asked; None splits it
        automatically.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 300
    learning_rate_x: LearningRate = 0.5
    learning_rate_y: LearningRate = 0.5
    clip_x: Clip = 1.0
    clip_y: Clip = 1.0
    smoothness_x: Smoothness = 1.0
    smoothness_y: Smoothness = 1.0
    clip_floor: Positive = 0.01
    batch_size: Count = 256
    difference_batch_size: Count | None = None
    period: Count = 2
    inner_steps: Count = 1
    ascent: Ascent = "gradient"
    dimension_ratio: Annotated[float, Number(above=0, because="it is d_y/d_x")] | None = None
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
        gap: float | None = None,
        **options: Any,
    ) -> "PrivateDiff":
        """Return the settings of Theorems 5 and 6. The noise is calibrated as always, not by Theorem 5.

        With s = nε/√(d ln(1/δ)), κ = l/μ, L = l + κl and M = clip_x: R = (lF₀/M²)^(1/3) s^(4/3) rounds, a refresh every
        T = s²/R of them from s^(4/3) records, η_x = min(1/(2L), 1/(2 C2 σ√T)), and an equal share of the budget
        for each of the k kinds of query, so that noise is in proportion to rate·√count (Theorem 5). Counts are rounded
        to the nearest whole number of at least 1 (a period of at most R, a batch of at most n).

        What the theorems leave open or we choose otherwise:

        * Theorem 6 prints R = max(l s^(4/3), l² s^(2/3)) and T = s^(−2/3) R, a number of rounds in units of l. It is
          what balances √(lF₀/R), what is left to descend, with M·R/s², the noise of R/T refreshes, where lF₀ = M².
        * Hidden constants and logarithms are 1, but for η_x. There σ = 2√(2kR)/s (half of it for neighbours by adding
          or removing) is the leading term of the noise of one difference, all d coordinates, for each unit of its
          threshold. The proof has √(2T) for √T: it counts T differences in every estimate, where T/2 is the average.
        * A difference asks T records. Its sampling error is then at most l‖Δx‖/√T, and that of all differences of a
          period η_x l‖v‖, below the noise that η_x allows for. Samples are larger where T or s^(4/3) is below
          n√(ε/(4·count)), since Theorem 5 needs ε < c m²·count/n².
        * T2 = ⌈κ⌉ ascent steps of 1/l (or one best response), not s^(4/3) steps of 1/(μi), which make good for any
          start: y starts at the last round's, and y*(x) has moved by at most κη_x‖v‖ since. ⌈κ⌉ steps shrink a distance
          by e, so the gradient in x is off by at most lκη_x‖v‖/(e − 1) < 0.3‖v‖. More would not make y less noisy:
          each is a query, and all share one budget. Where records meet y it is known up to √R/s = s^(−1/3) in a round,
          and the theorem's rate, whose ascent is not private as printed, is not to be had.
        * The threshold of a difference is l(‖Δx‖ + ‖Δy‖), which no l-smooth loss exceeds, and l‖Δx‖ if records do not
          meet y; so C2 in η_x is L, and l. The floor is a millionth of clip_x.

        Args:
          n: number of records.
          d: the larger of the dimensions of x and y.
          budget: what may be spent; ε must be finite.
          smoothness: l, of one record's loss in both players.
          strong_concavity: μ, of the mean loss in y.
          gap: F₀, how far Φ is above its minimum at the start; None takes M²/l, as the theorem does.
          options: other settings, such as the thresholds, which should bound one record's gradients.
        """
        s, condition = signal(n, d, budget), condition_number(smoothness, strong_concavity)
        bound = options.get("clip_x", cls.clip_x)
        gap = bound**2 / smoothness if gap is None else gap
        rounds, period, _, _ = walk(n, s, smoothness=smoothness, gap=gap, bound=bound)
        fresh, carried = gradients.refreshes(rounds, period)
        ascent = options.get("ascent", cls.ascent)
        kinds, change = (2, smoothness) if ascent == "public" else (3, smoothness * (1 + condition))
        sensitivity = 2 if budget.neighbors == "replace_one" else 1
        noise = sensitivity * math.sqrt(2 * kinds * rounds) / s
        theory = dict(
            steps=rounds,
            period=period,
            inner_steps=1 if ascent == "best_response" else math.ceil(condition),
            batch_size=batch_for(s ** (4 / 3), fresh, n, budget),
            difference_batch_size=batch_for(period, max(1, carried), n, budget),
            learning_rate_x=min(0.5 / (smoothness * (1 + condition)), 0.5 / (change * noise * math.sqrt(period))),
            learning_rate_y=1 / smoothness,
            smoothness_x=smoothness,
            smoothness_y=smoothness,
            clip_floor=1e-6 * bound,
            output="random",
        )
        method = cls(**{**theory, **options})
        costs = (query.sampling.cost(1.0, query.count) for query in method.schedule(n))
        equal = tuple(cost.rate * math.sqrt(cost.count) for cost in costs)
        return method if "noise" in options else dataclasses.replace(method, noise=equal)

    def check(self) -> None:
        """Refuse a best response in several steps besides what every method refuses."""
        super().check()
        if self.ascent == "best_response" and self.inner_steps != 1:
            raise ValueError(f"inner_steps = {self.inner_steps!r} must be 1 for a best response, which is one answer.")

    def check_problem(self, problem: Minimax) -> None:
        """Refuse a problem that does not offer this ascent."""
        problem.check_ascent(self.ascent)

    def sized(self, params: PyTree) -> "PrivateDiff":
        """Fill in `dimension_ratio`."""
        if self.dimension_ratio is not None:
            return self
        x, y = params
        return dataclasses.replace(self, dimension_ratio=trees.count(y) / trees.count(x))

    def schedule(self, n: int) -> Schedule:
        """Return the ascents, the refreshes and the differences, as far as there are any."""
        fresh, carried = gradients.refreshes(self.steps, self.period)
        rate = sampling_rate(self.batch_size, n)
        batch_size = self.batch_size if self.difference_batch_size is None else self.difference_batch_size
        difference_rate = sampling_rate(batch_size, n)
        eta_x = typical_rate("learning_rate_x", self.learning_rate_x, self.steps)
        eta_y = typical_rate("learning_rate_y", self.learning_rate_y, self.inner_steps)
        step_y = eta_y * self.clip_y
        queries = []
        if self.ascent != "public":
            moved = self.clip_y if self.ascent == "best_response" else step_y * self.inner_steps**0.5
            clip = "the best response's" if self.ascent == "best_response" else f"{self.clip_y:g}"
            ratio = 1.0 if self.dimension_ratio is None else self.dimension_ratio
            weight = ratio * (self.smoothness_y * moved / rate) ** 2
            count = self.steps * self.inner_steps
            queries.append(Query("ascent", count, Poisson(rate), clip=clip, weight=weight, dual=True))
        weight = (self.clip_x / rate) ** 2
        queries.append(Query("gradient", fresh, Poisson(rate), clip=f"{self.clip_x:g}", weight=weight))
        if carried:
            change, rule = self.smoothness_x * eta_x * self.clip_x, f"{self.smoothness_x:g}‖Δx‖"
            if self.ascent != "public":
                change += self.smoothness_y * step_y * self.inner_steps
                rule += f" + {self.smoothness_y:g}‖Δy‖"
            typical = min(2 * self.clip_x, change + self.clip_floor)
            weight = (self.period - 1) / 2 * (typical / difference_rate) ** 2
            clip = f"min({2 * self.clip_x:g}, {rule} + {self.clip_floor:g})"
            sampling = Poisson(difference_rate)
            queries.append(Query("difference", carried, sampling, clip=clip, weight=weight, gradients=2))
        return declare(self.noise, *queries)

    def init(self, problem: Minimax, params: PyTree) -> PrivateDiffState:
        """Start with no estimate: the first round refreshes it."""
        x, y = params
        return PrivateDiffState(x, y, x, trees.zeros_like(x))

    def step(
        self, problem: Minimax, ask: Ask, state: PrivateDiffState, t: jax.Array
    ) -> tuple[PrivateDiffState, Report]:
        """Make round r = t."""
        x = state.x
        y = self._ascend(problem, ask, x, state.y)  # Alg. 3, line 3
        v = self._estimate(problem, ask, state, y, t)  # lines 4 to 8
        g = trees.add(v, problem.public_gradient((x, y), jax.random.fold_in(ask.key, self.inner_steps))[0])
        eta = rate_at(self.learning_rate_x, t)
        after = problem.prox_x(trees.add(x, g, -eta), eta)  # line 9
        return PrivateDiffState(after, y, x, v), Report((x, y), trees.norm(g))

    def _ascend(self, problem: Minimax, ask: Ask, x: PyTree, y: PyTree) -> PyTree:
        """Alg. 4 with noise: y ← Π(y + η_i Q(∇y f(x, y)))."""
        if self.ascent == "best_response":
            response = problem.best_response
            assert response is not None  # check_problem
            mean = ask("ascent", Value(functools.partial(response.statistic, x)), response.clip)
            return problem.project_y(response.solve(mean))

        def inner(ask: Ask, i: jax.Array, y: PyTree) -> PyTree:
            _, g = problem.public_gradient((x, y), jax.random.fold_in(ask.key, i))
            if self.ascent == "gradient":
                g = trees.add(ask("ascent", Gradient(problem.in_y(x), y), self.clip_y), g)
            return problem.project_y(trees.add(y, g, rate_at(self.learning_rate_y, i)))

        return ask.loop(self.inner_steps, inner, y)

    def _estimate(self, problem: Minimax, ask: Ask, state: PrivateDiffState, y: PyTree, t: jax.Array) -> PyTree:
        """v ← Q(∇x f(x, y)) or v + Q(∇x f(x, y) − ∇x f(x′, y′)): the answers' part in y is noise, and is dropped."""
        loss, at = problem.in_x(state.x, y)
        _, before = problem.in_x(state.before, state.y)
        in_x, in_y = (trees.distance(here, there) for here, there in zip(at, before, strict=True))
        change = self.smoothness_x * in_x + self.smoothness_y * in_y
        threshold = jnp.minimum(2 * self.clip_x, change + self.clip_floor)
        return gradients.carried_along(
            ask,
            gradients.is_refresh(t, self.steps, self.period),
            fresh=lambda ask: ask("gradient", Gradient(loss, at), self.clip_x),
            change=lambda ask: ask("difference", Difference(loss, at, before), threshold),
            estimate=(state.estimate, trees.zeros_like(at[1])),
        )[0]

    def params(self, state: PrivateDiffState) -> PyTree:
        """Return the pair (x, y)."""
        return state.x, state.y
