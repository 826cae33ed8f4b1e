"""Private linear regression as a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from gossamer import objectives
from gossamer.learn._common import Task, public_bound, scale_rows, validated
from gossamer.learn._frames import pose_frame
from gossamer.learn._linear_model import PrivateLinearModel, coefficients


class PrivateLinearRegression(PrivateLinearModel, RegressorMixin, BaseEstimator):
    """Linear regression by least squares, with or without penalties, trained within a privacy budget.

    Rows are divided by R = data_norm and targets by B = target_bound, so that settings need no knowledge of the data.
    It minimises ½·mean((xᵀw/R + b − y/B)²) + l1·‖w‖₁ + (l2/2)·‖w‖². In the units of the table that is scikit-learn's
    Lasso(alpha=l1·R·B), Ridge(alpha=n·l2·R²) or ElasticNet. Records whose error exceeds about the method's
    threshold pull no harder than that, as in Huber's regression.

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
      intervals: whether to buy 95 % confidence intervals of the coefficients, which cover the noise and the sampling,
        with half of the budget after the training. `coef_` is then the corrected estimate in their middle. For models
        without penalties, and one row per person.
      method: how to train, such as `gs.methods.SVRG(...)`; None takes `gs.methods.Whitened` with as many steps as suit
        the table's size and the budget; a function is given that and returns what to take.
      columns: of a DataFrame, what is declared of its columns, by name, such as {"age": gs.tables.Number(0, 100)}; what
        is not declared is bought, with 5 % of the budget. None takes a DataFrame for an array.
      rows_per_person: for `fit(X, y, person=...)`: how many rows of a person count at most, the first ones; chosen
        without looking at the table.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes the noise reproducible: for tests.
      progress: whether to show a progress bar.
      checkpoints: `gs.Checkpoints(folder)` lets a long fit survive being killed.
      ledger: `gs.BudgetFile(path)` pays for each fit before its first query, and refuses it if too little is left.

    Attributes:
      coef_: coefficients, shape (d,), for rows and targets as they were passed.
      intercept_: the intercept, a number.
      coef_interval_: lower and upper ends of intervals of the coefficients, shape (d, 2), or None; NaN where the table
        is too small, or columns go together too closely, for the noise.
      intercept_interval_: the same of the intercept, shape (2,).
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
        intervals=False,
        method=None,
        columns="auto",
        rows_per_person=10,
        neighbors="replace_one",
        random_state=None,
        progress=False,
        checkpoints=None,
        ledger=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bound = target_bound
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.intervals = intervals
        self.method = method
        self.columns = columns
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateLinearRegression":
        """Train on rows X with targets y, spending the budget once. Weights are refused, with the reason.

        Args:
          X: rows.
          y: targets.
          person: whose row it is, for each row; a person, with all its rows, is then what the guarantee protects. None:
            a row.
          unsupported: refused.
        """
        self._refuse(unsupported)
        task = self.pose(X, y, person)
        leaks = self._warn_of_leaks(data_norm="the largest row norm", target_bound="the largest absolute target")
        return self.spend(task, leaks)

    def pose(self, X: Any, y: Any, person: Any = None) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        if self._has_columns(X):
            return pose_frame(self, X, y, person=person)
        X, y = validated(self, X, y, y_numeric=True, ensure_min_samples=2)
        rows, self.data_norm_ = scale_rows(X, self.data_norm)
        self.target_bound_ = public_bound("target_bound", self.target_bound, np.abs(y))
        return self._pose(rows, np.clip(y / self.target_bound_, -1.0, 1.0).astype(np.float32), person=person)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int = 0, person: Any = None) -> Task:
        return self._linear_task(objectives.squared, rows, targets, outputs=(), person=person)

    def _keep(self, params: Any) -> None:
        weights, intercept = coefficients(params)
        of_weight, of_intercept = self._units()
        self.coef_ = weights * of_weight
        self.intercept_ = float(intercept) * of_intercept

    def _units(self) -> tuple[float, float]:
        return self.target_bound_ / self.data_norm_, self.target_bound_

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row."""
        X = self._rows(X)
        return X @ self.coef_ + self.intercept_
