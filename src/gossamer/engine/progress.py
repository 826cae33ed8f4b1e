"""A progress bar that shows public values only."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """A bar on the terminal's error stream; silent when that is not a terminal."""

    def __init__(self, title: str, steps: int, shown: bool):
        console = Console(stderr=True)
        self.shown = shown and console.is_terminal
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
        )
        self._bar = RichProgress(*columns, console=console, disable=not self.shown)
        self._task = self._bar.add_task(title, total=steps, values="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._bar.stop()

    def update(self, done: int, **values: float) -> None:
        """Show how many steps are done, and public values."""
        text = "  ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in values.items())
        self._bar.update(self._task, completed=done, values=text)
