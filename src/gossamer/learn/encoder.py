"""DataFrames as rows of numbers of a bounded norm, by public declarations, as a scikit-learn transformer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gossamer.base.messages import nearest, shown
from gossamer.tables.encoding import Columns, Declaration
from gossamer.tables.frames import is_frame, table_from_frame
from gossamer.tables.kinds import Ignore, Undeclared, identifier


class TableEncoder(TransformerMixin, BaseEstimator):
    """Makes rows of a DataFrame of pandas or polars: numbers, dates, truth values, categories, and what is missing.

    It is public: what a row becomes follows from the declarations and from that row alone. A number becomes −1 at its
    lower bound to 1 at its upper one, a category one column for each of its values, and every column gets one more that
    says whether its value is missing. A date counts as days since 1970, true and false as 1 and 0. What is not a number
    in a column of numbers counts as missing.

    Estimators with `columns="auto"` make one themselves, and buy what is not declared.

    Args:
      columns: what is declared of each column, by its name: `gs.tables.Number(low, high)`, `Amount(high)`,
        `Category(values)`, `Hashed()` or `Ignore()`. Columns that are not named are left out.
      missing: values that stand for a missing one besides empty cells, NaN, NA and the like: such as ("-999",).

    Attributes:
      row_norm_: the bound on the norm of a row: the `data_norm` of an estimator that is given these rows.
      columns_: what is declared, as it is used.

    Example:
      >>> from gossamer.tables import Category, Number
      >>> encoder = TableEncoder({"age": Number(0, 100), "sex": Category(("F", "M"))}).fit(None)
      >>> encoder.get_feature_names_out().tolist()
      ['age', 'age is missing', 'sex = F', 'sex = M', 'sex is missing']
    """

    def __init__(self, columns=None, *, missing=()):
        self.columns = columns
        self.missing = missing

    def fit(self, X: Any = None, y: Any = None) -> "TableEncoder":
        """Check the declarations; nothing is learnt from X."""
        declared = declarations(self.columns, self.missing)
        open_columns = [name for name, each in declared.columns.items() if isinstance(each.kind, Undeclared)]
        if open_columns or not declared.features:
            raise ValueError(
                "TableEncoder takes declarations alone: give each column a kind, such as columns={'age': "
                "gs.tables.Number(0, 100)}. To buy what is not declared, fit an estimator on the DataFrame."
            )
        return self._set(declared)

    @classmethod
    def of(cls, columns: Columns, missing: tuple[str, ...] = ()) -> "TableEncoder":
        """Return the fitted encoder of declarations."""
        return cls(dict(columns.columns), missing=missing)._set(columns)

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows, shape (n, features), of norm at most `row_norm_`."""
        check_is_fitted(self)
        if not is_frame(X):
            raise TypeError(f"X = {shown(X)} must be a DataFrame with named columns, as in the fit.")
        return self.columns_.encode(table_from_frame(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return what each column of the rows says."""
        check_is_fitted(self)
        return np.array(self.columns_.feature_names, object)

    def _set(self, columns: Columns) -> "TableEncoder":
        self.columns_ = columns
        self.row_norm_ = columns.row_norm
        return self


def declarations(columns: Any, missing: Any, names: tuple[str, ...] = ()) -> Columns:
    """Return what is declared, and of the other `names` that nothing is."""
    given = {} if columns is None or columns == "auto" else columns
    if not isinstance(given, Mapping):
        raise TypeError(f"columns = {shown(columns)} must be 'auto', or kinds by the names of columns.")
    unknown = [name for name in given if names and name not in names]
    if unknown:
        raise ValueError(f"columns names {unknown[0]!r}, which X does not have.{nearest(str(unknown[0]), names)}")
    absent = tuple(map(str, missing))
    kinds = {name: given.get(name, identifier(name) or Undeclared()) for name in names or given}
    return Columns({name: _declaration(kind, absent) for name, kind in kinds.items()})


def _declaration(kind: Any, absent: tuple[str, ...]) -> Declaration:
    if isinstance(kind, Declaration):
        return kind
    if isinstance(kind, Ignore):
        return Declaration(kind)
    return Declaration(kind, missing=not isinstance(kind, Undeclared), absent=absent)
