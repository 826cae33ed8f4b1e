from .additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from .auc import PrivateAUCClassifier
from .dro import PrivateDROClassifier
from .encoder import TableEncoder
from .linear import PrivateLinearRegression
from .logistic import PrivateLogisticRegression
from .search import PrivateSearch

__all__ = [
    "PrivateAUCClassifier",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateDROClassifier",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSearch",
    "TableEncoder",
]
