"""Textbook methods without privacy: NumPy, float64, every record in every step."""

import numpy as np


def _logistic_gradient(params, X, y):
    rows = np.hstack([X, np.ones((len(X), 1))]).astype(np.float64)
    error = 1 / (1 + np.exp(-rows @ params)) - y
    return rows.T @ error / len(X)


def gradient_descent(X, y, l2, method):
    """Proximal gradient descent with heavy-ball momentum on logistic loss + (l2/2)‖·‖², from zero."""
    x = np.zeros(X.shape[1] + 1)
    direction = np.zeros_like(x)
    before, after, norms = [], [], []
    for _ in range(method.steps):
        gradient = _logistic_gradient(x, X, y)
        direction = gradient + getattr(method, "momentum", 0.0) * direction
        before.append(x)
        norms.append(np.linalg.norm(gradient))
        x = (x - method.learning_rate * direction) / (1 + method.learning_rate * l2)
        after.append(x)
    return {
        "last": lambda: after[-1],
        "average": lambda: np.mean(after, axis=0),
        "smallest_gradient": lambda: before[int(np.argmin(norms))],
    }[method.output]()
