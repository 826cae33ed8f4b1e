"""The checker: its accountant against dp-accounting, its exit codes, and that it needs nothing of ours."""

import ast
import dataclasses
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution as pld
from testkit import pages
from testkit.rings import deep_but

import gossamer as gs
import gossamer_verify
from gossamer.base.leak import Leak
from gossamer.privacy.accounting import calibrate
from gossamer.privacy.certificate import certify
from gossamer_verify import Cost, check, epsilon_of

RELATIONS = {
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}
GRID = {
    "full": [Cost(1.0, 3.0, 1)],
    "full, little noise": [Cost(1.0, 0.6, 1)],
    "many full passes": [Cost(1.0, 90.0, 400)],
    "sampled": [Cost(0.05, 1.1, 60)],
    "rarely sampled": [Cost(0.01, 0.9, 300)],
    "often sampled": [Cost(0.6, 8.0, 40)],
    "one sampled": [Cost(0.02, 0.7, 1)],
    "mixed": [Cost(0.05, 1.5, 100), Cost(1.0, 6.0, 2)],
    "two rates": [Cost(0.02, 1.2, 100), Cost(0.2, 6.0, 30)],
}


def outside_epsilon(costs, delta, neighbors):
    """ε by dp-accounting alone, on a grid that is finer the more is composed."""
    interval = 1e-4 if sum(cost.count for cost in costs) < 50 else 3e-5
    total = pld.identity(interval)
    for cost in costs:
        one = pld.from_gaussian_mechanism(
            standard_deviation=cost.sigma,
            sampling_prob=cost.rate,
            value_discretization_interval=interval,
            neighboring_relation=RELATIONS[neighbors],
        )
        total = total.compose(one.self_compose(cost.count))
    return total.get_epsilon_for_delta(delta)


def wrong_by_two(costs, delta, neighbors):
    """The control: it knows no factor 2 where a record is replaced, and doubles it where one is removed."""
    factor = 2.0 if neighbors == "replace_one" else 0.5
    return epsilon_of([cost._replace(sigma=cost.sigma * factor) for cost in costs], delta, neighbors)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", deep_but(GRID, "full", "often sampled"))
def test_it_agrees_with_dp_accounting_to_a_thousandth_and_a_factor_of_two_is_noticed(name, neighbors):
    costs = GRID[name]
    expected = outside_epsilon(costs, 1e-6, neighbors)
    assert epsilon_of(costs, 1e-6, neighbors) == pytest.approx(expected, rel=1e-3)
    assert wrong_by_two(costs, 1e-6, neighbors) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("replace_one", 2.0), ("add_remove", 1.0)])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 20.0])
def test_it_is_exact_for_full_passes(epsilon, neighbors, sensitivity):
    """Balle and Wang's closed form."""
    sigma = sensitivity * gaussian_mechanism.get_sigma_gaussian(epsilon, 1e-7)
    assert epsilon_of([Cost(1.0, sigma, 1)], 1e-7, neighbors) == pytest.approx(epsilon, rel=1e-5)


MILLIONS = {  # ε by the contour integral of gossamer.privacy.saddle_point, which shares no code with the checker
    Cost(1e-3, 8.4534, 10**6): {"replace_one": 0.999494, "add_remove": 0.476889},
    Cost(1e-5, 0.5, 10**6): {"replace_one": 0.942709, "add_remove": 0.926648},
}


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("cost", MILLIONS)
def test_a_million_queries_take_less_than_a_second(cost, neighbors):
    begun = time.process_time()
    found = epsilon_of([cost], 1e-6, neighbors)
    assert time.process_time() - begun < 1.0
    assert found == pytest.approx(MILLIONS[cost][neighbors], rel=2e-5)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_tiny_losses_beside_rare_large_ones(neighbors, monkeypatch):
    """A bulk and a far tail, where one Rényi order bounds ε badly, and where rounding to two points is not enough.

    There is no closed form. But ten points in place of six, on a grid eight times as fine, must find the same.
    """
    costs, delta = [Cost(1e-5, 0.9, 10**6)], 1e-9
    begun = time.process_time()
    found = epsilon_of(costs, delta, neighbors)
    assert time.process_time() - begun < 1.0
    monkeypatch.setattr(gossamer_verify, "NEAREST", tuple(range(-4, 6)))
    monkeypatch.setattr(gossamer_verify, "FEWEST_BITS", 19)
    assert epsilon_of(costs, delta, neighbors) == pytest.approx(found, rel=5e-4)
    monkeypatch.setattr(gossamer_verify, "NEAREST", (0, 1))
    monkeypatch.setattr(gossamer_verify, "FEWEST_BITS", 14)
    assert epsilon_of(costs, delta, neighbors) > 1.001 * found


def of(planned, problem=None):
    return certify(planned, problem or gs.ERM(gs.objectives.logistic), None, False)


def sampled(neighbors="replace_one"):
    return of(gs.plan(gs.methods.SGD(steps=50, batch_size=16), 640, gs.Budget(1.0, 1e-4, neighbors)))


def perturbed(neighbors="replace_one"):
    problem = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(0.1))
    data = (np.ones((200, 2)), np.ones(200))
    budget = gs.Budget(1.0, 1e-5, neighbors)
    return gs.methods.objective_perturbation(problem, data, budget, row_norm=1.0, seed=0).certificate


def outcome(certificate, folder, **changes):
    path = folder / "certificate.json"
    path.write_text(json.dumps({**json.loads(certificate.to_json()), **changes}), encoding="utf-8")
    return check(path)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("make", [sampled, lambda neighbors: pages.certificate(neighbors=neighbors)])
def test_a_true_certificate_holds_and_both_checkers_find_the_same(make, neighbors, tmp_path):
    certificate = make(neighbors)
    found = outcome(certificate, tmp_path)
    assert found.code == 0 and not found.notes
    assert found.epsilon == pytest.approx(certificate.verify().epsilon, rel=1e-3)
    assert found.epsilon <= certificate.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_perturbed_objective(neighbors, tmp_path):
    certificate = perturbed(neighbors)
    found = outcome(certificate, tmp_path)
    assert found.code == 0
    assert found.epsilon == pytest.approx(certificate.verify().epsilon, rel=1e-3)
    rows = json.loads(certificate.to_json())["schedule"]
    rows[0]["sampling"]["jacobian"] /= 2
    assert outcome(certificate, tmp_path, schedule=rows).code == 3


def test_what_was_bought_has_its_share(tmp_path):
    from gossamer.privacy.stages import TRAINING, Part, Stages

    stages = Stages((Part("share", gs.methods.GD(steps=1), 0.05), Part(TRAINING, gs.methods.GD(steps=9), 0.95)))
    planned = gs.plan(stages, 500, gs.Budget(1.0, 1e-5))
    certificate = certify(planned, gs.ERM(gs.objectives.logistic), None, False, purchases=stages.purchases(500))
    assert outcome(certificate, tmp_path).code == 0
    purchases = json.loads(certificate.to_json())["purchases"]
    (wrong,) = outcome(certificate, tmp_path, purchases=[{**purchases[0], "share": 0.04}]).wrong
    assert "share = 0.04 is stated" in wrong
    assert outcome(certificate, tmp_path, purchases=[{**purchases[0], "queries": ["nobody"]}]).code == 3


def test_disjoint_blocks_cost_one_answer(tmp_path):
    schedule = gs.Schedule((gs.Query("a", 3, gs.Blocks(100)), gs.Query("b", 2, gs.Blocks(50))))

    calibrated = calibrate(schedule, gs.Budget(1.0, 1e-5), 500)
    certificate = dataclasses.replace(pages.certificate(), schedule=calibrated, n=500)
    found = outcome(certificate, tmp_path)
    assert found.code == 0 and found.epsilon == pytest.approx(1.0, rel=2e-3)
    assert outcome(certificate, tmp_path, n=399).code == 3
    assert outcome(certificate, tmp_path, neighbors="add_remove").code == 3


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_acute_angles_and_discoveries_cost_what_verify_says(neighbors, tmp_path):
    """Counts cost √2 thresholds where a record is replaced; with the angle taken away the same noise is too little."""
    from gossamer.privacy.accounting import capacities
    from gossamer.privacy.discovery import Discovery

    budget = gs.Budget(1.0, 1e-5, neighbors)
    queries = gs.Query("counts", 2, acute=True), gs.Query("values", 1, Discovery.within(budget, 3)), gs.Query("g", 5)
    schedule = calibrate(gs.Schedule(queries), budget, 500)
    _, lost = capacities(schedule, 500, budget)
    certificate = dataclasses.replace(
        pages.certificate(neighbors=neighbors), schedule=schedule, n=500, truncation_delta=lost
    )
    found = outcome(certificate, tmp_path)
    assert found.code == 0 and found.epsilon == pytest.approx(certificate.verify().epsilon, rel=1e-3)
    rows = json.loads(certificate.to_json())["schedule"]
    blunt = outcome(certificate, tmp_path, schedule=[{**row, "acute": False} for row in rows])
    assert blunt.code == (1 if neighbors == "replace_one" else 0)
    lower = [{**row, "sampling": {**row["sampling"], **changed_threshold(row)}} for row in rows]
    assert "truncation_delta" in str(outcome(certificate, tmp_path, schedule=lower).wrong)


def changed_threshold(row):
    return {"threshold": row["sampling"]["threshold"] - 1} if row["name"] == "values" else {}


LIES = {
    "epsilon": 0.9,
    "delta": 1e-5,
    "truncation_delta": 1e-12,
    "neighbors": None,
    "capacities": {"gradient": 20},
}


@pytest.mark.parametrize("field", [*LIES, "noise_multiplier", "count", "rate"])
def test_a_false_number_is_named(field, tmp_path):
    certificate = sampled("add_remove")
    changes = {field: LIES[field]} if field in LIES else {"schedule": json.loads(certificate.to_json())["schedule"]}
    if field == "neighbors":
        changes["neighbors"] = "replace_one"
    if field == "noise_multiplier":
        changes["schedule"][0][field] *= 0.98
    if field == "count":
        changes["schedule"][0][field] = 55
    if field == "rate":
        changes["schedule"][0]["sampling"]["rate"] *= 1.05
    found = outcome(certificate, tmp_path, **changes)
    assert found.code == 1
    assert any(("truncation_delta" if field == "capacities" else "") in wrong for wrong in found.wrong)


def test_noise_of_zero_is_no_privacy(tmp_path):
    rows = json.loads(pages.certificate().to_json())["schedule"]
    rows[0]["noise_multiplier"] = 0
    found = outcome(pages.certificate(), tmp_path, schedule=rows)
    assert found.code == 1 and found.epsilon == math.inf


def test_assumptions_that_are_not_met_are_named(tmp_path):
    certificate = dataclasses.replace(
        pages.certificate(), leaks=(Leak("data_norm", "the largest row norm", "argument"),)
    )
    found = outcome(certificate, tmp_path)
    assert found.code == 2
    assert found.not_met == ["argument 'data_norm': the largest row norm was read from the records"]


def test_whatever_is_not_known_here_is_refused(tmp_path):
    """Fields, kinds of queries, units and words of a later version: none is passed over."""
    content = json.loads(sampled().to_json())
    query = content["schedule"][0]
    changes = [
        {"extra": 1},
        {"format": 3},
        {"unit": {"name": "family"}},
        {"unit": {"name": "row", "rows": 3}},
        {"covers": "most"},
        {"selection": {"trials": 10}},
        {"neighbors": "swap"},
        {"n": True},
        {"n": 640.0},
        {"delta": "1e-5"},
        {"leaks": [{"name": "a", "what": "b", "where": "elsewhere"}]},
        {"purchases": [{"name": "a", "queries": ["gradient"], "share": 0.1, "after": False, "apart": [0.1, 1e-6]}]},
        {"schedule": []},
        {"schedule": [query, query]},
        {"schedule": [{**query, "sensitivity": 0.1}]},
        {"schedule": [{**query, "sampling": {"kind": "shuffled", "rate": 0.1}}]},
        {"schedule": [{**query, "sampling": {**query["sampling"], "twice": True}}]},
        {"schedule": [{**query, "count": 0}]},
        {"capacities": {}},
        {"capacities": {"gradient": 640, "other": 640}},
    ]
    for change in changes:
        found = outcome(sampled(), tmp_path, **change)
        assert found.code == 3, change
    person = {"name": "person", "column": "patient", "ids": "normalised", "rows": 10}
    assert outcome(sampled(), tmp_path, unit=person).code == 0
    missing = {name: value for name, value in content.items() if name != "leaks"}
    (tmp_path / "c.json").write_text(json.dumps(missing))
    assert "['leaks']" in check(tmp_path / "c.json").damaged[0]
    (tmp_path / "c.json").write_text(json.dumps(content)[:-1] + ', "epsilon": 0.1}')
    assert "twice" in check(tmp_path / "c.json").damaged[0]
    assert check(tmp_path / "nothing.json").code == 3


SOURCE = Path(gossamer_verify.__file__)


def test_it_is_short_and_imports_nothing_of_ours():
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 500
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names - set(sys.stdlib_module_names) == {"numpy", "scipy", "cryptography"}


@pytest.mark.slow
def test_it_runs_without_jax_and_gossamer(tmp_path):
    """A copy of the file runs in a process in which both are forbidden."""
    (tmp_path / "checker.py").write_bytes(SOURCE.read_bytes())
    (tmp_path / "certificate.json").write_text(sampled().to_json())
    run = (
        "import sys\n"
        "class Forbidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('jax', 'jaxlib', 'gossamer', 'dp_accounting', 'equinox'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Forbidden())\n"
        "import runpy; sys.argv = ['checker.py', 'certificate.json', '--json']\n"
        "runpy.run_path('checker.py', run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["epsilon"] == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize(("arguments", "code"), [(["missing.json"], 3), ([], 3), (["--what"], 3)])
def test_what_cannot_be_checked_is_not_reservations(arguments, code, capsys):
    with pytest.raises(SystemExit) as end:
        gossamer_verify.main(arguments)
    assert end.value.code == code
