"""A generator: a perceptron from normal noise to entries in (0, 1), and a file that keeps one with its certificate.

A generator that was trained privately may be sampled as often as one likes: samples are post-processing, and the
certificate covers all of them.
"""

from pathlib import Path
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.entropy import new_key
from gossamer.base.messages import is_whole, plain, shown
from gossamer.base.trees import PyTree
from gossamer.models.mlp import layer_sizes
from gossamer.privacy.certificate import Certificate


def init_generator(key: jax.Array, latent: int, hidden: tuple[int, ...], outputs: int) -> PyTree:
    """Return random layers from `latent` numbers of noise through `hidden` sizes to `outputs` entries."""
    hidden = layer_sizes("hidden", hidden)
    sizes = (latent, *hidden, outputs)
    keys = jax.random.split(key, len(sizes) - 1)
    # √2 keeps the size of signals behind rectified units (He et al., 2015); the sigmoid begins where it is steep.
    gains = (*(2.0**0.5 for _ in hidden), 0.5)
    return tuple(
        {"weights": gain * jax.random.normal(k, (m, m_out)) / m**0.5, "bias": jnp.zeros(m_out)}
        for k, gain, m, m_out in zip(keys, gains, sizes, sizes[1:], strict=False)
    )


def generate(layers: PyTree, noise: jax.Array) -> jax.Array:
    """Return the fake record that belongs to one vector of noise."""
    *hidden, last = layers
    for layer in hidden:
        noise = jax.nn.relu(noise @ layer["weights"] + layer["bias"])
    return jax.nn.sigmoid(noise @ last["weights"] + last["bias"])


def sample(layers: PyTree, count: int, seed: int | None = None) -> np.ndarray:
    """Return `count` fake records, one a row; the seed concerns the fakes alone, and None takes a new one each time."""
    count = plain(count)
    if not is_whole(count):
        raise ValueError(f"count = {shown(count)} must be a whole number of at least 1.")
    latent = layers[0]["weights"].shape[0]
    noise = jax.random.normal(new_key(seed), (count, latent))
    return np.asarray(jax.vmap(lambda z: generate(layers, z))(noise))


def save(path: Path, layers: PyTree, certificate: Certificate) -> None:
    """Write a generator to `path`, an .npz of plain arrays, and its certificate beside it, with the suffix .json."""
    path = _checked(path)
    arrays = {f"{name}_{i}": np.asarray(layer[name]) for i, layer in enumerate(layers) for name in ("weights", "bias")}
    np.savez(path, **arrays)  # type: ignore[arg-type]  # mistakes the arrays for its own option
    path.with_suffix(".json").write_text(certificate.to_json() + "\n", encoding="utf-8")


def load(path: Path) -> tuple[PyTree, Certificate]:
    """Read a generator and its certificate as `save` wrote them. Nothing in the files is executed.

    The certificate is what its file says: `certificate.verify()` recomputes its ε.
    """
    path = _checked(path)
    beside = path.with_suffix(".json")
    if not beside.exists():
        raise FileNotFoundError(f"{beside} is missing: a generator comes with its certificate. Copy both files.")
    certificate = Certificate.from_json(beside.read_text(encoding="utf-8"))
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is not a file that `save` wrote: {error}") from error
    names = [(f"weights_{i}", f"bias_{i}") for i in range(len(arrays) // 2)]
    if not arrays or set(arrays) != {name for pair in names for name in pair}:
        raise ValueError(f"{path} has arrays {sorted(arrays)}, which are no layers weights_0, bias_0, weights_1, ….")
    layers = tuple({"weights": arrays[w], "bias": arrays[b]} for w, b in names)
    _check_layers(path, layers)
    return jax.tree.map(jnp.asarray, layers), certificate


def _checked(path: Path) -> Path:
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path = {str(path)!r} must end in .npz; the certificate takes the same name with .json.")
    return path


def _check_layers(path: Path, layers: PyTree) -> None:
    width = layers[0]["weights"].shape[0] if layers[0]["weights"].ndim else None
    for i, layer in enumerate(layers):
        weights, bias = layer["weights"], layer["bias"]
        if weights.ndim != 2 or weights.shape[0] != width or bias.shape != weights.shape[1:]:
            raise ValueError(
                f"{path}: layer {i} has weights of shape {weights.shape} and a bias of shape {bias.shape} behind "
                f"{width} numbers; they do not fit."
            )
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise ValueError(f"{path}: layer {i} has entries that are not finite.")
        width = weights.shape[1]
