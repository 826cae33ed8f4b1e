"""What the linear estimators share: one ERM problem over weights and an intercept, on rows of norm at most 1."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from gossamer import methods
from gossamer.base.trees import PyTree
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

        return self._task(ERM(loss, regularizer=regularizer), (rows, targets), init, suited, person)

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
