"""What the linear estimators share: one ERM problem over weights and an intercept, on rows of norm at most 1."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import methods
from gossamer.base.trees import PyTree
from gossamer.engine.intervals import Z, corrected
from gossamer.engine.stages import Answers
from gossamer.learn._common import PrivateEstimator, Task, penalty
from gossamer.methods.base import Method
from gossamer.objectives import ERM
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.privacy.budget import Budget


class PrivateLinearModel(PrivateEstimator):
    """An estimator of scores xᵀ·weights + intercept, penalised by l1 and l2 but for the intercept."""

    l1: float
    l2: float
    fit_intercept: bool
    intervals: bool
    coef_interval_: np.ndarray | None = None
    intercept_interval_: np.ndarray | None = None

    def _linear_task(
        self,
        loss: LinearLoss,
        rows: np.ndarray,
        targets: np.ndarray,
        outputs: tuple[int, ...],
        person: Any = None,
    ) -> Task:
        """Return the task of weights of shape (d, *outputs) and intercepts of shape outputs, for the scaled rows."""
        if isinstance(self.method, methods.AccMD):
            raise ValueError(
                f"method = {self.method!r} works within a constraint, and {type(self).__name__} has none. Use "
                "Whitened, GD, SGD, SVRG, SVRGpp or Spider, or call gs.solve with gs.ERM(loss, "
                "constraint=gs.L1Ball(radius))."
            )
        init: dict[str, Any] = {"weights": jnp.zeros((rows.shape[1], *outputs))}
        if self.fit_intercept:
            init["intercept"] = jnp.zeros(outputs)
        regularizer = penalty(self.l1, self.l2, exclude=("intercept",) if self.fit_intercept else ())

        def suited(budget: Budget, n: int) -> Method:
            return methods.Whitened.suited(loss, n, *init["weights"].shape, budget=budget)

        if self.intervals:
            self._check_intervals(outputs, person)
        task = self._task(ERM(loss, regularizer=regularizer), (rows, targets), init, suited, person)
        return task._replace(intervals=self.intervals)

    def _check_intervals(self, outputs: tuple[int, ...], person: Any) -> None:
        """Refuse intervals where what they would cover is not what is estimated."""
        if self.l1 or self.l2:
            raise ValueError(
                f"intervals = True needs a model without penalties, and l1 = {self.l1:g}, l2 = {self.l2:g}: penalised "
                "coefficients are biased on purpose. Leave the penalties out, or the intervals."
            )
        if outputs:
            raise ValueError(
                f"intervals = True is for two classes, and there are {outputs[0]}. Fit one class against the others, "
                "each with its part of the budget, or leave the intervals out."
            )
        if person is not None:
            raise ValueError(
                "intervals = True is for tables with one row per person: rows of one person go together, and sampling "
                "would be understated. Leave person out only if each row is another person's; else the intervals."
            )

    def _take(self, answers: Answers, n: int) -> None:
        """Keep the corrected model and its intervals, if they were bought."""
        super()._take(answers, n)
        self.coef_interval_ = self.intercept_interval_ = None
        if not self.intervals:
            return
        params, deviations = corrected(answers, n)
        self._keep(params)
        if deviations is None:
            warnings.warn(
                "the smallest curvature of the loss cannot be told from noise, so that there are no intervals (they "
                "are NaN), and the model is as it was trained. Allow a larger epsilon, use fewer columns or columns "
                "that go less together, or a tighter data_norm.",
                RuntimeWarning,
                stacklevel=4,
            )
            deviations = jax.tree.map(lambda leaf: np.full(np.shape(leaf), np.nan), params)
        ends = Z * np.array([-1.0, 1.0])
        of_weight, of_intercept = self._units()
        weights, intercept = coefficients(deviations)
        self.coef_interval_ = self.coef_.reshape(-1, 1) + of_weight * weights[:, None] * ends
        self.intercept_interval_ = np.asarray(self.intercept_).reshape(()) + of_intercept * intercept * ends

    def _units(self) -> tuple[float, float]:
        """Return in what units of the table a weight and the intercept of the scaled problem are."""
        raise NotImplementedError

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return the loss that is minimised."""
        return task.problem.loss


def scores_of(params: dict[str, Any], rows: np.ndarray) -> np.ndarray:
    """Return the scores of scaled rows."""
    weights, intercept = coefficients(params)
    return rows @ weights + intercept


def coefficients(params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return private weights, shape (d, *outputs), and intercepts, shape outputs, as estimators keep them."""
    weights = np.asarray(params["weights"], np.float64)
    return weights, np.asarray(params.get("intercept", np.zeros(weights.shape[1:])), np.float64)
