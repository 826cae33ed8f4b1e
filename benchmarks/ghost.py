"""Time and memory of ghost clipping beside a plain gradient, vmap, jax-privacy and Opacus, in one run.

    python benchmarks/ghost.py            # prints the table; writes docs/ghost.md and docs/ghost.png
    python benchmarks/ghost.py mlp-2048   # only these cases, printed, nothing written

All methods of a case take turns, so that whatever else the machine does falls on all of them alike. Opacus needs
PyTorch and runs in an interpreter of its own: set GOSSAMER_TORCH_PYTHON to it, or that part is skipped.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_privacy import clipping as jax_privacy

from gossamer.oracle.clipping import ghost

DOCS = Path(__file__).parent.parent / "docs"
CLIP = 0.5
ROUNDS = 60
PATIENCE = 10.0
"""Seconds of measuring per method: a slow one gets fewer rounds."""
LARGEST = 4e9
"""Per-record gradients of more bytes than this are not built."""


@dataclass(frozen=True)
class Case:
    """A loss with parameters and a batch."""

    name: str
    loss: Callable[[Any, Any], jax.Array]
    params: Any
    batch: Any


def mlp(size: int) -> Case:
    numbers = np.random.default_rng(0)

    def layer(n: int, m: int) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(numbers.normal(size=(n, m)) / math.sqrt(n), jnp.float32), jnp.zeros(m)

    def loss(params: Any, record: Any) -> jax.Array:
        x, label = record
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return jax.nn.softplus(-label * (x @ w + b)[0])

    widths = (784, 256, 128, 1)
    x = jnp.asarray(numbers.normal(size=(size, 784)), jnp.float32)
    label = jnp.sign(jnp.asarray(numbers.normal(size=size), jnp.float32))
    return Case(f"mlp-{size}", loss, [layer(n, m) for n, m in pairwise(widths)], (x, label))


def resnet20(size: int) -> Case:
    """ResNet-20 with GroupNorm on 32 × 32 images."""
    numbers = np.random.default_rng(0)

    def kernel(ins: int, outs: int, width: int = 3) -> jax.Array:
        scale = math.sqrt(2 / (ins * width**2))
        return jnp.asarray(scale * numbers.normal(size=(outs, ins, width, width)), jnp.float32)

    def conv(w: jax.Array, x: jax.Array, stride: int = 1) -> jax.Array:
        return lax.conv_general_dilated(x[None], w, (stride, stride), "SAME")[0]

    def norm(p: Any, x: jax.Array) -> jax.Array:
        y = x.reshape(8, -1)
        y = (y - y.mean(1, keepdims=True)) * lax.rsqrt(y.var(1, keepdims=True) + 1e-5)
        return y.reshape(x.shape) * p["scale"][:, None, None] + p["shift"][:, None, None]

    def affine(channels: int) -> dict[str, jax.Array]:
        return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}

    def block(ins: int, outs: int) -> dict[str, Any]:
        own = {"conv1": kernel(ins, outs), "norm1": affine(outs), "conv2": kernel(outs, outs), "norm2": affine(outs)}
        return own if ins == outs else {**own, "shortcut": kernel(ins, outs, 1)}

    def loss(params: Any, record: Any) -> jax.Array:
        x, label = record
        x = jax.nn.relu(norm(params["norm"], conv(params["stem"], x)))
        for p in params["blocks"]:
            stride = 2 if "shortcut" in p else 1
            y = jax.nn.relu(norm(p["norm1"], conv(p["conv1"], x, stride)))
            y = norm(p["norm2"], conv(p["conv2"], y))
            x = jax.nn.relu(y + (conv(p["shortcut"], x, stride) if "shortcut" in p else x))
        logits = x.mean((1, 2)) @ params["head"] + params["bias"]
        return jax.nn.logsumexp(logits) - logits[label]

    channels = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    params = {
        "stem": kernel(3, 16),
        "norm": affine(16),
        "blocks": [block(n, m) for n, m in pairwise(channels)],
        "head": jnp.asarray(0.1 * numbers.normal(size=(64, 10)), jnp.float32),
        "bias": jnp.zeros(10),
    }
    x = jnp.asarray(numbers.normal(size=(size, 3, 32, 32)), jnp.float32)
    return Case(f"resnet20-{size}", loss, params, (x, jnp.asarray(numbers.integers(0, 10, size))))


def transformer(size: int) -> Case:
    """One pre-norm transformer block over embedded tokens, with a classifier."""
    numbers = np.random.default_rng(0)
    vocabulary, length, width, heads, classes = 2000, 64, 128, 4, 10

    def weights(*shape: int) -> jax.Array:
        return jnp.asarray(numbers.normal(size=shape) / math.sqrt(shape[0]), jnp.float32)

    def norm(p: Any, x: jax.Array) -> jax.Array:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]

    def attend(p: Any, x: jax.Array) -> jax.Array:
        q, k, v = ((x @ p[name]).reshape(length, heads, -1) for name in ("q", "k", "v"))
        scores = jax.nn.softmax(jnp.einsum("thd,uhd->htu", q, k) / math.sqrt(width / heads))
        return jnp.einsum("htu,uhd->thd", scores, v).reshape(length, width) @ p["o"]

    def loss(p: Any, record: Any) -> jax.Array:
        tokens, label = record
        x = p["embedding"][tokens] + p["position"]
        x = x + attend(p, norm(p["norm1"], x))
        x = x + jax.nn.gelu(norm(p["norm2"], x) @ p["up"]) @ p["down"]
        logits = x.mean(0) @ p["head"]
        return jax.nn.logsumexp(logits) - logits[label]

    affine = {"scale": jnp.ones(width), "shift": jnp.zeros(width)}
    params = {name: weights(width, width) for name in "qkvo"} | {
        "embedding": weights(vocabulary, width),
        "position": weights(length, width),
        "norm1": affine,
        "norm2": affine,
        "up": weights(width, 4 * width),
        "down": weights(4 * width, width),
        "head": weights(width, classes),
    }
    tokens = jnp.asarray(numbers.integers(0, vocabulary, (size, length)))
    return Case(f"transformer-{size}", loss, params, (tokens, jnp.asarray(numbers.integers(0, classes, size))))


CASES: dict[str, Callable[[], Case]] = {
    "mlp-256": lambda: mlp(256),
    "mlp-2048": lambda: mlp(2048),
    "mlp-8192": lambda: mlp(8192),
    "resnet20-128": lambda: resnet20(128),
    "transformer-128": lambda: transformer(128),
}


def methods(case: Case) -> dict[str, Callable[..., Any]]:
    """The ways to a gradient; all but the first clip record by record."""
    size = len(jax.tree.leaves(case.batch)[0])
    mask = jnp.ones(size, bool)

    def plain(params: Any, other: Any, batch: Any) -> Any:
        return jax.grad(lambda p: jax.vmap(case.loss, (None, 0))(p, batch).mean())(params)

    def ghost_clip(params: Any, other: Any, batch: Any) -> Any:
        return ghost.clipped_gradient(case.loss, params, batch, mask, CLIP)

    def ghost_difference(params: Any, other: Any, batch: Any) -> Any:
        return ghost.clipped_difference(case.loss, params, other, batch, mask, clip=CLIP)

    def per_record(gradients: Any) -> Any:
        norms = jnp.sqrt(sum(jnp.sum(g.reshape(size, -1) ** 2, axis=1) for g in jax.tree.leaves(gradients)))
        return jax.tree.map(lambda g: jnp.tensordot(jnp.minimum(1.0, CLIP / norms), g, 1), gradients)

    def vmap_clip(params: Any, other: Any, batch: Any) -> Any:
        return per_record(jax.vmap(jax.grad(case.loss), (None, 0))(params, batch))

    def vmap_difference(params: Any, other: Any, batch: Any) -> Any:
        each = jax.vmap(jax.grad(case.loss), (None, 0))
        return per_record(jax.tree.map(jnp.subtract, each(params, batch), each(other, batch)))

    def library(params: Any, other: Any, batch: Any) -> Any:
        return jax_privacy.clipped_grad(case.loss, l2_clip_norm=CLIP, keep_batch_dim=False)(params, batch)

    cheap = {"plain": plain, "ghost": ghost_clip, "ghost difference": ghost_difference}
    if 4 * size * sum(leaf.size for leaf in jax.tree.leaves(case.params)) > LARGEST:
        return cheap
    return {**cheap, "vmap": vmap_clip, "vmap difference": vmap_difference, "jax-privacy": library}


def measure(case: Case) -> list[dict[str, Any]]:
    """Compile every method, then let them take turns."""
    other = jax.tree.map(lambda x: 1.01 * x, case.params)
    arguments = (case.params, other, case.batch)
    compiled, times = {}, {}
    for name, method in methods(case).items():
        compiled[name], times[name] = jax.jit(method).lower(*arguments).compile(), []
    for _ in range(ROUNDS + 1):
        for name, run in compiled.items():
            if sum(times[name]) < PATIENCE:
                start = time.perf_counter()
                jax.block_until_ready(run(*arguments))
                times[name].append(time.perf_counter() - start)
    # The first round warms up, and counts only for a method too slow for a second.
    return [row(case.name, name, times[name][1:] or times[name], planned_memory(run)) for name, run in compiled.items()]


def planned_memory(compiled: Any) -> float:
    """Bytes of arguments, results and temporaries: the CPU backend allocates them all for the length of a call."""
    plan = compiled.memory_analysis()
    return plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes


def row(case: str, method: str, times: list[float], memory: float | None) -> dict[str, Any]:
    return {"case": case, "method": method, "best": min(times), "median": float(np.median(times)), "memory": memory}


def opacus(case: str) -> list[dict[str, Any]]:
    """The same networks in PyTorch, by Opacus, in another interpreter; the transformer is left out."""
    python = os.environ.get("GOSSAMER_TORCH_PYTHON")
    if not python:
        print(f"{case}: GOSSAMER_TORCH_PYTHON is not set, so Opacus is skipped", flush=True)
        return []
    script = str(Path(__file__).with_name("opacus_side.py"))
    done = subprocess.run([python, script, case], check=True, capture_output=True, text=True)
    return [row(case, r["method"], r["times"], None) for r in map(json.loads, done.stdout.splitlines())]


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, one line per method, with times relative to the case's plain gradient."""
    lines = [
        "| case | method | best ms | median ms | × plain (best) | × plain (median) | memory MB | × plain |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        base = next(b for b in rows if b["case"] == r["case"] and b["method"] == baseline(r["method"]))
        lines.append(
            f"| {r['case']} | {r['method']} | {1e3 * r['best']:.1f} | {1e3 * r['median']:.1f} "
            f"| {r['best'] / base['best']:.2f} | {r['median'] / base['median']:.2f} "
            + (f"| {r['memory'] / 1e6:.0f} | {r['memory'] / base['memory']:.2f} |" if r["memory"] else "| | |")
        )
    return "\n".join(lines)


def baseline(method: str) -> str:
    return "torch plain" if method.startswith(("torch", "opacus")) else "plain"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    cases = list(dict.fromkeys(r["case"] for r in rows))
    figure, axes = plt.subplots(1, len(cases), figsize=(3.4 * len(cases), 3.4), layout="constrained")
    for axis, case in zip(np.atleast_1d(axes), cases, strict=True):
        mine = [r for r in rows if r["case"] == case][::-1]
        colours = ["#c44e52" if r["method"].startswith("ghost") else "#8c8c8c" for r in mine]
        axis.barh([r["method"] for r in mine], [1e3 * r["best"] for r in mine], color=colours)
        axis.set(xscale="log", xlim=(1, 2e3 * max(r["best"] for r in mine)), title=case, xlabel="milliseconds (best)")
    figure.savefig(path, dpi=110)


def main(names: list[str]) -> None:
    rows: list[dict[str, Any]] = []
    for name in names or CASES:
        rows += measure(CASES[name]())
        if not name.startswith("transformer"):
            rows += opacus(name)
        print(table([r for r in rows if r["case"] == name]), flush=True)
        jax.clear_caches()
    if not names:
        page = (DOCS / "ghost.md").read_text().split("<!-- table -->")
        (DOCS / "ghost.md").write_text(f"{page[0]}<!-- table -->\n\n{table(rows)}\n\n<!-- table -->{page[2]}")
        plot(rows, DOCS / "ghost.png")


if __name__ == "__main__":
    main(sys.argv[1:])
