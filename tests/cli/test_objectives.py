"""One record per objective: what it says is true; a regression goes all the way, and so does a new objective."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from testkit.run_folders import gossamer

import gossamer as gs
from gossamer.engine.solving import check_match
from gossamer.learn._common import PrivateEstimator
from gossamer.learn._objectives import OBJECTIVES, Objective
from gossamer.report import citing
from gossamer.runs.auditing import attack_canary, attack_members
from gossamer.runs.folder import load, load_certificate
from gossamer.runs.recipe import Recipe
from gossamer.tables.reading import read_table

BUDGET = gs.Budget(1.0, 1e-5)


@pytest.mark.slow
def test_the_table_needs_no_jax():
    code = "import sys, gossamer.cli, gossamer.learn._objectives; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def solves(method, task):
    """Return whether a method takes a problem, whatever its settings must be."""
    try:
        check_match(task.problem, method, BUDGET)
    except TypeError:
        return False
    except ValueError as error:
        return "largest_weight" in str(error)
    return True


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_offers_the_methods_that_can_solve_it(name):
    """By the classes themselves; the divergence ball of dro is a problem of its own, with a method of its own."""
    variants = [{}, {"radius": 0.3}] if name == "dro" else [{}]
    tasks = [Recipe(name, settings=settings).outline(BUDGET, 1000, 3) for settings in variants]
    able = [each.__name__ for each in gs.methods.ALL if any(solves(each(), task) for task in tasks)]
    assert sorted(OBJECTIVES[name].methods) == sorted(able)


def test_every_method_is_cited():
    published = {method.__name__ for method in gs.methods.ALL} - citing.UNPUBLISHED
    names = published | {"OutputPerturbation", "ObjectivePerturbation"}
    assert set(citing.PAPER_OF) == names
    assert all(len(citing.entries(name, "1")) == 2 for name in names)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_estimator_outlines_what_it_poses(name):
    """The plan is that of the fit: the same problem, method, start and purchase, without records."""
    recipe, rng = Recipe(name), np.random.default_rng(0)
    record = recipe.record
    X, y, members = rng.normal(size=(40, 3)), np.arange(40) % 2, np.arange(40) % 2
    public = {"bounds": (0, 1)} if record.additive else {"data_norm": 1.0}
    public |= {"groups": [0, 1]} if record.grouped else {}
    bound = {"target_bounds": (-1, 1)} if record.additive else {"target_bound": 1.0}
    public |= bound if record.target == "number" else {"classes": [0, 1]}
    posed = recipe.bare_estimator(BUDGET, **public).pose(X, y, *([members] if record.grouped else []))
    outlined = recipe.outline(BUDGET, 40, 3)
    assert (outlined.problem, outlined.method) == (posed.problem, posed.method)
    assert [column.shape for column in outlined.data] == [column.shape for column in posed.data]
    assert [column.dtype for column in outlined.data] == [column.dtype for column in posed.data]
    assert [each.name for each in outlined.bought] == [each.name for each in posed.bought]
    assert bool(posed.bought) == (record.buys is not None)


SCHEMA = """\
target = "stay"
target_range = [0, 40]

[columns.age]
kind = "number"
low = 0
high = 100
"""
QUICK = ("--seed", "0", "--epsilon", "8", "--delta", "4e-4")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """Return a folder with a table of patients, who stay the longer the older they are, and its schema."""
    folder = tmp_path_factory.mktemp("hospital")
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 400)
    stay = (0.3 * age + rng.normal(0, 1, 400)).clip(0).round(1)
    lines = [f"{a},{s}" for a, s in zip(age, stay, strict=True)]
    (folder / "table.csv").write_text("\n".join(["age,stay", *lines, ""]))
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture(scope="module")
def regression(hospital):
    """Return what `gossamer fit --objective linear` printed for programs; the run is in the folder."""
    options = ("--schema", hospital / "schema.toml", "--objective", "linear", "--test", hospital / "table.csv")
    shown = gossamer("fit", hospital / "table.csv", *options, "--out", hospital / "run", *QUICK, "--json")
    return json.loads(shown.stdout)


@pytest.mark.slow
def test_a_regression_goes_all_the_way(hospital, regression):
    run = hospital / "run"
    assert (regression["objective"], regression["target_range"], regression["holds"]) == ("linear", [0, 40], True)
    assert "classes" not in regression
    assert regression["test"]["private"] is False
    assert regression["test"]["r2"] > 0.8
    header, *rows = gossamer("predict", run, hospital / "table.csv").stdout.splitlines()
    assert header == '"row","predicted stay"'
    table = read_table(hospital / "table.csv")
    predicted = np.array([float(row.split(",")[1]) for row in rows])
    assert np.corrcoef(predicted, load(run).schema.target_numbers(table))[0, 1] > 0.95
    assert predicted.mean() == pytest.approx(15, abs=2)  # in the units of the table, not from the middle of its range
    assert "holds: recomputed" in gossamer("verify", run).stdout
    gossamer("report", run)
    report = (run / "report.html").read_text()
    assert "Linear regression for " in report
    assert "target_range" in report


@pytest.mark.deep
def test_a_regression_can_be_attacked(hospital, regression):
    loaded, certificate = load(hospital / "run"), load_certificate(hospital / "run")
    found = attack_canary(loaded, certificate, runs=200)
    assert 0.2 < found.lower_bound <= found.claimed
    assert attack_members(loaded, certificate, None)


@pytest.mark.slow
@pytest.mark.filterwarnings("default::gossamer.PrivacyLeakWarning")
def test_a_range_that_nobody_declared_leaks(hospital):
    """By flags, and by a draft, which takes many different numbers for a number."""
    options = ("--target", "stay", "--objective", "linear", "--bounds", "age=0:100", "--steps", "3", *QUICK)
    shown = gossamer("fit", hospital / "table.csv", *options, "--from-data", "--out", hospital / "leaky")
    assert "'stay' is a number from 0 to 40." in shown.stdout
    assert "1 of its assumptions is NOT MET" in shown.stdout
    drafted = gossamer("schema", hospital / "table.csv", "--target", "stay").stdout
    assert "target_range = [0, 40]\ntarget_range_read_from_data = true\n" in drafted


@pytest.mark.slow
def test_an_additive_model_goes_all_the_way(tmp_path):
    """A hump in age, which no linear model sees; some ages are missing. Stored, explained, drawn, reported."""
    rng = np.random.default_rng(0)
    age, ward = rng.integers(0, 100, 1500), rng.choice(["A", "B"], 1500)
    ill = rng.random(1500) < np.where(abs(age - 50) < 20, 0.9, 0.1)
    lines = [f"{'' if i % 20 == 0 else age[i]},{ward[i]},{'yes' if ill[i] else 'no'}" for i in range(1500)]
    table, run, schema = tmp_path / "table.csv", tmp_path / "run", tmp_path / "schema.toml"
    table.write_text("\n".join(["age,ward,ill", *lines, ""]))
    columns = SCHEMA.split("\n\n")[1] + 'missing = true\n[columns.ward]\nkind = "category"\nvalues = ["A", "B"]\n'
    schema.write_text(f'target = "ill"\nclasses = ["no", "yes"]\n{columns}')
    options = ("--schema", schema, "--objective", "additive", "--test", table, "--out", run, "--json", *QUICK)
    told = json.loads(gossamer("fit", table, *options).stdout)
    assert (told["objective"], told["method"], told["holds"]) == ("additive", "Whitened", True)
    assert told["test"]["auc"] > 0.85
    effects = json.loads(gossamer("explain", run, "--plot", tmp_path / "shapes.png", "--json").stdout)["columns"]
    assert effects[0]["column"] == "age" and effects[0]["values"] == ["0", "25", "50", "75", "100", "missing"]
    at = dict(zip(effects[0]["values"], np.ravel(effects[0]["effects"]), strict=True))
    assert at["50"] == 0 > max(at["0"], at["100"]) + 1, "a hump, against the middle"
    assert (tmp_path / "shapes.png").read_bytes().startswith(b"\x89PNG")
    assert gossamer("predict", run, table, "--proba").stdout.startswith('"row","label","probability of no"')
    assert "holds: recomputed" in gossamer("verify", run).stdout
    with pytest.raises(ValueError, match="'additive' needs to know what each column is"):
        gossamer("fit", table, "--target", "ill", "--objective", "additive", "--out", tmp_path / "open", *QUICK)


@pytest.mark.deep
def test_logistic_with_layers_is_a_network(tmp_path):
    """It learns a product, of which no linear model sees anything, and goes all the way."""
    rows = np.random.default_rng(0).uniform(-1, 1, (2048, 2)).round(3)
    lines = [f"{a},{b},{'alike' if a * b > 0 else 'apart'}" for a, b in rows]
    table, run = tmp_path / "table.csv", tmp_path / "run"
    table.write_text("\n".join(["a,b,signs", *lines, ""]))
    public = ("--bounds", "a=-1:1", "--bounds", "b=-1:1", "--target", "signs", "--classes", "alike|apart")
    options = (
        "--objective",
        "logistic",
        "--hidden",
        "16",
        "--threshold",
        "prevalence",
        "--test",
        table,
        "--out",
        run,
        "--json",
        *QUICK,
    )
    told = json.loads(gossamer("fit", table, *public, *options).stdout)
    assert (told["objective"], told["method"], told["holds"]) == ("network", "SGD", True)
    assert told["test"]["auc"] > 0.95
    assert load(run).recipe.settings == {"hidden": (16,), "threshold": "prevalence"}
    assert [each.name for each in load_certificate(run).purchases] == ["threshold of decisions"]
    said = gossamer("predict", run, table).stdout.splitlines()[1:]
    right = [row.split(",")[1].strip('"') == line.split(",")[2] for row, line in zip(said, lines, strict=True)]
    assert np.mean(right) > 0.9
    assert "Network for classes for " in (run / "report.html").read_text()
    assert "holds: recomputed" in gossamer("verify", run).stdout


class PrivateMean(PrivateEstimator, RegressorMixin, BaseEstimator):
    """Predicts the same number for every row."""

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        data_norm=None,
        target_bound=None,
        method=None,
        rows_per_person=10,
        neighbors="replace_one",
        random_state=None,
        progress=False,
        checkpoints=None,
        ledger=None,
    ):
        self.epsilon, self.delta, self.method, self.neighbors = epsilon, delta, method, neighbors
        self.data_norm, self.target_bound = data_norm, target_bound
        self.random_state, self.progress, self.checkpoints = random_state, progress, checkpoints
        self.rows_per_person, self.ledger = rows_per_person, ledger

    def pose(self, X, y, person=None):
        self.n_features_in_ = X.shape[1]
        return self._pose(X, np.clip(y / self.target_bound, -1, 1).astype(np.float32), person=person)

    def _pose(self, rows, targets, classes=0, person=None):
        problem = gs.ERM(lambda mean, record: (mean - record[1]) ** 2 / 2)

        def once(budget, n):
            return gs.methods.GD(steps=5, learning_rate=1.0)

        return self._task(problem, (rows, targets), 0.0, once, person)

    def _keep(self, params):
        self.intercept_ = float(params) * self.target_bound

    def predict(self, X):
        return np.full(len(X), self.intercept_)


@pytest.mark.slow
def test_an_objective_of_ones_own_is_one_record(hospital, monkeypatch):
    """Nothing but the record tells the commands of it."""
    toy = Objective(
        "toy",
        "toy that predicts the mean",
        f"{__name__}.PrivateMean",
        target="number",
        methods=("GD",),
        keeps={"intercept_": ()},
    )
    monkeypatch.setitem(sys.modules, __name__, sys.modules[PrivateMean.__module__])
    assert "toy" not in gossamer("fit", "--help").stdout
    monkeypatch.setitem(OBJECTIVES, "toy", toy)
    assert "|toy" in gossamer("fit", "--help").stdout.replace("\n", "").replace(" ", "").replace("│", "")
    planned = json.loads(gossamer("plan", "--n", 400, "--objective", "toy", "--no-table", "--json").stdout)
    assert (planned["objective"], planned["method"], planned["parameters"]) == ("toy", "GD", 1)
    options = ("--schema", hospital / "schema.toml", "--objective", "toy", "--out", hospital / "toy", *QUICK)
    shown = gossamer("fit", hospital / "table.csv", *options).stdout
    assert "Private toy that predicts the mean on " in shown
    assert "Toy that predicts the mean for " in (hospital / "toy" / "report.html").read_text()
    assert "holds: recomputed" in gossamer("verify", hospital / "toy").stdout
    said = gossamer("predict", hospital / "toy", hospital / "table.csv").stdout.splitlines()[1]
    assert float(said.split(",")[1]) == pytest.approx(15, abs=3)
    with pytest.raises(ValueError, match="'SGD' cannot train for objective = 'toy'"):
        gossamer("plan", "--n", 400, "--objective", "toy", "--method", "SGD")
