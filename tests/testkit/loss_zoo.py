"""A zoo of losses from many corners of JAX, to fuzz clipping with: each is a function of parameters and a record.

Parameters are {"w": (4, 6), "v": (6,), "b": (4,), "t": (5, 6)}; a record is (x: (6,), k: int32, y: ()).
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import linalg, special

LOSSES = {}


def loss(function):
    LOSSES[function.__name__] = function
    return function


def add(name, function):
    assert name not in LOSSES
    LOSSES[name] = function


def _softplus(score, y):
    return jax.nn.softplus(score) - y * score


# Dense layers, every activation.
for _name in (
    "relu",
    "gelu",
    "silu",
    "elu",
    "selu",
    "softplus",
    "tanh",
    "sigmoid",
    "leaky_relu",
    "log_sigmoid",
    "celu",
):
    _activation = getattr(jax.nn, _name)
    add(
        f"dense_{_name}",
        lambda p, z, f=_activation: _softplus(jnp.sum(f(p["w"] @ z[0] + p["b"])), z[2]),
    )
    add(
        f"deep_{_name}",
        lambda p, z, f=_activation: jnp.sum(f(p["w"] @ f(p["w"].T @ f(p["w"] @ z[0]) + p["v"]))) * z[2],
    )

# Parameters transformed before they meet the record.
CHAINS = {
    "transposed": lambda w: w.T.T,
    "reversed": lambda w: w[::-1],
    "negated": lambda w: -w,
    "scaled": lambda w: 0.1 * w,
    "scaled_twice": lambda w: w * 1e-25 / 1e-25 * 1e-25 / 1e-25,
    "divided": lambda w: w / 3.0,
    "shifted": lambda w: 2.0 - w,
    "reshaped": lambda w: w.reshape(6, 4).reshape(2, 12).reshape(4, 6),
    "sliced": lambda w: jnp.concatenate([w[:2], 2 * w[2:]]),
    "rolled": lambda w: jnp.roll(w, 2, axis=1),
    "normalised": lambda w: w / jnp.linalg.norm(w, axis=1, keepdims=True),
    "exponential": jnp.exp,
    "symmetric": lambda w: (w @ w.T) @ w,
    "half": lambda w: w.astype(jnp.float16).astype(jnp.float32),
    "bfloat": lambda w: w.astype(jnp.bfloat16),
    "double_stop": lambda w: w + lax.stop_gradient(w),
    "spectral": lambda w: w / jnp.linalg.svd(w, compute_uv=False)[0],
    "masked": lambda w: jnp.where(jnp.arange(6) < 3, w, 0.0),
    "tiled": lambda w: jnp.tile(w, (2, 1))[2:6],
    "complex": lambda w: jnp.real(w * (1 + 2j)),
    "spectrum": lambda w: jnp.abs(jnp.fft.rfft(w, n=10))[:, :6],
    "cumulative": lambda w: jnp.cumsum(w, axis=1),
    "clipped": lambda w: jnp.clip(w, -0.5, 0.5),
    "sorted": lambda w: jnp.sort(w, axis=1),
    "rounded_through": lambda w: w + lax.stop_gradient(jnp.round(w) - w),
}
for _name, _chain in CHAINS.items():
    add(f"chain_{_name}", lambda p, z, f=_chain: jnp.sum(jnp.tanh(f(p["w"]).astype(jnp.float32) @ z[0])) * z[2])

# Records transformed before they meet parameters.
INPUTS = {
    "spectrum": lambda x: jnp.abs(jnp.fft.fft(x)),
    "phase": lambda x: jnp.real(jnp.exp(1j * x)) * x,
    "sorted": jnp.sort,
    "outer": lambda x: jnp.outer(x, x)[2],
    "softmax": jax.nn.softmax,
    "layer_norm": lambda x: (x - x.mean()) * lax.rsqrt(x.var() + 1e-5),
    "unit": lambda x: x / jnp.linalg.norm(x),
    "half": lambda x: x.astype(jnp.float16).astype(jnp.float32),
    "cumulative": jnp.cumsum,
    "quantised": lambda x: jnp.round(x * 4) / 4,
    "inverse": lambda x: 1 / x,
    "logarithm": lambda x: jnp.log(jnp.abs(x)),
}
for _name, _input in INPUTS.items():
    add(f"input_{_name}", lambda p, z, f=_input: _softplus(jnp.sum(jax.nn.relu(p["w"] @ f(z[0]) + p["b"])), z[2]))


# Tied weights, several uses, gates.
@loss
def tied(p, z):
    return jnp.sum(jnp.tanh(p["w"].T @ jnp.tanh(p["w"] @ z[0])))


@loss
def gated(p, z):
    return jnp.sum(jax.nn.sigmoid(p["w"] @ z[0]) * (p["w"] @ (z[0] * p["v"])))


@loss
def residual(p, z):
    h = p["v"] * z[0] + z[0]
    return jnp.sum((h + p["w"].T @ jax.nn.relu(p["w"] @ h)) ** 2)


@loss
def attention(p, z):
    tokens = jnp.outer(z[0], p["v"])
    scores = jax.nn.softmax(tokens @ tokens.T / 6)
    return jnp.sum(scores @ tokens @ p["w"].T)


@loss
def bilinear(p, z):
    return z[0][:4] @ p["w"] @ z[0]


@loss
def einsum(p, z):
    return jnp.einsum("ij,j,i,->", p["w"], z[0], p["b"], z[2])


@loss
def quadratic_form(p, z):
    return jnp.sum((p["w"] @ z[0] - z[2]) ** 2)


@loss
def ratio(p, z):
    return jnp.sum(p["w"] @ z[0]) / (1 + jnp.sum(p["v"] * z[0]) ** 2)


@loss
def product_of_scores(p, z):
    return jnp.prod(p["w"] @ z[0])


@loss
def cancelling(p, z):
    return 1e12 * jnp.sum(p["w"] @ z[0]) - 1e12 * jnp.sum(p["w"] @ z[0]) + jnp.sum(p["b"] * z[2])


# Lookups.
@loss
def embedding(p, z):
    return jnp.sum(jnp.tanh(p["t"][z[1] % 5] * z[0]))


@loss
def embedding_bag(p, z):
    rows = p["t"][jnp.array([0, 1, 0]) + z[1] % 3]
    return jnp.sum(rows.mean(axis=0) * z[0])


for _mode in ("clip", "fill", "wrap"):
    add(f"take_{_mode}", lambda p, z, m=_mode: jnp.sum(jnp.take(p["t"], z[1] % 5, axis=0, mode=m) * z[0]))
add("take_promised", lambda p, z: jnp.sum(p["t"].at[z[1] % 5].get(mode="promise_in_bounds") * z[0]))
add("take_beyond", lambda p, z: jnp.sum(jnp.take(p["t"], 3 + z[1] % 5, axis=0, mode="fill", fill_value=0) * z[0]))


@loss
def window(p, z):
    return jnp.sum(lax.dynamic_slice(p["t"], (z[1] % 3, jnp.int32(1)), (2, 4)) * z[0][:4])


@loss
def one_hot(p, z):
    return jnp.sum(jax.nn.one_hot(z[1] % 5, 5) @ p["t"] * z[0])


@loss
def scattered(p, z):
    return jnp.sum(jnp.zeros((5, 6)).at[z[1] % 5].add(p["v"]) * z[0])


@loss
def indexed_twice(p, z):
    return p["t"][z[1] % 5] @ z[0] - p["t"][(z[1] + 1) % 5] @ z[0] + p["t"][z[1] % 5] @ z[0][::-1]


@loss
def softmax_loss(p, z):
    return -jax.nn.log_softmax(p["w"] @ z[0])[z[1] % 4]


# Control flow.
@loss
def scan(p, z):
    return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(p["b"] * x + h), None), jnp.zeros(4), z[0])[0])


@loss
def recurrent(p, z):
    return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(p["w"].T[:4] @ h * x), h), p["b"], z[0])[1])


@loss
def fori(p, z):
    return jnp.sum(lax.fori_loop(0, 3, lambda i, h: jnp.tanh(p["w"].T @ jnp.tanh(p["w"] @ h)), z[0]))


@loss
def branch(p, z):
    return lax.cond(z[2] > 0, lambda: jnp.sum(p["w"] @ z[0]), lambda: jnp.sum(p["v"] * z[0]))


@loss
def switch(p, z):
    options = [lambda: jnp.sum(p["b"]), lambda: jnp.sum(p["w"] @ z[0]), lambda: p["v"] @ z[0]]
    return lax.switch(z[1] % 3, options) * z[2]


@loss
def mapped(p, z):
    return jnp.sum(jax.vmap(lambda row: jnp.tanh(row @ z[0]))(p["w"]))


@loss
def mapped_inputs(p, z):
    return jnp.sum(jax.vmap(lambda x: jnp.tanh(p["b"] * x))(z[0]))


@loss
def nested_gradient(p, z):
    return jnp.sum(jax.grad(lambda x: jnp.sum(jnp.tanh(p["w"] @ x)))(z[0]) ** 2)


@loss
def rematerialised(p, z):
    return jax.checkpoint(lambda w: jnp.sum(jnp.tanh(w @ z[0])))(p["w"])


@loss
def compiled(p, z):
    return jax.jit(lambda w, x: jnp.sum(jnp.tanh(w @ x)))(p["w"], z[0])


# Custom rules.
@jax.custom_jvp
def _clipped_exp(x):
    return jnp.exp(x)


_clipped_exp.defjvps(lambda dx, out, x: dx * jnp.minimum(out, 10.0))


@jax.custom_vjp
def _straight(x):
    return jnp.sign(x)


_straight.defvjp(lambda x: (jnp.sign(x), None), lambda _, g: (1e6 * g,))


@loss
def custom_jvp(p, z):
    return jnp.sum(_clipped_exp(p["w"] @ z[0]))


@loss
def custom_vjp(p, z):
    return jnp.sum(_straight(p["w"] @ z[0]) * z[0][:4])


@loss
def custom_on_parameters(p, z):
    return jnp.sum(_straight(p["w"]) @ z[0])


# Convolutions and windows.
@loss
def convolution(p, z):
    image = jnp.outer(z[0], z[0]).reshape(1, 1, 6, 6)
    return jnp.sum(jnp.tanh(lax.conv_general_dilated(image, p["w"][:, :4].reshape(4, 1, 2, 2), (1, 1), "SAME")))


@loss
def dilated_convolution(p, z):
    kernel = p["w"][:, :3].reshape(4, 1, 3)
    out = lax.conv_general_dilated(z[0].reshape(1, 1, 6), kernel, (1,), [(2, 2)], rhs_dilation=(2,))
    return jnp.sum(jnp.tanh(out))


@loss
def grouped_convolution(p, z):
    image = jnp.stack([z[0], z[0] ** 2]).reshape(1, 2, 6)
    out = lax.conv_general_dilated(image, p["w"][:, :3].reshape(4, 1, 3), (2,), "SAME", feature_group_count=2)
    return jnp.sum(jnp.tanh(out))


@loss
def transposed_convolution(p, z):
    out = lax.conv_transpose(z[0].reshape(1, 6, 1), p["w"][:, :3].T.reshape(3, 1, 4), (2,), "SAME")
    return jnp.sum(jnp.tanh(out))


@loss
def numpy_convolution(p, z):
    return jnp.sum(jnp.tanh(jnp.convolve(z[0], p["v"])))


@loss
def pooled(p, z):
    h = jnp.outer(p["v"], z[0])
    return jnp.sum(lax.reduce_window(h, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"))


@loss
def many_positions(p, z):
    return jnp.sum(jnp.tanh(jnp.outer(z[0], z[0]) @ p["w"].T))


@loss
def cancelling_positions(p, z):
    h = jnp.concatenate([jnp.outer(z[0], z[0]), -jnp.outer(z[0], z[0])]) @ p["w"].T
    return jnp.sum(h) + jnp.sum(h[0])


# Complex numbers.
@loss
def complex_weights(p, z):
    return jnp.abs(jnp.sum((p["w"][:2] + 1j * p["w"][2:]) @ z[0]))


@loss
def filtered(p, z):
    return jnp.sum(jnp.abs(jnp.fft.rfft(z[0]) * p["b"]))


@loss
def phases(p, z):
    return jnp.real(jnp.sum(jnp.exp(1j * p["v"] * z[0])))


@loss
def convolved_by_fourier(p, z):
    return jnp.sum(jnp.fft.irfft(jnp.fft.rfft(p["v"]) * jnp.fft.rfft(z[0]), n=6) ** 2)


@loss
def complex_square(p, z):
    return jnp.real((jnp.sum(p["v"] * z[0]) + 1j * z[2]) ** 2)


# Linear algebra and special functions.
@loss
def determinant(p, z):
    return jnp.linalg.slogdet(jnp.outer(p["b"], p["b"]) + (1 + z[2] ** 2) * jnp.eye(4))[1] * z[0][0]


@loss
def solved(p, z):
    return jnp.sum(jnp.linalg.solve(p["w"][:, :4] @ p["w"][:, :4].T + 3 * jnp.eye(4), z[0][:4]))


@loss
def cholesky(p, z):
    return jnp.sum(jnp.linalg.cholesky(jnp.outer(p["b"], p["b"]) + (2 + z[2] ** 2) * jnp.eye(4)) @ z[0][:4])


@loss
def matrix_exponential(p, z):
    return jnp.sum(linalg.expm(0.1 * p["w"][:, :4]) @ z[0][:4])


@loss
def gamma(p, z):
    return special.gammaln(1 + jnp.sum(p["v"] * z[0]) ** 2)


@loss
def error_function(p, z):
    return jnp.sum(special.erf(p["w"] @ z[0]))


@loss
def bessel(p, z):
    return jnp.sum(special.i0e(p["w"] @ z[0]))


@loss
def powers(p, z):
    return jnp.sum(jnp.abs(p["w"] @ z[0]) ** 1.5)


@loss
def logsumexp(p, z):
    return special.logsumexp(p["w"] @ z[0]) - z[2]


@loss
def huge_exponential(p, z):
    return jnp.exp(jnp.sum(p["w"] @ z[0]))


@loss
def kink(p, z):
    return jnp.sum(jnp.abs(p["w"] @ z[0])) + jnp.max(p["v"] * z[0])


@loss
def top(p, z):
    return jnp.sum(lax.top_k(p["w"] @ z[0], 2)[0])


@loss
def unused_parameters(p, z):
    return z[2] * p["b"][0]


@loss
def independent_of_the_record(p, z):
    return jnp.sum(p["w"] ** 2)


@loss
def low_precision(p, z):
    return jnp.sum((p["w"].astype(jnp.bfloat16) @ z[0].astype(jnp.bfloat16)).astype(jnp.float32) ** 2)


@loss
def eighths(p, z):
    return jnp.sum(p["w"].astype(jnp.float8_e4m3fn).astype(jnp.float32) @ z[0])


@loss
def random_features(p, z):
    projection = jax.random.normal(jax.random.key(0), (4, 6), jnp.float32)
    return jnp.sum(jnp.cos(projection @ z[0]) * p["b"])


@loss
def dropout(p, z):
    keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(1), z[1]), jnp.float32(0.5), (4,))
    return jnp.sum(jnp.where(keep, p["w"] @ z[0], 0.0))


@loss
def tiny_and_huge(p, z):
    return jnp.sum((1e-20 * p["w"]) @ (1e19 * z[0]))


@loss
def barrier(p, z):
    return jnp.sum(lax.optimization_barrier(p["w"]) @ z[0])
