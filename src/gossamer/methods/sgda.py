"""DP-SGDA: descent in x and ascent in y by one joint noisy gradient per step (paper MINIMAX, Algorithm 1).

    name here          paper     meaning
    steps              T         iterations
    learning_rate_x    η_x       step size of the descent; O(1/(lκ²)) in Theorem 2
    learning_rate_y    η_y       step size of the ascent; O(1/l) in Theorem 2
    clip_x, clip_y     C1, C2    bounds on one record's gradient norm in x and in y
    batch_size         m         expected size of a sample
    momentum                     heavy-ball weight of the previous direction of x; 0 in print
    ascent                       where y's direction comes from: "gradient" in print
    output                       "random" in print

Privacy. One query per step, Q((∇x f, ∇y f)(x_t, y_t), (C1, C2), q = batch_size/n): a joint query, T Poisson samples in
all. In print x and y get noise of their own, each calibrated as if the other were not asked (Theorem 1 hides the
difference in its constants), and samples have a fixed size.

Split. Block j of the joint query gets noise σ·w_j·C_j in each of its d_j coordinates, and costs no more than one query
if Σ 1/w_j² ≤ 1. The weights minimise the total noise Σ a_j w_j², a_j = d_j C_j². With u_j = w_j² the Lagrange
condition is a_j = λ/u_j², so u_j ∝ 1/√a_j, and the constraint gives w_j² = (Σ_k √a_k)/√a_j. A y of few coordinates then
costs x next to nothing: for d_x = 10⁵, d_y = 1 and equal thresholds the noise of x is 0.16 % more than that of a query
of its own, where equal weights make it 41 % more; and y, with 18 times the noise of a query of its own, is still 18
times less noisy than x, length against length. Dimensions and thresholds are public.

Other ascents. "best_response" puts the statistic of the problem's closed-form maximiser in the place of ∇y f:
y_{t+1} = y*(x_t), from the same sample. "public" is for problems whose records do not meet y: x alone is asked for.
"""

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method, Report, rate_at, sampling_rate
from gossamer.methods.fields import Clip, Count, LearningRate, Momentum, OneOf, Output
from gossamer.methods.theory import batch_for, condition_number, signal, whole
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.problem import Problem
from gossamer.oracle import Ask, Gradient, Joint, Value
from gossamer.privacy.budget import Budget
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule

Ascent = Annotated[str, OneOf(("gradient", "best_response", "public"))]
"""How y is moved."""


class SGDAState(NamedTuple):
    """The iterates and the direction of x, a decaying sum of private gradients."""

    x: PyTree
    y: PyTree
    direction: PyTree


@dataclass(frozen=True)
class SGDA(Method[Minimax]):
    """DP stochastic gradient descent ascent: every step asks one Poisson sample for both gradients.

    The history's `gradient_norm`, and the output rule "smallest_gradient", are about the gradient in x.

    Args:
      steps: iterations T.
      learning_rate_x: a number or a function of the step such as an optax schedule.
      learning_rate_y: the same for the ascent; larger than that of x, so that y keeps up.
      clip_x: bound on one record's gradient in x.
      clip_y: bound on one record's gradient in y.
      batch_size: expected number of records in a sample.
      momentum: of x, in [0, 1).
      ascent: "gradient"; "best_response" if the problem has one; "public" if records do not meet y.
      output: "last", "average", "random" or "smallest_gradient".
    """

    steps: Count = 500
    learning_rate_x: LearningRate = 0.5
    learning_rate_y: LearningRate = 0.5
    clip_x: Clip = 1.0
    clip_y: Clip = 1.0
    batch_size: Count = 256
    momentum: Momentum = 0.0
    ascent: Ascent = "gradient"
    output: Output = "last"

    problems: ClassVar[tuple[type[Problem], ...]] = (Minimax,)

    @classmethod
    def for_problem(
        cls, n: int, d: int, budget: Budget, *, smoothness: float, strong_concavity: float, **options: Any
    ) -> "SGDA":
        """Return the settings of Theorem 2. The noise is calibrated as always, not by Theorem 1.

        With s = nε/√(d ln(1/δ)) and κ = l/μ: T = m = s, rounded to the nearest whole number in [1, n], η_y = 1/l and
        η_x = 1/(2κ(κ+1)l). Where s is below n√(ε/(4T)), m is that: Theorem 1 needs ε < c m²T/n², and c = 4 is what the
        paper suggests for practice.

        The constants that the theorem hides are 1 but for that of η_x, where its proof has 1/16 and (κ+1)² for
        κ(κ+1). Two things bound it. Φ is l(κ+1)-smooth, and its descent wants half the inverse at most. And y, which
        comes nearer to y*(x) by a factor 1 − 1/κ in each step while y*(x) moves on by up to κη_x‖g‖, stays κ²η_x‖g‖
        behind: l times that, the error of the gradient in x, is less than ‖g‖/2.

        Args:
          n: number of records.
          d: the larger of the dimensions of x and y.
          budget: what may be spent; ε must be finite.
          smoothness: l, of the mean loss in both players.
          strong_concavity: μ, of the mean loss in y.
          options: other settings, such as the thresholds, which should bound one record's gradients.
        """
        condition = condition_number(smoothness, strong_concavity)
        steps = whole(signal(n, d, budget), n)
        theory = dict(
            steps=steps,
            batch_size=batch_for(steps, steps, n, budget),
            learning_rate_x=1 / (2 * condition * (condition + 1) * smoothness),
            learning_rate_y=1 / smoothness,
            output="random",
        )
        return cls(**{**theory, **options})

    def check_problem(self, problem: Minimax) -> None:
        """Refuse a problem that does not offer this ascent."""
        problem.check_ascent(self.ascent)

    def schedule(self, n: int) -> Schedule:
        """Return `steps` Poisson samples."""
        rule = {
            "gradient": f"{self.clip_x:g} in x, {self.clip_y:g} in y",
            "best_response": f"{self.clip_x:g} in x, the best response's in y",
            "public": f"{self.clip_x:g}",
        }[self.ascent]
        return Schedule((Query("gradient", self.steps, Poisson(sampling_rate(self.batch_size, n)), clip=rule),))

    def init(self, problem: Minimax, params: PyTree) -> SGDAState:
        """Start at rest."""
        x, y = params
        return SGDAState(x, y, trees.zeros_like(x))

    def step(self, problem: Minimax, ask: Ask, state: SGDAState, t: jax.Array) -> tuple[SGDAState, Report]:
        """(g_x, g_y) = Q((∇x f, ∇y f)(x, y));  x ← prox(x − η_x g_x);  y ← Π(y + η_y g_y)."""
        x, y, _ = state
        public_x, public_y = problem.public_gradient((x, y), ask.key)
        eta_x, eta_y = rate_at(self.learning_rate_x, t), rate_at(self.learning_rate_y, t)
        in_x = Gradient(*problem.in_x(x, y))
        if self.ascent == "gradient":
            clip = (self.clip_x, self.clip_y)
            g_x, g_y = ask("gradient", Gradient(problem.record_loss, (x, y)), clip, noise_split((x, y), clip))
            y_after = trees.add(y, trees.add(g_y, public_y), eta_y)
        elif self.ascent == "best_response":
            response = problem.best_response
            assert response is not None  # check_problem
            clip = (self.clip_x, response.clip)
            query = Joint((in_x, Value(functools.partial(response.statistic, x))))
            (g_x, _), mean = ask("gradient", query, clip, noise_split((x, y), clip))
            y_after = response.solve(mean)
        else:
            g_x, _ = ask("gradient", in_x, self.clip_x)
            y_after = trees.add(y, public_y, eta_y)
        g_x = trees.add(g_x, public_x)
        direction = trees.add(g_x, state.direction, self.momentum)
        after = SGDAState(problem.prox_x(trees.add(x, direction, -eta_x), eta_x), problem.project_y(y_after), direction)
        return after, Report((x, y), trees.norm(g_x))

    def params(self, state: SGDAState) -> PyTree:
        """Return the pair (x, y)."""
        return state.x, state.y


def noise_split(blocks: tuple[PyTree, ...], clips: tuple[float, ...]) -> tuple[float, ...]:
    """Return the weights w_j² = (Σ_k √a_k)/√a_j, a_j = d_j C_j², of the joint query with the least total noise."""
    roots = [clip * math.sqrt(trees.count(block)) for block, clip in zip(blocks, clips, strict=True)]
    return tuple(math.sqrt(sum(roots) / root) for root in roots)
