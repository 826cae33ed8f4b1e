"""Textbook methods without privacy: NumPy, float64, every record in every step, from zero.

Each takes (X, y, l2, constraint, method) and minimises logistic loss + (l2/2)‖·‖² over the constraint.
"""

import numpy as np
from testkit import convex


def _logistic_gradient(params, X, y):
    rows = np.hstack([X, np.ones((len(X), 1))]).astype(np.float64)
    error = 1 / (1 + np.exp(-rows @ params)) - y
    return rows.T @ error / len(X)


def _chosen(method, before, after, norms):
    """Apply the method's output rule."""
    return {
        "last": lambda: after[-1],
        "average": lambda: np.mean(after, axis=0),
        "smallest_gradient": lambda: before[int(np.argmin(norms))],
    }[method.output]()


def gradient_descent(X, y, l2, constraint, method):
    """Proximal gradient descent with heavy-ball momentum."""
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
    return _chosen(method, before, after, norms)


def svrg(X, y, l2, constraint, method):
    """SVRG and SVRG++; with every record in every step the correction is exact."""
    doubling = not hasattr(method, "barzilai_borwein")
    anchor = x = np.zeros(X.shape[1] + 1)
    eta = method.learning_rate
    last_anchor = last_gradient = None
    for s in range(1, method.steps + 1):
        full = _logistic_gradient(anchor, X, y)
        if not doubling and method.barzilai_borwein and s > 1:
            moved, turned = anchor - last_anchor, full - last_gradient
            step = moved @ moved / (method.inner_steps * (moved @ turned))
            eta = step if 0 < step <= method.learning_rate else eta
        last_anchor, last_gradient = anchor, full
        x = x if doubling else anchor
        iterates = []
        for _ in range(method.inner_steps * (2**s if doubling else 1)):
            v = _logistic_gradient(x, X, y) - _logistic_gradient(anchor, X, y) + full
            x = (x - eta * v) / (1 + eta * l2)
            iterates.append(x)
        anchor = np.mean(iterates, axis=0)
    return anchor


def spider(X, y, l2, constraint, method):
    """SPIDER: the estimate is the gradient when no record is left out, however it is put together."""
    x = before = estimate = np.zeros(X.shape[1] + 1)
    for t in range(method.steps):
        change = _logistic_gradient(x, X, y) - _logistic_gradient(before, X, y)
        estimate = _logistic_gradient(x, X, y) if t % method.period == 0 else estimate + change
        before, x = x, (x - method.learning_rate * estimate) / (1 + method.learning_rate * l2)
    return x


def accelerated_mirror_descent(X, y, l2, constraint, method):
    """AccMD with both argmin steps by a convex solver."""
    start = convex.project(constraint, np.zeros(X.shape[1] + 1))
    y_, z = start, start
    for k in range(method.steps):
        weight, alpha = 2 / (k + 2), (k + 2) / (4 * method.smoothness)
        x = weight * z + (1 - weight) * y_
        g = _logistic_gradient(x, X, y)
        y_ = convex.steepest(constraint, x, g, method.smoothness)
        z = convex.mirror(constraint, z, alpha * g)
    return y_
