"""Private additive models as scikit-learn estimators: a sum of one function of each column."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted, validate_data

from gossamer import methods, objectives
from gossamer.base.leak import Leak
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.engine.counting import BINS, histogram_stage
from gossamer.engine.stages import Answers
from gossamer.learn import _columns
from gossamer.learn._common import PrivateEstimator, Task, encode_labels, nobody
from gossamer.learn._decisions import PrivateScorer
from gossamer.learn._shapes import Expansion, Shape, Warps, suited_terms
from gossamer.methods.base import Method
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.people import count
from gossamer.privacy.budget import Budget
from gossamer.privacy.gaussian import mu
from gossamer.tables.encoding import Coded, coded_kinds
from gossamer.tables.kinds import Number

HISTOGRAMS = "histograms of columns"
"""What is bought before the training: the name of the stage, and of its query on certificates."""
_SHARE = 0.05
_ROUGHEST = 0.3
"""How much noise, in records' shares of a column, histograms may have to be worth their price."""


class PrivateAdditiveModel(PrivateEstimator):
    """An estimator whose scores are an intercept and a sum of functions, one of each column."""

    bounds: Any
    categories: Any
    terms: int | None
    _read: set[str]
    """What was read from the records because nobody declared it."""
    monotone: Mapping[Any, int] | None

    def outline(self, n: int, columns: int, classes: int = 2) -> Task:
        """Return what `pose` would make of n records with so many columns, all numbers, but without records."""
        self._expansion = self.expansion(n, (Number(0.0, 1.0),) * columns)
        return self._pose(nobody(n, columns), nobody(n), classes)

    def _encode(self, X: Any, reset: bool, n: int | None = None) -> np.ndarray:
        """Return shares and codes of a table; in `fit`, settle what each column is, for n records."""
        if isinstance(X, Coded):  # of a schema, which says what each column is
            _columns.check_names(self, X, reset)
            if reset:
                gaps = tuple(place for place, declared in enumerate(X.columns.values()) if declared.missing)
                self._read = set()
                self._expansion = self.expansion(len(X) if n is None else n, coded_kinds(X.columns), gaps)
            return X.values
        columns = _columns.of(X)
        if columns is None:
            X = validate_data(self, X, dtype=np.float64, reset=reset, ensure_min_samples=2 if reset else 1)
            columns = list(X.T)
        else:
            _columns.check_names(self, X, reset)
        if reset:
            kinds, self._read = _columns.kinds(columns, self._names(), self.bounds, self.categories)
            self._expansion = self.expansion(len(columns[0]) if n is None else n, kinds)
        return self._expansion.encode(columns)

    def _count(self, y: np.ndarray, person: Any) -> int:
        return count(self._records(y, person))

    def expansion(self, n: int, kinds: tuple[Any, ...], gaps: tuple[int, ...] = ()) -> Expansion:
        """Return the functions that n records get of columns of these kinds, by public numbers alone."""
        budget = self.budget(n)
        worth = mu(budget.epsilon, budget.delta) / (2 if budget.neighbors == "replace_one" else 1)
        numbers = len(Expansion(kinds, 1).smooth)
        terms = suited_terms(n, worth, numbers) if self.terms is None else self.terms
        if not (isinstance(terms, int | np.integer) and terms >= 1):
            raise ValueError(f"terms = {shown(terms)} must be a whole number of at least 1, or None to choose it.")
        return Expansion(kinds, int(terms), gaps)

    def _names(self) -> list[Any]:
        return list(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _leaks(self) -> tuple[Leak, ...]:
        """Warn of what was read from the records; return it for the certificate. `fit` itself must call this."""
        return self._warn_of_leaks(**{name: what for name, what in _columns.READ.items() if name in self._read})

    def _additive_task(
        self, loss: LinearLoss, x: np.ndarray, targets: np.ndarray, outputs: tuple[int, ...], person: Any
    ) -> Task:
        """Return the task of all functions' weights; where it pays, columns are straightened by bought histograms."""
        expansion = self._expansion
        smooth = expansion.smooth
        self._warps = Warps.none(len(smooth))
        problem = objectives.ERM(LinearLoss(loss.pointwise, loss.lipschitz, loss.curvature, expansion))
        init = {"weights": jnp.zeros((expansion.width, *outputs)), "intercept": jnp.zeros(outputs)}

        def suited(budget: Budget, n: int) -> Method:
            return methods.Whitened.suited(loss, n, expansion.width, *outputs, budget=budget)

        task = self._task(problem, (x, targets), init, suited, person)
        n = count(task.data)
        deviation = _histogram_noise(n, len(smooth), self.budget(n))
        if not smooth or deviation * math.sqrt(BINS) > _ROUGHEST:
            return task

        def complete(answers: Answers) -> Task:
            self._warps = Warps.of(np.asarray(answers[HISTOGRAMS], np.float64), deviation)
            return task._replace(data=self._records((self._warps(x, smooth), targets), person))

        counted = self._records(x[:, smooth], person)
        return task._replace(bought=(histogram_stage(HISTOGRAMS, _SHARE, counted),), complete=complete)

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return the loss that is minimised."""
        return task.problem.loss

    def _keep(self, params: Any) -> None:
        shapes = self._expansion.functions(np.asarray(params["weights"], np.float64), self._warps)
        self.intercept_ = np.asarray(params["intercept"], np.float64).reshape(-1)
        self.shapes_ = dict(zip(self._names(), shapes, strict=True))
        for column, direction in (self.monotone or {}).items():
            self._make_monotone(column, direction)

    def _make_monotone(self, column: Any, direction: int) -> None:
        """Replace a function by the nearest one that only rises (+1) or falls (−1)."""
        if direction not in (1, -1):
            raise ValueError(f"monotone[{column!r}] = {shown(direction)} must be +1 (rises) or -1 (falls).")
        shape = self._shape(column)
        values = [isotonic_regression(each, increasing=direction > 0) for each in shape.values.T]
        self.shapes_[column] = dataclasses.replace(shape, values=np.stack(values, axis=1))

    def _shape(self, column: Any) -> Shape:
        check_is_fitted(self)
        if column not in self.shapes_:
            raise ValueError(f"column = {shown(column)} must be one of {list(self.shapes_)}.")
        return self.shapes_[column]

    def shape(self, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the function of one column: values of the column, and what each adds to the score.

        For several classes there is a column of values for each. It costs nothing: the model is private already.
        """
        shape = self._shape(column)
        values = shape.values[:, 0] if shape.values.shape[1] == 1 else shape.values
        return shape.points(), values

    def edit(self, column: Any, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Replace the function of one column by `function(values of the column, what each adds)`: it costs nothing.

        Example: `model.edit("age", lambda age, adds: np.where(age > 60, adds[age <= 60][-1], adds))`.
        """
        shape = self._shape(column)
        points, values = self.shape(column)
        edited = np.asarray(function(points, values.copy()), np.float64)
        if edited.shape != values.shape or not np.isfinite(edited).all():
            raise ValueError(f"the function must return finite numbers of shape {values.shape}, got {shown(edited)}.")
        self.shapes_[column] = dataclasses.replace(shape, values=edited.reshape(shape.values.shape))

    def plot(self, columns: Any = None) -> Any:
        """Draw the functions of all columns, or of some; return Matplotlib's figure."""
        check_is_fitted(self)
        return _columns.drawn({name: self.shape(name) for name in (self.shapes_ if columns is None else columns)})

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._sum(self._encode(X, reset=False))

    def _sum(self, x: np.ndarray) -> np.ndarray:
        """Return the scores of encoded rows."""
        return self.intercept_ + sum(shape(x[:, place]) for place, shape in enumerate(self.shapes_.values()))


def _histogram_noise(n: int, numbers: int, budget: Budget) -> float:
    """Return about how noisy a bin's share will be: a public number."""
    reach = math.sqrt(2) if budget.neighbors == "replace_one" else 1.0
    return reach * math.sqrt(max(numbers, 1)) / (mu(budget.epsilon, budget.delta) * math.sqrt(_SHARE) * n)


class PrivateAdditiveClassifier(PrivateAdditiveModel, PrivateScorer, ClassifierMixin, BaseEstimator):
    """A classifier whose log-odds are a sum of smooth functions, one of each column, trained within a privacy budget.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      bounds: the public range of each number: a dict from columns to (low, high), or to `gs.tables.Amount(high)` for an
        amount that is mostly 0; or one (low, high) for all. Values beyond it are moved to it. None reads ranges from
        the data, which leaks, and warns.
      categories: a dict from columns to their public lists of values; a value that is not in its list is none of them.
        Columns of a DataFrame that hold text need one; None reads their values from the data, which leaks, and warns.
      classes: the public list of labels. None reads it from the data, which leaks, and warns.
      terms: how many functions a number gets; None: by the table's size and the budget, at most 8.
      monotone: a dict from columns to +1 or −1: their functions are made to rise, or to fall. It costs nothing.
      threshold: of two classes, when the second is predicted: from this probability on, such as 0.5; or by a rule that
        is bought after the training with 5 % of the budget: "prevalence", for about as many rows as are of it; "f1",
        for the best F1; "auto", which is 0.5, or "prevalence" where one class has less than a fifth of the rows.
      method: how to train; None takes `gs.methods.Whitened` with as many steps as suit the table's size and the
        budget; a function is given that and returns what to take.
      rows_per_person: for `fit(X, y, person=...)`: how many rows of a person count at most, the first ones; chosen
        without looking at the table.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes the noise reproducible: for tests.
      progress: whether to show a progress bar.
      checkpoints: `gs.Checkpoints(folder)` lets a long fit survive being killed.
      ledger: `gs.BudgetFile(path)` pays for each fit before its first query, and refuses it if too little is left.

    Attributes:
      shapes_: the function of each column; `shape(column)` gives it in numbers.
      intercept_: what is added to them.
      classes_: labels.
      threshold_: the log-odds above which the second of two classes is predicted.
      certificate_: the privacy certificate of the fit.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> X, y = make_classification(1000, random_state=0)
      >>> model = PrivateAdditiveClassifier(epsilon=1.0, bounds=(-4, 4), classes=[0, 1]).fit(X, y)
      >>> values, adds = model.shape(0)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        bounds=None,
        categories=None,
        classes=None,
        terms=None,
        monotone=None,
        threshold="auto",
        method=None,
        rows_per_person=10,
        neighbors="replace_one",
        random_state=None,
        progress=False,
        checkpoints=None,
        ledger=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.terms = terms
        self.monotone = monotone
        self.threshold = threshold
        self.method = method
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateAdditiveClassifier":
        """Train on a table X with labels y, spending the budget once. Weights are refused, with the reason.

        Args:
          X: columns.
          y: labels.
          person: whose row it is, for each row; a person, with all its rows, is then what the guarantee protects. None:
            a row.
          unsupported: refused.
        """
        self._refuse(unsupported)
        task = self.pose(X, y, person)
        return self.spend(task, self._leaks() + self._warn_of_leaks(classes="the set of labels"))

    def pose(self, X: Any, y: Any, person: Any = None) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        X, y = _columns.with_targets(self, X, y)
        self.classes_, targets = encode_labels(y, self.classes)
        rows = self._encode(X, reset=True, n=self._count(y, person))
        return self._pose(rows, targets, len(self.classes_), person)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int, person: Any = None) -> Task:
        if classes == 2:
            task = self._additive_task(objectives.logistic, rows, targets.astype(np.float32), (), person)
        else:
            task = self._additive_task(objectives.softmax, rows, targets.astype(np.int32), (classes,), person)

        own = self._records(rows, person).rows if person is not None else rows

        def score(params: PyTree, _: np.ndarray) -> np.ndarray:
            # As the model will predict: of columns that are not straightened, by functions that rise or fall as told.
            self._keep(params)
            return self._sum(own)[:, 0]

        return self._decided(task, classes, score)

    def _logits(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores


class PrivateAdditiveRegressor(PrivateAdditiveModel, RegressorMixin, BaseEstimator):
    """A regression by least squares on a sum of smooth functions, one of each column, within a privacy budget.

    Args:
      epsilon: ε of the guarantee.
      delta: δ; None takes n ** -1.1.
      bounds: as in `PrivateAdditiveClassifier`.
      categories: as in `PrivateAdditiveClassifier`.
      target_bounds: the public range (low, high) of the target; targets beyond it are moved to it. None reads it from
        the data, which leaks, and warns.
      terms: how many functions a number gets; None: by the table's size and the budget, at most 8.
      monotone: a dict from columns to +1 or −1: their functions are made to rise, or to fall. It costs nothing.
      method: how to train; None takes `gs.methods.Whitened` with as many steps as suit the table's size and the
        budget; a function is given that and returns what to take.
      rows_per_person: for `fit(X, y, person=...)`: how many rows of a person count at most, the first ones; chosen
        without looking at the table.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes the noise reproducible: for tests.
      progress: whether to show a progress bar.
      checkpoints: `gs.Checkpoints(folder)` lets a long fit survive being killed.
      ledger: `gs.BudgetFile(path)` pays for each fit before its first query, and refuses it if too little is left.

    Attributes:
      shapes_: the function of each column, in units of the target; `shape(column)` gives it in numbers.
      intercept_: what is added to them.
      target_bounds_: the range of the target that was given or read.
      certificate_: the privacy certificate of the fit.
      history_: public values, one per step.

    Example:
      >>> from sklearn.datasets import load_diabetes
      >>> X, y = load_diabetes(return_X_y=True)
      >>> model = PrivateAdditiveRegressor(epsilon=1.0, bounds=(-0.15, 0.2), target_bounds=(25, 346)).fit(X, y)
      >>> model.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        bounds=None,
        categories=None,
        target_bounds=None,
        terms=None,
        monotone=None,
        method=None,
        rows_per_person=10,
        neighbors="replace_one",
        random_state=None,
        progress=False,
        checkpoints=None,
        ledger=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.terms = terms
        self.monotone = monotone
        self.method = method
        self.rows_per_person = rows_per_person
        self.neighbors = neighbors
        self.random_state = random_state
        self.progress = progress
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, person: Any = None, **unsupported: Any) -> "PrivateAdditiveRegressor":
        """Train on a table X with targets y, spending the budget once. Weights are refused, with the reason.

        Args:
          X: columns.
          y: targets.
          person: whose row it is, for each row; a person, with all its rows, is then what the guarantee protects. None:
            a row.
          unsupported: refused.
        """
        self._refuse(unsupported)
        task = self.pose(X, y, person)
        return self.spend(task, self._leaks() + self._warn_of_leaks(target_bounds="the range of the target"))

    def pose(self, X: Any, y: Any, person: Any = None) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        X, y = _columns.with_targets(self, X, y, numeric=True)
        found = Number(float(y.min()), float(max(y.max(), y.min() + 1e-6)))
        kind = found if self.target_bounds is None else _columns.number("target_bounds", self.target_bounds)
        self.target_bounds_ = (kind.low, kind.high)
        rows = self._encode(X, reset=True, n=self._count(y, person))
        return self._pose(rows, 2 * kind.code(y) - 1, person=person)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int = 0, person: Any = None) -> Task:
        return self._additive_task(objectives.squared, rows, targets.astype(np.float32), (), person)

    def _keep(self, params: Any) -> None:
        low, high = self.target_bounds_
        half = 0.5 * (high - low)
        super()._keep(
            {"weights": half * params["weights"], "intercept": 0.5 * (low + high) + half * params["intercept"]}
        )

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row."""
        return self._scores(X)[:, 0]
