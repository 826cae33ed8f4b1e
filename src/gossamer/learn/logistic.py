"""Private logistic regression in the clothes of scikit-learn."""

import dataclasses
import math
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gossamer import geometry, methods, objectives
from gossamer.budget import Budget
from gossamer.exceptions import PrivacyLeakWarning
from gossamer.methods.base import Method
from gossamer.solving import solve


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression, binary or multinomial, trained within a privacy budget.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it, and all are divided
        by it. None reads the largest norm from the data, which leaks, and warns.
      classes: the public list of labels. None reads it from the data, which leaks, and warns.
      l2: strength λ of the penalty (λ/2)‖w‖² on the coefficients of the scaled rows; the intercept is free.
      fit_intercept: whether to fit an intercept.
      method: how to train; None takes gradient descent with settings that suit scaled rows.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes the noise reproducible: for tests.
      progress: whether to show a progress bar.

    Attributes:
      coef_: coefficients, shape (1, d) or (k, d), for rows as they were passed.
      intercept_: intercepts.
      classes_: labels.
      certificate_: the privacy certificate of the fit.

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
        l2=0.0,
        fit_intercept=True,
        method=None,
        neighbors="replace_one",
        random_state=None,
        progress=False,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.classes = classes
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.method = method
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> "PrivateLogisticRegression":
        """Train on rows X with labels y, spending the budget once."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        n, d = X.shape
        leaks = self._warn_of_leaks()
        self.classes_, targets = self._encode(y)
        scale = self._row_bound(X)
        rows = _shorten(X, scale) / scale
        binary = len(self.classes_) == 2
        loss = objectives.logistic if binary else objectives.softmax
        shape: tuple[int, ...] = () if binary else (len(self.classes_),)
        init = {"weights": jnp.zeros((d, *shape))}
        if self.fit_intercept:
            init["intercept"] = jnp.zeros(shape)
        result = solve(
            objectives.ERM(loss, regularizer=self._penalty()),
            (rows.astype(np.float32), targets.astype(np.float32 if binary else np.int32)),
            self.method if self.method is not None else default_method(),
            Budget(self.epsilon, n**-1.1 if self.delta is None else self.delta, self.neighbors),
            init=init,
            seed=self._seed(),
            progress=self.progress,
        )
        weights = np.asarray(result.params["weights"], np.float64) / scale
        self.coef_ = weights.reshape(d, -1).T
        self.intercept_ = np.asarray(result.params.get("intercept", np.zeros(shape)), np.float64).reshape(-1)
        self.certificate_ = dataclasses.replace(
            result.certificate, assumptions=(*result.certificate.assumptions, *leaks)
        )
        self.history_ = result.history
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores: shape (n,) for two classes, else (n, k)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = special.expit(scores)
            return np.stack([1 - positive, positive], axis=1)
        return special.softmax(scores, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _warn_of_leaks(self) -> list[str]:
        """Warn of what will be read from the data; return the sentences that the certificate must carry."""
        leaks = []
        for argument, what in (("data_norm", "the largest row norm"), ("classes", "the set of labels")):
            if getattr(self, argument) is None:
                warnings.warn(
                    f"{argument} was not given, so {what} was read from the data, outside the privacy guarantee. "
                    f"Pass {argument}=... from public knowledge.",
                    PrivacyLeakWarning,
                    stacklevel=3,
                )
                leaks.append(f"NOT MET: {argument}, {what}, was read from the records and is outside this guarantee.")
        return leaks

    def _encode(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels and each row's index among them."""
        check_classification_targets(y)
        if self.classes is None:
            labels = np.unique(y)
        else:
            labels = np.unique(np.asarray(self.classes))
            if not np.isin(y, labels).all():
                raise ValueError(
                    f"y has labels outside classes = {labels.tolist()}. Add them to classes or drop those rows."
                )
        if len(labels) < 2:
            raise ValueError(f"a classifier needs at least two classes, got {len(labels)} class: {labels.tolist()}.")
        return labels, np.searchsorted(labels, y)

    def _row_bound(self, X: np.ndarray) -> float:
        if self.data_norm is None:
            return float(max(np.linalg.norm(X, axis=1).max(), np.finfo(np.float32).tiny))
        if not (self.data_norm > 0 and math.isfinite(self.data_norm)):
            raise ValueError(f"data_norm = {self.data_norm!r} must be a finite number above 0.")
        return float(self.data_norm)

    def _penalty(self) -> geometry.Regularizer:
        if self.l2 == 0:
            return geometry.Zero()
        return geometry.L2(self.l2, exclude=("intercept",) if self.fit_intercept else ())

    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The noise of a small budget on a small table may outweigh the signal.
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


def default_method() -> Method:
    """Return the training method for rows of norm at most 1: L is at most 1/2 there, so η = 4 is 2/L."""
    return methods.GD(steps=100, learning_rate=4.0, clip=0.5)


def _shorten(X: np.ndarray, bound: float) -> np.ndarray:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.minimum(1.0, bound / np.maximum(norms, np.finfo(float).tiny))
