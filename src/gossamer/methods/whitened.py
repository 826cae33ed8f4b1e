"""Gradient descent in whitened coordinates, for linear models of tables.

    name here     symbol    meaning
    steps         T         gradient queries
    constant      s         the column beside each row that stands for the intercept
    diagonal                whether only squares of columns are asked for, and none of their products
    noise                   relative noise of the two queries; None splits Σμ² by `MOMENTS_SHARE`
                  x         a record's row with the constant beside it, (row, s)
                  A         mean of x̂x̂ᵀ, x̂ = x/‖x‖: the first answer
                  e, V      its eigenvalues, those below 0 taken for 0, and eigenvectors
                  f         floor: half of the spectral norm of the noise in A, about τ√(2d) for deviation τ
                  ρ²        s²/A_ss, a harmonic mean of ‖x‖²: the scale that unit rows have lost
                  z = Bᵀx   whitened row, B = V diag(e + f)^(−½)/ρ
                  d_eff     Σ e/(e + f), about E‖z‖²
                  E         noise energy: variance of a score, if the gradients' budget went to one Newton step, over
                            the variance that the loss can tell from none

Why. Risk is about Σ_i 1/(m_i² a_i) times the noise if noise is isotropic in coordinates m_i along directions of second
moments a_i, at a squared gradient norm of Σ m_i² a_i. By Cauchy's and Schwarz's inequality m_i = a_i^(−½) is best. The
floor leaves alone what A cannot resolve: with little data for much noise all of this becomes plain gradient descent.

    A ← Q(x̂x̂ᵀ, 1)                                                     once
    p = u + βv;  g ← Q(∇ℓ(p; z), C);  u ← prox(p − g/h);  v ← u − u₋   T times, u = v = 0 at first
    answer: B·(mean of the last ⌊T/2⌋ iterates u), a linear model of the rows as they are

The threshold C, the step 1/h and the momentum β are functions of E (`pace`), which is post-processing of the first
answer. T is not: it is fixed before the run. A is about unit rows, so that z has second moments of up to (1 + s²)/ρ²
where rows differ in length, and not of 1. Steps that are too long for that show: where two answers in a row differ by
more than h lets them, beyond what noise does, h becomes what was seen (`_seen`).

Scores are linear in the rows: nothing is cut but gradients. A gradient that is cut is that of a loss whose slope ends
at C/‖z‖, still convex and still least where signs are right; how far probabilities are from calibrated grows with E.
The penalty is in the coordinates of the weights, and its proximal step in the metric of B is found by accelerated
proximal gradient steps, in public.

Privacy. Two kinds of full-pass queries. *moments*: `SecondMoments`, any two of whose vectors are at an acute angle, so
that under replace_one a record moves the sum by √2 and not by 2 (`Query.cost`); under add_remove by 1. *gradient*: the
private mean query as it is. The map B is a function of the first answer, and each z a function of one record and of B.
Everything else is post-processing. *Persons* (`gs.by_person`): a record's second moments are the means of those of its
rows, which keeps both the length and the angle, and its gradient is that of its mean loss: the same two queries, in
which means over records are means over persons. The rule's constants were chosen on public tables, see docs/tables.md.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.geometry import Zero
from gossamer.methods.base import Method, Report, declare
from gossamer.methods.fields import Count, Noise, Number, Output
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient, SecondMoments
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.people import PersonLoss, Weights, loss_of_row
from gossamer.oracle.queries import symmetric
from gossamer.privacy.budget import Budget
from gossamer.privacy.gaussian import mu
from gossamer.privacy.schedule import Query, Schedule

MOMENTS_SHARE = 0.25
"""Of Σμ², under add_remove; under replace_one, where second moments are cheaper, it comes to 0.14."""
MOST_COLUMNS = 1000
"""From how many columns on products of columns are not asked for."""
_FEWEST, _MOST = 5, 24
_WITHOUT_NOISE = 400
_FLOOR = 1e-6
"""Of the largest eigenvalue: what float32 resolves."""
_INNER = 200
_TOO_MUCH = 1.3
"""How much more than h a curvature must be to be heeded."""
_BEYOND = 1e3
"""A threshold that nothing reaches, in units of √d_eff. The lattice has 2^26 points in it: 10^6 would be too coarse."""


class Pace(NamedTuple):
    """What follows from the noise energy."""

    clip: jax.Array
    """In units of √d_eff and of the loss's largest slope."""
    curvature: jax.Array
    """h, in units of the loss's curvature."""
    momentum: jax.Array


def pace(energy: jax.Array, bends: bool, several: bool = False) -> Pace:
    """Return how to move at a noise energy E: boldly where the noise is small, briefly where it is large.

    With L = −log₁₀ E: rows reach clip(.45 + .3L, .5, 1.6), errors .3·1.37^L from .3 to 1, and the threshold is their
    product. Where gradients are cut, the curvature of what is minimised is smaller, by about the square of the rows'
    part: of a loss that `bends`, whose slope is bounded. For E > 1 steps are short again: what is left of the signal is
    the direction of the first gradient. A square stays one.
    """
    L = -jnp.log10(jnp.maximum(energy, 1e-30))
    reach = jnp.clip(0.45 + 0.3 * L, 0.5, 1.6)
    clip = jnp.where(energy > 0, reach * jnp.clip(0.3 * 1.37**L, 0.3, 1.0), _BEYOND)
    bold = jnp.minimum(1.0, reach**2)
    # Several classes share a score's range: what was best for two is too timid there.
    turn, least = (0.0, 0.25) if several else (0.5, 0.36)
    curvature = jnp.where(turn < L, bold, jnp.minimum(1.0, least * 4.0 ** (turn - L))) if bends else jnp.float32(1)
    clip = clip * (1.3 if several else 1.0)
    return Pace(clip, curvature, jnp.clip(0.1 + 0.25 * L, 0.0, 0.7))


class Frame(NamedTuple):
    """What the first answer tells."""

    basis: jax.Array
    """B."""
    clip: jax.Array
    curvature: jax.Array
    """h."""
    most: jax.Array
    """What no curvature in these coordinates exceeds."""
    momentum: jax.Array


class WhitenedState(NamedTuple):
    """The iterate and the last move in whitened coordinates, these, and the last question with its answer."""

    u: jax.Array
    v: jax.Array
    frame: Frame
    p: jax.Array
    g: jax.Array
    x: PyTree
    """The mean of the last iterates, as weights of the rows."""


@dataclass(frozen=True)
class Whitened(Method[ERM]):
    """DP gradient descent for linear models, in coordinates whitened by one query for second moments.

    It starts from zero, whatever `init` holds, and suits rows of norm at most 1. `Whitened.suited` chooses the number
    of steps by public numbers; estimators take it as their default.

    Args:
      steps: gradient queries T.
      constant: the column beside each row, about as long as one of its columns; rows of norm 1 suit 0.25.
      diagonal: whether to ask for squares of columns alone; None: from 1000 columns on.
      noise: the noise of the queries "moments" and "gradient" relative to each other; None: a quarter of the budget
        for the first.
      output: "last", the mean of the last half of the iterates; other rules are as for any method.
    """

    steps: Count = 12
    constant: Annotated[float, Number(above=0)] = 0.25
    diagonal: bool | None = None
    noise: Noise = None
    output: Output = "last"

    @classmethod
    def suited(cls, loss: LinearLoss, n: int, columns: int, outputs: int = 1, *, budget: Budget) -> Self:
        """Return the settings that suit a table, by public numbers alone.

        T = 6 + 4L from 5 to 24, L = −log₁₀ E; without noise as many as it takes.
        """
        if not budget.is_private:
            return cls(steps=_WITHOUT_NOISE)
        energy = cls.energy(loss, n, columns, outputs, budget=budget)
        steps = round(6 - 4 * math.log10(max(energy, 1e-30)))
        return cls(steps=min(max(steps, _FEWEST), _MOST))

    @staticmethod
    def energy(loss: LinearLoss, n: int, columns: int, outputs: int = 1, *, budget: Budget) -> float:
        """Return E by public numbers, as it is before the first answer: with .4 of the columns for d_eff."""
        reach = 2.0 if budget.neighbors == "replace_one" else 1.0
        deviation = reach / (mu(budget.epsilon, budget.delta) * math.sqrt(1 - MOMENTS_SHARE) * n)
        return float(noise_energy(loss, outputs, 0.4 * (columns + 1), deviation))

    def sized(self, params: PyTree) -> Self:
        """Ask for squares alone where there are many columns."""
        if self.diagonal is not None:
            return self
        return dataclasses.replace(self, diagonal=len(params["weights"]) >= MOST_COLUMNS)

    def check_problem(self, problem: ERM) -> None:
        """Refuse a loss that is not that of a linear model, or has no bound on its curvature."""
        loss = loss_of_row(problem.loss)
        if not isinstance(loss, LinearLoss):
            raise TypeError(
                f"loss = {shown(problem.loss)} must be a LinearLoss such as gs.objectives.logistic: Whitened is for "
                "linear models. gs.methods.GD takes any loss."
            )
        if loss.curvature is None or not loss.curvature > 0:
            raise ValueError(
                "the loss has no curvature, by which Whitened takes its steps: give it as LinearLoss(..., "
                "curvature=...), or use gs.methods.GD."
            )

    def schedule(self, n: int) -> Schedule:
        """Return one query for second moments, and `steps` for gradients: full passes."""
        split = (1.0, math.sqrt(self.steps * MOMENTS_SHARE / (1 - MOMENTS_SHARE)))
        return declare(
            split if self.noise is None else self.noise,
            Query("moments", count=1, clip="1", acute=True),
            Query("gradient", count=self.steps, clip="by the noise energy of the first answer"),
        )

    def init(self, problem: ERM, params: PyTree) -> WhitenedState:
        """Start from zero: in what coordinates is not known yet."""
        zero = _joined(trees.zeros_like(params))
        size = len(zero)
        frame = Frame(jnp.zeros(size if self.diagonal else (size, size)), *map(jnp.float32, (0, 1, 1, 0)))
        return WhitenedState(zero, zero, frame, p=zero, g=zero, x=trees.zeros_like(params))

    def step(self, problem: ERM, ask: Ask, state: WhitenedState, t: jax.Array) -> tuple[WhitenedState, Report]:
        """Look once, at first; then u ← prox(p − Q(∇ℓ(p; z), C)/h) with p = u + βv."""
        loss: Any = loss_of_row(problem.loss)
        of_persons = problem.loss if isinstance(problem.loss, PersonLoss) else None
        weights: Weights = "mean" if of_persons is None else of_persons.weights
        has_intercept = "intercept" in state.x

        def row(x: PyTree) -> jax.Array:
            x = x if loss.row is None else loss.row(x)
            return jnp.append(x.astype(jnp.float32), jnp.float32(self.constant))

        def look(ask: Ask) -> Frame:
            moments = SecondMoments(lambda record: row(record[0]), bool(self.diagonal), weights)
            answer = ask("moments", moments, clip=1.0)
            deviations = ask.deviation("moments"), ask.deviation("gradient") / math.sqrt(self.steps)
            return self._frame(loss, state.u.size // len(state.u), answer, deviations, has_intercept)

        frame = ask.cond(t == 0, look, lambda ask: state.frame)
        p = state.u + frame.momentum * state.v
        linear = dataclasses.replace(loss, row=lambda x: _by(frame.basis, row(x)[: len(p)]))
        lifted = linear if of_persons is None else dataclasses.replace(of_persons, loss=linear)
        g = ask("gradient", Gradient(lifted, {"weights": p}), clip=frame.clip)["weights"]
        h = jnp.where(t > 0, _seen(frame, p - state.p, g - state.g, ask.deviation("gradient")), frame.curvature)
        frame = frame._replace(curvature=h)
        u, w = self._prox(problem, frame, p - g / h, state)
        tail = max(1, self.steps // 2)
        place = t - (self.steps - tail)  # of this iterate among those that count
        x = jax.tree.map(lambda x, w: jnp.where(place <= 0, w, x + (w - x) / (place + 1.0)), state.x, w)
        return WhitenedState(u, u - state.u, frame, p=p, g=g, x=x), Report(state.x, trees.norm(g))

    def params(self, state: WhitenedState) -> PyTree:
        """Return weights and intercept of the rows as they are."""
        return state.x

    def _frame(
        self, loss: LinearLoss, outputs: int, answer: jax.Array, deviations: tuple[jax.Array, jax.Array], whole: bool
    ) -> Frame:
        """Return B, C, h and β from the noisy second moments and the noise of both queries, per record."""
        tau, sigma = deviations
        with jax.enable_x64(True):
            answer, tau = answer.astype(jnp.float64), tau.astype(jnp.float64)
            if self.diagonal:
                squares, size = answer, len(answer)
                last = answer[-1]
                values, vectors = jnp.maximum(squares if whole else squares[:-1], 0.0), None
                floor = tau
            else:
                size = math.isqrt(2 * len(answer))
                moments = symmetric(answer, size)
                last = moments[-1, -1]
                values, vectors = jnp.linalg.eigh(moments if whole else moments[:-1, :-1])
                values, floor = jnp.maximum(values, 0.0), 0.5 * tau * math.sqrt(2 * size)
            scale = self.constant / jnp.sqrt(jnp.maximum(last, jnp.maximum(tau, 1e-12)))
            floor = jnp.maximum(floor, _FLOOR * jnp.max(values))
            stretch = 1.0 / (jnp.sqrt(values + floor) * scale)
            effective = jnp.sum(values / (values + floor))
            basis = stretch if vectors is None else vectors * stretch
            basis, effective = basis.astype(jnp.float32), effective.astype(jnp.float32)
        energy = noise_energy(loss, outputs, effective, sigma)
        chosen = pace(energy, bends=loss.lipschitz is not None, several=outputs > 1)
        slope = 1.0 if loss.lipschitz is None else loss.lipschitz
        length = jnp.sqrt(jnp.maximum(effective, 1e-6))
        # Squares of columns do not show how columns go together, and along what they share z may be as long as that: a
        # loss that bends then takes no harm, a squared one would overshoot.
        together = jnp.maximum(1.0, length) if self.diagonal and loss.lipschitz is None else 1.0
        curvature = chosen.curvature * together * _curvature(loss, outputs)
        # x̂x̂ᵀ has mean A, and ‖x‖² ≤ 1 + s². Of a diagonal alone, all columns may be one.
        longest = (1 + self.constant**2) / jnp.square(scale.astype(jnp.float32))
        most = _curvature(loss, 1) * longest * (len(basis) if self.diagonal else 1)
        return Frame(basis, chosen.clip * slope * length, curvature, jnp.maximum(most, curvature), chosen.momentum)

    def _weights(self, joined: jax.Array, like: PyTree) -> PyTree:
        """Return one matrix of all coefficients as weights and intercept."""
        if "intercept" not in like:
            return {"weights": joined}
        return {"weights": joined[:-1], "intercept": self.constant * joined[-1]}

    def _prox(self, problem: ERM, frame: Frame, q: jax.Array, state: WhitenedState) -> tuple[jax.Array, PyTree]:
        """Return argmin_u (h/2)‖u − q‖² + r(Bu) within the constraint, and Bu as weights.

        By accelerated proximal gradient steps in w = Bu, so that coefficients which the penalty makes 0 are 0.
        """
        if isinstance(problem.regularizer, Zero) and problem.constraint is None:
            return q, self._weights(_by(frame.basis, q, False), state.x)
        # Columns of B are orthogonal: B⁻¹ = diag(lengths)⁻² Bᵀ, and the Hessian h(BBᵀ)⁻¹ is largest where B is least.
        basis = jnp.diag(frame.basis) if self.diagonal else frame.basis
        squares = jnp.sum(jnp.square(basis), axis=0)
        inverse = basis.T / squares[:, None]
        step = jnp.min(squares) / frame.curvature

        def near(w: jax.Array) -> jax.Array:
            return _joined(problem.prox(self._weights(w, state.x), step), self.constant)

        def move(_: Any, carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
            w, y, k = carry
            gradient = frame.curvature * inverse.T @ (inverse @ y - q)
            new = near(y - step * gradient)
            grown = 0.5 * (1 + jnp.sqrt(1 + 4 * k * k))
            return new, new + (k - 1) / grown * (new - w), grown

        w = basis @ q
        w, _, _ = jax.lax.fori_loop(0, _INNER, move, (w, w, jnp.float32(1)))
        return inverse @ w, self._weights(w, state.x)


def _seen(frame: Frame, moved: jax.Array, change: jax.Array, deviation: jax.Array) -> jax.Array:
    """Return the step's h after a move that changed the answer: what was seen, where that is far more than h.

    Along the move, of length m, the difference of two answers has noise of √2σ; three deviations are taken off. A
    momentum of .7 bears 1.4 times h, so that what is below 1.3 of it is left as it is.
    """
    length = jnp.maximum(jnp.linalg.norm(moved), 1e-30)
    noise = 3 * math.sqrt(2) * deviation * frame.clip
    seen = (jnp.vdot(moved, change) / length - noise) / length
    return jnp.where(seen > _TOO_MUCH * frame.curvature, jnp.minimum(seen, frame.most), frame.curvature)


def noise_energy(loss: LinearLoss, outputs: int, effective: Any, deviation: Any) -> Any:
    """Return E for this many effective columns, and a mean gradient's noise per unit of threshold, all budget at once.

    A slope that is bounded belongs to scores like log-odds, of which a noise of .15/curvature is much; a target of a
    squared loss lies in [−1, 1] and varies less.
    """
    tolerated = 0.0225 if loss.lipschitz is not None else 0.0045
    return max(1, outputs - 1) * (effective * deviation) ** 2 / tolerated


def _curvature(loss: LinearLoss, outputs: int) -> float:
    """Return h: the bound on the loss's curvature; of k scores that share it, what is near the middle."""
    assert loss.curvature is not None
    return loss.curvature * (1.0 if outputs == 1 else 2 * max(1 / outputs, 0.2))


def _joined(params: PyTree, constant: float = 1.0) -> jax.Array:
    """Return weights and intercept as one array, the intercept last."""
    if "intercept" not in params:
        return params["weights"]
    return jnp.concatenate([params["weights"], params["intercept"][None] / constant])


def _by(basis: jax.Array, x: jax.Array, transpose: bool = True) -> jax.Array:
    """Return Bᵀx, or Bx, for a matrix or for its diagonal."""
    if basis.ndim == 1:
        return basis * x if x.ndim == 1 else basis[:, None] * x
    return (basis.T if transpose else basis) @ x
