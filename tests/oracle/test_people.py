"""A record that is a person: gathering, clipping, and what all rows of one person can do."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import people as kit

import gossamer as gs
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.clipping.linear import LinearLoss
from gossamer.oracle.door import Door, Oracle, Secrets
from gossamer.oracle.lattice import Lattice
from gossamer.oracle.queries import Difference, Gradient, SecondMoments, symmetric
from gossamer.oracle.records import place
from gossamer.privacy.arithmetic import INFLATION
from gossamer.privacy.schedule import Query, Schedule

OTHER = jax.tree.map(lambda leaf: leaf + 0.5, kit.INIT)


def loop_of(people, loss, params, other=None, clip=1.0):
    """Σ clip(∇ of the mean over own rows), person by person and row by row, in float64."""
    total = None
    for first, count in zip(people.first, people.counts, strict=True):
        rows = [jax.tree.map(lambda leaf, j=j: leaf[j], people.rows) for j in range(first, first + count)]
        part = 0.0
        for row in rows:
            gradient = jax.grad(loss)(params, row)
            if other is not None:
                gradient = jax.tree.map(jnp.subtract, gradient, jax.grad(loss)(other, row))
            part = part + np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(gradient)])
        part = part / (count if people.weights == "mean" else people.cap)
        part = part * min(1.0, clip / np.linalg.norm(part))
        total = part if total is None else total + part
    return total


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("weights", ["mean", "rows"])
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
def test_clipped_sums_of_ragged_persons_are_those_of_a_loop(backend, weights):
    people = gs.by_person(*kit.ragged(6, most=4), rows=3, weights=weights)
    loss = gs.objectives.logistic
    for h, other in (
        (Gradient(people.lifted(loss), kit.INIT), None),
        (Difference(people.lifted(loss), kit.INIT, OTHER), OTHER),
    ):
        expected = loop_of(people, loss, kit.INIT, other, clip=0.2)
        found = clip_and_sum(h, people.gathered(), jnp.ones(6, bool), 0.2, backend)
        np.testing.assert_allclose(np.concatenate([np.ravel(x) for x in jax.tree.leaves(found)]), expected, rtol=2e-5)


@pytest.mark.slow
def test_several_scores_have_blocks_too():
    (rows, _), ids = kit.ragged(6, most=4)
    people = gs.by_person((rows, np.arange(len(ids), dtype=np.int32) % 3), ids, rows=3)
    params = {"weights": jnp.linspace(-1, 1, 9).reshape(3, 3), "intercept": jnp.zeros(3)}
    h = Gradient(people.lifted(gs.objectives.softmax), params)
    sums = [clip_and_sum(h, people.gathered(), jnp.ones(6, bool), 0.2, b) for b in ("linear", "vmap")]
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), *sums)


@pytest.mark.slow
def test_a_copy_that_fills_up_adds_nothing_even_where_zeros_would_be_fatal():
    reciprocal = LinearLoss(lambda score, target: score / target)
    (rows, targets), ids = kit.ragged(6, most=4)
    people = gs.by_person((rows, targets + 1), ids, rows=4)
    expected = loop_of(people, reciprocal, kit.INIT)
    for backend in ("linear", "vmap"):
        h = Gradient(people.lifted(reciprocal), kit.INIT)
        found = clip_and_sum(h, people.gathered(), jnp.ones(6, bool), 1.0, backend)
        np.testing.assert_allclose(np.concatenate([np.ravel(x) for x in jax.tree.leaves(found)]), expected, rtol=1e-5)


@pytest.mark.slow(each=True)
@pytest.mark.hostile
@pytest.mark.parametrize("backend", ["linear", "ghost", "vmap"])
def test_all_rows_of_a_person_move_an_exact_sum_by_two_thresholds_at_most(backend):
    (rows, targets), ids = kit.ragged()
    people = gs.by_person((rows, targets), ids, rows=kit.CAP).with_room()
    lattice = Lattice(26)

    @jax.jit
    def points(people):
        h = Gradient(people.lifted(gs.objectives.logistic), kit.INIT)
        total = clip_and_sum(h, people.gathered(), jnp.ones(people.n, bool), 0.5, backend, lattice=lattice)
        return [lattice.in_thresholds(leaf) for leaf in jax.tree.leaves(total)]

    def vector(people):
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in points(people)])

    tables = {"as it is": people}
    for count in (1, kit.CAP):
        tables |= {f"{name}, {count}": people.replaced(3, rows) for name, rows in kit.hostile(count).items()}
    sums = {name: vector(table) for name, table in tables.items()}
    assert all(np.isfinite(each).all() for each in sums.values())
    worst = max(np.linalg.norm(a - b) for a in sums.values() for b in sums.values())
    assert worst <= 2 * (1 + INFLATION)
    assert worst > 1.9  # the two opposite persons do what is allowed


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("weights", ["mean", "rows"])
def test_second_moments_of_ragged_persons_are_those_of_a_loop(weights):
    people = gs.by_person(*kit.ragged(6, most=4), rows=3, weights=weights)
    expected = np.zeros((3, 3))
    for first, count in zip(people.first, people.counts, strict=True):
        rows = np.asarray(people.rows[0][first : first + count], np.float64)
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        expected += units.T @ units / (count if weights == "mean" else 3)
    for diagonal in (False, True):
        h = SecondMoments(lambda row: row[0], diagonal, people.weights)
        found = clip_and_sum(h, people.gathered(), jnp.ones(6, bool), 1.0)
        np.testing.assert_allclose(
            found if diagonal else symmetric(found, 3), np.diag(expected) if diagonal else expected, rtol=1e-5
        )


@pytest.mark.hostile
@pytest.mark.parametrize("diagonal", [False, True])
def test_all_rows_of_a_person_move_exact_second_moments_by_the_root_of_two_at_most(diagonal):
    people = gs.by_person(*kit.ragged(), rows=kit.CAP).with_room()
    lattice = Lattice(26)

    @jax.jit
    def points(people):
        h = SecondMoments(lambda row: jnp.append(row[0], 0.25), diagonal)
        total = clip_and_sum(h, people.gathered(), jnp.ones(people.n, bool), 1.0, lattice=lattice)
        return lattice.in_thresholds(total)

    axes = {
        f"along {axis}": (np.tile(1e3 * np.eye(3, dtype=np.float32)[axis], (kit.CAP, 1)), np.zeros(kit.CAP, "f4"))
        for axis in range(3)
    }
    spread = {"all ways": (1e3 * np.eye(3, dtype=np.float32)[np.arange(kit.CAP) % 3], np.zeros(kit.CAP, "f4"))}
    tables = {"as it is": people}
    for name, rows in {**kit.hostile(kit.CAP), **kit.hostile(1), **axes, **spread}.items():
        tables[name] = people.replaced(3, rows)
    sums = [np.asarray(points(table), np.float64) for table in tables.values()]
    assert all(np.isfinite(each).all() for each in sums)
    worst = max(np.linalg.norm(a - b) for a in sums for b in sums)
    assert 1.41 < worst <= np.sqrt(2) * (1 + INFLATION)


def fewer_rows(ids, person, keep):
    """Return which rows are left of a table in which a person has so few."""
    own = np.flatnonzero(ids == person)
    return np.setdiff1d(np.arange(len(ids)), own[keep:])


def a_cap_from_the_data(table, ids):
    return gs.by_person(table, ids, rows=int(np.bincount(ids).max()), weights="rows")


def a_shuffle_of_the_whole_table(table, ids):
    order = np.random.default_rng(0).permutation(len(ids))
    return gs.by_person(tuple(leaf[order] for leaf in table), ids[order], rows=3, weights="rows")


def a_public_cap_and_own_order(table, ids):
    return gs.by_person(table, ids, rows=3, weights="rows")


@pytest.mark.parametrize(
    ("make", "sound"),
    [(a_public_cap_and_own_order, True), (a_cap_from_the_data, False), (a_shuffle_of_the_whole_table, False)],
)
def test_how_many_rows_one_person_has_changes_nothing_about_the_others(make, sound):
    table, ids = kit.ragged(kit.CAP)  # one to ten rows
    left = fewer_rows(ids, kit.CAP - 1, keep=1)
    here, there = make(table, ids), make(tuple(leaf[left] for leaf in table), ids[left])
    others = [
        np.concatenate([np.ravel(leaf[:-1].sum(axis=1)) for leaf in jax.tree.leaves(weighted(each))])
        for each in (here, there)
    ]
    assert np.array_equal(*others) == sound


def weighted(people):
    """Return every person's rows, times their weights."""
    persons = people.gathered()
    weights = np.asarray(people.lifted(gs.objectives.logistic).of_rows(persons))
    return jax.tree.map(lambda leaf: leaf * weights.reshape(*weights.shape, *(1,) * (leaf.ndim - 2)), persons.rows)


@pytest.mark.slow
def test_a_person_spelled_twice_is_one_record_and_would_be_two():
    (rows, targets), ids = kit.ragged(8)
    names = [f"{i}.0" if j % 2 else f" {i}" for j, i in enumerate(ids)]
    whose = ids == 7
    away, back = kit.hostile(int(whose.sum()))["one way"], kit.hostile(int(whose.sum()))["the opposite way"]

    def table(of_person):
        changed = rows.copy(), targets.copy()
        for leaf, new in zip(changed, of_person, strict=True):
            leaf[whose] = new
        return changed

    def by_spelling(table, names):
        return gs.by_person(table, [name.encode().hex() + "x" for name in names], rows=kit.CAP)

    honest = kit.distance(*(gs.by_person(table(each), names, rows=kit.CAP) for each in (away, back)))
    naive = kit.distance(*(by_spelling(table(each), names) for each in (away, back)))
    assert 1.9 < honest <= 2 * (1 + 1e-6) < 3.9 < naive


def test_persons_are_gathered_by_their_own_rows_in_their_own_order():
    table, ids = kit.ragged(7, most=5)
    people = gs.by_person(table, ids, rows=3)
    persons = people.gathered()
    for person in range(7):
        own = np.flatnonzero(ids == person)[:3]
        assert persons.present[person].tolist() == [True] * len(own) + [False] * (3 - len(own))
        np.testing.assert_array_equal(persons.rows[0][person][: len(own)], table[0][own])
        np.testing.assert_array_equal(persons.rows[0][person][len(own) :], table[0][own[[0] * (3 - len(own))]])
    assert len(jax.tree.leaves(people.rows)[0]) == np.minimum(np.bincount(ids), 3).sum()  # flat


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("shards", [1, 4])
def test_in_tiles_or_at_once_persons_are_the_same(shards, monkeypatch):
    people = gs.by_person(*kit.ragged(300), rows=4)

    def seen():
        records = place(people, count=shards)
        door = Door(300, Schedule((Query("all", count=1),)), (), cut=records.shards)
        oracle = Oracle(door, Secrets(records.data, {}, jax.random.key(0), jnp.zeros(0, jnp.int32)))
        places = jnp.arange(records.shards.rows)
        masks = jnp.stack([places < records.shards.size(k) for k in range(shards)])

        def total(persons, mask):
            present = persons.present & mask[:, None]
            return jnp.sum(jnp.where(present, persons.rows[0][..., 0], 0.0).astype(jnp.int32)), jnp.sum(present)

        def one(shard, mask):
            return records.shards.in_tiles(lambda start: oracle._tile(shard, start), mask, total)

        return records.shards.tile, jax.tree.map(int, records.shards.each(one, masks[0] if shards == 1 else masks))

    people = people.of_rows(lambda rows: (np.round(1000 * rows[0]), rows[1]))
    tile, whole = seen()
    monkeypatch.setattr("gossamer.oracle.stored.PERSONS_BYTES", 1)
    smaller, parts = seen()
    assert smaller == 64 < tile
    assert parts == whole == (int(people.rows[0][:, 0].sum()), int(people.counts.sum()))


def test_the_number_of_rows_is_in_no_words():
    (rows, targets), ids = kit.ragged(9, most=7)
    people = gs.by_person((rows, targets), ids, rows=3)
    assert str(len(ids)) not in repr(people) + str(people) and "9 persons" in repr(people)
    with pytest.raises(ValueError, match="differ in length") as refused:
        gs.by_person((rows, targets), ids[1:])
    assert not re.search(r"\d", str(refused.value))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 0}, "rows = 0 must be a whole number of at least 1"),
        ({"rows": 2.5}, "rows = 2.5 must be a whole number"),
        ({"weights": "sum"}, "weights = 'sum' must be one of 'mean', 'rows'"),
        ({"missing": "drop"}, "missing = 'drop' must be one of 'refuse', 'own'"),
        ({"ids": [1, None, 1, 2]}, "some rows have no id"),
        ({"data": ()}, "data must be a pytree of arrays"),
    ],
)
def test_what_makes_no_persons_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        gs.by_person(**{"data": np.ones(4), "ids": [1, 1, 2, 2], **change})


def test_missing_ids_are_persons_of_their_own_if_that_is_declared():
    people = gs.by_person(np.arange(5.0), [2, None, 1, float("nan"), 2], missing="own")
    assert people.n == 4
    assert people.gathered().rows[:, 0].tolist() == [2.0, 0.0, 1.0, 3.0]
    assert people.unit.ids == "normalised, missing ones apart"


def test_a_loss_that_closes_over_the_rows_is_refused():
    (rows, targets), ids = kit.ragged(8)
    problem = gs.ERM(lambda params, row: jnp.sum(params["weights"] * row[0]) + jnp.mean(jnp.asarray(rows)))
    with pytest.raises(ValueError, match="as many rows as the table"):
        gs.solve(
            problem, gs.by_person((rows, targets), ids), gs.methods.GD(steps=1), gs.Budget(1.0, 1e-3), init=kit.INIT
        )
