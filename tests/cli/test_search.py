"""`gossamer fit --search`: grids, one certificate, one payment, and nothing that tells the number of trials."""

import json

import pytest
from testkit.run_folders import gossamer, write_inputs

import gossamer as gs
from gossamer.base.exceptions import DivergedError
from gossamer.learn import _trials
from gossamer.learn._objectives import OBJECTIVES
from gossamer.privacy.budget_file import BudgetFile
from gossamer.privacy.trials import Trials
from gossamer.runs.folder import FILES, load, load_certificate
from gossamer.runs.recipe import Recipe
from gossamer.runs.searching import read_grid

GRID = """\
trials = 2
score = "accuracy"

[grid]
steps = ["x0.5"]
learning_rate = [0.5, "x4"]
"""
QUICK = ("--method", "GD", "--steps", "4", "--seed", "0", "--epsilon", "2", "--delta", "1e-3", "--threshold", "0.5")


@pytest.fixture
def inputs(tmp_path):
    """Return the paths of a table, its schema and a grid."""
    (tmp_path / "grid.toml").write_text(GRID)
    return *write_inputs(tmp_path), str(tmp_path / "grid.toml")


# Grids


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_grid_of_an_objective_is_narrow_and_asks_otherwise_than_its_rule(objective):
    record = OBJECTIVES[objective]
    if not record.search:
        with pytest.raises(ValueError, match="name a file"):
            read_grid("", Recipe(objective))
        return
    recipe, budget = Recipe(objective), gs.Budget(1.0, 1e-5)
    grid = read_grid("", recipe)
    assert 1 <= len(grid.settings) <= 4
    methods = [recipe.varied(setting).outline(budget, 1000, 3).method for setting in ({}, *grid.settings)]
    assert len(set(map(repr, methods))) == len(methods)


def test_a_setting_of_a_grid_is_a_recipe():
    recipe = Recipe("network", options={"clip": 1.0})
    varied = recipe.varied({"method": "GD", "steps": 7, "learning_rate": "x3", "hidden": [4, 2]})
    assert (varied.method, dict(varied.options)) == ("GD", {"clip": 1.0, "steps": 7, "learning_rate": "x3"})
    assert varied.settings == {"hidden": (4, 2)}
    method = varied.configured(gs.methods.GD())
    assert method.learning_rate == 3 * gs.methods.GD().learning_rate
    assert (method.steps, method.clip) == (7, 1.0)
    assert Recipe.from_dict(json.loads(json.dumps(varied.to_dict()))) == varied
    assert Recipe(options={"steps": 7}).varied({"steps": "x2"}).options == {"steps": 14}
    assert recipe.varied({"steps": "x0.001"}).configured(gs.methods.GD(steps=10)).steps == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"steps": "twice"}, "steps = 'twice' must be a number, or a factor"),
        ({"steps": "x0"}, "a factor above 0"),
        ({"rate": 1.0}, "rate = 1.0 does not go with"),
        ({"method": "AccMD"}, "cannot train"),
        ({"learning_rate": "x2"}, "no number there to multiply"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        Recipe("network").varied(setting).configured(gs.methods.SGD(learning_rate=lambda t: 1.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = [", "is no TOML"),
        ("", "it has nothing"),
        ("seeds = 3\n[grid]\nsteps = [1]", "it has seeds, grid"),
        ("[grid]\nsteps = [1]\n[[settings]]\nsteps = 1", "it has grid, settings"),
        ("[grid]\nsteps = 1", "must have lists"),
    ],
)
def test_a_file_that_is_no_grid_is_refused(tmp_path, text, message):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_grid(str(tmp_path / "grid.toml"), Recipe())


# Runs


def searched(table, schema, *more, folder):
    return gossamer("fit", table, "--schema", schema, "--out", folder, *QUICK, *more, "--json")


@pytest.mark.slow
def test_a_search_leaves_a_run_like_any_other(inputs, tmp_path):
    """One certificate that verifies, one payment by epsilon and delta, a bundle, and the recipe of the best trial."""
    table, schema, grid = inputs
    file, out = tmp_path / "budget", tmp_path / "run"
    amounts = ("--epsilon", "5", "--delta", "1e-2", "--aside-epsilon", "3", "--aside-delta", "2e-3")
    gossamer("budget", "init", "--file", file, "--data", table, *amounts)
    content = json.loads(searched(table, schema, "--search", grid, "--budget", file, folder=out).stdout)
    assert (content["epsilon"], content["holds"], content["seconds"]) == (2.0, True, None)
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    (entry,) = BudgetFile(file).entries()
    assert (float(entry.amount.epsilon), float(entry.amount.delta)) == (2.0, 1e-3)
    certificate, run = load_certificate(out), load(out)
    assert certificate.selection.trials == 2
    assert len(certificate.selection.schedules) == 2  # four steps and two; rates ask the same
    assert content["search"] in ({}, {"steps": "x0.5", "learning_rate": 0.5}, {"steps": "x0.5", "learning_rate": "x4"})
    assert run.recipe == Recipe("logistic", "GD", {"steps": 4}, {"threshold": "0.5"}).varied(content["search"])
    assert certificate.configuration["steps"] == (2 if content["search"] else 4)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "a private search chose these" in page
    assert "how many there were is secret" in page
    assert gossamer("verify", out).exit_code == 0
    assert "nothing to do" in gossamer("fit", table, "--out", out, "--search", grid, "--resume").output
    with pytest.raises(ValueError, match="more than"):
        searched(table, schema, "--search", grid, "--budget", file, folder=tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.slow
def test_no_output_tells_the_number_of_trials(inputs, tmp_path, monkeypatch):
    """Of one trial and of five, all of the same setting: what is shown and written differs in private answers alone."""
    table, schema, grid = inputs
    (tmp_path / "grid.toml").write_text("trials = 2\n[[settings]]\nsteps = 4\n")
    seen = []
    for trials in (1, 5):
        monkeypatch.setattr(Trials, "draw", lambda self, uniform, trials=trials: trials)
        out = tmp_path / f"run {trials}"
        shown = searched(table, schema, "--search", grid, folder=out)
        content = json.loads(shown.stdout)
        content.pop("search")
        content = {name: value for name, value in content.items() if name not in ("folder", "opening")}
        certificate = json.loads((out / "certificate.json").read_text())
        names = sorted(path.name for path in out.iterdir())
        steps = (out / "history.csv").read_text().count("\n")
        seen.append((content, shown.stderr, certificate, names, steps))
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on_as_the_same_search_and_pays_once(inputs, tmp_path, monkeypatch):
    table, schema, grid = inputs
    file, out = tmp_path / "budget", tmp_path / "run"
    amounts = ("--epsilon", "5", "--delta", "1e-2", "--aside-epsilon", "2", "--aside-delta", "1e-3")
    gossamer("budget", "init", "--file", file, "--data", table, *amounts)
    options = [option for option in QUICK if option not in ("--seed", "0")]
    run = ("fit", table, "--schema", schema, "--out", out, *options, "--search", grid, "--budget", file)
    real, keys = _trials.best_of, []

    def killed(planned, score, key):
        keys.append(key)
        raise KeyboardInterrupt

    monkeypatch.setattr(_trials, "best_of", killed)
    with pytest.raises(RuntimeError, match="--resume"):
        gossamer(*run)
    with pytest.raises(ValueError, match="begun and not finished"):
        gossamer(*run)
    (tmp_path / "grid.toml").write_text(GRID.replace("0.5,", "0.25,"))
    with pytest.raises(ValueError, match="another search"):
        gossamer(*run, "--resume")
    (tmp_path / "grid.toml").write_text(GRID)

    def noted(planned, score, key):
        keys.append(key)
        return real(planned, score, key)

    monkeypatch.setattr(_trials, "best_of", noted)
    gossamer(*run, "--resume")
    assert keys[0] == keys[1]
    assert len(BudgetFile(file).entries()) == 1
    assert not (out / "checkpoint").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--checkpoint-every", "2"), "does not go with --search"),
        (("--epsilon", "inf"), "no budget for a search"),
    ],
)
def test_what_does_not_go_with_a_search_is_refused(inputs, tmp_path, more, message):
    table, schema, grid = inputs
    with pytest.raises(ValueError, match=message):
        searched(table, schema, "--search", grid, *more, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_flag_may_stand_alone_before_another_one_or_before_the_table(inputs, tmp_path, monkeypatch):
    table, schema, _ = inputs
    seen = []

    def stop(file, recipe):
        seen.append(file)
        raise DivergedError("seen")

    monkeypatch.setattr("gossamer.runs.searching.read_grid", stop)
    tail = ("--schema", schema, "--out", tmp_path / "run")
    for words in ((table, *tail, "--search"), (table, "--search", *tail), ("--search", table, *tail)):
        with pytest.raises(DivergedError):
            gossamer("fit", *words)
    with pytest.raises(DivergedError):
        gossamer("fit", table, "--search", "my grid.toml", *tail)
    assert seen == ["", "", "", "my grid.toml"]
