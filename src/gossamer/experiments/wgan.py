"""A private Wasserstein GAN of digits (paper MINIMAX, section 9.2, Figure 6).

The paper: MNIST, a generator with hidden layers 128-256-512-1024 and a critic with 512-256, C = 0.3, T = 2, T2 = 1,
batches of 256, 11 750 iterations. Here C, T, T2 and the batch are the same; the networks and the number of iterations
are smaller, so that five seeds of everything fit into minutes on two cores. The critic's weights are kept in a box, as
in Arjovsky et al. (2017), and its score is scaled so that a threshold of 0.3 is of the size of its gradients. Step
sizes are the same for both methods.

The paper's curve is the critic's own estimate of the distance, but two critics measure with two rulers, and one that
has learnt nothing reports zero. The curve here is a sliced Wasserstein distance between fakes and test images: the mean
over fixed random directions of the distance between the two projections. It is computed in the same way for all
generators, from images without noise: a non-private look, to judge the methods.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer import datasets
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.experiments.outputs import save_figure, write_certificates, write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.sweep import iterates
from gossamer.models import MLP, generator, init_mlp
from gossamer.privacy.certificate import certify

EPSILONS = (1.0, 10.0)
SEEDS, LOOKS = 5, 10
PIXELS, LATENT = 784, 64
CLIP = 0.3
BOX = 0.05
SCALE = 0.02
DIRECTIONS, COMPARED = 128, 4_000
COLUMNS = 20
STORED = 10.0
"""ε of the generator that is kept."""


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    generator: tuple[int, ...] = (128, 128)
    critic: tuple[int, ...] = (128,)
    steps: int = 1_000
    batch_size: int = 256


def critic(layers: PyTree, image: jax.Array) -> jax.Array:
    """Return the score of an image."""
    return SCALE * MLP()(layers, image)


def problem(size: Size) -> gs.Minimax:
    """Return the game; fakes are clipped like records."""
    game = gs.objectives.wgan(generator.generate, critic, LATENT, 0.0, fakes=size.batch_size, clip=CLIP)
    return dataclasses.replace(game, constraint_x=gs.Box(-BOX, BOX))


def start(size: Size, key: jax.Array) -> tuple[PyTree, PyTree]:
    """Return a random critic and a random generator."""
    one, two = jax.random.split(key)
    return init_mlp(one, PIXELS, size.critic), generator.init_generator(two, LATENT, size.generator, PIXELS)


def methods(size: Size) -> dict[str, gs.methods.Method]:
    """Return both methods, with the same number of steps, thresholds and step sizes."""
    common: dict[str, Any] = dict(steps=size.steps, batch_size=size.batch_size, clip_x=CLIP, ascent="public")
    common |= dict(learning_rate_x=8.0, learning_rate_y=32.0)
    difference: dict[str, Any] = dict(period=2, inner_steps=1, smoothness_x=0.01, clip_floor=0.02)
    return {"SGDA": gs.methods.SGDA(**common), "PrivateDiff": gs.methods.PrivateDiff(**common, **difference)}


@dataclass(frozen=True)
class Ruler:
    """Measures how far generated images are from real ones: a non-private look."""

    directions: jax.Array
    sorted_real: jax.Array

    @classmethod
    def of(cls, images: np.ndarray) -> "Ruler":
        """Return the ruler for these real images; its directions are the same each time."""
        directions = np.random.default_rng(0).normal(size=(PIXELS, DIRECTIONS)).astype(np.float32)
        directions /= np.linalg.norm(directions, axis=0)
        return cls(jnp.asarray(directions), jnp.sort(jnp.asarray(images) @ directions, axis=0))

    def distance(self, images: np.ndarray) -> float:
        """Return the mean over directions of the Wasserstein distance between projections of as many images."""
        return float(jnp.mean(jnp.abs(jnp.sort(jnp.asarray(images) @ self.directions, axis=0) - self.sorted_real)))


@dataclass(frozen=True)
class Case:
    """A method with a budget."""

    epsilon: float
    method: str

    @property
    def file(self) -> str:
        """The name of its certificate."""
        return f"{self.method}-{self.epsilon:g}"

    def __str__(self) -> str:
        return f"{self.method}, {'not private' if math.isinf(self.epsilon) else f'ε = {self.epsilon:g}'}"


def main(settings: Settings) -> None:
    """Write the table of distances, the learning curves, the digits, the certificates and one generator to keep."""
    size, seeds = (Size((16,), (16,), 4, 64), 2) if settings.quick else (Size(), SEEDS)
    split = datasets.mnist(settings.data_dir)
    images, real = (part.astype(np.float32) / 255 for part in (split.train.images, split.test.images[:COMPARED]))
    records = jnp.asarray(images)
    ruler = Ruler.of(real)
    stops = np.unique(np.linspace(0, size.steps, LOOKS + 1).astype(int))
    curves, digits, certificates = {}, {"test images": real}, {}
    for case in (Case(math.inf, "SGDA"), *(Case(e, name) for e in EPSILONS for name in ("SGDA", "PrivateDiff"))):
        budget, method = gs.Budget(case.epsilon, len(images) ** -1.1), methods(size)[case.method]
        found = []
        for key in jax.random.split(new_key(settings.seed), seeds):
            distances = []
            for _, layers in iterates(problem(size), records, method, budget, start(size, key), key=key, stops=stops):
                fakes = generator.sample(layers, len(real), settings.seed)
                distances.append(ruler.distance(fakes))
            found.append(distances)
        curves[case], digits[str(case)] = np.array(found), fakes
        plan = gs.plan(method, len(images), budget)
        certificates[case.file] = certify(plan, problem(size), settings.seed, diagnostics=True)
    floor = ruler.distance(images[: len(real)])
    write(settings, size, seeds, curves, floor)
    write_certificates(settings.out / "certificates", certificates)
    save_figure(settings.out / "curves", functools.partial(draw_curves, stops, curves, floor), (9.0, 4.0))
    save_figure(settings.out / "digits", functools.partial(draw_digits, digits), (4.0, 0.55 * len(digits)))
    store(settings, size, records)


def store(settings: Settings, size: Size, records: jax.Array) -> None:
    """Train one generator as a user would, with secret noise and without a look at it, and keep it."""
    budget = gs.Budget(STORED, len(records) ** -1.1)
    init = start(size, jax.random.key(settings.seed))
    result = gs.solve(problem(size), records, methods(size)["SGDA"], budget, init=init, progress=False)
    generator.save(settings.out / "generator.npz", result.params[1], result.certificate)


def write(settings: Settings, size: Size, seeds: int, curves: dict[Case, np.ndarray], floor: float) -> None:
    """Write the table."""
    rows: list[list[Any]] = []
    for case, curve in curves.items():
        first, last = curve[:, 0], curve[:, -1]
        rows.append([case.method, case.epsilon, first.mean(), last.mean(), last.var(ddof=1), last.min(), last.max()])
    rows.append(["training images", None, None, floor, None, None, None])
    write_table(
        settings.out / "wgan",
        "Distance of generated digits from MNIST's test images",
        ["method", "ε", "at the start", "at the end", "variance", "smallest", "largest"],
        rows,
        settings.command("wgan"),
        notes=[
            f"Sliced Wasserstein distance (smaller is better) over {DIRECTIONS} directions and {COMPARED} images; "
            f"mean, variance and range over {seeds} seeds (of start, samples and noise). δ = n^-1.1, replace one.",
            "It is computed from images without noise: a non-private look, to judge the methods.",
            f"Both make {size.steps} steps on batches of {size.batch_size}, with a generator of hidden layers "
            f"{'-'.join(map(str, size.generator))} and a critic of {'-'.join(map(str, size.critic))}. The paper's are "
            "larger, and it makes 11750 steps.",
            "The last row is the distance of as many training images: what no generator can be expected to beat.",
        ],
    )


def draw_curves(stops: np.ndarray, curves: dict[Case, np.ndarray], floor: float, figure: Any) -> None:
    """Draw mean and standard deviation over seeds, one panel for each ε, with the curve without privacy in all."""
    free = curves[Case(math.inf, "SGDA")].mean(0)
    for axes, epsilon in zip(figure.subplots(1, len(EPSILONS), sharey=True, squeeze=False)[0], EPSILONS, strict=True):
        for name in ("SGDA", "PrivateDiff"):
            curve = curves[Case(epsilon, name)]
            mean, spread = curve.mean(0), curve.std(0, ddof=1)
            axes.plot(stops, mean, label=name)
            axes.fill_between(stops, mean - spread, mean + spread, alpha=0.25)
        axes.plot(stops, free, color="black", linewidth=0.8, linestyle="--", label="SGDA, not private")
        axes.axhline(floor, color="black", linewidth=0.8, linestyle=":", label="training images")
        axes.set(title=f"ε = {epsilon:g}", xlabel="steps", ylim=(0, None))
    figure.axes[0].set_ylabel("distance from test images (non-private look)")
    figure.axes[0].legend()


def draw_digits(digits: dict[str, np.ndarray], figure: Any) -> None:
    """Draw a strip of two rows of images for each kind."""
    for axes, (title, images) in zip(figure.subplots(len(digits), 1), digits.items(), strict=True):
        tiles = images[: 2 * COLUMNS].reshape(2, COLUMNS, 28, 28)
        axes.imshow(tiles.transpose(0, 2, 1, 3).reshape(2 * 28, COLUMNS * 28), cmap="gray", vmin=0, vmax=1)
        axes.set_title(title, fontsize=8, loc="left", pad=2)
        axes.set_axis_off()
