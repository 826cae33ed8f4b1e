"""Clipping fails closed: what is not understood is refused or clipped the slow way, and a wrong norm stops the run."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.per_record import clipped, flat, per_record_gradients
from testkit.rings import deep_but

import gossamer as gs
from gossamer.oracle import clipping
from gossamer.oracle.clipping import clip_and_sum, factors, ghost, linear, per_record
from gossamer.oracle.clipping.ghost import chain, contributions, sums

pytestmark = pytest.mark.hostile
BACKENDS = ("auto", "ghost", "vmap")


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng([seed, *shape]).normal(size=shape), jnp.float32)


def complex_parts(w, x):
    return jnp.abs(jnp.sum((w[0] + 1j * w[1]) * x))


def spectrum(w, x):
    return jnp.sum(jnp.abs(jnp.fft.rfft(x) * w[0, :3]))


def phases(w, x):
    return jnp.real(jnp.sum(jnp.exp(1j * w[0] * x) * x))


COMPLEX = (complex_parts, spectrum, phases)


def contributions_of(loss, params, batch, clip, backend="auto", h=gs.Gradient):
    """What each record adds to a sum, as float64 rows."""
    query = h(loss, params) if h is gs.Gradient else h(loss, params, jax.tree.map(lambda leaf: 0.9 * leaf, params))
    size = len(jax.tree.leaves(batch)[0])
    each = jax.vmap(lambda mask: clip_and_sum(query, batch, mask, clip, backend))(jnp.eye(size, dtype=bool))
    return np.concatenate([np.asarray(leaf, np.float64).reshape(size, -1) for leaf in jax.tree.leaves(each)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("loss", COMPLEX)
@pytest.mark.parametrize("backend", deep_but(BACKENDS, "ghost"))
def test_complex_intermediates_are_clipped(loss, backend):
    params, batch = normal(2, 4), 1e3 * normal(5, 4, seed=1)
    (gradients,) = per_record_gradients(loss, batch, params)
    got = contributions_of(loss, params, batch, 0.1, backend)
    np.testing.assert_allclose(got, clipped(gradients, 0.1), rtol=1e-3, atol=1e-5)
    assert np.linalg.norm(got, axis=1).max() <= 0.1 * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", COMPLEX)
def test_a_recogniser_that_takes_complex_numbers_meets_the_second_guard(loss, monkeypatch):
    """Squares of complex numbers are no norms: factors refuse them even if the recogniser did not."""
    trace = importlib.import_module("gossamer.oracle.clipping.ghost.trace")
    monkeypatch.setattr(trace, "_check_real", lambda program: None)
    with pytest.raises(TypeError, match="real numbers"):
        contributions_of(loss, normal(2, 4), 1e3 * normal(5, 4, seed=1), 0.1, "ghost")


def test_a_query_of_complex_numbers_is_refused():
    with pytest.raises(TypeError, match="real numbers"):
        clip_and_sum(gs.Value(lambda x: 1j * x), normal(3, 4), jnp.ones(3, bool), 1.0)


TINY, HUGE = 1e-25, 1e25
CHAINS = {
    "divided back twice": lambda w: ((w * TINY) / TINY) * TINY / TINY,
    "multiplied first": lambda w: w * TINY * TINY / TINY / TINY,
    "divided first": lambda w: w / HUGE / HUGE * HUGE * HUGE,
    "a huge factor": lambda w: (-w.T * 1e12 + 1.0).T,
    "a factor whose square underflows": lambda w: w * 1e-30 * 1e30,
    "a negative factor": lambda w: 3.0 - (w / -7.0)[::-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(CHAINS, "divided back twice", "a huge factor"))
@pytest.mark.parametrize("h", [gs.Gradient, gs.Difference])
def test_constants_before_a_parameter_meets_a_record_hide_no_norm(name, h):
    def loss(w, x):
        return jnp.sum(jnp.tanh(1e-3 * CHAINS[name](w) @ x)) + 1e3 * jnp.sum(CHAINS[name](w) @ x)

    got = contributions_of(loss, normal(4, 6), normal(5, 6, seed=1), 1.0, "ghost", h)
    assert np.all(np.linalg.norm(got, axis=1) <= 1 + 1e-6)


@pytest.mark.slow
def test_scaled_parameters_are_clipped_right():
    def loss(w, x):
        return jnp.sum(jnp.tanh((w / 3.0)[::-1] @ x * 2.0)) + jnp.sum((0.5 - w * 0.2).T @ x[:4])

    params, batch = normal(4, 6), normal(5, 6, seed=1)
    (gradients,) = per_record_gradients(loss, batch, params)
    np.testing.assert_allclose(
        contributions_of(loss, params, batch, 0.3), clipped(gradients, 0.3), rtol=1e-4, atol=1e-6
    )


def scaled_loss(w, x):
    return jnp.sum((100.0 * w) @ x)


def hide_the_scale(monkeypatch):
    """The unsound twin: norms are taken before the chain's constants, sums after them."""
    honest = chain.Chain.pull_back
    monkeypatch.setattr(chain.Chain, "scaled", lambda self, fixed, error: error)
    monkeypatch.setattr(chain.Chain, "pull_back", lambda self, program, g: 100.0 * honest(self, program, g))


@pytest.mark.slow
def test_a_scale_that_norms_do_not_see_is_caught(monkeypatch):
    hide_the_scale(monkeypatch)
    assert np.all(np.isnan(contributions_of(scaled_loss, normal(4, 6), normal(5, 6, seed=1), 1.0, "ghost")))
    for module in (sums, clipping):
        monkeypatch.setattr(module, "fits", lambda *_: jnp.bool_(True))
    loose = contributions_of(scaled_loss, normal(4, 6), normal(5, 6, seed=1), 1.0, "ghost")
    assert np.linalg.norm(loose, axis=1).max() > 10  # without the second line the record passes


@pytest.mark.parametrize("square", [-1.0, -1e-3, np.nan, np.inf, -np.inf])
def test_a_norm_that_makes_no_sense_counts_as_zero(square):
    got = factors.clip_factors(jnp.asarray([square, 4.0], jnp.float32), 1.0, jnp.ones(2, bool))
    np.testing.assert_array_equal(got, [0.0, 0.5])


@pytest.mark.parametrize("clip", [np.nan, -1.0, 0.0, 1e-13])
def test_a_threshold_that_makes_no_sense_lets_nothing_through(clip):
    np.testing.assert_array_equal(factors.clip_factors(jnp.ones(2), clip, jnp.ones(2, bool)), [0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
def test_a_sum_that_no_clipped_records_add_up_to_is_withheld(backend, monkeypatch):
    params = {"weights": jnp.zeros(4), "intercept": jnp.zeros(())}
    batch = 1e3 * normal(16, 4), jnp.ones(16)
    query, mask = gs.Gradient(gs.objectives.logistic, params), jnp.ones(16, bool)
    assert np.all(np.isfinite(flat(clip_and_sum(query, batch, mask, 0.1, backend))))
    modules = {"linear": linear, "ghost": sums, "vmap": per_record}
    monkeypatch.setattr(modules[backend], "clip_factors", lambda squares, clip, mask: jnp.ones(mask.shape))
    assert np.all(np.isnan(flat(clip_and_sum(query, batch, mask, 0.1, backend))))


def network(params, record):
    return jnp.sum(jnp.tanh(params[1] @ jnp.tanh(params[0] @ record)))


@pytest.mark.slow
def test_one_record_too_long_among_many_is_measured(monkeypatch):
    """A record that passes at ten thresholds is far within what 64 records may add up to: only measuring it tells."""
    batch = normal(64, 6)
    params = [normal(5, 6, seed=1), normal(3, 5, seed=2)]
    honest = contributions.Outer.squared_norms

    def short(self):
        return jnp.where(jnp.arange(len(self.a)) == 17, 1e-2, 1.0) * honest(self)

    monkeypatch.setattr(contributions.Outer, "squared_norms", short)
    query, mask = gs.Gradient(network, params), jnp.ones(64, bool)
    total = jax.jit(lambda spot: clip_and_sum(query, batch, mask, 0.01, "ghost", spot=spot))
    summed = [np.isnan(flat(total(spot))).all() for spot in range(64)]
    np.testing.assert_array_equal(np.flatnonzero(summed), [17])


@pytest.mark.slow
@pytest.mark.parametrize("poison", deep_but([np.nan, np.inf, 1e30, 1e-30, 0.0, 3e38], np.inf, 1e30))
@pytest.mark.parametrize("h", [gs.Gradient, gs.Difference])
def test_the_second_line_never_trips_on_a_hostile_record(poison, h):
    batch = normal(8, 6).at[3].set(poison)
    for clip in (1e-6, 1.0, 1e6):
        got = contributions_of(network, [normal(5, 6, seed=1), normal(3, 5, seed=2)], batch, clip, "ghost", h)
        assert np.all(np.isfinite(got))
        assert np.all(np.linalg.norm(got, axis=1) <= clip * (1 + 1e-6))


@pytest.mark.slow
def test_a_run_stops_when_a_record_passes_its_threshold(monkeypatch):
    monkeypatch.setattr(contributions.Outer, "squared_norms", lambda self: jnp.zeros(len(self.a)))
    with pytest.raises(gs.DivergedError, match="withheld"):
        gs.solve(
            gs.ERM(network),
            1e3 * normal(40, 6),
            gs.methods.GD(steps=2, clip=1e-3),
            gs.Budget(1.0, 1e-5),
            init=[normal(5, 6, seed=1), normal(3, 5, seed=2)],
            backend="ghost",
        )


def gram(positions, size, seed):
    """Terms that nearly cancel: what is left of a long record is a thousandth of what was added."""
    numbers = np.random.default_rng(seed)
    a = numbers.normal(size=(1, 1, positions, size))
    d = numbers.normal(size=(1, 1, positions, size))
    half = positions // 2
    a[..., half:, :], d[..., half:, :] = (
        a[..., :half, :],
        -d[..., :half, :] * (1 + 1e-3 * numbers.normal(size=(half, 1))),
    )
    return contributions.Gram(jnp.asarray(a, jnp.float32), jnp.asarray(d, jnp.float32))


def shortness(form):
    """By how much a squared norm falls short of that of the stored vector, relative to it."""
    a, d = np.asarray(form.a, np.float64), np.asarray(form.d, np.float64)
    true = np.sum(np.einsum("bhtn,bhtm->bhnm", a, d) ** 2)
    return 1 - float(jax.jit(type(form).squared_norms)(form)[0]) / true


@pytest.mark.slow
def test_gram_norms_of_long_records_are_rounded_up(monkeypatch):
    forms = [gram(128, 64, seed) for seed in range(10)]
    assert max(map(shortness, forms)) <= 0
    monkeypatch.setattr(contributions, "_margin", lambda terms, roundings: 0.0 * terms)
    jax.clear_caches()
    assert max(map(shortness, forms)) > 1e-4  # without the margin they fall short


@pytest.mark.parametrize("size", [1, 7, 1024, 1025, 70_000])
def test_squared_norms_are_rounded_up(size):
    for seed in range(3):
        x = normal(2, size, seed=seed)
        true = np.sum(np.asarray(x, np.float64) ** 2, axis=1)
        got = np.asarray(jax.jit(factors.squared_norms)(x), np.float64)
        assert np.all(got >= true)
        terms = size if size <= 1024 else 4 * size**0.5
        assert np.all(got <= true * (1 + 1.5e-7 * (10 + terms)))


def test_ghost_still_supports_what_is_complex_without_parameters():
    """Only parameters must stay real: a record may be turned into its spectrum first."""

    def loss(w, x):
        return jnp.sum(jnp.tanh(w @ jnp.abs(jnp.fft.rfft(x))))

    assert ghost.supports(loss, normal(2, 4), normal(3, 6))
    assert not ghost.supports(spectrum, normal(2, 4), normal(3, 4))
