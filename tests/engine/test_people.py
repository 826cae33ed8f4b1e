"""`gs.solve` on persons: rows are not public, one row each is the row unit, and it does not matter where rows are."""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from testkit import people as kit

import gossamer as gs
from gossamer.engine.shares import share_stage
from gossamer.engine.stages import Posed, Stage, solve_stages
from gossamer.methods import GD, SGD
from gossamer.privacy.stages import TRAINING

PROBLEM = gs.ERM(gs.objectives.logistic)
BUDGET = gs.Budget(2.0, 1e-4)


def solve(data, method, budget=BUDGET, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.WeakGuaranteeWarning)
        return gs.solve(PROBLEM, data, method, budget, init=kit.INIT, seed=0, progress=False, **options)


def same(one, other):
    return all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.deep
@pytest.mark.parametrize("method", [SGD(steps=4, batch_size=20), GD(steps=4)])
def test_one_row_each_is_the_row_unit_bit_for_bit(method):
    rng = np.random.default_rng(0)
    ids, rows = rng.permutation(70), rng.normal(size=(70, 3)).astype(np.float32)
    table = rows, (rows[:, 0] > 0).astype(np.float32)
    in_order = tuple(leaf[np.argsort(ids)] for leaf in table)
    by_rows = solve(in_order, method)
    assert same(by_rows.params, solve(gs.by_person(table, ids, rows=1), method).params)
    # With room for more the same vectors are measured in another way: the last digits may differ.
    roomy = solve(gs.by_person(table, ids, rows=3), method)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), by_rows.params, roomy.params)
    assert by_rows.certificate.schedule == roomy.certificate.schedule
    assert (by_rows.certificate.unit.name, roomy.certificate.unit.name) == ("row", "person")
    # Nor does anything that is published tell how many rows there are.
    several = gs.by_person(tuple(np.repeat(leaf, 2, axis=0) for leaf in table), np.repeat(ids, 2), rows=3)
    assert solve(several, method).certificate.to_json() == roomy.certificate.to_json()


def on_disk(folder, table):
    """Return the arrays of a table as files that are mapped."""
    files = []
    for number, leaf in enumerate(table):
        np.save(folder / f"{number}.npy", leaf)
        files.append(np.load(folder / f"{number}.npy", mmap_mode="r"))
    return tuple(files)


@pytest.mark.deep
@pytest.mark.parametrize("method", [SGD(steps=3, batch_size=8), GD(steps=3)])
def test_persons_on_disk_are_those_in_memory(tmp_path, method, monkeypatch):
    monkeypatch.setattr("gossamer.oracle.stored.SMALL_BYTES", 0)
    monkeypatch.setattr("gossamer.oracle.stored.PERSONS_BYTES", 1)  # two tiles
    table, ids = kit.ragged(70)
    stored = gs.by_person(on_disk(tmp_path, table), ids, rows=4)
    assert isinstance(stored.rows[0], np.memmap)
    assert same(solve(stored, method).params, solve(gs.by_person(table, ids, rows=4), method).params)


@pytest.mark.deep
@pytest.mark.parametrize("method", [SGD(steps=3, batch_size=20), GD(steps=3), gs.methods.Whitened(steps=3)])
def test_persons_have_the_same_bits_on_any_number_of_devices_and_from_disk(tmp_path, method, monkeypatch):
    monkeypatch.setattr("gossamer.oracle.stored.SMALL_BYTES", 0)
    monkeypatch.setattr("gossamer.oracle.stored.PERSONS_BYTES", 1)
    table, ids = kit.ragged(301)  # shards of different sizes, each of two tiles
    people = gs.by_person(table, ids, rows=4)
    one, three = (Mesh(jax.devices()[:k], ("records",)) for k in (1, 3))
    alone = solve(people, method, shards=3)
    assert not same(alone.params, solve(people, method).params)  # other sums, at least
    assert same(alone.params, solve(people, method, shards=3, mesh=one).params)
    assert same(alone.params, solve(people, method, mesh=three).params)
    stored = gs.by_person(on_disk(tmp_path, table), ids, rows=4)
    assert same(alone.params, solve(stored, method, shards=3).params)
    assert same(alone.params, solve(stored, method, mesh=three).params)


@pytest.mark.deep
def test_persons_over_a_mesh_are_those_of_one_device():
    mesh = Mesh(jax.devices()[:3], ("records",))
    people, exact = gs.by_person(*kit.ragged(25), rows=4), gs.Budget(math.inf, 1e-4)
    here, there = solve(people, GD(steps=3), exact), solve(people, GD(steps=3), exact, mesh=mesh)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), here.params, there.params)
    sampled = solve(people, SGD(steps=3, batch_size=25), exact, mesh=mesh)  # everybody, in slots
    full = solve(people, SGD(steps=3, batch_size=25), exact)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), full.params, sampled.params)


@pytest.mark.slow
def test_whitened_descent_counts_each_person_once():
    """Without noise: twice as many rows of everybody are the same table, and of one person alone they are another."""
    (rows, targets), ids = kit.ragged(40, most=3)
    exact, method = gs.Budget(math.inf, 1e-4), gs.methods.Whitened(steps=8)

    def found(times):
        table = np.repeat(rows, times, axis=0), np.repeat(targets, times)
        return solve(gs.by_person(table, np.repeat(ids, times), rows=6), method, exact)

    once = found(1)
    for times, alike in ((2, True), (np.where(np.arange(len(ids)) % 2, 2, 1), False)):
        again = found(times)
        close = jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-3, atol=1e-4), once.params, again.params)
        assert all(jax.tree.leaves(close)) == alike
    assert (once.certificate.n, once.certificate.unit.name, once.certificate.method) == (40, "person", "Whitened")


@pytest.mark.slow
def test_stages_of_one_run_have_one_unit():
    (rows, targets), ids = kit.ragged(12, most=2)
    people = gs.by_person((rows, targets), ids)
    members = (np.bincount(ids, targets) > 0).astype(np.int32)  # one for each person, but as rows
    stages = (
        share_stage("shares", members, 2),
        Stage(TRAINING, GD(steps=1), 0.95, lambda answers: Posed(PROBLEM, people, kit.INIT, GD(steps=1))),
    )
    with pytest.raises(ValueError, match="another unit of privacy"):
        solve_stages(stages, 12, gs.Budget(2.0, 1e-2), seed=0, progress=False)


@pytest.mark.deep
def test_games_and_worst_cases_are_about_persons():
    (rows, targets), ids = kit.ragged(12)
    people = gs.by_person((rows, targets, (rows[:, 1] > 0).astype(np.int32)), ids, rows=4)
    problem = gs.GroupDRO(gs.objectives.logistic, groups=2, strong_concavity=1.0, loss_bound=2.0)
    for ascent in ("gradient", "best_response"):
        method = gs.methods.SGDA(steps=2, batch_size=6, ascent=ascent)
        with pytest.warns(gs.WeakGuaranteeWarning):
            found = gs.solve(problem, people, method, gs.Budget(2.0, 0.1), init=(kit.INIT, jnp.full(2, 0.5)), seed=0)
        assert (found.certificate.n, found.certificate.unit.name) == (12, "person")
    robust = gs.DRO(gs.objectives.logistic, gs.KL(), penalty=1.0)
    method = gs.methods.DoubleSpider(steps=2, batch_size=12)
    found = gs.solve(robust, people.of_rows(lambda t: t[:2]), method, gs.Budget(2.0, 1e-2), init=kit.INIT, seed=0)
    assert found.certificate.problem["loss"]["kind"] == "PersonLoss"


@pytest.mark.slow
def test_diagnostics_look_at_persons():
    people = gs.by_person(*kit.ragged(12), rows=4)
    looked = solve(people, GD(steps=2), diagnostics=True)
    persons = people.gathered()
    loss = people.lifted(gs.objectives.logistic)
    exact = np.mean([loss(looked.params, people.person(i)) for i in range(12)])
    assert looked.diagnostics["objective"][-1] == pytest.approx(exact, rel=1e-5)
    assert persons.present.shape == (12, 4)


@pytest.mark.parametrize("release", [gs.methods.output_perturbation, gs.methods.objective_perturbation])
def test_methods_whose_proof_is_about_rows_refuse_persons(release):
    problem = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(1.0))
    with pytest.raises(TypeError, match="by persons"):
        release(problem, gs.by_person(*kit.ragged(12)), BUDGET, row_norm=1.0)


def test_a_python_function_of_a_batch_is_refused():
    problem = gs.BlackBox(lambda params, records: records[0].sum(axis=1), python=True, version="1")
    with pytest.raises(ValueError, match="which rows are one person's"):
        problem.by_person(gs.by_person(*kit.ragged(12)))


def test_a_loss_that_does_not_fit_a_row_is_told_about_rows():
    problem = gs.ERM(lambda params, row: jnp.dot(params["weights"], row[0][:2]))
    with pytest.raises(ValueError, match=r"float32\[3\]"):
        gs.solve(problem, gs.by_person(*kit.ragged(12)), GD(steps=1), BUDGET, init=kit.INIT)
