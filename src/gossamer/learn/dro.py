"""Private classifiers for the worst case, of records that are hard or of groups, as scikit-learn estimators."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d

from gossamer import methods, objectives
from gossamer.base.trees import PyTree
from gossamer.engine.shares import GROUPS, share_stage, shares_of
from gossamer.engine.stages import Answers
from gossamer.learn import _network
from gossamer.learn._common import Task, encode_groups, encode_labels, nobody, scale_rows, validated
from gossamer.learn._divergences import parse_divergence
from gossamer.learn._frames import pose_frame
from gossamer.methods.base import Method
from gossamer.models import CrossEntropy
from gossamer.oracle.people import count

_STRONG_CONCAVITY = 1.0
_LEAST_RECORDS = 1500
"""A group of this many, divided by ε, can be told from noise."""


class PrivateDROClassifier(_network.PrivateNetwork, ClassifierMixin, BaseEstimator):
    """A linear or neural classifier that is trained for a worst case instead of the average, within a privacy budget.

    Without groups it minimises `gs.DRO`: the mean loss under the worst distribution near that of the records, which
    puts more weight on those that the model gets wrong. With `fit(X, y, groups=...)` it minimises `gs.GroupDRO`: the
    loss of the group that has the largest.

    *Fairness.* Training for the worst group lowers the largest of the groups' mean losses on the training records, as
    far as noise lets it. It promises no equal treatment, no equal error rates of one kind (such as the share of
    positives that are found), nothing about groups that were not named or about people inside a group, and nothing on
    records from elsewhere; other groups, and the average, may lose. A record's group is part of the record and is
    protected like the rest of it. That protection is also the limit: a group of few records cannot be told from noise,
    whatever its weight, so that one of fewer than about 1500/ε records counts for less. Scores on private records,
    those of `worst_group_score` above all, are not private: the score of a group of ten says much about each of them.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      divergence: how far a distribution is from that of the records, such as `gs.KLCVaR(0.1)`, or in words, such as
        "kl-cvar:0.1"; None takes `gs.ChiSquare()`, and `gs.KL()` if there is a radius.
      penalty: λ, the price of one unit of divergence: the smaller, the more the worst case may differ. None takes 1.
      radius: the most divergence that is allowed, in place of a penalty; with `gs.KLCVaR(alpha)` no record weighs more
        than 1/alpha, and with `gs.KL()` none counts for more than 10e^radius.
      groups: the public names of the groups. None reads them from what `fit` is given, which leaks, and warns.
      group_shares: the public share of records in each group, in the order of `groups`; they need not be exact. None
        buys them with 5 % of the budget; nothing leaks.
      hidden_layer_sizes: sizes of ReLU layers between rows and scores; () is a linear model.
      data_norm: a public bound on the Euclidean norm of a row; longer rows are shortened to it, and all are divided
        by it. None reads the largest norm from the data, which leaks, and warns.
      classes: the public list of labels. None reads it from the data, which leaks, and warns.
      method: how to train: `gs.methods.DoubleSpider(...)` for a penalty, `RecursiveSpider(...)` for a radius,
        `SGDA(...)` or `PrivateDiff(...)` for groups; None takes settings that suit scaled rows; a function is
        given those and returns what to take.
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
      groups_: names of the groups, if it was fitted with groups.
      group_shares_: the shares of the groups that were given or bought, in the order of `groups_`.
      group_weights_: the last weight of each group's loss, in the order of `groups_`: where the worst case was.
      layers_: private weights and biases, for rows divided by `data_norm_`.
      certificate_: the privacy certificate of the fit, with the cost of the shares if they were bought.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> X, y = make_classification(2000, random_state=0)
      >>> model = PrivateDROClassifier(epsilon=1.0, data_norm=10.0, classes=[0, 1]).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        divergence=None,
        penalty=None,
        radius=None,
        groups=None,
        group_shares=None,
        hidden_layer_sizes=(),
        data_norm=None,
        classes=None,
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
        self.divergence = divergence
        self.penalty = penalty
        self.radius = radius
        self.groups = groups
        self.group_shares = group_shares
        self.hidden_layer_sizes = hidden_layer_sizes
        self.data_norm = data_norm
        self.classes = classes
        self.method = method
        self.columns = columns
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, groups: Any = None, person: Any = None, **unsupported: Any) -> "PrivateDROClassifier":
        """Train on rows X with labels y, spending the budget once. Weights are refused, with the reason.

        Args:
          X: rows.
          y: labels.
          groups: the group of each row, for the worst group's risk; None: that of the divergence.
          person: whose row it is, for each row; a person, with all its rows, is then what the guarantee protects. None:
            a row. A person may have rows of several groups. The worst distribution is one over persons, each with the
            mean loss of its rows; the worst group is one of rows, of which each counts for its part of its person.
          unsupported: refused.
        """
        self._refuse(unsupported)
        task = self.pose(X, y, groups, person)
        read = {"data_norm": "the largest row norm", "classes": "the set of labels"}
        if groups is not None:
            read["groups"] = "the set of groups"
        return self.spend(task, self._warn_of_leaks(**read))

    def pose(self, X: Any, y: Any, groups: Any = None, person: Any = None) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent.

        Shares of groups that were not given are all alike in it: `spend` buys the shares first.
        """
        if self._has_columns(X):
            return pose_frame(self, X, y, *([] if groups is None else [groups]), person=person)
        X, y = validated(self, X, y, ensure_min_samples=2)
        self.classes_, targets = encode_labels(y, self.classes)
        rows, self.data_norm_ = scale_rows(X, self.data_norm)
        for name in ("groups_", "group_shares_", "group_weights_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if groups is None:
            return self._pose(rows, targets, len(self.classes_), person)
        check_consistent_length(rows, groups)
        self.groups_, members = encode_groups(groups, self.groups)
        return self._pose(rows, targets, len(self.classes_), person, members)

    def outline(self, n: int, columns: int, classes: int = 2) -> Task:
        """Return what `pose` would make of n records with so many columns, but without records: for a plan."""
        if self.groups is None:
            return super().outline(n, columns, classes)
        self.groups_ = np.asarray(self.groups)
        return self._pose(nobody(n, columns), nobody(n), classes, members=nobody(n, dtype=np.int32))

    def _pose(
        self,
        rows: np.ndarray,
        targets: np.ndarray,
        classes: int,
        person: Any = None,
        members: np.ndarray | None = None,
    ) -> Task:
        labels, outputs = _network.for_classes(targets, classes)
        # It gives every class the same probability.
        start = _network.start(self._seed(), rows.shape[1], self.hidden_layer_sizes, outputs)
        if members is None:
            return self._records_task((rows, labels), start, person)
        return self._groups_task((rows, labels, members), start, person)

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return the cross-entropy, whatever weight training gave the record."""
        entropy, grouped = CrossEntropy(), hasattr(self, "groups_")
        return lambda params, record: entropy(params[0] if grouped else params, record[:2])

    def _keep(self, params: Any) -> None:
        if hasattr(self, "groups_"):
            params, weights = params
            self.group_weights_ = np.asarray(weights, np.float64)
        self.layers_ = _network.stored(params)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes_`; about the worst case, so NOT calibrated."""
        return super().predict_proba(X)

    def worst_group_score(self, X: Any, y: Any, groups: Any) -> float:
        """Return the lowest accuracy over the groups of these rows. Not private."""
        groups = column_or_1d(groups)
        check_consistent_length(X, y, groups)
        right = self.predict(X) == np.asarray(y)
        return float(min(right[groups == group].mean() for group in np.unique(groups)))

    def _records_task(self, arrays: tuple[np.ndarray, ...], start: Any, person: Any) -> Task:
        """Return the task of layers for the worst distribution near that of the records."""
        for name in ("groups", "group_shares"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} was given, but fit was not told the group of each row. Call fit(X, y, groups=...), or "
                    f"leave {name} out."
                )
        divergence = parse_divergence(self.divergence) if isinstance(self.divergence, str) else self.divergence
        if divergence is None:
            divergence = objectives.ChiSquare() if self.radius is None else objectives.KL()
        problem = objectives.DRO(CrossEntropy(), divergence, self.penalty, self.radius)
        return self._task(
            problem, arrays, start, default=lambda budget, n: default_method(n, problem, start), person=person
        )

    def _groups_task(self, arrays: tuple[np.ndarray, ...], start: Any, person: Any) -> Task:
        """Return the task of layers for the worst group, and of the groups' weights."""
        for name in ("divergence", "penalty", "radius"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} does not go with groups: the worst case is over groups, or over "
                    f"distributions near that of the records. Leave out {name}, or groups in fit."
                )
        k, members = len(self.groups_), self._records(arrays[-1], person)
        if self.group_shares is not None:
            return self._task_at(_checked(self.group_shares, self.groups_), arrays, start, person)

        def complete(answers: Answers) -> Task:
            return self._task_at(shares_of(answers[GROUPS], count(members)), arrays, start, person)

        bought = (share_stage(GROUPS, members, k),)
        return self._task_at([1 / k] * k, arrays, start, person)._replace(bought=bought, complete=complete)

    def _task_at(self, shares: Any, arrays: tuple[np.ndarray, ...], start: Any, person: Any) -> Task:
        """Return the task for shares of the groups, raised to what noise lets see."""
        self.group_shares_ = np.asarray(shares, np.float64)
        n, k = count(self._records(arrays[-1], person)), len(self.group_shares_)
        # A budget that makes no sense is refused later, with its own words.
        least = max(1.0, _LEAST_RECORDS / max(self.epsilon, 1e-9)) / n
        raised = np.maximum(self.group_shares_, min(1 / k, least))
        seen = tuple((raised / raised.sum()).tolist())
        return self._task(
            objectives.GroupDRO(CrossEntropy(), k, seen, strong_concavity=_STRONG_CONCAVITY),
            arrays,
            (start, jnp.full(k, 1 / k)),
            default=lambda budget, n: default_grouped(n, seen, len(start) > 1),
            person=person,
        )


def _checked(shares: Any, names: np.ndarray) -> np.ndarray:
    """Return public shares, one for each of the names."""
    given = np.asarray(shares, np.float64)
    if given.shape != names.shape or not (given >= 0).all() or not math.isclose(given.sum(), 1.0, abs_tol=1e-2):
        raise ValueError(
            f"group_shares = {shares!r} must be {len(names)} numbers of at least 0 that add up to 1, in the order of "
            f"groups = {names.tolist()}."
        )
    return given


def default_method(n: int, problem: objectives.DRO, start: Any) -> Method:
    """Return the training method without groups, for rows of norm at most 1: every step asks all records.

    With `period=1` every step asks afresh: these are DoubleSpider and RecursiveSpider without their differences, noisy
    gradient descent in x and in the dual. On the table on which this was chosen differences did not pay (χ² at ε = 1,
    the same steps: a worst case of 0.452 with a period of 4, 0.441 with 1).

    A linear model's clip is 4: the weight of hard records is what the objective is about, and where it is cut the model
    gets surer of itself than the worst case allows. A penalty of λ makes the gradient in x about 1 + M/λ times as
    curved as that of the mean loss, with M = (ψ*)″ for a hard record, of weight 3 (1 for χ², 3 for KL), and curves the
    dual by 1/λ. The dual starts at the loss of a model that knows nothing. Networks were not tried with that clip.
    """
    linear = len(start) == 1
    common: Any = dict(steps=100 if linear else 200, period=1, clip=4.0 if linear else 1.0, batch_size=n)
    if problem.penalty is None:
        return methods.RecursiveSpider(**common, learning_rate=3.0 if linear else 2.0)
    rate, curved = (6.0, _curvature(problem.divergence)) if linear else (4.0, 1.0)
    return methods.DoubleSpider(
        **common,
        learning_rate=rate / (1 + curved / problem.penalty),
        learning_rate_dual=problem.penalty / 2,
        clip_dual=4.0 if linear else 2.0,
        initial_dual=math.log(max(2, start[-1]["bias"].size)),
    )


def _curvature(divergence: objectives.Divergence) -> float:
    """Return how fast the weight of a record of weight 3 grows with its loss, or 1 if that is more."""
    return max(1.0, float(jax.grad(divergence.weight)(jax.grad(divergence)(3.0))))


def default_grouped(n: int, shares: tuple[float, ...], network: bool) -> Method:
    """Return the training method for groups, for rows of norm at most 1: every step asks all records.

    Losses of up to 1 count in full in every group; momentum makes up for few steps, of which each costs noise.
    """
    return methods.SGDA(
        steps=100,
        learning_rate_x=1.0 if network else 4.0,
        learning_rate_y=0.1,
        clip_x=1.0,
        clip_y=1 / min(shares),
        batch_size=n,
        momentum=0.8,
    )
