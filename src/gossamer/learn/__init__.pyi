from .auc import PrivateAUCClassifier
from .dro import PrivateDROClassifier
from .encoder import TableEncoder
from .linear import PrivateLinearRegression
from .logistic import PrivateLogisticRegression

__all__ = [
    "PrivateAUCClassifier",
    "PrivateDROClassifier",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "TableEncoder",
]
