"""A loss may look at one record: what may look at more is refused before any record is met."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.oracle import Ask, Oracle, locality
from gossamer.oracle.ask import Ledger
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.door import Door, Secrets
from gossamer.privacy.sampling import Blocks, Stream
from gossamer.privacy.schedule import Query, Schedule

N = 40
NUMBER = jax.ShapeDtypeStruct((), jnp.float32)
TABLE = jnp.linspace(0.0, 1.0, N)


def printing(w, x):
    jax.debug.print("{}", x)
    return jnp.sum(w * x)


@jax.custom_batching.custom_vmap
def centred(x):
    return x


@centred.def_vmap
def _(size, batched, x):
    return size * (x - x.mean(axis=0)), True


@jax.custom_vjp
def spying(x):
    return x


spying.defvjp(lambda x: (x, None), lambda _, g: (jax.pure_callback(np.asarray, NUMBER, g),))


def first_key(w, x):
    """A generator whose batches take the first row's key for all rows."""
    words = jax.lax.bitcast_convert_type(jnp.concatenate([x, x[:1]]), jnp.uint32)
    return jnp.sum(w) * jax.random.normal(jax.random.wrap_key_data(words, impl="rbg"))


def one_for_all(x):
    return jax.pure_callback(lambda x: np.float32(1), NUMBER, x, vmap_method="sequential")


REFUSED = {
    "debug.print": printing,
    "pure_callback": lambda w, x: jnp.sum(w) * one_for_all(x),
    "io_callback": lambda w, x: jnp.sum(w) * io_callback(lambda x: np.float32(1), NUMBER, x),
    "a callback in a derivative": lambda w, x: spying(jnp.sum(w * x)),
    "custom_vmap": lambda w, x: jnp.sum(w * centred(x)),
    "inside a scan": lambda w, x: jax.lax.scan(lambda c, v: (c + centred(v) * w[0], None), 0.0, x)[0],
    "inside a branch": lambda w, x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(w * centred(x)), lambda: w[0]),
    "a check over the batch": lambda w, x: jnp.sum(eqx.error_if(w * x, x[0] > 9, "no")),
    "one key for all": first_key,
    "the table": lambda w, x: jnp.sum(w) * jnp.mean(x[0] - TABLE),
    "the table in NumPy": lambda w, x: jnp.sum(w) * jnp.mean(x[0] - np.asarray(TABLE)),
    "the table under jit": jax.jit(lambda w, x: jnp.sum(w) * jnp.mean(x[0] - TABLE)),
}
ACCEPTED = {
    "linear algebra": lambda w, x: jnp.linalg.slogdet(jnp.outer(w, x) + 9 * jnp.eye(3))[1],
    "special functions": lambda w, x: jax.nn.logsumexp(w * x) + jax.scipy.special.gammaln(1 + (w @ x) ** 2),
    "loops": lambda w, x: jax.lax.fori_loop(0, 3, lambda i, c: c * jnp.sum(w * x), 1.0),
    "remat": jax.checkpoint(lambda w, x: jnp.sum(jnp.sin(w * x))),
    "draws": lambda w, x: jnp.sum(w * x) * jax.random.normal(jax.random.key(0)),
    "sorting": lambda w, x: jnp.sort(w * x)[0] + jnp.median(w * x),
    "spectra": lambda w, x: jnp.sum(jnp.abs(jnp.fft.rfft(w * x))),
}


def solve(loss):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(N, 3)), jnp.float32)
    return gs.solve(gs.ERM(loss), data, gs.methods.GD(steps=2), gs.Budget(1.0, 1e-3), init=jnp.ones(3), progress=False)


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_look_at_other_records_is_refused(name):
    with pytest.raises(ValueError, match=r"the loss (uses|closes over).*gs\.trusted"):
        solve(REFUSED[name])


@pytest.mark.parametrize("name", ACCEPTED)
def test_ordinary_losses_are_not_refused(name):
    locality.check(gs.Gradient(ACCEPTED[name], jnp.ones(3)), jax.ShapeDtypeStruct((3,), jnp.float32), N)


def test_a_rule_over_all_records_would_move_a_sum_by_many_thresholds():
    """Why it is refused: the other records' vectors change with the one."""
    batch = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
    other = batch.copy()
    other[0] = 1e6
    sums = [
        np.asarray(clip_and_sum(gs.Gradient(REFUSED["custom_vmap"], jnp.ones(3)), rows, jnp.ones(N, bool), 1.0, "vmap"))
        for rows in (batch, other)
    ]
    assert np.linalg.norm(sums[1] - sums[0]) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure_callback", "custom_vmap", "the table", "the table in NumPy"])
def test_what_is_trusted_passes_and_stands_on_the_certificate(name):
    result = solve(gs.trusted(REFUSED[name], because="it treats every row\nby itself"))
    assert "Trusted, not checked: it treats every row by itself" in result.certificate.assumptions
    assert not any("Trusted" in sentence for sentence in solve(ACCEPTED["loops"]).certificate.assumptions)


@pytest.mark.parametrize("because", ["", "  ", None, 3])
def test_trust_needs_a_reason(because):
    with pytest.raises(ValueError, match="because"):
        gs.trusted(printing, because=because)


def stream_oracle(key, oracle=Oracle):
    queries = tuple(
        Query(name, 1, Blocks(N // 2, Stream("tree", 2, first, 1)), noise_multiplier=1.0)
        for first, name in enumerate(("short", "long"))
    )
    door = Door(N, Schedule(queries), ())
    return Ask(
        oracle(door, Secrets(jnp.zeros((N, 3)), {"short": 1.0, "long": 1.0}, key, jnp.arange(N))),
        Ledger.empty(door.schedule),
        new_key(0),
    )


def ask_both(ask):
    short = ask("short", gs.Value(lambda x: x[:2]), clip=1.0)
    return short, ask("long", gs.Value(lambda x: jnp.concatenate([x[:1], x])), clip=1.0)


class Careless(Oracle):
    """Draws noise of any shape from a stream's keys."""

    def _check_shapes(self, query, like):
        pass


@pytest.mark.deep
def test_answers_of_one_stream_have_one_shape():
    with pytest.raises(ValueError, match=r"'short' and 'long'.*different shapes"):
        ask_both(stream_oracle(new_key(0)))
    answers = jax.vmap(lambda key: ask_both(stream_oracle(key, Careless)))(jax.random.split(new_key(0), 2000))
    squares = [np.sum(np.square(answer), axis=1) for answer in answers]
    assert np.corrcoef(*squares)[0, 1] > 0.2  # why it is refused: draws of different shapes are alike (5 SE = 0.11)
