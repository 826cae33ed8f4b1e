"""An estimator's task from a DataFrame: what is not declared of it is bought, in the schedule of the training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, column_or_1d

from gossamer.engine.stages import Answers, Stage
from gossamer.learn._buying import CLASSES, adopted, check_classes, classes_stage, with_columns
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.learn.encoder import TableEncoder, declarations
from gossamer.oracle.people import People
from gossamer.tables.encoding import Columns
from gossamer.tables.frames import table_from_frame
from gossamer.tables.kinds import Ignore

_TWO = 2


def pose_frame(estimator: PrivateEstimator, X: Any, y: Any, *groups: Any, person: Any = None) -> Task:
    """Return what `fit` would have solved, with what is to be bought first; nothing is spent."""
    table = table_from_frame(X)
    encoding = declarations(_of_persons(estimator.columns, person, table.names), (), table.names)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(labels, *groups, np.zeros(table.n))
    if person is not None:
        check_consistent_length(labels, person)
    people = None if person is None else People.grouping(person, estimator.rows_per_person)
    budget = estimator.budget(table.n if people is None else people.n)
    finds_classes = hasattr(estimator, "classes") and estimator.classes is None
    buys_bound = hasattr(estimator, "target_bound") and estimator.target_bound is None
    names: dict[str, Any] = {}
    more: tuple[Stage, ...] = ()
    if finds_classes:
        if labels.dtype.kind not in "biuOUST" or any(_is_missing(label) for label in labels.tolist()):
            raise ValueError(
                "y has numbers with decimals or missing values, and classes were not given. Drop rows without a label, "
                "or pass classes=[...] from public knowledge."
            )
        names = {str(label): label for label in labels.tolist()}
        more = (classes_stage(np.array([str(label) for label in labels.tolist()], object), budget, people),)

    def pose(columns: Columns, bounds: tuple[float, float] | None, answers: Answers | None) -> Task:
        inner = clone(estimator).set_params(columns=None, data_norm=columns.row_norm)
        own = labels
        if finds_classes:
            classes = None if answers is None else [names[text] for text in answers[CLASSES][0]]
            own = _classes_of(labels, classes)
            inner.set_params(classes=np.unique(own[:_TWO]) if classes is None else np.array(classes))
        if bounds is not None:
            inner.set_params(target_bound=max(map(abs, bounds)))
        rows = _nothing(table.n, columns.width) if answers is None else columns.encode(table)
        task = inner.pose(rows, own, *groups, person=person)
        return adopted(task, estimator, inner, encoder_=TableEncoder.of(columns))

    target = np.asarray(labels, np.float64) if buys_bound else None
    return with_columns(encoding, table, budget, pose, more=more, target=target, people=people)


def _of_persons(columns: Any, person: Any, names: tuple[str, ...]) -> Any:
    """Return what is declared; a column of the table that says whose row it is becomes no feature unasked."""
    name = getattr(person, "name", None)
    if name not in names or not (columns == "auto" or isinstance(columns, Mapping)):
        return columns
    return {name: Ignore("it says whose row it is"), **({} if columns == "auto" else columns)}


def _classes_of(labels: np.ndarray, classes: list[Any] | None) -> np.ndarray:
    """Return labels as the classes that were discovered, or before that as two that stand in for them."""
    if classes is None:
        return np.arange(len(labels)) % _TWO
    check_classes(classes)
    return np.where(np.isin(labels, classes), labels, np.array(classes)[0])


def _is_missing(label: Any) -> bool:
    return label is None or label != label


def _nothing(n: int, width: int) -> np.ndarray:
    return np.broadcast_to(np.zeros(()), (n, width))
