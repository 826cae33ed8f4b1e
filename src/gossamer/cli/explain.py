"""`gossamer explain`: what a model has learned of each column."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import shared

if TYPE_CHECKING:
    from gossamer.runs.explaining import Effect


def explain(
    run: Annotated[Path, typer.Argument(help="The folder of a run, as `gossamer fit --out` wrote it.")],
    plot: Annotated[Path | None, typer.Option(help="Also draw the columns that matter most, to a file .png.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Print how far each column moves the score of a linear or additive model, the one that matters most first.

    Of an additive model, --plot draws the function of each column. It is read off the released model, so that it costs
    no privacy.
    """
    from gossamer.runs import explaining
    from gossamer.runs.folder import load

    if plot is not None and plot.suffix != ".png":
        raise ValueError(f"--plot {plot} must be a file .png.")
    loaded = load(run)
    effects, scores = explaining.explain(loaded), explaining.scores_of(loaded)
    title = f"How far each column moves {explaining.meaning(loaded)}"
    if plot is not None:
        draw = _draw_functions if loaded.recipe.record.additive else _draw
        draw(plot, title, effects[: explaining.MOST_SHOWN], scores)
    shared.say(as_json, explaining.told(loaded), "\n".join(_lines(title, effects, scores)))


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


def _draw_functions(path: Path, title: str, shown: "list[Effect]", scores: list[str]) -> None:
    """Draw a small picture for each column: a curve of a number, and points for values and for what is missing."""
    from gossamer.experiments.outputs import save_figure

    across = 2 if len(shown) == 4 else min(3, len(shown))
    down = -(-len(shown) // across)

    def draw(figure: Any) -> None:
        panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axis, each in zip(panels, shown, strict=False):
            for place, score in enumerate(scores):
                color = f"C{place}"
                if each.curve is None:
                    axis.plot(range(len(each.values)), each.scores[:, place], "o", color=color, label=score)
                    continue
                values, moved = each.curve
                axis.plot(values, moved[:, place], color=color, label=score)
            if each.curve is None:
                axis.set_xticks(range(len(each.values)), each.values, rotation=30, ha="right", fontsize=7)
                axis.margins(x=0.15)
            axis.axhline(0, color="#ccc", linewidth=1, zorder=0)
            axis.set_title(each.column, fontsize=9)
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
        for axis in panels[len(shown) :]:
            axis.set_visible(False)
        if len(scores) > 1:
            figure.axes[0].legend(fontsize=7)
        figure.suptitle(title, fontsize=11)

    save_figure(path.with_suffix(""), draw, size=(2.9 * across, 0.6 + 2.1 * down))


def _draw(path: Path, title: str, shown: "list[Effect]", scores: list[str]) -> None:
    from gossamer.experiments.outputs import save_figure

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
