"""A private classifier that maximises the area under the ROC curve, as a scikit-learn estimator."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin

from gossamer import methods, objectives
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.engine.shares import POSITIVES, share_stage, shares_of
from gossamer.engine.stages import Answers
from gossamer.learn._common import PrivateEstimator, Task, encode_labels, scale_rows, validated
from gossamer.learn._decisions import PREVALENCE
from gossamer.learn._frames import pose_frame
from gossamer.learn._network import outputs, scores_of, start, stored
from gossamer.methods.base import Method
from gossamer.models import MLP, CrossEntropy
from gossamer.oracle.people import count

_SCALAR_SCALE = 0.4
_LEAST_SHARE = 0.01


class PrivateAUCClassifier(PrivateEstimator, ClassifierMixin, BaseEstimator):
    """A linear or neural scorer of two classes that ranks positives above negatives, trained within a privacy budget.

    It maximises the area under the ROC curve by `gs.objectives.auc`, which weighs the classes alike however rare one of
    them is. Scores rank; they are no calibrated probabilities.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      hidden_layer_sizes: sizes of ReLU layers between rows and score; () is a linear model.
      positive_share: the public share of rows of the second class; by persons, the mean of their own shares. None buys
        it with 5 % of the budget; nothing leaks.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it, and all are divided
        by it. None reads the largest norm from the data, which leaks, and warns.
      classes: the public pair of labels. None reads it from the data, which leaks, and warns.
      threshold: when the second class is predicted: "prevalence", for about as many rows as are of it, which is bought
        after the training with 5 % of the budget; or "balanced", half-way between the classes' mean scores as they were
        learned, where both classes count alike however rare one is.
      method: how to train, `gs.methods.SGDA(...)` or `gs.methods.PrivateDiff(...)`; None takes SGDA with settings that
        suit scaled rows; a function is given that and returns what to take.
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
      classes_: labels, sorted; the second is the positive class.
      positive_share_: the share that was given or bought.
      layers_: private weights and biases, for rows divided by `data_norm_`.
      threshold_: the score, before the sigmoid, above which the second class is predicted.
      certificate_: the privacy certificate of the fit, with the cost of the share.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> X, y = make_classification(2000, weights=[0.9], random_state=0)
      >>> model = PrivateAUCClassifier(epsilon=1.0, data_norm=10.0, classes=[0, 1]).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        hidden_layer_sizes=(),
        positive_share=None,
        data_norm=None,
        classes=None,
        threshold="prevalence",
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
        self.positive_share = positive_share
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

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateAUCClassifier":
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
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent.

        A share of positives that was not given is ½ in it: `spend` buys the share first.
        """
        if self._has_columns(X):
            return pose_frame(self, X, y, person=person)
        X, y = validated(self, X, y, ensure_min_samples=2)
        self.classes_, targets = encode_labels(y, self.classes)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"there are {len(self.classes_)} classes. The ROC curve is about two classes."
            )
        rows, self.data_norm_ = scale_rows(X, self.data_norm)
        return self._pose(rows, targets.astype(np.float32), person=person)

    def _pose(self, rows: np.ndarray, labels: np.ndarray, classes: int = 2, person: Any = None) -> Task:
        task = self._shared(rows, labels, person)
        if self.threshold == "balanced":
            return task
        if self.threshold != PREVALENCE:
            raise ValueError(
                f"threshold = {shown(self.threshold)} must be {PREVALENCE!r} or 'balanced': scores that rank are no "
                "probabilities."
            )
        return task._replace(score=lambda params, rows: scores_of(params[0]["model"], rows))

    def _shared(self, rows: np.ndarray, labels: np.ndarray, person: Any) -> Task:
        """Return the task, with the share of positives that is given, or to be bought."""
        network = start(self._seed(), rows.shape[1], self.hidden_layer_sizes)  # all scores are ½
        if self.positive_share is not None:
            return self._task_at(self.positive_share, (rows, labels), network, person)
        shared = self._records(labels, person)

        def complete(answers: Answers) -> Task:
            _, share = shares_of(answers[POSITIVES], count(shared))
            return self._task_at(min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE), (rows, labels), network, person)

        bought = (share_stage(POSITIVES, shared, 2),)
        return self._task_at(0.5, (rows, labels), network, person)._replace(bought=bought, complete=complete)

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return the cross-entropy of the scorer, which training does not see."""
        entropy = CrossEntropy()
        return lambda params, record: entropy(params[0]["model"], record[:2])

    def _keep(self, params: Any) -> None:
        x, _ = params
        self.layers_ = stored(x["model"])
        middle = _SCALAR_SCALE * (float(x["a"]) + float(x["b"])) / 2
        self.threshold_ = float(special.logit(np.clip(middle, 0.01, 0.99)))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score of each row, positive where the second class is predicted; shape (n,)."""
        X = self._rows(X)
        # As in training, a longer row is shortened to the bound.
        return outputs(self.layers_, scale_rows(X, self.data_norm_)[0])[:, 0] - self.threshold_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return numbers in [0, 1] that rise with the score, in the order of `classes_`: NOT calibrated."""
        positive = special.expit(self.decision_function(X))
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the second label where the score is above 0, else the first."""
        chosen = (self.decision_function(X) > 0).astype(int)
        return self.classes_[chosen]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _task_at(self, share: float, arrays: tuple[np.ndarray, ...], network: Any, person: Any) -> Task:
        """Return the task for a share of positives, from the saddle point of scores of ½: a = b = ½, α = 1."""
        self.positive_share_ = share
        problem = _problem(share)
        return self._task(
            problem,
            arrays,
            objectives.auc_init(problem, network, score=0.5),
            default=lambda budget, n: default_method(n, len(network) > 1),
            person=person,
        )


def _problem(share: float) -> objectives.Minimax:
    return objectives.auc(MLP(sigmoid=True), share, scalar_scale=_SCALAR_SCALE)


def default_method(n: int, network: bool) -> Method:
    """Return the training method for rows of norm at most 1; a network's gradients grow along its layers.

    Samples of a public size are as good as all records here, and cheaper.
    """
    return methods.SGDA(
        steps=100,
        learning_rate_x=2.0 if network else 10.0,
        learning_rate_y=1.0,
        clip_x=0.5,
        clip_y=0.5,
        batch_size=min(n, 16_384),
    )
