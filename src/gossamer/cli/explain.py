"""`gossamer explain`: what a model has learned of each column."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import shared

if TYPE_CHECKING:
    from gossamer.runs.explaining import Effect

_MOST_DRAWN = 12


def explain(
    run: Annotated[Path, typer.Argument(help="The folder of a run, as `gossamer fit --out` wrote it.")],
    plot: Annotated[Path | None, typer.Option(help="Also draw the columns that matter most, to a file .png.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Print how far each column moves the score of a linear model, the one that matters most first.

    It is read off the released model, so that it costs no privacy.
    """
    from gossamer.runs import explaining
    from gossamer.runs.folder import load

    if plot is not None and plot.suffix != ".png":
        raise ValueError(f"--plot {plot} must be a file .png.")
    loaded = load(run)
    effects, scores = explaining.explain(loaded), explaining.scores_of(loaded)
    title = f"How far each column moves {explaining.meaning(loaded)}"
    if plot is not None:
        _draw(plot, title, effects, scores)
    content = {
        "scores": scores,
        "columns": [
            {"column": each.column, "values": list(each.values), "effects": each.scores.tolist()} for each in effects
        ],
    }
    shared.say(as_json, content, "\n".join(_lines(title, effects, scores)))


def _lines(title: str, effects: "list[Effect]", scores: list[str]) -> list[str]:
    """Return a table for people."""
    rows = [
        (each.column if place == 0 else "", value, *(f"{score:+.3f}" for score in moved))
        for each in effects
        for place, (value, moved) in enumerate(zip(each.values, each.scores, strict=True))
    ]
    # Names come from a file that somebody else may have written: no control characters reach the terminal.
    table = [[_printable(cell) for cell in cells] for cells in (("column", "value", *scores), *rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(cells, widths, strict=True)) for cells in table)
    ]
    return [
        f"{_printable(title)}, the one that matters most first:",
        "",
        *(line.rstrip() for line in lines),
        "",
        "A number is against the middle of its range, an amount against 0, and any other value against the mean over "
        "the column's values. Small effects may be nothing but the noise that protects the records.",
    ]


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)


def _draw(path: Path, title: str, effects: "list[Effect]", scores: list[str]) -> None:
    from gossamer.experiments.outputs import save_figure

    shown = effects[:_MOST_DRAWN]

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(scores), squeeze=False, sharey=True)[0]
        for place, (axis, score) in enumerate(zip(axes, scores, strict=True)):
            for line, each in enumerate(reversed(shown)):
                moved = each.scores[:, place]
                axis.plot([moved.min(), moved.max()], [line, line], color="#9ab", linewidth=2)
                ends = {int(moved.argmin()): "right", int(moved.argmax()): "left"}
                for value, side in ends.items():
                    axis.plot(moved[value], line, "o", color="#246")
                    shift = -6 if side == "right" else 6
                    axis.annotate(
                        each.values[value],
                        (moved[value], line),
                        (shift, 0),
                        textcoords="offset points",
                        ha=side,
                        va="center",
                        fontsize=8,
                    )
            axis.axvline(0, color="#ccc", linewidth=1, zorder=0)
            axis.set_yticks(range(len(shown)), [each.column for each in reversed(shown)])
            axis.margins(x=0.25)
            axis.spines[["top", "right", "left"]].set_visible(False)
            if len(scores) > 1:
                axis.set_title(score)
        figure.suptitle(title, fontsize=11)

    save_figure(path.with_suffix(""), draw, size=(4 + 3 * len(scores), 1.2 + 0.35 * len(shown)))
