"""The papers' tables and figures, as commands: `gossamer reproduce NAME`.

An experiment is a module with `main(settings: Settings) -> None`, which writes to `settings.out`.
"""

import importlib

from gossamer.experiments.settings import Settings

__all__ = ["NAMES", "Settings", "run"]

NAMES = {
    "rates": "gossamer.experiments.rates",
    "minimax-rates": "gossamer.experiments.minimax_rates",
    "highdim": "gossamer.experiments.highdim",
    "erm": "gossamer.experiments.erm",
    "dro": "gossamer.experiments.dro",
    "mia": "gossamer.experiments.mia",
    "auc": "gossamer.experiments.auc",
    "td": "gossamer.experiments.td",
    "wgan": "gossamer.experiments.wgan",
    "zeroth": "gossamer.experiments.zeroth",
    "sensing": "gossamer.experiments.sensing",
    "people": "gossamer.experiments.people",
    "variance-reduction": "gossamer.experiments.variance_reduction",
    "tables": "gossamer.experiments.tables",
    "forecast": "gossamer.experiments.losses",
    "intervals": "gossamer.experiments.intervals",
}
"""The module of each experiment; modules are imported when they are run."""


def run(name: str, settings: Settings) -> None:
    """Run an experiment and write its results to `settings.out`, which is made if it does not exist."""
    if name not in NAMES:
        raise ValueError(f"name = {name!r} is not an experiment. Choose one of {', '.join(NAMES)}.")
    experiment = importlib.import_module(NAMES[name])
    settings.out.mkdir(parents=True, exist_ok=True)
    experiment.main(settings)
