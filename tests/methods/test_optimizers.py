"""Any optax optimiser may make the public update: what it is handed, how it is shown, and that it stays private."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from testkit.tables import linear_params, logistic_table

import gossamer as gs
from gossamer.methods import GD, SGD

KINDS = {"GD": GD(steps=20, learning_rate=0.3), "SGD": SGD(steps=20, learning_rate=0.3, batch_size=16)}
BUDGET = gs.Budget(2.0, 1e-3)


def trained(method, budget=BUDGET):
    problem = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(0.1), constraint=gs.L2Ball(1.0))
    return gs.solve(problem, logistic_table(), method, budget, init=linear_params(), seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_plain_sgd_of_optax_is_the_methods_own_update(kind):
    """Penalty and constraint included: prox follows either."""
    own, theirs = trained(KINDS[kind]), trained(dataclasses.replace(KINDS[kind], optimizer=optax.sgd(0.3)))
    for a, b in zip(jax.tree.leaves(own.params), jax.tree.leaves(theirs.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
def test_adam_trains_and_its_certificate_names_it():
    problem, (X, y) = gs.ERM(gs.objectives.logistic), logistic_table()
    method = GD(steps=60, optimizer=optax.adam(0.1))
    budget = gs.Budget(np.inf, 1e-2)
    result = gs.solve(problem, (X, y), method, budget, init=linear_params(), seed=3)
    start, end = (float(problem.objective(params, (X, y))) for params in (linear_params(), result.params))
    descent = gs.solve(problem, (X, y), GD(steps=60, learning_rate=0.1), budget, init=linear_params(), seed=3)
    assert end < start - 0.05
    assert not np.allclose(result.params["weights"], descent.params["weights"], atol=1e-2)
    assert result.certificate.configuration["optimizer"].startswith("scale_by_adam, ")
    assert gs.Certificate.from_json(result.certificate.to_json()) == result.certificate


@pytest.mark.deep
def test_adam_is_post_processing():
    """Answers that are replayed on other records give the same memory and the same iterate, bit for bit."""
    linear = gs.ERM(lambda x, record: -(record @ x))
    method = SGD(steps=3, batch_size=8, optimizer=optax.adam(0.1))
    only = ("settings", "asks", "replay")
    report = gs.audit.conformance(method, linear, jnp.eye(8), init=jnp.zeros(8), only=only)
    assert report, str(report)


def test_none_is_not_mentioned_and_another_is():
    """Runs that were stored by their configuration are found again."""
    assert repr(GD()) == "GD(steps=100, learning_rate=1.0, clip=1.0, output='last')"
    assert repr(SGD(optimizer=optax.chain(optax.clip(1.0), optax.rmsprop(0.1)))).endswith(
        "momentum=0.0, output='last', optimizer='clip, scale_by_rms, scale, identity')"
    )
    assert GD(optimizer=optax.sgd(0.1)) != GD() and hash(GD()) == hash(GD(optimizer=None))


def test_what_is_no_optimiser_is_refused():
    with pytest.raises(ValueError, match="optimizer = function must be a GradientTransformation, or None"):
        GD(optimizer=optax.adam)
    with pytest.raises(ValueError, match=r"momentum = 0\.9 does not go with an optimizer"):
        SGD(momentum=0.9, optimizer=optax.adam(0.1))
