"""scikit-learn estimators with a privacy budget."""

from gossamer.learn.auc import PrivateAUCClassifier
from gossamer.learn.dro import PrivateDROClassifier
from gossamer.learn.linear import PrivateLinearRegression
from gossamer.learn.logistic import PrivateLogisticRegression

__all__ = ["PrivateAUCClassifier", "PrivateDROClassifier", "PrivateLinearRegression", "PrivateLogisticRegression"]
