"""`gossamer bench`: what privacy costs in time on this machine."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import shared

if TYPE_CHECKING:
    from gossamer.engine.bench import Measured


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Only a linear model and a simple schedule, in fewer rounds.")
    ] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Measure private steps beside the same steps without privacy, sampling, and finding the noise."""
    from gossamer.engine.bench import measure

    measured = measure(quick)
    if as_json:
        shared.say(True, _plain(measured), "")
    else:
        _show(measured)


def _plain(measured: "Measured") -> dict[str, Any]:
    return {**measured._asdict(), "steps": [step._asdict() for step in measured.steps]}


def _show(measured: "Measured") -> None:
    from rich.console import Console
    from rich.table import Table

    from gossamer.engine.bench import BATCH, COLUMNS, HIDDEN, ROWS

    shown = {"linear": f"logistic regression, {COLUMNS} columns", "network": f"perceptron, hidden layers {HIDDEN}"}
    steps = Table("a step", "private, µs", "plain JAX, µs", "private : plain")
    for step in measured.steps:
        micros = (f"{1e6 * step.private:.1f}", f"{1e6 * step.plain:.1f}")
        steps.add_row(shown[step.model], *micros, f"{step.ratio:.2f}")
    once = Table("once a run", "seconds")
    for name, seconds in measured.calibration.items():
        once.add_row(f"finding the noise of {name}", f"{seconds:.2f}")
    console = Console()
    console.print(f"{ROWS} random rows, samples of {BATCH}; {', '.join(map(str, measured.machine.values()))}")
    console.print(steps)
    console.print(f"of the first private step, {1e6 * measured.draw:.1f} µs draw the Poisson sample")
    console.print(once)
