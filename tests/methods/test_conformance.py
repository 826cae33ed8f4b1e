"""What every method must pass. A method enters by adding one line to CASES."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import textbook
from testkit.rings import deep_but
from testkit.tables import OPPOSITE, START, TABLE, bent_loss, linear_loss, linear_params, logistic_table

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.engine.opening import open_run
from gossamer.methods import GD, SGD, SVRG, AccMD, Spider, SVRGpp


class Case(NamedTuple):
    method: gs.methods.Method
    reference: object
    """The textbook method without noise and with every record sampled: (X, y, l2, constraint, method) -> params."""
    constraint: object = None
    """The set on which the method works, if it needs one; then the textbook problem has no penalty."""

    @property
    def tolerance(self):
        """The reference is exact, but for the convex solver inside accelerated mirror descent."""
        return 1e-6 if self.constraint is None else 1e-5

    def problem(self, loss=linear_loss, scale=1.0):
        if self.constraint is None:
            return gs.ERM(loss)
        (size,) = dataclasses.fields(self.constraint)
        grown = dataclasses.replace(self.constraint, **{size.name: scale * getattr(self.constraint, size.name)})
        return gs.ERM(loss, constraint=grown)


SHORT = {"steps": 2, "inner_steps": 2, "learning_rate": 0.5, "batch_size": 2}
CASES = {
    "GD": Case(GD(steps=4, learning_rate=0.5), textbook.gradient_descent),
    "GD-average": Case(GD(steps=4, learning_rate=0.5, output="average"), textbook.gradient_descent),
    "GD-smallest": Case(GD(steps=4, learning_rate=0.5, output="smallest_gradient"), textbook.gradient_descent),
    "SGD": Case(SGD(steps=4, learning_rate=0.5, batch_size=2), textbook.gradient_descent),
    "SGD-momentum": Case(SGD(steps=4, learning_rate=0.5, batch_size=2, momentum=0.9), textbook.gradient_descent),
    "SVRG": Case(SVRG(**SHORT), textbook.svrg),
    "SVRG-BB": Case(SVRG(**{**SHORT, "steps": 3}, barzilai_borwein=True), textbook.svrg),
    "SVRGpp": Case(SVRGpp(**{**SHORT, "inner_steps": 1}), textbook.svrg),
    "Spider": Case(Spider(steps=4, period=3, learning_rate=0.5, batch_size=2), textbook.spider),
    "AccMD-L2": Case(AccMD(steps=4), textbook.accelerated_mirror_descent, gs.L2Ball(2.0)),
    "AccMD-L1": Case(AccMD(steps=4), textbook.accelerated_mirror_descent, gs.L1Ball(1.0)),
    "AccMD-simplex": Case(AccMD(steps=4), textbook.accelerated_mirror_descent, gs.Simplex()),
}
BUDGET = gs.Budget(2.0, 1e-2)
HOSTILE = {
    "opposite": OPPOSITE,
    "huge": jnp.array([1e6, -1e6]),
    "beyond float32 squares": jnp.array([1e30, 1e30]),
    "infinite": jnp.array([jnp.inf, 0.0]),
    "not a number": jnp.array([jnp.nan, 0.0]),
    "removed": None,
}


VARIANTS = ("GD-average", "GD-smallest", "SVRG-BB", "AccMD-L2", "AccMD-simplex")
"""They differ from others only in what they make of answers: which one is returned, how far it moves, onto what set."""


AGAIN = (*VARIANTS, "SGD-momentum", "SVRGpp")
"""They ask what others ask."""
RINGS = [
    pytest.param(name, marks=() if name == "SGD" else pytest.mark.deep if name in AGAIN else pytest.mark.slow)
    for name in CASES
]


@pytest.fixture(params=[each for each in RINGS if each.values[0] not in VARIANTS], scope="module")
def case(request):
    return CASES[request.param]


@pytest.fixture(params=[each for each in RINGS if each.values[0] not in AGAIN], scope="module")
def audited(request):
    return CASES[request.param]


@pytest.fixture(params=RINGS, scope="module")
def any_case(request):
    return CASES[request.param]


@pytest.fixture(params=deep_but(["ghost", "vmap"], "ghost"), scope="module")
def backend(request):
    return request.param


def test_replay(case, backend):
    """The method sees records through private answers only."""
    problem = case.problem(bent_loss)
    report = gs.audit.replay(problem, TABLE, 3.0 - TABLE, case.method, BUDGET, init=START, backend=backend)
    assert report, report.differing


@pytest.mark.hostile
@pytest.mark.parametrize("hostile", HOSTILE)
def test_sensitivity(audited, hostile, backend):
    """No record moves a clipped sum by more than the bound that the noise was calibrated for."""
    record = HOSTILE[hostile]
    problem = audited.problem(bent_loss)
    report = gs.audit.sensitivity(problem, TABLE, 0, record, audited.method, BUDGET, init=START, backend=backend)
    assert report, report.worst


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", deep_but(["replace_one", "add_remove"], "replace_one"))
def test_audit(audited, neighbors):
    """The strongest attacker does not beat the certificate, and comes near enough to it to be worth fearing."""
    budget = dataclasses.replace(BUDGET, neighbors=neighbors)
    record = OPPOSITE if neighbors == "replace_one" else None
    problem = audited.problem(bent_loss)
    audit = gs.audit.empirical_epsilon(problem, TABLE, 0, record, audited.method, budget, init=START, runs=8_192)
    assert audit, audit
    assert audit.lower_bound > 0.4 * budget.epsilon


def test_asks_exactly_what_it_scheduled(case):
    planned = gs.plan(case.method, len(TABLE), BUDGET)
    carry = open_run(planned, case.problem(), TABLE, init=START, key=new_key(0)).finish()
    asked = {name: int(count) for name, count in carry.ledger.counts.items()}
    assert asked == {query.name: query.count for query in planned.schedule}


@pytest.mark.parametrize("backend", deep_but(["linear", "ghost"], "linear"))
def test_without_noise_it_is_the_textbook_method(any_case, backend):
    """σ = 0, every record sampled, clip out of the way: equal to a NumPy loop in float64."""
    X, y = logistic_table()
    method = dataclasses.replace(any_case.method, clip=1e3)
    if hasattr(method, "batch_size"):
        method = dataclasses.replace(method, batch_size=len(X))
    problem = any_case.problem(gs.objectives.logistic)
    l2 = 0.0 if any_case.constraint else 0.1
    if l2:
        problem = dataclasses.replace(problem, regularizer=gs.L2(l2))
    budget = gs.Budget(np.inf, 1e-5)
    ours = gs.solve(problem, (X, y), method, budget, init=linear_params(), seed=0, backend=backend).params
    expected = any_case.reference(X, y, l2, any_case.constraint, method)
    np.testing.assert_allclose(ours["weights"], expected[:-1], atol=any_case.tolerance)
    np.testing.assert_allclose(ours["intercept"], expected[-1], atol=any_case.tolerance)


def test_one_seed_gives_one_result(case):
    runs = [gs.solve(case.problem(), TABLE, case.method, BUDGET, init=START, seed=7) for _ in range(2)]
    assert np.asarray(runs[0].params).tobytes() == np.asarray(runs[1].params).tobytes()
    assert runs[0].history["gradient_norm"].tobytes() == runs[1].history["gradient_norm"].tobytes()
    other = gs.solve(case.problem(), TABLE, case.method, BUDGET, init=START, seed=8)
    assert np.asarray(other.params).tobytes() != np.asarray(runs[0].params).tobytes()


def test_a_second_solve_does_not_recompile(case):
    gs.solve(case.problem(), TABLE, case.method, BUDGET, init=START, seed=1)
    compiled = loop.advance._cache_size()
    gs.solve(case.problem(), TABLE + 1.0, case.method, BUDGET, init=START + 0.5, seed=2)
    assert loop.advance._cache_size() == compiled


def test_keys_are_never_reused(case):
    """JAX's own checker follows every key through the compiled loop."""
    with jax.debug_key_reuse(True):
        gs.solve(case.problem(), TABLE, case.method, BUDGET, init=START, seed=3)


@pytest.mark.deep
def test_the_step_is_pure(any_case):
    """The same carry gives the same next carry, whatever was run in between."""
    results = []
    for _ in range(2):
        results.append(gs.solve(any_case.problem(), TABLE, any_case.method, BUDGET, init=START, seed=5).params)
        gs.solve(any_case.problem(), TABLE * 2, any_case.method, BUDGET, init=START + 1, seed=6)
    np.testing.assert_array_equal(results[0], results[1])


def test_scaling_records_and_clip_scales_the_answer(case):
    """Equivariance: gradients and threshold times c move the iterate c times as far, noise included."""
    scaled = dataclasses.replace(case.method, clip=3.0 * case.method.clip)
    one = gs.solve(case.problem(), TABLE, case.method, BUDGET, init=START, seed=4).params
    three = gs.solve(case.problem(scale=3.0), 3.0 * TABLE, scaled, BUDGET, init=START, seed=4).params
    np.testing.assert_allclose(three, 3.0 * one, rtol=1e-4, atol=1e-6)
