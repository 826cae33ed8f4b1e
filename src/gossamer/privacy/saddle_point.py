"""An exact accountant: δ(ε) of a composition as one contour integral, through the saddle point of its integrand.

Let L be the privacy loss of the whole composition and M(z) = E exp(zL) its moment generating function, the
product of the queries' own. Since δ(ε) = E (1 − exp(ε − L))₊ and the two-sided Laplace transform of
(1 − exp(−x))₊ is 1/(z(1+z)) for Re z > 0, inversion along any vertical line Re z = c > 0 gives

    δ(ε) = 1/(2πi) ∫ M(z) exp(−zε) / (z(1+z)) dz.

At the real point z = α − 1, log M(z)/z is the Rényi divergence of order α: this is what a Rényi accountant
knows, used on a whole line instead of one point, and so exact instead of an upper bound. It shares nothing
with the discretised convolutions of dp-accounting, which makes it the second opinion behind
`Certificate.verify` and the first guess of calibration. It costs milliseconds and a few megabytes whatever
the number of queries is; its answers have no one-sided error guarantee, so it never decides alone.

One query of rate r and noise multiplier σ has these worst-case pairs (Zhu, Dong and Wang, 2022, Prop. 30 and
Thm. 11), with N_m = N(m, σ²):

    replace_one   P = (1−r)N₀ + rN₁   Q = (1−r)N₀ + rN₋₁
    remove        P = (1−r)N₀ + rN₁   Q = N₀
    add           P = N₀              Q = (1−r)N₀ + rN₁
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from gossamer.privacy.budget import Neighbors


@dataclass(frozen=True)
class Cost:
    """What one kind of query costs: `count` Gaussian queries at Poisson rate `rate` (1: every record)."""

    rate: float
    noise_multiplier: float
    count: int


class DidNotConvergeError(ArithmeticError):
    """The contour integral did not settle within its largest grid."""


_DIRECTIONS: dict[Neighbors, tuple[str, ...]] = {"replace_one": ("replace",), "add_remove": ("remove", "add")}
_TOLERANCE = 1e-6
_BLOCK = 256
_MOST_NODES = 1 << 13
_MOST_POINTS = 40_000
_LARGEST_TILT = 1e4
_SMOOTHING = 0.02
"""Few queries at a small rate have a loss so close to an atom that the integrand decays slowly. Adding an
independent N(0, (0.02/(1+c))²) to L ends it at t ≈ 300(1 + c) and changes δ, which varies like exp(−cε), by
a factor of about 1 + 0.02²/2."""


def delta(costs: Sequence[Cost], epsilon: float, neighbors: Neighbors) -> float:
    """Return the smallest δ such that the composition of `costs` is (ε, δ)-DP."""
    if any(cost.noise_multiplier <= 0 for cost in costs):
        return 1.0
    directions = [_Composition(costs, epsilon, direction) for direction in _DIRECTIONS[neighbors]]
    largest = 0.0
    for composition in sorted(directions, key=_Composition.renyi_bound, reverse=True):
        if math.exp(min(0.0, composition.renyi_bound())) > largest:  # else it cannot be the worse direction
            largest = max(largest, composition.delta())
    return largest


def delta_near(costs: Sequence[Cost], epsilon: float, neighbors: Neighbors, target: float) -> float:
    """Return δ(ε), or an upper bound on it that is well below `target` where the integral does not converge."""
    try:
        return delta(costs, epsilon, neighbors)
    except DidNotConvergeError:
        safe = renyi_delta(costs, epsilon, neighbors)
        if safe > target / 2:
            raise
        return safe


def epsilon(costs: Sequence[Cost], delta_: float, neighbors: Neighbors) -> float:
    """Return the smallest ε ≥ 0 such that the composition of `costs` is (ε, δ)-DP."""
    if any(cost.noise_multiplier <= 0 for cost in costs):
        return math.inf

    def excess(log_epsilon: float) -> float:
        here = delta_near(costs, math.exp(log_epsilon), neighbors, delta_)
        return math.log(max(here, 1e-300)) - math.log(delta_)

    low = high = 0.0
    while excess(low) <= 0:
        low, high = low - 1.0, low
        if low < math.log(1e-5):
            return math.exp(high)
    while excess(high) > 0:
        low, high = high, high + 1.0
    return math.exp(optimize.brentq(excess, low, high, xtol=1e-6))


def loss_deviation(cost: Cost, neighbors: Neighbors) -> float:
    """Return the standard deviation of one such query's privacy loss."""
    if cost.rate == 1.0:
        return _full_pass_shift(cost, neighbors)
    losses = (_LossGrid(cost, direction, tilt=0.0) for direction in _DIRECTIONS[neighbors])
    return max(grid.deviation() for grid in losses)


def loss_range(cost: Cost, neighbors: Neighbors) -> float:
    """Return the length of the interval that holds one query's privacy loss but for noise beyond 10 deviations."""
    if cost.rate == 1.0:
        return 20 * _full_pass_shift(cost, neighbors)
    rest, lift = math.log1p(-cost.rate), math.log(cost.rate)
    reach = (10.0 + 0.5 / cost.noise_multiplier) / cost.noise_multiplier
    one_sided = float(np.logaddexp(rest, lift + reach) - np.logaddexp(rest, lift - reach))
    return one_sided * (2.0 if neighbors == "replace_one" else 1.0)


def _full_pass_shift(cost: Cost, neighbors: Neighbors) -> float:
    return (2.0 if neighbors == "replace_one" else 1.0) / cost.noise_multiplier


class _LossGrid:
    """Density and privacy loss of one sampled query on a grid that holds the mass of P·exp(tilt·L).

    The grid also resolves the oscillation of exp(itL) up to t = `frequency`: losses rise by at most 2/σ per unit.
    """

    def __init__(self, cost: Cost, direction: str, tilt: float, frequency: float = 0.0):
        rate, sigma = cost.rate, cost.noise_multiplier
        # In units of σ. The tilted density is a mixture of Gaussians with means up to 1 + 2·tilt; an added record
        # tilts the other way, where losses are bounded. The losses bend within a distance of order σ, so the grid
        # must resolve that too.
        reach = 0.0 if direction == "add" else tilt
        low, high = -14.0 - 2.0 / sigma, 14.0 + (2.0 + 2.0 * reach) / sigma
        step = min(0.2, 0.25 * sigma, sigma / max(frequency, 1e-9))
        size = max((high - low) / step, 200)
        if size > (_MOST_POINTS if frequency else 10 * _MOST_POINTS):
            raise DidNotConvergeError(f"the losses of {cost} oscillate too fast at t = {frequency:g}")
        u = np.linspace(low, high, int(size))
        self._log_width = math.log(u[1] - u[0])
        base = -0.5 * u * u - 0.5 * math.log(2 * math.pi)
        shift, lift = 1.0 / sigma, math.log(rate) - 0.5 / sigma**2
        rest = math.log1p(-rate)
        up, down = np.logaddexp(rest, lift + shift * u), np.logaddexp(rest, lift - shift * u)
        log_p, log_q = {
            "replace": (up, down),
            "remove": (up, np.zeros_like(u)),
            "add": (np.zeros_like(u), up),
        }[direction]
        self.log_p, self.loss = base + log_p, log_p - log_q
        tilted = self.log_p + tilt * self.loss
        keep = tilted > tilted.max() - 45.0
        self.log_p, self.loss = self.log_p[keep], self.loss[keep]

    def log_moment(self, z: np.ndarray) -> np.ndarray:
        """Return log E exp(zL) for complex z of one common real part, evenly spaced."""
        real = self.log_p + self._log_width + z[0].real * self.loss
        peak = real.max()
        # Phases of evenly spaced z are powers of each other, and products are much cheaper than exponentials.
        rows = max(1, min(math.isqrt(z.size), 2_000_000 // self.loss.size))
        step = (z[-1].imag - z[0].imag) / max(1, z.size - 1)
        phases = np.exp(1j * step * np.arange(rows)[:, None] * self.loss)
        turn = np.exp(1j * step * rows * self.loss)
        turned = np.exp(real - peak + 1j * z[0].imag * self.loss)
        out = np.empty(z.shape, complex)
        for start in range(0, z.size, rows):
            some = out[start : start + rows]
            some[:] = phases[: some.size] @ turned
            turned = turned * turn
        return np.log(out) + peak

    def deviation(self) -> float:
        """Return the standard deviation of L under P."""
        weights = np.exp(self.log_p + self._log_width)
        mean = float(weights @ self.loss)
        return math.sqrt(float(weights @ (self.loss - mean) ** 2))


class _Composition:
    """The moment generating function of a composition's privacy loss, and its saddle point at ε."""

    def __init__(self, costs: Sequence[Cost], epsilon: float, direction: str):
        self._sampled = [cost for cost in costs if cost.rate < 1.0]
        self._direction = direction
        self.epsilon = epsilon
        sensitivity = 2.0 if direction == "replace" else 1.0
        self._shift_squared = sum(
            cost.count * (sensitivity / cost.noise_multiplier) ** 2 for cost in costs if cost.rate == 1.0
        )
        # The saddle point makes the integrand on the line a narrow bump without cancellation.
        bounds = (math.log(1e-3), math.log(_LARGEST_TILT))
        search = optimize.minimize_scalar(self._exponent_at, bounds=bounds, method="bounded")
        self.tilt, self.exponent = math.exp(search.x), search.fun
        h = 1e-2
        ends = self._exponent_at(search.x + h) + self._exponent_at(search.x - h)
        self.curvature = max((ends - 2 * self.exponent) / h**2, 1e-6) / self.tilt**2

    def _exponent_at(self, log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        moment = self._log_moment(np.array([tilt + 0j]))[0].real
        return moment - tilt * self.epsilon - math.log(tilt) - math.log1p(tilt)

    def _log_moment(self, z: np.ndarray) -> np.ndarray:
        """Return log M at points of one vertical line, by rising imaginary part."""
        total = 0.5 * z * (1 + z) * self._shift_squared
        for cost in self._sampled:
            grid = _LossGrid(cost, self._direction, tilt=z[0].real, frequency=z[-1].imag)
            total = total + cost.count * grid.log_moment(z)
        return total

    def _integrand(self, t: np.ndarray) -> np.ndarray:
        """Return the integrand at tilt + it, relative to its value at the saddle point."""
        z = self.tilt + 1j * t
        window = 0.5 * (_SMOOTHING * t / (1 + self.tilt)) ** 2
        log_value = self._log_moment(z) - z * self.epsilon - np.log(z) - np.log1p(z)
        return np.exp(log_value - self.exponent - window)

    def delta(self) -> float:
        """Return δ(ε) by the trapezoidal rule on the line through the saddle point."""
        if self.exponent < -600:
            return 0.0
        step = 0.5 / math.sqrt(self.curvature)
        previous = self._integral(step)
        for _ in range(6):
            step /= 2  # a finer step keeps farther losses apart
            current = self._integral(step)
            if abs(current - previous) <= 10 * _TOLERANCE * abs(current):
                return math.exp(min(0.0, math.log(max(current, 1e-300)) + self.exponent))
            previous = current
        raise DidNotConvergeError(f"δ({self.epsilon:g}) did not settle on a step of {step:g}")

    def _integral(self, step: float) -> float:
        total = 0.0
        for start in range(0, _MOST_NODES, _BLOCK):
            values = self._integrand(step * np.arange(start, start + _BLOCK))
            if start == 0:
                values[0] *= 0.5
            total += float(values.real.sum())
            if np.abs(values).max() < _TOLERANCE * abs(total):
                return total * step / math.pi
        raise DidNotConvergeError(f"δ({self.epsilon:g}) did not settle on {_MOST_NODES} nodes")

    def renyi_bound(self) -> float:
        """Return the bound on log δ from the moment at the saddle point alone.

        (1 − e^{−x})₊ ≤ a e^{cx} with a = c^c/(1+c)^{1+c}, so δ ≤ a M(c) e^{−cε}.
        """
        return self.exponent + (1 + self.tilt) * math.log(self.tilt) - self.tilt * math.log1p(self.tilt)


def renyi_delta(costs: Sequence[Cost], epsilon: float, neighbors: Neighbors) -> float:
    """Return an upper bound on δ(ε) that always exists: Rényi divergence at one order."""
    bounds = (_Composition(costs, epsilon, direction).renyi_bound() for direction in _DIRECTIONS[neighbors])
    return math.exp(min(0.0, max(bounds)))
