"""Temporal difference learning of a random policy's value, privately (paper MINIMAX, section 9.3).

CartPole and Acrobot of Gymnasium, episodes of a uniformly random policy that end after at most 50 steps; V is an MLP
with 50 hidden units; C = 3, T = 2, T2 = 3. PrivateDiff and SGDA make the same number of updates of θ, at the same step
sizes. A record is one transition, as in the paper, or one episode.

The curve is half the mean squared projected Bellman error ½ E[δΨ]ᵀ(E[ΨΨᵀ] + 10⁻³ I)⁻¹ E[δΨ] over the transitions, the
inner maximum with a small ridge: it is computed from records without noise, to judge the methods.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.experiments.curves import iterates
from gossamer.experiments.outputs import save_figure, write_certificates, write_table
from gossamer.experiments.settings import Settings
from gossamer.privacy.certificate import certify

# What states are divided by: public bounds of each environment, rounded.
SCALES = {"CartPole-v1": (2.4, 3.0, 0.21, 3.0), "Acrobot-v1": (1.0, 1.0, 1.0, 1.0, 12.6, 28.3)}
EPSILONS = (0.5, 1.0, 5.0)
DISCOUNT, HIDDEN, LONGEST = 0.95, 50, 50
EPISODES, SEEDS, LOOKS = 1_000, 5, 10
CLIP, RIDGE = 3.0, 1e-3
_LOOKED_AT = 2_000


def play(name: str, episodes: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return (states, rewards, next states, done, mask) of episodes of a uniformly random policy, padded."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("td needs gymnasium, which is not installed: pip install gossamer[rl]") from error
    environment, rng = gymnasium.make(name, max_episode_steps=LONGEST), np.random.default_rng(seed)
    space: Any = environment.action_space  # both environments have a finite number of actions
    actions = space.n
    scale = np.array(SCALES[name])
    states = np.zeros((episodes, LONGEST, len(scale)), np.float32)
    after = np.zeros_like(states)
    rewards, done, mask = (np.zeros((episodes, LONGEST), np.float32) for _ in range(3))
    for i in range(episodes):
        state, _ = environment.reset(seed=int(rng.integers(2**31)))
        for t in range(LONGEST):
            following, reward, ended, cut, _ = environment.step(int(rng.integers(actions)))
            states[i, t], after[i, t], rewards[i, t] = state / scale, following / scale, reward
            done[i, t], mask[i, t] = ended, 1.0
            state = following
            if ended or cut:
                break
    return states, rewards, after, done, mask


def transitions(episodes: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return the transitions that there are, one a row."""
    *columns, mask = episodes
    return tuple(column[mask > 0] for column in columns)


def value(params: Any, state: jax.Array) -> jax.Array:
    """V(s): one hidden layer of tanh units."""
    return jnp.tanh(state @ params["inner"] + params["bias"]) @ params["outer"] + params["offset"]


def start(width: int, key: jax.Array) -> tuple[Any, Any]:
    """Return a random θ and ω = 0."""
    one, two = jax.random.split(key)
    theta = {
        "inner": jax.random.normal(one, (width, HIDDEN)) / width**0.5,
        "bias": jnp.zeros(HIDDEN),
        "outer": jax.random.normal(two, (HIDDEN,)) / HIDDEN**0.5,
        "offset": jnp.zeros(()),
    }
    return theta, jax.tree.map(jnp.zeros_like, theta)


@jax.jit
def bellman_error(theta: Any, rows: Any) -> jax.Array:
    """Return half the mean squared projected Bellman error with its ridge: NOT private."""
    states, rewards, after, done = rows

    def features(state: jax.Array) -> jax.Array:
        return jax.flatten_util.ravel_pytree(jax.grad(value)(theta, state))[0]

    psi = jax.vmap(features)(states)
    here, there = (jax.vmap(lambda s: value(theta, s))(s) for s in (states, after))
    delta = rewards + DISCOUNT * (1 - done) * there - here
    moment = psi.T @ delta / len(delta)
    gram = psi.T @ psi / len(delta) + RIDGE * jnp.eye(psi.shape[1])
    return 0.5 * moment @ jnp.linalg.solve(gram, moment)


@jax.jit
def bellman_errors(thetas: Any, rows: Any) -> jax.Array:
    """Return the error of each of several θ, stacked along a first axis."""
    return jax.lax.map(lambda theta: bellman_error(theta, rows), thetas)


@dataclass(frozen=True)
class Unit:
    """What one record is, and the settings that go with it."""

    name: str
    steps: int
    batch_size: int
    learning_rate_x: float
    learning_rate_y: float

    def methods(self) -> dict[str, gs.methods.Method]:
        """Return both methods with the same number of updates of θ, thresholds and step sizes."""
        common: dict[str, Any] = dict(steps=self.steps, batch_size=self.batch_size, clip_x=CLIP, clip_y=CLIP)
        common |= dict(learning_rate_x=self.learning_rate_x, learning_rate_y=self.learning_rate_y)
        return {
            "SGDA": gs.methods.SGDA(**common),
            "PrivateDiff": gs.methods.PrivateDiff(period=2, inner_steps=3, **common),
        }


UNITS = (Unit("transition", 200, 512, 0.5, 0.03), Unit("episode", 100, 100, 0.05, 0.02))


@dataclass(frozen=True)
class Case:
    """A method with a budget on an environment, for a unit of privacy."""

    environment: str
    unit: str
    epsilon: float
    method: str


def main(settings: Settings) -> None:
    """Write the table of final errors, the learning curves and the certificates."""
    names, epsilons, seeds = (list(SCALES)[:1], (1.0,), 2) if settings.quick else (list(SCALES), EPSILONS, SEEDS)
    limits = {"SGDA": (math.inf, *epsilons), "PrivateDiff": epsilons}
    curves, certificates, counts = {}, {}, {}
    for name in names:
        episodes = play(name, EPISODES, settings.seed)
        looked_at = tuple(column[:_LOOKED_AT] for column in transitions(episodes))
        init = start(len(SCALES[name]), jax.random.key(settings.seed))
        for unit in UNITS:
            by_episode = unit.name == "episode"
            data = jax.tree.map(jnp.asarray, episodes if by_episode else transitions(episodes))
            problem, n = gs.objectives.td(value, DISCOUNT, episodes=by_episode), len(data[0])
            counts[name, unit.name] = n
            for kind, method in unit.methods().items():
                budgets = [gs.Budget(epsilon, n**-1.1) for epsilon in limits[kind]]
                numbers = range(settings.seed, settings.seed + seeds)
                seen = iterates(
                    problem, data, method, budgets, init=init, seeds=numbers, looks=looks(method.steps).tolist()
                )
                errors = jnp.stack([bellman_errors(thetas, looked_at) for thetas, _ in seen])
                for i, budget in enumerate(budgets):
                    case = Case(name, unit.name, budget.epsilon, kind)
                    curves[case] = np.asarray(errors[:, i * seeds : (i + 1) * seeds]).T
                    certificate = certify(
                        gs.plan(method.sized(init), n, budget), problem, settings.seed, diagnostics=True
                    )
                    certificates[f"{name}-{unit.name}-{budget.epsilon:g}-{kind}"] = certificate
    write(settings, curves, counts, seeds)
    write_certificates(settings.out / "certificates", certificates)
    shape = len(names) * len(UNITS), len(epsilons)
    save_figure(settings.out / "td", functools.partial(draw, curves, shape), (4.0 * shape[1], 3.0 * shape[0]))


def looks(steps: int) -> np.ndarray:
    """Return after how many steps the error is looked at."""
    return np.linspace(0, steps, LOOKS + 1).astype(int)


def write(settings: Settings, curves: dict[Case, np.ndarray], counts: dict[tuple[str, str], int], seeds: int) -> None:
    """Write the table; a row of PrivateDiff says whether it ends below SGDA."""
    rows, groups = [], list(counts)
    for case in sorted(curves, key=lambda case: (groups.index((case.environment, case.unit)), case.epsilon)):
        curve = curves[case]
        last = curve[:, -1]
        below = None
        if case.method == "PrivateDiff":
            other = curves[dataclasses.replace(case, method="SGDA")][:, -1]
            won = (last.mean() < other.mean(), last.var() < other.var())
            below = {(True, True): "both", (True, False): "mean", (False, True): "variance", (False, False): "no"}[won]
        rows.append(
            [
                case.environment,
                case.unit,
                counts[case.environment, case.unit],
                case.epsilon,
                case.method,
                curve[:, 0].mean(),
                last.mean(),
                last.var(ddof=1),
                below,
            ]
        )
    write_table(
        settings.out / "td",
        "Projected Bellman error of private temporal difference learning",
        ["environment", "record", "records", "ε", "method", "at the start", "at the end", "variance", "below SGDA"],
        rows,
        settings.command("td"),
        notes=[
            f"Mean and variance over {seeds} seeds (of samples and noise, from one start); δ = n^-1.1, replace one. "
            "ε = inf is not private.",
            "The error is computed from records without noise: a non-private look, to judge the methods.",
            f"Both make the same number of updates of θ ({', '.join(f'{u.name}: {u.steps}' for u in UNITS)}); the "
            "paper trains for 100 epochs.",
        ],
    )


def draw(curves: dict[Case, np.ndarray], shape: tuple[int, int], figure: Any) -> None:
    """Draw mean and standard deviation over seeds: a row for each environment and unit, a column for each ε."""
    grid = figure.subplots(*shape, squeeze=False)
    panels = [case for case in curves if case.method == "PrivateDiff"]
    for axes, panel in zip(grid.flat, panels, strict=True):
        steps = {unit.name: unit.steps for unit in UNITS}[panel.unit]
        for name in ("SGDA", "PrivateDiff"):
            curve = curves[dataclasses.replace(panel, method=name)]
            mean, spread = curve.mean(0), curve.std(0, ddof=1)
            axes.plot(looks(steps), mean, label=name)
            axes.fill_between(looks(steps), mean - spread, mean + spread, alpha=0.25)
        free = curves[dataclasses.replace(panel, epsilon=math.inf, method="SGDA")].mean(0)
        axes.plot(looks(steps), free, color="black", linewidth=0.8, linestyle="--", label="SGDA, not private")
        axes.set_title(f"{panel.environment}, one {panel.unit}, ε = {panel.epsilon:g}", fontsize=8)
        axes.set_ylim(bottom=0)
    grid[-1, 0].set_xlabel("updates of θ")
    grid[-1, 0].set_ylabel("error (non-private look)")
    grid[0, 0].legend()
