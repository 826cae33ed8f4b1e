"""What a person may choose about an experiment."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """How to run an experiment.

    Args:
      data_dir: where data files are; None leaves it to `gossamer.datasets.files.directory`.
      out: the directory that tables, figures and certificates are written to.
      quick: whether to run a small version that only shows that everything works.
      seed: fixes all randomness, so that figures can be reproduced: the data sets are public.
      data: which data set; None for the experiment's own choice.
    """

    data_dir: Path | None
    out: Path
    quick: bool = False
    seed: int = 0
    data: str | None = None

    def command(self, name: str) -> str:
        """Return the command that repeats experiment `name`; directories are left out, they do not change results."""
        words = ["gossamer reproduce", name, f"--seed {self.seed}"]
        if self.data is not None:
            words.append(f"--data {self.data}")
        if self.quick:
            words.append("--quick")
        return " ".join(words)
