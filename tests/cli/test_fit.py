"""`gossamer fit` on small tables: four objectives, every mistake, and runs that are interrupted."""

import errno
import json
import os
import resource
from pathlib import Path

import pytest
from testkit.rings import deep_but
from testkit.run_folders import QUICK, SCHEMA, finished_run, gossamer, write_inputs, write_table

from gossamer.base import atomic
from gossamer.base.exceptions import DivergedError
from gossamer.base.leak import Leak
from gossamer.engine.checkpoints import Checkpoints
from gossamer.privacy.budget_file import BudgetFile
from gossamer.runs.auditing import attack_canary, attack_members
from gossamer.runs.folder import FILES, load, load_certificate
from gossamer.runs.scoring import score_table
from gossamer.tables.reading import read_table


@pytest.fixture
def inputs(tmp_path):
    """Return the paths of a table and its schema."""
    return write_inputs(tmp_path)


OBJECTIVES = {
    "auc": (),
    "additive": (),
    "network": ("--hidden", "3", "--clip", "0.5"),
    "dro": ("--divergence", "kl", "--radius", "0.3", "--hidden", "3"),
    "worst-group": ("--group", "ward"),
}


@pytest.mark.deep
@pytest.mark.filterwarnings("default::gossamer.PrivacyLeakWarning")
@pytest.mark.parametrize("objective", deep_but(OBJECTIVES, "auc"))
def test_every_objective_leaves_a_run_that_can_be_attacked(inputs, tmp_path, objective):
    """Canaries and membership inference work through the run's own problem and method, made again from its folder."""
    table, schema = inputs
    out = tmp_path / "run"
    options = (
        "--schema",
        schema,
        "--objective",
        objective,
        "--out",
        out,
        *OBJECTIVES[objective],
        *QUICK,
        "--epsilon",
        "8",
    )
    shown = gossamer("fit", table, *options, "--json")
    content = json.loads(shown.stdout)
    assert (content["objective"], content["epsilon"], content["n"], content["holds"]) == (objective, 8.0, 60, True)
    assert "test" not in content
    assert content["leaks"] == []
    assert (content["target"], content["classes"]) == ("ill", ["no", "=yes"])
    assert shown.stderr.count("warning") == 1  # of the default delta for 60 rows
    assert "warning: delta = 0.011, which is n ** -1.1 for n = 60, is weak" in shown.stderr
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    loaded = load(out)
    # In the schema's order, which is not that of the alphabet: scores are for the last, the older patients.
    assert loaded.model.classes_.tolist() == ["no", "=yes"]
    records = read_table(table)
    if objective != "dro":  # of which a network learns nothing in so few steps on 60 rows
        assert score_table(loaded.model, loaded.recipe, loaded.schema, records)["auc"] > 0.6
    certificate = load_certificate(out)
    assert certificate.verify()
    bought = {"auc": ["share of positives"], "worst-group": ["shares of groups"]}.get(objective, [])
    assert [query.name for query in certificate.schedule if query.name.startswith("share")] == bought
    assert (out / "history.csv").read_text().count("\n") == 5
    found = attack_canary(loaded, certificate, runs=400)
    assert 0.5 < found.lower_bound <= found.claimed
    members = attack_members(loaded, certificate, None)
    assert members
    assert members.records == 120


@pytest.mark.slow
def test_the_default_objective_and_a_table_to_test_with(inputs, tmp_path):
    table, schema = inputs
    shown = gossamer("fit", table, "--schema", schema, "--out", tmp_path / "run", "--test", table, *QUICK)
    assert "Private logistic regression" in shown.stdout
    assert "'ill' is one of 'no', '=yes'; a score above 0 says '=yes'." in shown.stdout
    assert "these figures are NOT private. Precision and recall are those of '=yes'." in shown.stdout
    assert "ward = B" in shown.stdout
    assert "holds: recomputed" in shown.stdout
    again = finished_run() / "run"
    for name in ("model.npz", "history.csv"):  # a seed fixes them
        assert (tmp_path / "run" / name).read_bytes() == (again / name).read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::gossamer.PrivacyLeakWarning")
def test_what_is_not_declared_is_read_from_the_data_and_said_everywhere(inputs, tmp_path):
    table, _ = inputs
    out = tmp_path / "run"
    flags = ("--bounds", "age=0:100", "--classes", "no|=yes", "--ignore", "ward", "--from-data")
    shown = gossamer("fit", table, "--target", "ill", "--out", out, *flags, *QUICK, "--json")
    assert json.loads(gossamer("verify", out, "--json", code=2).stdout)["leaks"] == json.loads(shown.stdout)["leaks"]
    assert "holds, but 1 of its assumptions is NOT MET: recomputed" in gossamer("verify", out, code=2).stdout
    assert "gossamer: warning: 1 of the schema's declarations were read from the data" in shown.stderr
    (leak,) = json.loads(shown.stdout)["leaks"]
    assert leak.startswith("NOT MET: the declaration of column 'bill'")
    assert leak in load_certificate(out).assumptions
    assert load_certificate(out).leaks == (Leak("bill", "upper bound", "column"),)
    assert "READ FROM THE DATA" in (out / "report.html").read_text()


@pytest.mark.slow
def test_parquet_is_a_table_too(inputs, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import csv

    table, schema = inputs
    parquet.write_table(csv.read_csv(table), tmp_path / "table.parquet")
    gossamer("fit", tmp_path / "table.parquet", "--schema", schema, "--out", tmp_path / "run", *QUICK)
    assert (tmp_path / "run" / "model.npz").read_bytes() == (finished_run() / "run" / "model.npz").read_bytes()


MISTAKES = {
    "no folder": ("{table} --target ill", "--out is missing"),
    "no target": ("{table} --out {out}", "--target is missing"),
    "no such target": ("{table} --target sick --out {out}", "has no column 'sick'"),
    "no table": ("nowhere.csv --target ill --out {out}", "nowhere.csv does not exist"),
    "a column option without a table": ("--target ill --out {out}", "TABLE is missing"),
    "another target": ("{table} --schema {schema} --target age --out {out}", "--target age differs from"),
    "flags and a file": ("{table} --schema {schema} --bounds age=1:2 --out {out}", "does not go with flags for bounds"),
    "a finished run": ("{table} --schema {schema} --out {run}", "is not empty (it has bundle.zip, certificate.json"),
    "a folder with something in it": ("{table} --schema {schema} --out {folder}", "is not empty (it has budget, "),
    "a file for a folder": ("{table} --schema {schema} --out {table}", "table.csv is a file. Name a new folder"),
    "a table to be overwritten": (
        "{table} --schema {schema} --out {out} --certificate {table}",
        "table.csv exists. Choose another name",
    ),
    "no place for the certificate": (
        "{table} --schema {schema} --out {out} --certificate {folder}/no/c.json",
        "c.json cannot be written: No such file or directory",
    ),
    "hardly a row": ("{few} --schema {schema} --out {out}", "few.csv has 2 rows, and at least 10 are needed"),
    "no privacy": (
        "{table} --schema {schema} --epsilon inf --out {out} --budget {budget}",
        "does not go with --budget",
    ),
    "a group beside a schema": (
        "{table} --schema {groupless} --objective worst-group --group ward --out {out}",
        'group = "ward" and groups = ["a", "b"]',
    ),
    "no group": (
        "{table} --schema {groupless} --objective worst-group --out {out}",
        'group = "COLUMN" and groups = ["a", "b"]',
    ),
    "too many classes": (
        "{table} --target ward --objective auc --classes A|a|B --out {out}",
        "is about two classes, and target 'ward' has 3: 'A', 'a', 'B'",
    ),
    "resume without a folder": ("--resume", "need --out"),
    "resume what was never saved": ("--resume --checkpoint-every 0 --out {out}", "nothing is continued"),
    "checkpoints every when": (
        "{table} --schema {schema} --checkpoint-every -1 --out {out} --budget {budget}",
        "every = ",
    ),
    "a method for another problem": (
        "{table} --schema {schema} --objective auc --method GD --out {out}",
        "'GD' cannot train for objective = 'auc'. Leave it out, or take one of SGDA",
    ),
    "an option of another method": (
        "{table} --schema {schema} --method GD --batch-size 5 --out {out}",
        "GD has no batch_size",
    ),
    "a batch beyond the table": (
        "{table} --schema {schema} --method SGD --out {out} --budget {budget}",
        "batch_size = 256 exceeds n = 60",
    ),
    "hidden layers of what": (
        "{table} --schema {schema} --hidden 3;4 --objective auc --out {out}",
        "3;4 must be numbers",
    ),
    "no epsilon": (
        "{table} --schema {schema} --epsilon -1 --out {out}",
        "above 0. Typical values are 0.1 to 10; inf trains",
    ),
    "a weak delta": (
        "{table} --schema {schema} --delta 0.02 --out {out} --budget {budget}",
        "delta = 0.02 is above 1/n = 0.017: it would allow publishing one of the 60 rows in the clear. Nothing was "
        "spent. Choose a smaller one, such as --delta 0.01; `gossamer fit` takes it as it is with --weak-delta.",
    ),
    "no header": (
        "{headless} --target ill --out {out}",
        "Its first line has numbers; it must hold the names of the columns",
    ),
    "another group than the schema's": (
        "{table} --schema {schema} --objective worst-group --group bill --out {out}",
        "--group bill differs from",
    ),
    "too much": ("{table} --schema {schema} --epsilon 40 --out {out} --budget {budget}", "more than"),
    "a budget for the demo": ("--budget {budget}", "--budget is for a table of yours"),
    "an empty table": ("{empty} --schema {schema} --out {out} --budget {budget}", "has a header but no rows"),
    "no label": (
        "{unlabelled} --schema {schema} --out {out} --budget {budget}",
        "1 of 12 rows have no value",
    ),
    "one class": ("{one} --target ill --out {out}", "fewer than two different values"),
    "classes of a number": (
        "{numbers} --target ill --out {out}",
        "more than 50 different values, so it cannot be the target. Name a column of classes, or make classes of it "
        "first (such as 'low' and 'high'); or predict the number itself: --objective linear",
    ),
    "a number of classes": (
        "{table} --schema {schema} --objective linear --out {out}",
        "objective = 'linear' predicts a number, and target 'ill' has classes: 'no', '=yes'",
    ),
    "a number of words": (
        "{table} --target ward --objective linear --out {out}",
        "column 'ward' has values that are not numbers",
    ),
    "a word among numbers": (
        "{wrong} --target age --target-range 0:100 --bounds bill=0:9 --objective linear --out {out}",
        "line 3: the target 'age' is to be a number, and something else stands there",
    ),
    "classes for a range": (
        "{table} --target age --target-range 0:100 --out {out}",
        "objective = 'logistic' predicts classes, and target 'age' is a number. Train for 'linear'",
    ),
    "a range of one number": (
        "{table} --target age --target-range 7 --objective linear --out {out}",
        "--target-range 7 is not of the form LOW:HIGH",
    ),
    "a range upside down": (
        "{table} --target age --target-range 7:3 --objective linear --out {out}",
        "low = 7 must be below high = 3",
    ),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return tables with one mistake each, and a budget that must stay whole."""
    folder = tmp_path_factory.mktemp("mistakes")
    table, schema = write_inputs(folder)
    tables = {
        "empty": "",
        "wrong": "1,1,A,no\nold,1,A,no\n" + "1,1,A,no\n" * 10,
        "unlabelled": "1,1,A,no\n1,1,A,\n" + "1,1,A,no\n" * 10,
        "one": "1,1,A,no\n2,1,A,no\n",
        "few": "1,1,A,no\n2,1,B,=yes\n",
        "numbers": "".join(f"1,1,A,{i}.5\n" for i in range(60)),
    }
    groupless = [line for line in SCHEMA.splitlines() if not line.startswith("group")]
    (folder / "groupless.toml").write_text("\n".join(groupless))
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("age,bill,ward,ill\n" + rows)
    BudgetFile.create(folder / "budget", 5.0, 0.1, "replace_one", table)
    (folder / "headless.csv").write_text("1,2,A,no\n" * 12)
    paths = {name: folder / f"{name}.csv" for name in (*tables, "headless")}
    paths |= {"folder": folder, "groupless": folder / "groupless.toml"}
    return {**paths, "table": table, "schema": schema, "budget": folder / "budget", "run": finished_run() / "run"}


@pytest.mark.filterwarnings("default::gossamer.PrivacyLeakWarning")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_costs_nothing(places, tmp_path, name):
    arguments, message = MISTAKES[name]
    with pytest.raises((ValueError, TypeError, OSError)) as error:
        gossamer("fit", *(word.format(**places, out=tmp_path / "new") for word in arguments.split()))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert BudgetFile(places["budget"]).entries() == []
    assert not (tmp_path / "new").exists()


@pytest.mark.deep
def test_a_weak_delta_that_is_meant_is_taken_and_a_bad_test_table_loses_nothing(inputs, tmp_path):
    table, _ = inputs
    (tmp_path / "later.csv").write_text("age,bill,ward,ill\n5,5,A,perhaps\n")
    options = ("--target", "ill", "--ignore", "bill", "--ignore", "ward", "--bounds", "age=0:100", *QUICK[2:])
    told = ("--epsilon", "30", "--delta", "0.02", "--weak-delta", "--test", tmp_path / "later.csv")
    shown = gossamer("fit", table, *options, *told, "--out", tmp_path / "run")  # classes are bought: nobody knew them
    assert "--test: there are no scores, because" in shown.stderr and "holds: recomputed" in shown.stdout
    assert load_certificate(tmp_path / "run").delta == 0.02


@pytest.mark.slow
def test_a_table_of_one_declared_class_is_trained_on(inputs, tmp_path):
    """Who is in a table is secret; that nobody is ill there must not be an error message."""
    table, schema = inputs
    (tmp_path / "well.csv").write_text(Path(table).read_text().replace("=yes", "no"))
    gossamer("fit", tmp_path / "well.csv", "--schema", schema, "--out", tmp_path / "run", *QUICK)


def full_at_the_model(path, *rest, whole=atomic.write_bytes):
    """Write a file, but for the model: there the disk is full."""
    if path.name == "model.npz":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    whole(path, *rest)


def interrupted_at_the_second(self, identity, run, save=Checkpoints.save):
    """Save a run; after the first step somebody presses Ctrl-C."""
    save(self, identity, run)
    if int(run[1].t) == 1:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_run_and_a_full_disk_lose_nothing(inputs, tmp_path, monkeypatch):
    """Each ends with one line that names the remedy; resumed, all is as if it had never been, and was paid for once."""
    table, schema = inputs
    out, budget = tmp_path / "run", tmp_path / "budget"
    BudgetFile.create(budget, 3.0, 0.1, "replace_one", table)
    options = ("fit", table, "--schema", schema, "--out", out, "--budget", budget, *QUICK)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match=r"^interrupted.*--resume") as interrupted:
        patch.setattr(Checkpoints, "save", interrupted_at_the_second)
        gossamer(*options)
    files = [path for path in (out / "checkpoint").rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o777 for path in files} == {"run.npz": 0o600, "answers.json": 0o600}
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match=r"No space left.*--resume") as full:
        patch.setattr(atomic, "write_bytes", full_at_the_model)
        gossamer(*options, "--resume")
    assert not any("\n" in str(error.value) for error in (interrupted, full))
    assert [path.name for path in out.iterdir()] == ["checkpoint"]
    with pytest.raises(ValueError, match="was begun and not finished"):
        gossamer(*options)
    with pytest.raises(ValueError, match="belongs to a run of another"):
        gossamer(*options, "--resume", "--method", "GD")
    with pytest.raises(ValueError, match="belongs to a run of another reservation"):
        gossamer(*options, "--resume", "--epsilon", "1")
    gossamer(*options, "--resume")
    for name in set(FILES) - {"bundle.zip"}:  # whose commitment to the table has a salt of its own
        assert (out / name).read_bytes() == (finished_run() / "run" / name).read_bytes()
    assert not (out / "checkpoint").exists()
    assert "nothing spent" in gossamer(*options, "--resume").stdout
    assert json.loads(gossamer(*options, "--resume", "--json").stdout) == {"folder": str(out), "finished": True}
    assert len(BudgetFile(budget).entries()) == 1


@pytest.mark.deep
def test_how_often_a_run_saves_itself_and_what_a_diverged_one_leaves(inputs, tmp_path, monkeypatch):
    table, schema = inputs
    saved = []
    monkeypatch.setattr(Checkpoints, "save", lambda self, identity, run: saved.append(int(run[1].t)))
    options = ("fit", table, "--schema", schema, *QUICK, "--steps", "25")
    gossamer(*options, "--out", tmp_path / "default")
    assert saved == [*(0, 3, 6, 9, 12, 15, 18, 21, 24, 25), *(0, 3, 6, 9, 11)]  # the training, and its threshold
    monkeypatch.undo()
    with pytest.raises(DivergedError, match="is spent"):
        noisy = ("--method", "GD", "--learning-rate", "3e38", "--epsilon", "0.1")
        gossamer(*options, *noisy, "--out", tmp_path / "diverged")
    assert not (tmp_path / "diverged").exists()
    monkeypatch.setattr(Checkpoints, "save", None)
    gossamer(*options, "--out", tmp_path / "never", "--checkpoint-every", "0")
    assert (tmp_path / "never" / "model.npz").read_bytes() == (tmp_path / "default" / "model.npz").read_bytes()


def test_a_folder_without_room_costs_nothing(inputs, tmp_path):
    table, schema = inputs
    BudgetFile.create(tmp_path / "budget", 3.0, 0.1, "replace_one", table)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            gossamer(
                "fit", table, "--schema", schema, "--out", tmp_path / "run", "--budget", tmp_path / "budget", *QUICK
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert BudgetFile(tmp_path / "budget").entries() == []


@pytest.mark.slow
def test_semicolons_and_decimal_commas(inputs, tmp_path):
    """The same numbers written as in half of Europe give the same model, and the same predictions."""
    table, schema = inputs
    header, *rows = Path(table).read_text().splitlines()
    european = tmp_path / "european.csv"
    rows = [",0;".join(row.replace(",", ";").split(";", 1)) for row in rows]
    european.write_text("\n".join([header.replace(",", ";"), *rows]))
    options = ("fit", european, "--schema", schema, "--test", european, *QUICK, "--out")
    with pytest.raises(ValueError, match=r"line 2: column 'age' .* there are numbers with a comma: .*--decimal ,"):
        gossamer(*options, tmp_path / "run")
    gossamer(*options, tmp_path / "run", "--decimal", ",")
    again = finished_run()
    assert (tmp_path / "run" / "model.npz").read_bytes() == (again / "run" / "model.npz").read_bytes()
    with pytest.raises(ValueError, match="--decimal ,"):
        gossamer("predict", tmp_path / "run", european)
    said = gossamer("predict", tmp_path / "run", european, "--decimal", ",").stdout
    assert said == gossamer("predict", again / "run", again / "table.csv").stdout


@pytest.mark.deep
def test_without_a_table_it_is_a_demo(tmp_path):
    shown = gossamer("fit", "--out", tmp_path / "demo", "--seed", "0", "--steps", "4")
    assert "Private logistic regression on the breast-cancer table: 426 records." in shown.stdout
    assert "AUC" in shown.stdout and "NOT private" in shown.stdout
    assert (tmp_path / "demo" / "report.html").exists()
    assert load(tmp_path / "demo").schema.leaks() == ()


@pytest.mark.deep
def test_a_large_table_needs_no_more_options(tmp_path):
    """Samples: the method and its settings by name."""
    table = write_table(tmp_path / "large.csv", 300)
    (tmp_path / "schema.toml").write_text((finished_run() / "schema.toml").read_text())
    options = ("--method", "SGD", "--batch-size", "30", "--learning-rate", "0.5", "--clip", "0.25")
    gossamer("fit", table, "--schema", tmp_path / "schema.toml", "--out", tmp_path / "run", *options, *QUICK)
    configuration = load_certificate(tmp_path / "run").configuration
    assert (configuration["batch_size"], configuration["learning_rate"], configuration["clip"]) == (30, 0.5, 0.25)
