"""A private network for classes, as a scikit-learn estimator."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from gossamer import methods, objectives
from gossamer.base.trees import PyTree
from gossamer.learn import _network
from gossamer.learn._common import Task, encode_labels, scale_rows, validated
from gossamer.learn._frames import pose_frame
from gossamer.methods.base import Method
from gossamer.models import CrossEntropy
from gossamer.privacy.budget import Budget
from gossamer.privacy.gaussian import mu

_CLIP = 4.0
_NOISE = 0.13
"""The deviation that noise may have in a weight at the end."""
_FEWEST, _LONGEST = 100, 2000
"""The fewest steps, and the longest path."""


class PrivateMLPClassifier(_network.PrivateNetwork, ClassifierMixin, BaseEstimator):
    """A network of rectified units that minimises the cross-entropy, binary or multinomial, within a privacy budget.

    It is for columns that act together, as those of images do, and for tens of thousands of records. On most tables
    `PrivateLogisticRegression` and `PrivateAdditiveClassifier` are better, and quicker.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      hidden_layer_sizes: sizes of ReLU layers between rows and scores; () is a linear model.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it. None reads the largest
        norm from the data, which leaks, and warns.
      classes: the public list of labels. None reads it from the data, which leaks, and warns.
      threshold: of two classes, when the second is predicted: from this probability on, such as 0.5; or by a rule that
        is bought after the training with 5 % of the budget: "prevalence", for about as many rows as are of it; "f1",
        for the best F1; "auto", which is 0.5, or "prevalence" where one class has less than a fifth of the rows.
      method: how to train, such as `gs.methods.SGD(...)`; None takes SGD with settings by the number of records; a
        function is given that and returns what to take. Training sees rows of norm at most √d, d columns.
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
      classes_: labels, sorted.
      layers_: private weights and biases, for rows divided by `data_norm_`.
      data_norm_: the bound on rows that was given or read.
      threshold_: the log-odds above which the second of two classes is predicted.
      certificate_: the privacy certificate of the fit.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> X, y = make_classification(1000, random_state=0)
      >>> model = PrivateMLPClassifier(epsilon=1.0, hidden_layer_sizes=(8,), data_norm=10.0, classes=[0, 1]).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        hidden_layer_sizes=(64,),
        data_norm=None,
        classes=None,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.data_norm = data_norm
        self.classes = classes
        self.threshold = threshold
        self.method = method
        self.columns = columns
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateMLPClassifier":
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
        return self._pose(rows * _scale(rows.shape[1]), targets, len(self.classes_), person)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int, person: Any = None) -> Task:
        labels, outputs = _network.for_classes(targets, classes)
        start = _network.start(self._seed(), rows.shape[1], self.hidden_layer_sizes, outputs)
        task = self._task(
            objectives.ERM(CrossEntropy()), (rows, labels), start, lambda budget, n: default_method(n, budget), person
        )
        return self._decided(task, classes, _network.scores_of)

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return the loss that is minimised."""
        return task.problem.loss

    def _keep(self, params: Any) -> None:
        self.layers_ = _network.stored(params)
        self.layers_[0]["weights"] *= _scale(self.n_features_in_)


def _scale(columns: int) -> np.float32:
    """Return how long the longest row is in training: so that a typical entry is about 1, as networks start best."""
    return np.float32(math.sqrt(columns))


def default_method(n: int, budget: Budget) -> Method:
    """Return the training method for n records with rows of norm at most √d.

    T steps of rate η with threshold C move a weight by noise of deviation about ηT·C/(n·w), w the worth μ of the budget
    in standard deviations per replaced (halved) or removed record: it is the path ηT that noise limits, whatever T is.
    On Adult at ε = 0.1, 1 and 8 and on even and odd digits at ε = 1 the best paths had a deviation near 0.13, networks
    of 7 000 and of 100 000 parameters alike. Steps of rate 1 are as long as networks of such rows bear; a short path is
    cut into steps all the same, for the sake of their samples' noise.
    """
    worth = mu(budget.epsilon, budget.delta) / (2 if budget.neighbors == "replace_one" else 1)
    path = min(_NOISE * n * worth / _CLIP, _LONGEST)
    steps = math.ceil(max(path, _FEWEST))
    return methods.SGD(steps=steps, learning_rate=path / steps, clip=_CLIP, batch_size=min(n, 2048))
