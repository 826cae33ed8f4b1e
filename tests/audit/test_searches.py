"""An audit of a whole search: what one record does to the released trial stays within the promise for all trials.

A tiny logistic problem with two settings, planned by `PrivateSearch` itself. Its trials are made in bulk, by the stages
of its own candidates. How many there are, their settings, and which one is released is up to its own `best_of`. The
attacker knows all records but one and sees what is released: setting, parameters and noisy score. Trials of one step
have a Gaussian likelihood, so that the attack on each of them is the best there is.
"""

import dataclasses
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine.opening import Lane, set_up
from gossamer.engine.stages import joined
from gossamer.learn import PrivateLogisticRegression, PrivateSearch
from gossamer.learn import _trials as module
from gossamer.privacy._jax_privacy import CanaryScoreAuditor, Split
from gossamer.privacy.stages import TRAINING

N, SEARCHES, POOL = 10, 4000, 10_000
EPSILON, DELTA, TRIALS = 3.0, 1e-2, 12


def plan(label):
    """Return the plan of a search over two learning rates; the first record's label is given."""
    X, y = np.ones((N, 1)), np.array([label, *(np.arange(N - 1) % 2)])
    one = gs.methods.GD(steps=1, learning_rate=0.5, clip=0.5)
    told = {"data_norm": 1.0, "classes": [0, 1], "threshold": 0.5}
    model = PrivateLogisticRegression(**told, method=one, fit_intercept=False)
    grid = {"method": [dataclasses.replace(one, learning_rate=1.5)]}
    return PrivateSearch(model, grid, EPSILON, DELTA, trials=TRIALS, most=60).rehearse(X, y)


def maker(planned, place):
    """Return a compiled function that makes trials of one setting, with these records and keys."""
    training, scoring = planned.candidates[place].stages("loss")
    costs = joined((training, scoring))

    def ran(stage, answers, data, key):
        posed = stage.pose(answers)
        part = dataclasses.replace(costs.part(planned.plans[place], stage.name), method=posed.method)
        lane = Lane(set_up(part, posed.problem), part.noise(), posed.init, key)
        return lane.finish(lane.oracle(data)).choice.params

    def trial(data, key):
        first, second = jax.random.split(key)
        model = ran(training, {}, data, first)
        return ravel_pytree(model)[0], ran(scoring, {TRAINING: model}, data, second)["score"]

    return jax.jit(lambda data, keys: jax.lax.map(functools.partial(trial, data), keys, batch_size=2048))


class Trials:
    """Many trials of one setting on one table, and how likely each outcome is there, up to a constant."""

    def __init__(self, planned, place, make, key):
        candidate = planned.candidates[place]
        data = jax.tree.map(jnp.asarray, candidate.task.data)
        self.models, self.scores = (np.asarray(x, float) for x in make(data, jax.random.split(key, POOL)))
        self.mean, self.deviation = self.models.mean(0), float(self.models.std())
        query = planned.plans[place].schedule["score"]
        self.noise = query.noise_multiplier * float(query.clip) / N
        unravel, loss = ravel_pytree(candidate.task.init)[1], candidate.estimator.record_loss(candidate.task)

        def exact(model):
            return jnp.mean(1.0 - jnp.clip(jax.vmap(loss, (None, 0))(unravel(model), data), 0.0, 2.0))

        self.exact = lambda models: np.asarray(jax.vmap(exact)(jnp.asarray(models, jnp.float32)), float)

    def log_likelihood(self, models, scores):
        """Return that of each model and score on this table."""
        trained = np.sum((models - self.mean) ** 2, axis=1) / self.deviation**2
        return -0.5 * (trained + (scores - self.exact(models)) ** 2 / self.noise**2)


def released(planned, evidence, scores, random):
    """Return the evidence that the search releases, in each of many searches by `best_of`; and that of all trials."""
    used, seen = [], []

    def trial(planned, score, place, key, coin):
        pick = random.integers(POOL)
        used.append(evidence[place][pick])
        return module.Trial(scores[place][pick], coin, place, used[-1])

    nothing = SimpleNamespace(random=SimpleNamespace(split=lambda key, number: [None] * number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "jax", nothing)
        patch.setattr(module, "_uniform", lambda key: random.random())
        patch.setattr(module, "_trial", trial)
        for _ in range(SEARCHES):
            used.clear()
            seen.append((module.best_of(planned, "loss", None).outcome, sum(used)))
    return np.array(seen).T


def lower_bound(here, there):
    """Return a lower bound on ε with 95 % confidence; the threshold is chosen on one half, and judged on the other."""
    auditor = CanaryScoreAuditor(here, there)
    return auditor.epsilon_clopper_pearson(0.05, DELTA, one_sided=False, threshold_strategy=Split(seed=0))


@pytest.mark.deep
def test_audit_of_a_search_and_of_its_twins():
    """The search keeps its promise, and the attack finds a good part of it. Two twins with the same trials do not:

    one whose scores are exact, and one that releases its losers too.
    """
    plans = [plan(label) for label in (0, 1)]
    keys = jax.random.split(new_key(0), (2, 2))
    makers = [maker(plans[0], place) for place in (0, 1)]
    pools = [
        [Trials(planned, place, makers[place], keys[t, place]) for place in (0, 1)] for t, planned in enumerate(plans)
    ]
    random = np.random.default_rng(0)

    def attacked(exact):
        out = []
        for planned, own in zip(plans, pools, strict=True):
            scores = [pool.exact(pool.models) if exact else pool.scores for pool in own]
            evidence = [
                pools[0][place].log_likelihood(pool.models, scores[place])
                - pools[1][place].log_likelihood(pool.models, scores[place])
                for place, pool in enumerate(own)
            ]
            out.append(released(planned, evidence, scores, random))
        return out

    (best, every), (best_there, every_there) = attacked(exact=False)
    found = lower_bound(best, best_there)
    assert 0.2 * EPSILON < found <= EPSILON
    assert lower_bound(every, every_there) > EPSILON
    (best, _), (best_there, _) = attacked(exact=True)
    assert lower_bound(best, best_there) > EPSILON
