from .additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from .auc import PrivateAUCClassifier
from .dro import PrivateDROClassifier
from .linear import PrivateLinearRegression
from .logistic import PrivateLogisticRegression

__all__ = [
    "PrivateAUCClassifier",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateDROClassifier",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
]
