"""AUC maximisation as a minimax problem (Ying et al., 2016; paper MINIMAX, eq. 64; the margin is Yuan et al.'s, 2021).

    F(w, a, b, α; z) = (1−p)(h − a)² 1[y=1] + p(h − b)² 1[y=0] + 2α(p(1−p)m + p·h·1[y=0] − (1−p)h·1[y=1]) − p(1−p)α²

with the score h = h_w(features), the share p of positives and the margin m. At the saddle point a and b are the mean
scores of positives and negatives, α = max(0, m + b − a), and F's mean is p(1−p)(variance of h among positives + among
negatives + α²). While α > 0 that is p(1−p) times the square loss (m − h(z⁺) + h(z⁻))² averaged over all pairs of a
positive and a negative record, without a query that meets two records.

The share p decides what each record's gradient is, so it must be public: known beforehand, or bought by
`gs.objectives.positive_share`. It need not be exact: at a wrong p the classes are weighted otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.geometry import Box
from gossamer.objectives.minimax import Minimax

Score = Callable[[PyTree, PyTree], jax.Array]


def auc(score: Score, positive_share: float, margin: float = 1.0, scalar_scale: float = 0.2) -> Minimax:
    """Return the problem of maximising the area under the ROC curve by the square loss.

    A record is `(features, label)` with labels 0 and 1. x is `{"model": parameters of the score, "a": (), "b": ()}`
    and y is α ≥ 0; `auc_init(problem, model)` returns the pair to start from. The three scalars are stored divided by
    `scalar_scale`, so that their gradients come multiplied by it: they are few and steep, and would take most of a
    joint threshold from the model's.

    Args:
      score: `score(model, features)` → scalar, best in [0, 1] as a sigmoid's: a bounded score bounds the gradients.
      positive_share: p, the public share of positive records.
      margin: m, by which positives should outscore negatives.
      scalar_scale: a public number by which the gradients of a, b and α are multiplied.
    """
    if not 0 < positive_share < 1:
        raise ValueError(
            f"positive_share = {positive_share!r} must be strictly between 0 and 1: with one class there are no pairs."
        )
    for name, value in (("margin", margin), ("scalar_scale", scalar_scale)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} = {value!r} must be a finite number above 0.")
    loss = _AUCLoss(score, float(positive_share), float(margin), float(scalar_scale))
    return Minimax(loss, constraint_y=Box(0.0, None), best_response=_AUCResponse(loss))


def auc_init(problem: Minimax, model: PyTree, score: float = 0.0) -> tuple[dict[str, PyTree], jax.Array]:
    """Return the pair (x0, y0) for a problem of `auc` that starts from this model, with a = b = `score` and α = m.

    That is the saddle point of a model which gives every record this score (½ for a sigmoid of 0), and so does not tell
    the classes apart yet. From α = 0 the model would first be pushed towards a constant score, and it may stay there.
    """
    assert isinstance(problem.best_response, _AUCResponse)
    alpha = problem.best_response.solve(jnp.zeros(()))
    scaled = jnp.float32(score / problem.best_response.loss.scale)
    return {"model": model, "a": scaled, "b": scaled}, alpha


@dataclass(frozen=True)
class _AUCLoss:
    """F of the module's docstring, with scalars in units of `scale`."""

    score: Score
    p: float
    margin: float
    scale: float

    def __call__(self, x: PyTree, y: jax.Array, record: tuple[PyTree, jax.Array]) -> jax.Array:
        features, label = record
        h, p = self.score(x["model"], features), self.p
        a, b, alpha = self.scale * x["a"], self.scale * x["b"], self.scale * y
        spread = label * (1 - p) * (h - a) ** 2 + (1 - label) * p * (h - b) ** 2
        gap = p * (1 - p) * self.margin + self.gap(h, label)
        return spread + 2 * alpha * gap - p * (1 - p) * alpha**2

    def gap(self, h: jax.Array, label: jax.Array) -> jax.Array:
        """Return p·h·1[y=0] − (1−p)h·1[y=1], whose mean is p(1−p) times the gap of the classes' mean scores."""
        return ((1 - label) * self.p - label * (1 - self.p)) * h


@dataclass(frozen=True)
class _AUCResponse:
    """α* = m + E[p·h·1[y=0] − (1−p)h·1[y=1]]/(p(1−p)), by one query for a scalar."""

    loss: _AUCLoss

    @property
    def clip(self) -> float:
        """The bound for scores of at most 1; larger ones are clipped."""
        return max(self.loss.p, 1 - self.loss.p)

    def statistic(self, x: PyTree, record: tuple[PyTree, jax.Array]) -> jax.Array:
        features, label = record
        return self.loss.gap(self.loss.score(x["model"], features), label)

    def solve(self, mean: jax.Array) -> jax.Array:
        p = self.loss.p
        return (self.loss.margin + mean / (p * (1 - p))) / self.loss.scale
