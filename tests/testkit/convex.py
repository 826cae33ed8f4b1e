"""Slow, obvious references for projections and proximal operators: float64 NumPy and SciPy, no closed forms."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize

from gossamer.geometry import L1, L2, Box, ElasticNet, GroupLasso, L1Ball, L2Ball, Simplex


def bisect(decreasing, low, high):
    """Root of a decreasing function in [low, high]."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if decreasing(middle) > 0 else (low, middle)
    return middle


def project(constraint, v):
    """Euclidean projection by bisection on the multiplier of the KKT conditions."""
    v = np.asarray(v, np.float64)
    match constraint:
        case L2Ball(radius):
            if np.sqrt(np.sum(v**2)) <= radius:
                return v
            # x = v/(1 + m); with m = exp(s) − 1 the bisection keeps its relative accuracy for a huge multiplier.
            s = bisect(lambda s: np.linalg.norm(v) / np.exp(s) - radius, 0.0, 200.0)
            return v / np.exp(s)
        case L1Ball(radius):
            if np.sum(np.abs(v)) <= radius:
                return v
            return np.sign(v) * project(Simplex(radius), np.abs(v))
        case Simplex(total):
            v = v - v.max()
            m = bisect(lambda m: np.sum(np.maximum(v - m, 0)) - total, -total, 0.0)
            return np.maximum(v - m, 0)
        case Box(lower, upper):
            return np.array(
                [min(max(x, -np.inf if lower is None else lower), np.inf if upper is None else upper) for x in v]
            )


def penalty(regularizer, x, mask, groups):
    """r(x) for a flat vector; `mask` is 0 at excluded entries, `groups` lists the indices of every group."""
    match regularizer:
        case L2():
            return 0.5 * regularizer.strength * np.sum(mask * x**2)
        case L1():
            return regularizer.strength * np.sum(mask * np.abs(x))
        case ElasticNet():
            return regularizer.l1 * np.sum(mask * np.abs(x)) + 0.5 * regularizer.l2 * np.sum(mask * x**2)
        case GroupLasso():
            return regularizer.strength * sum(np.linalg.norm(mask[g] * x[g]) for g in groups)
    return 0.0


def minimise(regularizer, constraint, v, step, *, mask, groups):
    """argmin over the constraint of ½‖x − v‖² + step·r(x), numerically, to about 1e-6."""
    v = np.asarray(v, np.float64)
    if isinstance(regularizer, GroupLasso):
        return _dual_ascent(constraint, v, step * regularizer.strength, mask, groups)
    l1 = getattr(regularizer, "l1", regularizer.strength if isinstance(regularizer, L1) else 0.0)
    l2 = getattr(regularizer, "l2", regularizer.strength if isinstance(regularizer, L2) else 0.0)
    return _quadratic_program(constraint, v, step * l1 * mask, step * l2 * mask)


def _dual_ascent(constraint, v, strength, mask, groups):
    """Maximise over ‖y_g‖ ≤ strength the least value over x in the set of ½‖x − v‖² + ⟨y, x⟩, by gradient ascent.

    That least value is attained at x = projection of v − y, which is also the slope in y.
    """
    y = np.zeros_like(v)
    for _ in range(20_000):
        x = v - y if constraint is None else project(constraint, v - y)
        new = mask * (y + x)
        for g in groups:
            new[g] *= min(1.0, strength / max(np.linalg.norm(new[g]), 1e-300))
        moved, y = np.abs(new - y).max(), new
        if moved < 1e-12:
            return x
    raise AssertionError(f"the reference did not converge: last move {moved}")


def _quadratic_program(constraint, v, linear, quadratic):
    """Minimise ½‖x − v‖² + Σ linear_i |x_i| + ½ Σ quadratic_i x_i² over the set.

    x = p − q with p, q ≥ 0 makes |x| = p + q smooth, and the L1 ball linear.
    """
    d = len(v)
    difference = np.hstack([np.eye(d), -np.eye(d)])
    weights = np.concatenate([linear, linear])

    def objective(u):
        x = difference @ u
        return 0.5 * np.sum((x - v) ** 2) + 0.5 * np.sum(quadratic * x**2) + weights @ u

    def gradient(u):
        x = difference @ u
        return difference.T @ (x - v + quadratic * x) + weights

    match constraint:
        case None:
            constraints = []
        case L2Ball(radius):
            squared = NonlinearConstraint(
                lambda u: np.sum((difference @ u) ** 2),
                -np.inf,
                radius**2,
                jac=lambda u: 2 * difference.T @ (difference @ u),
            )
            constraints = [squared]
        case L1Ball(radius):
            constraints = [LinearConstraint(np.ones(2 * d), -np.inf, radius)]
        case Simplex(total):
            constraints = [LinearConstraint(difference, 0, np.inf), LinearConstraint(difference.sum(0), total, total)]
        case Box(lower, upper):
            low, high = -np.inf if lower is None else lower, np.inf if upper is None else upper
            constraints = [LinearConstraint(difference, low, high)]
    start = np.concatenate([np.maximum(v, 0), np.maximum(-v, 0)]) + 0.1
    options = {"ftol": 1e-16, "maxiter": 2000}
    bounds = Bounds(np.zeros(2 * d), np.inf)
    solution = minimize(
        objective, start, jac=gradient, bounds=bounds, constraints=constraints, method="SLSQP", options=options
    )
    return difference @ solution.x


def steepest(constraint, x, g, smoothness):
    """argmin over the set of (L/2)‖y − x‖² + ⟨g, y⟩ in its norm: a smooth program in the parts of y and y − x."""
    x, g = np.asarray(x, np.float64), np.asarray(g, np.float64)
    if isinstance(constraint, L2Ball):
        return project(constraint, x - g / smoothness)
    d = len(x)
    split = np.hstack([np.eye(d), -np.eye(d)])
    move = np.hstack([np.zeros((d, 2 * d)), split])  # variables: the parts of y, then the parts of y − x
    position = np.hstack([split, np.zeros((d, 2 * d))])
    lengths = np.concatenate([np.zeros(2 * d), np.ones(2 * d)])
    size = np.concatenate([np.ones(2 * d), np.zeros(2 * d)])
    constraints = [LinearConstraint(position - move, x, x)]
    if isinstance(constraint, L1Ball):
        constraints.append(LinearConstraint(size, -np.inf, constraint.radius))
    else:
        total = constraint.total
        constraints += [LinearConstraint(position, 0, np.inf), LinearConstraint(position.sum(0), total, total)]
    solution = minimize(
        lambda u: 0.5 * smoothness * (lengths @ u) ** 2 + g @ (position @ u),
        np.concatenate([np.maximum(x, 0), np.maximum(-x, 0), np.zeros(2 * d)]) + 1e-3,
        jac=lambda u: smoothness * (lengths @ u) * lengths + position.T @ g,
        bounds=Bounds(np.zeros(4 * d), np.inf),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    return position @ solution.x


def mirror(constraint, x, g):
    """argmin over the set of B_w(z, x) + ⟨g, z⟩ in float64: multipliers by bisection."""
    x, g = np.asarray(x, np.float64), np.asarray(g, np.float64)
    if isinstance(constraint, L2Ball):
        return project(constraint, x - g)
    if isinstance(constraint, Simplex):
        s = constraint.total
        shift = np.max(np.log(x) - g / s)
        weights = np.exp(np.log(x) - g / s - shift)
        return s * weights / weights.sum()
    theta = l1_potential_gradient(x) - g
    a, scale = l1_exponent(len(x))

    def primal(level):
        y = np.sign(theta) * np.maximum(np.abs(theta) - level, 0) / scale * (a - 1)
        b = a / (a - 1)
        norm = np.sum(np.abs(y) ** b) ** (1 / b)
        return np.sign(y) * np.abs(y) ** (b - 1) * (norm if norm > 0 else 1.0) ** (2 - b)

    if np.sum(np.abs(primal(0.0))) <= constraint.radius:
        return primal(0.0)
    return primal(bisect(lambda level: np.sum(np.abs(primal(level))) - constraint.radius, 0.0, np.abs(theta).max()))


def l1_exponent(d):
    """The exponent of the potential on the L1 ball and the factor that makes it 1-strongly convex in ‖·‖₁."""
    a = 1 + 1 / max(1.0, np.log(d))
    return a, d ** (2 * (a - 1) / a)


def l1_potential_gradient(x):
    """∇w on the L1 ball."""
    a, scale = l1_exponent(len(x))
    norm = np.sum(np.abs(x) ** a) ** (1 / a)
    return scale / (a - 1) * np.sign(x) * np.abs(x) ** (a - 1) * (norm if norm > 0 else 1.0) ** (2 - a)
