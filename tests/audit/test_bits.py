"""Attacks on the bits of answers: noise in floating point does not hide a floating-point sum; whole numbers do.

Two tables, one released answer, an attacker who knows both tables. Right guesses are counted. (ε, δ) allows
e^ε/(1 + e^ε) of them, and a little for δ; the standard error of a share p of N trials is √(p(1 − p)/N).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import float_noise
from testkit.rings import deep_but

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.methods import GD
from gossamer.methods.perturbation import OutputPerturbation
from gossamer.oracle import Oracle, minimiser
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.door import Door, Question

N, D = 1024, 100
"""A power of two: dividing by it rounds nothing, so that an attacker can undo it."""
DELTA = 1e-6
TRIALS = 1000
EPSILONS = deep_but([0.1, 1.0, 4.0], 0.1)


def tables():
    """Two tables whose first records pull in opposite directions, by nearly a threshold each.

    Entries are multiples of 2^-10 and no record is clipped, so that plain sums are exact: the attacker knows them.
    """
    rows = np.float32(np.random.default_rng(0).integers(-64, 65, (N, D)) / 1024)
    rows[0] = np.where(rows[0] > 0, 102 / 1024, -102 / 1024)
    other = rows.copy()
    other[0] = -rows[0]
    return rows, other


class FloatOracle(Oracle):
    """What all libraries do, and this one did: float32 noise is added to a float32 sum."""

    def answer(self, asked, memory):
        query, index, h, clip, weights = asked
        total = clip_and_sum(h, self._secrets.data, jnp.ones(N, bool), clip)
        size = query.sampling.size(self.door.n)
        clips, totals = (clip, total) if isinstance(clip, tuple) else ((clip,), (total,))
        noisy = []
        for number, (c, value, w) in enumerate(zip(clips, totals, weights, strict=True)):
            key = jax.random.fold_in(self.keys(query, index).noise, number)
            z = float_noise.normal(key, value.shape)
            noisy.append((value + self.noise_multiplier(query) * w * c * z) / size)
        return (tuple(noisy) if isinstance(clip, tuple) else noisy[0]), memory


# What is asked: a function of a record, its threshold, the weights of blocks. A bought share is one bounded number per
# record; here a hundred of them, since one number alone says little about anybody.
ASKED = {
    "mean": (lambda z: z, 1.0, (1.0,)),
    "joint": (lambda z: (z[:50], 3.0 * z[50:]), (1.0, 4.0), (2.0, 2.0)),
    "shares": (lambda z: jnp.where(z > 0, 0.5, -0.5) / 8.0, 1.0, (1.0,)),
}


def answered(kind, asked, epsilon, trials):
    """Return answers about randomly chosen tables, which table each was, and σ."""
    h, clip, weights = ASKED[asked]
    planned = gs.plan(GD(steps=1), N, gs.Budget(epsilon, DELTA))
    (query,) = planned.schedule
    door = Door(N, gs.Schedule((query,)), ())
    noise = {query.name: planned.noise()[query.name]}
    clip = jax.tree.map(jnp.float32, clip)

    @jax.jit
    def one(table, key):
        oracle = kind(door, loop.make_secrets(door, table, noise, loop.split(key)))
        return oracle.answer(Question(query, jnp.int32(0), h, clip, weights), None)[0]

    chosen = np.random.default_rng(1).integers(0, 2, trials)
    keys = jax.random.split(new_key(2), trials)
    both = jnp.asarray(tables())
    answers = jax.lax.map(lambda pair: one(both[pair[0]], pair[1]), (jnp.asarray(chosen), keys), batch_size=50)
    return jax.tree.map(np.asarray, answers), chosen, float(noise[query.name])


def sums(asked):
    h, clip, _ = ASKED[asked]
    total = jax.jit(lambda table: clip_and_sum(h, table, jnp.ones(N, bool), jax.tree.map(jnp.float32, clip)))
    return [jax.tree.map(np.asarray, total(table)) for table in tables()]


def out_of_reach(answer, total, deviation):
    """How many numbers of each answer are fl(total + deviation·z) for no float32 number z."""
    y, wide = answer * np.float32(N), total.astype(np.float64)
    z = ((y - wide) / deviation).astype(np.float32)
    reached, up, down = np.zeros(y.shape, bool), z, z
    for _ in range(6):
        for near in (up, down):
            fused = (wide + deviation * near.astype(np.float64)).astype(np.float32)
            reached |= (fused == y) | (total + np.float32(deviation) * near == y)
        up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(-np.inf))
    return np.sum(~reached, axis=-1)


def by_reach(asked, answers, sigma):
    """Guess the table under which fewer numbers are out of reach."""
    _, clip, weights = ASKED[asked]
    clips = clip if isinstance(clip, tuple) else (clip,)
    parts = answers if isinstance(clip, tuple) else (answers,)
    missed = []
    for total in sums(asked):
        totals = total if isinstance(clip, tuple) else (total,)
        missed.append(
            sum(
                out_of_reach(part, value, np.float64(np.float32(sigma) * np.float32(w * c)))
                for part, value, w, c in zip(parts, totals, weights, clips, strict=True)
            )
        )
    coin = np.random.default_rng(3).integers(0, 2, len(missed[0]))
    return np.where(missed[0] == missed[1], coin, missed[1] < missed[0])


def by_likelihood(asked, answers, sigma):
    """Guess the likelier table, by the optimal test between two Gaussians."""
    _, clip, weights = ASKED[asked]
    clips = clip if isinstance(clip, tuple) else (clip,)

    def flat(value, axis):
        parts = value if isinstance(clip, tuple) else (value,)
        return np.concatenate([p / (w * c) for p, w, c in zip(parts, weights, clips, strict=True)], axis=axis)

    seen = flat(jax.tree.map(lambda leaf: leaf.astype(np.float64) * N, answers), 1)
    here, there = (flat(jax.tree.map(lambda leaf: leaf.astype(np.float64), total), 0) for total in sums(asked))
    return np.sum((seen - here) ** 2, axis=1) > np.sum((seen - there) ** 2, axis=1)


def allowed(epsilon, trials):
    """The share of right guesses that (ε, δ) allows, and three standard errors of it: below 1 at ε = 4 too."""
    share = (np.exp(epsilon) + DELTA) / (1 + np.exp(epsilon))
    return share + 3 * np.sqrt(share * (1 - share) / trials)


@pytest.mark.slow
@pytest.mark.parametrize("asked", deep_but(ASKED, "mean", "joint"))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_answers_do_not_tell_tables_apart(epsilon, asked):
    answers, chosen, sigma = answered(Oracle, asked, epsilon, TRIALS)
    for attack in (by_reach, by_likelihood):
        share = np.mean(attack(asked, answers, sigma) == chosen)
        assert share <= allowed(epsilon, TRIALS), attack


@pytest.mark.slow
@pytest.mark.parametrize("asked", deep_but(ASKED, "mean"))
def test_the_same_attack_refutes_noise_in_floating_point(asked):
    """The control: at ε = 0.1 four of five guesses are right, and (ε, δ) allows 0.525."""
    answers, chosen, sigma = answered(FloatOracle, asked, 0.1, 200)
    assert np.mean(by_reach(asked, answers, sigma) == chosen) > 0.8


def careless(exact, numbers, key):
    """Release a minimiser as it was released before: float32 noise added to it in float32."""
    z = float_noise.normal(key, exact.shape)
    return exact.astype(jnp.float32) + numbers.spread.astype(jnp.float32) * z


def minimisers(epsilon, trials):
    """Return released minimisers of randomly chosen tables, which table each was, the exact ones, and the deviation."""
    risk = OutputPerturbation(gs.objectives.logistic, 0.1, 1.0, False)
    planned = gs.plan(risk, N, gs.Budget(epsilon, DELTA))
    deviations = risk.deviations(N, planned.noise())
    targets = np.ones(N, np.float32)
    exact = [
        np.asarray(
            minimiser.perturbed_minimiser(risk, N, (t, targets), deviations._replace(spread=0.0), new_key(0))["weights"]
        )
        for t in tables()
    ]
    chosen = np.random.default_rng(1).integers(0, 2, trials)
    keys = jax.random.split(new_key(2), trials)
    released = [
        np.asarray(minimiser.perturbed_minimiser(risk, N, (tables()[c], targets), deviations, k)["weights"])
        for c, k in zip(chosen, keys, strict=True)
    ]
    return np.stack(released), chosen, exact, deviations.spread


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_released_minimisers_do_not_tell_tables_apart(epsilon):
    released, chosen, exact, spread = minimisers(epsilon, TRIALS)
    missed = [out_of_reach(released / np.float32(N), w, np.float64(np.float32(spread))) for w in exact]
    coin = np.random.default_rng(3).integers(0, 2, TRIALS)
    by_bits = np.where(missed[0] == missed[1], coin, missed[1] < missed[0])
    by_distance = np.sum((released - exact[0]) ** 2, axis=1) > np.sum((released - exact[1]) ** 2, axis=1)
    for guess in (by_bits, by_distance):
        assert np.mean(guess == chosen) <= allowed(epsilon, TRIALS)


@pytest.mark.deep
def test_the_same_attack_refutes_minimisers_released_in_floating_point(monkeypatch):
    monkeypatch.setattr(minimiser, "_released", careless)
    minimiser._perturbed_minimiser.clear_cache()
    try:
        released, chosen, exact, spread = minimisers(0.1, 200)
    finally:
        minimiser._perturbed_minimiser.clear_cache()
    missed = [out_of_reach(released / np.float32(N), w, np.float64(np.float32(spread))) for w in exact]
    coin = np.random.default_rng(3).integers(0, 2, 200)
    assert np.mean(np.where(missed[0] == missed[1], coin, missed[1] < missed[0]) == chosen) > 0.8
