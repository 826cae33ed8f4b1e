"""Private logistic regression as a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from gossamer import objectives
from gossamer.learn._common import Task, encode_labels, scale_rows, validated
from gossamer.learn._decisions import PrivateScorer
from gossamer.learn._frames import pose_frame
from gossamer.learn._linear_model import PrivateLinearModel, coefficients, scores_of


class PrivateLogisticRegression(PrivateLinearModel, PrivateScorer, ClassifierMixin, BaseEstimator):
    """Logistic regression, binary or multinomial, trained within a privacy budget.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it, and all are divided
        by it. None reads the largest norm from the data, which leaks, and warns.
      classes: the public list of labels. None reads it from the data, which leaks, and warns.
      l1: strength of the penalty l1·‖w‖₁ on the coefficients of the scaled rows; the intercept is free. With l2 too
        it is the elastic net.
      l2: strength of the penalty (l2/2)·‖w‖² on the same coefficients.
      fit_intercept: whether to fit an intercept.
      intervals: whether to buy 95 % confidence intervals of the coefficients, which cover the noise and the sampling,
        with half of the budget after the training. `coef_` is then the corrected estimate in their middle. For models
        without penalties, of two classes, and one row per person.
      threshold: of two classes, when the second is predicted: from this probability on, such as 0.5; or by a rule that
        is bought after the training with 5 % of the budget: "prevalence", for about as many rows as are of it; "f1",
        for the best F1; "auto", which is 0.5, or "prevalence" where one class has less than a fifth of the rows.
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
      coef_: coefficients, shape (1, d) or (k, d), for rows as they were passed.
      intercept_: intercepts.
      classes_: labels.
      coef_interval_: lower and upper ends of intervals of the coefficients, shape (d, 2), or None; NaN where the table
        is too small, or columns go together too closely, for the noise.
      intercept_interval_: the same of the intercept, shape (2,).
      data_norm_: the bound on rows that was given or read.
      threshold_: the log-odds above which the second of two classes is predicted.
      certificate_: the privacy certificate of the fit.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> X, y = make_classification(1000, random_state=0)
      >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=10.0, classes=[0, 1]).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        data_norm=None,
        classes=None,
        l1=0.0,
        l2=0.0,
        fit_intercept=True,
        intervals=False,
        threshold="auto",
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
        self.classes = classes
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.intervals = intervals
        self.threshold = threshold
        self.method = method
        self.columns = columns
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateLogisticRegression":
        """Train on rows X with labels y, spending the budget once. Weights are refused, with the reason.

        Args:
          X: rows.
          y: labels.
          person: whose row it is, for each row; a person, with all its rows, is then what the guarantee protects. None:
            a row.
          unsupported: refused.
        """
        self._refuse(unsupported)
        task = self.pose(X, y, person)
        return self.spend(task, self._warn_of_leaks(data_norm="the largest row norm", classes="the set of labels"))

    def pose(self, X: Any, y: Any, person: Any = None) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        if self._has_columns(X):
            return pose_frame(self, X, y, person=person)
        X, y = validated(self, X, y, ensure_min_samples=2)
        self.classes_, targets = encode_labels(y, self.classes)
        rows, self.data_norm_ = scale_rows(X, self.data_norm)
        return self._pose(rows, targets, len(self.classes_), person)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int, person: Any = None) -> Task:
        binary = classes == 2
        task = self._linear_task(
            objectives.logistic if binary else objectives.softmax,
            rows,
            targets.astype(np.float32 if binary else np.int32, copy=False),
            outputs=() if binary else (classes,),
            person=person,
        )
        return self._decided(task, classes, scores_of)

    def _keep(self, params: Any) -> None:
        weights, intercept = coefficients(params)
        self.coef_ = weights.reshape(self.n_features_in_, -1).T / self.data_norm_
        self.intercept_ = intercept.reshape(-1)

    def _units(self) -> tuple[float, float]:
        return 1 / self.data_norm_, 1.0

    def _logits(self, X: Any) -> np.ndarray:
        logits = self._rows(X) @ self.coef_.T + self.intercept_
        return logits[:, 0] if logits.shape[1] == 1 else logits
