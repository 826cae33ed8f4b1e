"""What every estimator shares: budget and seed, public bounds, refusals, and a certificate that names what leaked."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from gossamer import geometry
from gossamer.base.exceptions import PrivacyLeakWarning
from gossamer.base.leak import Leak
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.engine import deciding, intervals
from gossamer.engine.checkpoints import Checkpoints
from gossamer.engine.paying import pay
from gossamer.engine.solving import check_match
from gossamer.engine.stages import Answers, Posed, Stage, plan_stages, solve_stages
from gossamer.methods.base import Method
from gossamer.objectives.erm import ERM
from gossamer.objectives.problem import Problem
from gossamer.oracle.people import People, by_person, count, scope
from gossamer.privacy.budget import Budget
from gossamer.privacy.budget_file import BudgetFile
from gossamer.privacy.planning import Plan
from gossamer.privacy.stages import TRAINING
from gossamer.tables.frames import is_frame

if TYPE_CHECKING:
    from gossamer.learn.encoder import TableEncoder

_BOUGHT = ("data_norm", "classes", "target_bound")
"""What a fit on a DataFrame buys, or derives from what it has bought."""


class Task(NamedTuple):
    """What an estimator has solved: with a budget it is what `gs.solve` takes, and every audit.

    Where something is missing that must be bought first, problem and method stand in for those that `complete` makes
    of the answers: of the same shapes, asking the same.
    """

    problem: Problem
    data: tuple[np.ndarray, ...] | People
    init: PyTree
    method: Method
    bought: tuple[Stage, ...] = ()
    """What is asked before the training, in its schedule."""
    complete: Callable[[Answers], "Task"] | None = None
    """From those answers to the task."""
    score: Callable[[PyTree, np.ndarray], np.ndarray] | None = None
    """From trained parameters and rows to scores, if a threshold is to be bought for them after the training."""
    rule: str = deciding.PREVALENCE
    """By which rule."""
    intervals: bool = False
    """Whether to buy, after the training, what intervals of a linear model's coefficients need."""

    def stages(self) -> tuple[Stage, ...]:
        """Return what is bought before, the training with the rest of the budget, and what is bought after it."""
        completed: list[Task] = []

        def pose(answers: Answers) -> Posed:
            completed[:] = [self if self.complete is None else self.complete(answers)]
            return Posed(*completed[0][:4])

        def scored(
            score: Callable[[PyTree, np.ndarray], np.ndarray], answers: Answers
        ) -> tuple[np.ndarray, ...] | People:
            (task,) = completed
            rows = task.data.rows if isinstance(task.data, People) else task.data
            params, _ = intervals.corrected(answers, count(task.data))
            scores = score(params, rows[0]).astype(np.float32)
            # Classes that were discovered may be more than two: then the answer, which was planned, is of no use.
            return deciding.with_scores(task.data, scores if scores.ndim == 1 else np.zeros_like(scores[:, 0]))

        after: list[Stage] = []
        if self.intervals:
            loss: Any = cast(ERM, self.problem).loss
            after.append(intervals.interval_stage(loss, lambda answers: (completed[0].data, answers[TRAINING])))
        if self.score is not None:
            after.append(deciding.threshold_stage(self.rule, functools.partial(scored, self.score)))
        rest = 1 - math.fsum(stage.share for stage in (*self.bought, *after))
        return (*self.bought, Stage(TRAINING, self.method.sized(self.init), rest, pose), *after)


class PrivateEstimator(BaseEstimator):
    """An estimator that trains by `gs.solve`. List it before scikit-learn's mixins, which it amends.

    A subclass stores these parameters. Its `pose` checks arrays and makes a task of them by `_pose`, which costs
    nothing, and its `_keep` makes attributes of the private parameters; between the two, `spend` spends.
    """

    epsilon: float
    delta: float | None
    data_norm: float | None
    method: Method | Callable[[Method], Method] | None
    rows_per_person: int
    neighbors: Any
    random_state: Any
    progress: bool
    checkpoints: Checkpoints | None
    ledger: BudgetFile | None
    columns: Any
    """What is declared of a DataFrame's columns."""
    encoder_: "TableEncoder | None" = None
    """How a DataFrame becomes rows; None of a fit on arrays."""
    threshold_: float = 0.0
    """Of a classifier of two classes: the score above which the second is predicted."""
    _buys: bool = False
    """Whether the fit is on a DataFrame, of which it buys what is not declared."""

    def pose(self, X: Any, y: Any, *args: Any, **kwargs: Any) -> Task:
        """Return what `fit` would have solved; nothing is asked of the records and nothing is spent."""
        raise NotImplementedError

    def _has_columns(self, X: Any) -> bool:
        """Return whether X is a DataFrame that is to be encoded; what an earlier fit encoded is forgotten."""
        self.encoder_ = None
        self._buys = self.columns is not None and self.data_norm is None and is_frame(X)
        return self._buys

    def _rows(self, X: Any) -> np.ndarray:
        """Return the rows to predict for, encoded as those of the training were."""
        check_is_fitted(self)
        return validated(self, X if self.encoder_ is None else self.encoder_.transform(X), reset=False)

    def budget(self, n: int) -> Budget:
        """Return what a fit on n records may spend."""
        return Budget(self.epsilon, n**-1.1 if self.delta is None else self.delta, self.neighbors)

    def outline(self, n: int, columns: int, classes: int = 2) -> Task:
        """Return what `pose` would make of n records with so many columns, but without records: for a plan."""
        return self._pose(nobody(n, columns), nobody(n), classes)

    def _pose(self, rows: np.ndarray, targets: np.ndarray, classes: int, person: Any = None) -> Task:
        """Return the task of rows of norm at most 1 and encoded targets, of so many classes if they are classes.

        `person` says whose row each is, if persons are to be protected and not rows.
        """
        raise NotImplementedError

    def record_loss(self, task: Task) -> Callable[[PyTree, PyTree], Any]:
        """Return a record's loss under a task's parameters: exp(−loss) says how probable the model finds its target."""
        raise NotImplementedError

    def rehearse(self, task: Task) -> Plan:
        """Return what will be asked; refuse what does not go together, or no noise can pay for, before it is spent."""
        n = count(task.data)
        whole = self.budget(n)
        check_match(task.problem, task.method, whole)
        return plan_stages(task.stages(), n, whole)

    def spend(self, task: Task, leaks: tuple[Leak, ...] = ()) -> Self:
        """Buy what a task of `pose` is missing, if anything, and solve it, within one budget; keep what comes out.

        `leaks` go on the certificate.
        """
        planned = self.rehearse(task)
        n = planned.n
        noted = task.data if self.random_state is None else None
        pay(self.ledger, planned, type(self).__name__, self.checkpoints, unit=scope(task.data), records=noted)
        result, answers = solve_stages(
            task.stages(),
            n,
            self.budget(n),
            seed=self._seed(),
            progress=self.progress,
            checkpoints=self.checkpoints,
        )
        self.certificate_ = dataclasses.replace(result.certificate, leaks=leaks)
        self.history_ = result.history
        self._take(answers, n)
        return self

    def _take(self, answers: Answers, n: int) -> None:
        """Keep the model, and the threshold, if one was bought and there are two classes to decide between."""
        self._keep(answers[TRAINING])
        if deciding.THRESHOLD in answers:
            many = len(getattr(self, "classes_", ())) > 2
            self.threshold_ = 0.0 if many else deciding.threshold_of(answers[deciding.THRESHOLD])

    def _keep(self, params: PyTree) -> None:
        raise NotImplementedError

    def _records(self, arrays: Any, person: Any = None) -> Any:
        """Return arrays with one row per row of the table as records: as they are, or by persons."""
        if person is None:
            return arrays
        check_consistent_length(jax.tree.leaves(arrays)[0], person)
        return by_person(arrays, person, self.rows_per_person)

    def _task(
        self,
        problem: Problem,
        arrays: tuple[np.ndarray, ...],
        init: PyTree,
        default: Callable[[Budget, int], Method],
        person: Any = None,
    ) -> Task:
        """Return a task with the method that was given, or else the default one, or what a function makes of that.

        The default is made of the budget and of the number of records: that of rows is not public where persons are
        protected.
        """
        data = self._records(arrays, person)
        method: Any = self.method
        if method is None or (callable(method) and not isinstance(method, type)):
            suitable = default(self.budget(count(data)), count(data))
            method = suitable if method is None else method(suitable)
        return Task(problem, data, init, method)

    def _warn_of_leaks(self, **read: str) -> tuple[Leak, ...]:
        """Warn of each parameter that is None and so is read from the records; return the leaks for the certificate.

        It is called by `fit` itself, so that the warning points at the line that called `fit`.
        """
        bought = _BOUGHT if self._buys else ()
        missing = {name: what for name, what in read.items() if getattr(self, name) is None and name not in bought}
        leaks = tuple(Leak(name, what, "argument") for name, what in missing.items())
        for leak in leaks:
            warnings.warn(
                f"{leak.name} was not given, so {leak.what} was read from the data, outside the privacy guarantee. "
                f"Pass {leak.name}=... from public knowledge.",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        return leaks

    def _refuse(self, unsupported: dict[str, Any]) -> None:
        """Refuse what `fit` was given besides X and y; weights with the reason."""
        name = type(self).__name__
        if unsupported.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{name}.fit() takes no sample_weight: what a weight means for privacy is not defined. Multiplied in "
                "before clipping, it is taken back wherever clipping binds; after it, a record does weight times what "
                "the certificate states; and a row repeated is a group of rows, while the certificate is about one. "
                "Fit without weights, or make the weight part of the record and of a loss of your own for gs.solve, "
                "where it is clipped with the rest."
            )
        for argument in unsupported:
            raise TypeError(f"{name}.fit() got an unexpected keyword argument {argument!r}")

    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The noise of a small budget on a small table may outweigh the signal.
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


def validated(estimator: BaseEstimator, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Check arrays as scikit-learn does; of NaN and infinity, say what to do."""
    try:
        return validate_data(estimator, X, y, dtype=np.float64, **options)
    except ValueError as error:
        told = str(error)
        if "NaN" not in told and "infinity" not in told:
            raise
        what, _, _ = told.partition(".")
        raise ValueError(
            f"{what.splitlines()[0]}. An array has no place for what is missing: pass a DataFrame, whose missing cells "
            "get a column of their own, or make rows of it by gs.learn.TableEncoder. Infinity must be replaced by a "
            "number."
        ) from None


def nobody(n: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return an array in place of n records; it takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), (n, *shape))


def public_bound(name: str, given: float | None, sizes: np.ndarray) -> float:
    """Return the given bound; without one the largest of the records' sizes, which leaks."""
    # Dividing by a bound of zero, that of an all-zero column, is spared.
    bound = max(float(sizes.max()), float(np.finfo(np.float32).tiny)) if given is None else given
    if not (isinstance(bound, Real) and 0 < bound < math.inf):
        raise ValueError(f"{name} = {shown(bound)} must be a finite number above 0.")
    return float(bound)


def scale_rows(X: np.ndarray, data_norm: float | None) -> tuple[np.ndarray, float]:
    """Shorten rows to a bound on their norm and divide all by it; return them, of norm at most 1, and the bound."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    bound = public_bound("data_norm", data_norm, norms)
    with np.errstate(over="ignore"):  # of a row of zeros the quotient is infinite, and the factor 1
        shortened = X * np.minimum(1.0, bound / np.maximum(norms, np.finfo(float).tiny))
    return (shortened / bound).astype(np.float32), bound


def encode_labels(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the public labels, or those found if None, and each row's index among them."""
    check_classification_targets(y)
    labels = np.unique(y if classes is None else np.asarray(classes))
    if not np.isin(y, labels).all():
        raise ValueError(f"y has labels outside classes = {labels.tolist()}. Add them to classes or drop those rows.")
    if len(labels) < 2:
        raise ValueError(
            f"a classifier needs at least two classes, and {'y' if classes is None else 'classes'} has 1 class."
        )
    return labels, np.searchsorted(labels, y)


def encode_groups(groups: Any, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the public names, or those found if None, and each row's index among them."""
    groups = column_or_1d(groups)
    names = np.unique(groups) if names is None else np.asarray(names)
    if names.ndim != 1 or len(np.unique(names)) != len(names) or len(names) < 2:
        raise ValueError(
            f"groups = {shown(names)} must be a list of two or more different names, not the group of each row."
        )
    match = groups[:, None] == names
    if not match.any(axis=1).all():
        raise ValueError(
            f"fit was given rows of groups outside groups = {names.tolist()}. Add those groups or drop the rows."
        )
    return names, match.argmax(axis=1).astype(np.int32)


def penalty(l1: float, l2: float, exclude: tuple[str, ...] = ()) -> geometry.Regularizer:
    """Return l1·‖w‖₁ + (l2/2)·‖w‖² over the parameters that are not excluded."""
    for name, value in (("l1", l1), ("l2", l2)):
        if not (isinstance(value, Real) and 0 <= value < math.inf):
            raise ValueError(f"{name} = {shown(value)} must be a finite number of at least 0; 0.0 is no penalty.")
    if l1 and l2:
        return geometry.ElasticNet(l1, l2, exclude=exclude)
    if l1:
        return geometry.L1(l1, exclude=exclude)
    return geometry.L2(l2, exclude=exclude) if l2 else geometry.Zero()
