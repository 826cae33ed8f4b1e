"""Private linear regression as a scikit-learn estimator."""

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from gossamer import methods, objectives
from gossamer.learn._common import Task, public_bound, scale_rows, validated
from gossamer.learn._frames import pose_frame
from gossamer.learn._linear_model import PrivateLinearModel, coefficients
from gossamer.methods.base import Method


class PrivateLinearRegression(PrivateLinearModel, RegressorMixin, BaseEstimator):
    """Linear regression by least squares, with or without penalties, trained within a privacy budget.

    Rows are divided by R = data_norm and targets by B = target_bound, so that settings need no knowledge of the data.
    It minimises ½·mean((xᵀw/R + b − y/B)²) + l1·‖w‖₁ + (l2/2)·‖w‖². In the units of the table that is scikit-learn's
    Lasso(alpha=l1·R·B), Ridge(alpha=n·l2·R²) or ElasticNet. Records whose error exceeds about the method's `clip`
    pull no harder than that, as in Huber's regression.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it, and all are divided
        by it. None reads the largest norm from the data, which leaks, and warns.
      target_bound: a public bound on |y|; targets beyond it are moved to it, and all are divided by it. None reads
        the largest |y| from the data, which leaks, and warns.
      l1: strength of the penalty l1·‖w‖₁ on the coefficients of the scaled problem; the intercept is free.
      l2: strength of the penalty (l2/2)·‖w‖² on the same coefficients.
      fit_intercept: whether to fit an intercept.
      method: how to train, such as `gs.methods.SVRG(...)`; None takes gradient descent with settings that suit
        scaled rows and targets; a function is given that and returns what to take.
      columns: of a DataFrame, what is declared of its columns, by name, such as {"age": gs.tables.Number(0, 100)}; what
        is not declared is bought, with 5 % of the budget. None takes a DataFrame for an array.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes the noise reproducible: for tests.
      progress: whether to show a progress bar.
      checkpoints: `gs.Checkpoints(folder)` lets a long fit survive being killed.

    Attributes:
      coef_: coefficients, shape (d,), for rows and targets as they were passed.
      intercept_: the intercept, a number.
      data_norm_: the bound on rows that was given or read.
      target_bound_: the bound on targets that was given or read.
      certificate_: the privacy certificate of the fit.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import load_diabetes
      >>> X, y = load_diabetes(return_X_y=True)
      >>> model = PrivateLinearRegression(epsilon=1.0, data_norm=0.2, target_bound=346.0).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        data_norm=None,
        target_bound=None,
        l1=0.0,
        l2=0.0,
        fit_intercept=True,
        method=None,
        columns="auto",
        neighbors="replace_one",
        random_state=None,
        progress=False,
        checkpoints=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bound = target_bound
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.method = method
        self.columns = columns
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints

    def fit(self, X: Any, y: Any, **unsupported: Any) -> "PrivateLinearRegression":
        """Train on rows X with targets y, spending the budget once. Weights are refused, with the reason."""
        self._refuse(unsupported)
        task = self.pose(X, y)
        leaks = self._warn_of_leaks(data_norm="the largest row norm", target_bound="the largest absolute target")
        return self.spend(task, leaks)

    def pose(self, X: Any, y: Any) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        if self._has_columns(X):
            return pose_frame(self, X, y)
        X, y = validated(self, X, y, y_numeric=True, ensure_min_samples=2)
        rows, self.data_norm_ = scale_rows(X, self.data_norm)
        self.target_bound_ = public_bound("target_bound", self.target_bound, np.abs(y))
        return self._pose(rows, np.clip(y / self.target_bound_, -1.0, 1.0).astype(np.float32))

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int = 0) -> Task:
        n, d = rows.shape
        return self._linear_task(
            objectives.squared,
            rows,
            targets,
            outputs=(),
            default=lambda budget: default_method(n, d, budget.epsilon, self.fit_intercept),
        )

    def _keep(self, params: Any) -> None:
        weights, intercept = coefficients(params)
        self.coef_ = weights * (self.target_bound_ / self.data_norm_)
        self.intercept_ = float(intercept) * self.target_bound_

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row."""
        X = self._rows(X)
        return X @ self.coef_ + self.intercept_


def default_method(n: int, d: int, epsilon: float, intercept: bool = True) -> Method:
    """Return the training method for rows of norm at most 1 and targets in [−1, 1]: η = 1/L, and a public clip.

    The noise that the weights gather over the run is proportional to clip·√d/(nε); what clipping takes instead, far
    travel and the pull of large errors, wants a large clip. So clip is as large as keeps that noise at one size
    whatever n, d and ε, all of them public, and stops at 1/2, beyond which few errors are clipped.
    """
    clip = min(0.5, n * epsilon / (2000 * math.sqrt(d)))
    return methods.GD(steps=400, learning_rate=1 / objectives.squared.smoothness_constant(1.0, intercept), clip=clip)
