from .additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from .auc import PrivateAUCClassifier
from .dro import PrivateDROClassifier
from .encoder import TableEncoder
from .linear import PrivateLinearRegression
from .logistic import PrivateLogisticRegression
from .mlp import PrivateMLPClassifier
from .search import PrivateSearch

__all__ = [
    "PrivateAUCClassifier",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateDROClassifier",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateSearch",
    "TableEncoder",
]
