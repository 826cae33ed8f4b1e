"""From log-odds to probabilities and labels: by which rule a classifier decides."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.engine.deciding import AUTO, F1, PREVALENCE, RULES
from gossamer.learn._common import PrivateEstimator, Task


class PrivateScorer(PrivateEstimator):
    """A classifier by log-odds of two classes, or by logits of more."""

    classes_: np.ndarray
    threshold: Any
    """By which rule a classifier of two classes decides."""

    def _logits(self, X: Any) -> np.ndarray:
        """Return log-odds of the second of two classes, shape (n,), or logits, (n, k)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores: of two classes the log-odds of the second less `threshold_`, shape (n,); else (n, k)."""
        return self._logits(X) - self.threshold_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes_`."""
        logits = self._logits(X)
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        return special.softmax(logits, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each row; of two, the second where the score is above 0."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _decided(self, task: Task, classes: int, score: Callable[[PyTree, np.ndarray], np.ndarray]) -> Task:
        """Return a task that buys the threshold of its decisions, if it is to; else set it, for scores in log-odds."""
        rule = _rule(self.threshold)
        if classes != 2:
            if rule not in (0.5, AUTO):
                raise ValueError(
                    f"threshold = {shown(self.threshold)} is about two classes, and there are {classes}. Leave it out: "
                    "the most probable class is predicted."
                )
            return task
        if isinstance(rule, str):
            return task._replace(score=score, rule=rule)
        self.threshold_ = math.log(rule / (1 - rule))
        return task


def _rule(threshold: Any) -> float | str:
    """Return the probability from which a row is called positive, or the name of the rule by which it is bought."""
    if isinstance(threshold, str) and threshold in RULES:
        return threshold
    try:
        rule = float(threshold)
    except (TypeError, ValueError):
        rule = math.nan
    if not 0 < rule < 1:
        raise ValueError(
            f"threshold = {shown(threshold)} must be a probability between 0 and 1, such as 0.5; or {PREVALENCE!r}, "
            f"for as many positive predictions as there are positives; or {F1!r}, for the best F1; or {AUTO!r}, which "
            f"is 0.5, or {PREVALENCE!r} where one class is rare."
        )
    return rule
