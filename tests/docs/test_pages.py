"""Every block of README and docs runs, in order, as on the page; every command is run or has a reason not to be."""

import re
import shlex

import numpy as np
import pytest
import typer
from testkit.documents import (
    PAGES,
    ROOT,
    blocks,
    carry_out,
    commands,
    indented_commands,
    inline_commands,
    invoke,
    reader_folder,
    run_command,
)
from testkit.rings import deep_but

from gossamer import datasets, experiments
from gossamer.cli import app
from gossamer.datasets.adult import GroupedTable

INSTEAD = {
    "python -m pip install '.[parquet]'": (None, "the tests have it installed"),
    "gossamer audit run": ("gossamer audit run --runs 100", "2000 runs take long"),
    "python benchmarks/run.py": (None, "minutes, and wants an idle machine"),
    "python benchmarks/run.py steps sampling": (None, "minutes, and wants an idle machine"),
    "python benchmarks/against.py OTHER": (None, "minutes, and another checkout"),
    "python benchmarks/run.py sampling": (None, "minutes, and wants an idle machine"),
    "python benchmarks/run.py calibration": (None, "minutes, and wants an idle machine"),
    "python examples/two_processes.py --process 0 --checkpoints run '&'": (
        None,
        "tests/base/test_processes.py runs it",
    ),
    "python examples/two_processes.py --process 1 --checkpoints run": (None, "tests/base/test_processes.py runs it"),
    "python benchmarks/run.py stored": (None, "minutes, and wants an idle machine"),
    "python benchmarks/run.py processes": (None, "minutes, and wants an idle machine"),
    "GOSSAMER_TORCH_PYTHON=ENV/bin/python python benchmarks/run.py steps": (None, "needs another environment"),
}
"""A command on a page, what is run in its place (None: nothing), and why."""
ELSEWHERE = {"docs/tuning.md": "tests/docs/test_tuning.py"}
"""Pages that another test carries out."""

TABLE_OF = {"README.md": "docs/quickstart.md"}
"""A page whose commands are about the table that another page makes."""


def name(page):
    return str(page.relative_to(ROOT))


def run(command):
    """Run a command of a page, or what the table says in its place."""
    short, _ = INSTEAD.get(command, (command, ""))
    if short is None:
        return ""
    if short.startswith("make "):
        check_mention(short)
        return ""
    return run_command(short)


def check_mention(command):
    """Fail unless a command exists, with its options, experiment, script or target; it is not run."""
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), command
    elif program == "python":
        assert (ROOT / arguments[0]).exists() or arguments[0] == "-m", command
    else:
        found = typer.main.get_command(app)
        while hasattr(found, "commands") and arguments and not arguments[0].startswith("-"):
            assert arguments[0] in found.commands, f"{command}: there is no {arguments[0]!r}"
            found = found.commands[arguments.pop(0)]
        known = {option for parameter in found.params for option in parameter.opts} | {"--help"}
        assert {each for each in arguments if each.startswith("--")} <= known, f"{command}: an option is unknown"
        if found.name == "reproduce":
            assert arguments[0] in (*experiments.NAMES, "NAME"), command


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's folder as the working directory, plots without a screen, and a small stand-in for a download."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    monkeypatch.setattr(datasets, "adult", lambda: datasets.Split(made_up_adult(0), made_up_adult(1)))
    yield from reader_folder(tmp_path)


def made_up_adult(seed):
    """A table of the form of Adult, of four people in each of ten groups: Adult itself would have to be downloaded."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(40, 6)).astype(np.float32), np.tile([0, 1], 20)
    return GroupedTable(X, y, 6**0.5, (0, 1), np.arange(40) % 10, tuple("abcdefghij"))


RUNNABLE = [page for page in PAGES if blocks(page.read_text(encoding="utf-8")) and name(page) not in ELSEWHERE]
SHORT = ["README.md", *(f"docs/{name}.md" for name in ("index", "quickstart", "certificate", "checkpoints", "wgan"))]
"""Pages that a reader begins with, and those that take little time; the others train for longer."""


@pytest.mark.slow
@pytest.mark.parametrize("page", deep_but(RUNNABLE, *(page for page in RUNNABLE if name(page) in SHORT)), ids=name)
def test_the_page_does_what_it_says(page, reader):
    if name(page) in TABLE_OF:
        made = next(each for each in blocks((ROOT / TABLE_OF[name(page)]).read_text()) if each.kind == "python")
        exec(made.text, {})
    carry_out(page.read_text(encoding="utf-8"), name(page), run)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_sentences_exist(page):
    text = page.read_text(encoding="utf-8")
    for command in inline_commands(text):
        check_mention(command)
    assert not indented_commands(text), "commands in a block without a fence are not run: fence it with ```sh"


def test_the_table_is_about_commands_that_are_there():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    written = {each for text in texts for block in blocks(text) if block.kind == "sh" for each in commands(block)}
    assert set(INSTEAD) <= written
    assert all(short is None or short.startswith(command) for command, (short, _) in INSTEAD.items())
    assert all((ROOT / page).exists() and (ROOT / test).exists() for page, test in ELSEWHERE.items())


@pytest.mark.parametrize(
    "page",
    [
        "```sh\ngossamer fly\n```\n",
        "```sh\ngossamer verify nowhere.json\n```\n",
        "```sh\nls\n```\n",
        "```sh\npython examples/nowhere.py\n```\n",
        "```sh\nmake tea\n```\n",
        "```bash\ngossamer --help\n```\n",
        "```text\ngossamer fit\n```\n",
        "```python\nassert 1 == 2\n```\n",
        '```python\nprint(1)\n```\n\n```text title="prints"\n2\n```\n',
        '```python\nprint("1\\n2")\n```\n\n```text title="prints"\n1…\n```\n',
    ],
)
def test_a_page_that_is_wrong_fails(page, reader):
    with pytest.raises(AssertionError):
        carry_out(page, "made up", run)


@pytest.mark.parametrize("mention", ["gossamer fly", "gossamer fit --wings 2", "gossamer reproduce rome", "make tea"])
def test_a_wrong_mention_fails(mention):
    assert inline_commands(f"Try `{mention}` now.") == [mention]
    with pytest.raises(AssertionError):
        check_mention(mention)


def test_an_indented_command_is_seen():
    assert indented_commands("Run\n\n    gossamer fit\n") == ["gossamer fit"]


def test_what_a_right_page_prints_is_compared(reader):
    page = '```toml title="a.toml"\nx = 1\n```\n\n```python\nprint(open("a.toml").read())\n```\n\n'
    carry_out(page + '```text title="prints"\nx = …\n```\n', "made up", run)


@pytest.mark.slow
def test_a_mistake_of_the_reader_is_one_line(reader):
    code, output, errors = invoke(["fit", "missing.csv", "--target", "y", "--out", "run"])
    assert (code, output, errors.count("\n")) == (2, "", 1)
