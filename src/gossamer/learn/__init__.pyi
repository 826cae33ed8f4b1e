from .auc import PrivateAUCClassifier
from .dro import PrivateDROClassifier
from .linear import PrivateLinearRegression
from .logistic import PrivateLogisticRegression

__all__ = ["PrivateAUCClassifier", "PrivateDROClassifier", "PrivateLinearRegression", "PrivateLogisticRegression"]
