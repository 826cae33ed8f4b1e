"""scikit-learn estimators with a privacy budget."""

from gossamer.learn.logistic import PrivateLogisticRegression

__all__ = ["PrivateLogisticRegression"]
