"""Temporal difference learning of a random policy's value, privately (paper MINIMAX, section 9.3).

CartPole and Acrobot of Gymnasium, episodes of a uniformly random policy that end after at most 50 steps; V is an MLP
with 50 hidden units; C = 3, T = 2, T2 = 3. PrivateDiff and SGDA make the same number of updates of θ, at the same step
sizes. A record is one transition, as in the paper, or one episode.

The curve is half the mean squared projected Bellman error ½ E[δΨ]ᵀ(E[ΨΨᵀ] + 10⁻³ I)⁻¹ E[δΨ] over the transitions, the
inner maximum with a small ridge: it is computed from records without noise, to judge the methods.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.certificate import certify
from gossamer.experiments.minimax_rates import iterates
from gossamer.experiments.outputs import save_figure, write_certificates, write_table
from gossamer.experiments.settings import Settings

# What states are divided by: public bounds of each environment, rounded.
SCALES = {"CartPole-v1": (2.4, 3.0, 0.21, 3.0), "Acrobot-v1": (1.0, 1.0, 1.0, 1.0, 12.6, 28.3)}
EPSILONS = (0.5, 1.0, 5.0)
DISCOUNT, HIDDEN, LONGEST = 0.95, 50, 50
EPISODES, SEEDS, LOOKS = 1_000, 5, 10
RIDGE = 1e-3
_LOOKED_AT = 5_000


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


@dataclass(frozen=True)
class Unit:
    """What one record is, and the settings that go with it."""

    name: str
    episodes: bool
    steps: int
    batch_size: int
    learning_rate: float

    def methods(self) -> dict[str, gs.methods.Method]:
        """Return both methods with the same number of updates, thresholds and step sizes."""
        common: dict[str, Any] = dict(steps=self.steps, batch_size=self.batch_size, clip_x=3.0, clip_y=3.0)
        common |= dict(learning_rate_x=self.learning_rate, learning_rate_y=self.learning_rate)
        return {
            "SGDA": gs.methods.SGDA(**common),
            "PrivateDiff": gs.methods.PrivateDiff(period=2, inner_steps=3, **common),
        }


UNITS = (Unit("transition", False, 200, 512, 0.05), Unit("episode", True, 100, 100, 0.02))


def main(settings: Settings) -> None:
    """Write the table of final errors, the learning curves and the certificates."""
    quick = settings.quick
    names = list(SCALES)[:1] if quick else list(SCALES)
    epsilons, seeds, count = (EPSILONS[1:2], 2, 100) if quick else (EPSILONS, SEEDS, EPISODES)
    rows, curves, certificates = [], {}, {}
    for name in names:
        episodes = play(name, count, settings.seed)
        looked_at = tuple(column[:_LOOKED_AT] for column in transitions(episodes))
        for unit in UNITS:
            data = episodes if unit.episodes else transitions(episodes)
            problem = gs.objectives.td(value, DISCOUNT, episodes=unit.episodes)
            for epsilon in epsilons:
                budget = gs.Budget(epsilon, len(data[0]) ** -1.1)
                for kind, method in unit.methods().items():
                    stops = np.linspace(0, method.steps, LOOKS + 1).astype(int)
                    found = []
                    for key in jax.random.split(jax.random.key(settings.seed), seeds):
                        seen = iterates(problem, data, method, budget, start(len(SCALES[name]), key), key, stops)
                        found.append([float(bellman_error(theta, looked_at)) for theta, _ in seen])
                    curve = np.array(found)
                    curves[name, unit.name, epsilon, kind] = stops, curve
                    certificates[f"{name}-{unit.name}-{epsilon:g}-{kind}"] = certify(
                        gs.plan(method, len(data[0]), budget), problem, seed=settings.seed, diagnostics=True
                    )
                    last = curve[:, -1]
                    rows.append(
                        [
                            name,
                            unit.name,
                            len(data[0]),
                            epsilon,
                            kind,
                            curve[:, 0].mean(),
                            last.mean(),
                            last.var(ddof=1),
                        ]
                    )
    write_table(
        settings.out / "td",
        "Projected Bellman error of private temporal difference learning",
        ["environment", "record", "records", "ε", "method", "at the start", "at the end", "variance"],
        rows,
        settings.command("td"),
        [
            f"Mean and variance over {seeds} seeds (of start, samples and noise); δ = n^-1.1, replace one.",
            "The error is computed from records without noise: a non-private look, to judge the methods.",
            f"Both make the same number of updates of θ ({', '.join(f'{u.name}: {u.steps}' for u in UNITS)}); the "
            "paper trains for 100 epochs.",
        ],
    )
    write_certificates(settings.out / "certificates", certificates)

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(names) * len(UNITS), len(epsilons), squeeze=False)
        panels = [(name, unit.name, epsilon) for name in names for unit in UNITS for epsilon in epsilons]
        for axes, panel in zip(grid.flat, panels, strict=True):
            for kind in ("SGDA", "PrivateDiff"):
                stops, curve = curves[*panel, kind]
                mean, spread = curve.mean(0), curve.std(0, ddof=1)
                axes.plot(stops, mean, label=kind)
                axes.fill_between(stops, mean - spread, mean + spread, alpha=0.25)
            axes.set_title(f"{panel[0]}, one {panel[1]}, ε = {panel[2]:g}", fontsize=8)
            axes.set_ylim(bottom=0)
        grid[-1, 0].set_xlabel("updates of θ")
        grid[-1, 0].set_ylabel("error (non-private look)")
        grid[0, 0].legend()

    save_figure(settings.out / "td", draw, (4.0 * len(epsilons), 3.0 * len(names) * len(UNITS)))
