"""Pages of the documentation taken apart and carried out, block by block, as a reader would.

* A `python` block runs, in one namespace for the page.
* Each line of an `sh` block is a command and runs; see `run_command`.
* A block with `title="FILE"` is a file that the reader saves.
* A `text` block with `title="prints"` is what the block before it prints: `…` stands for anything within a line.
* Any other `text` block is an illustration, and has no command in it.
"""

import contextlib
import dataclasses
import io
import re
import shlex
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from gossamer.cli import main

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`((?:gossamer|python|make) [^`]+)`(?!`)")
_COMMAND = re.compile(r"^ {4,}((?:[A-Z_]+=\S+ )*(?:gossamer|python|make) .*)$", re.MULTILINE)
PRINTS = "prints"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    title: str | None
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found = []
    for match in _FENCE.finditer(page):
        _, info, text = match.groups()
        kind, _, attributes = info.partition(" ")
        title = re.search(r'title="([^"]*)"', attributes)
        line = page.count("\n", 0, match.start()) + 2
        found.append(Block(kind, title and title.group(1), textwrap.dedent(text), line))
    return found


def inline_commands(page: str) -> list[str]:
    """Return the commands that a page mentions in its sentences."""
    return _INLINE.findall(_FENCE.sub("", page).replace("\n", " "))


def indented_commands(page: str) -> list[str]:
    """Return commands in blocks that are not fenced, which nothing would run."""
    return _COMMAND.findall(_FENCE.sub("", page))


def commands(block: Block) -> list[str]:
    """Return the command lines of an `sh` block, without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    tokens = (shlex.split(line, comments=True) for line in lines)
    return [shlex.join(each) for each in tokens if each]


def carry_out(page: str, name: str, run: Callable[[str], str]) -> dict:
    """Carry a page out in the working directory, commands by `run`, and return the names that its Python defines."""
    namespace: dict = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        if block.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                # Lines of the page, so that a traceback points there.
                exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), namespace)
            printed = output.getvalue()
        elif block.kind == "sh":
            printed = "".join(run(command) for command in commands(block))
        elif block.title == PRINTS:
            assert matches(printed, block.text), f"{name}:{block.line} promises\n{block.text}\nand got\n{printed}"
        elif block.title is not None:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.kind != "text" or _COMMAND.search(textwrap.indent(block.text, "    ")):
            raise AssertionError(f"{name}:{block.line}: nothing runs this block of kind {block.kind!r}")
    return namespace


def matches(printed: str, promised: str) -> bool:
    """Return whether a text is the promised one, `…` standing for anything within a line."""
    pattern = re.escape(promised.strip()).replace("…", "[^\n]*")
    return re.fullmatch(pattern, printed.strip()) is not None


def run_command(command: str) -> str:
    """Run a `gossamer` command in this process and return what it printed; it must not fail.

    That a certificate holds but for assumptions that are not met, exit code 2 of `verify`, is an answer.
    """
    program, *arguments = shlex.split(command)
    assert program == "gossamer", f"{command!r} is neither run by the tests nor in their table"
    code, output, errors = invoke(arguments)
    answered = code == 0 or (arguments[0] == "verify" and code == 2)
    assert answered, f"{command!r} ended with exit code {code}: {errors}"
    return output


def invoke(arguments: list[str]) -> tuple[int, str, str]:
    """Return the exit code of a `gossamer` command, what it printed, and what it said beside it."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()) as errors,
        mock.patch.object(sys, "argv", ["gossamer", *arguments]),
        mock.patch.dict("os.environ", {"COLUMNS": "200"}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as for a reader: a warning is no error
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return code, output.getvalue(), errors.getvalue()


def reader_folder(folder: Path) -> Iterator[Path]:
    """Make a folder in which pages are carried out: what they mention of the repository is there."""
    for name in ("docs", "examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    yield folder
