"""An estimator's own method, made short: for checks that fit many tables and ask little of the fits."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shortened:
    """Few steps of all records each, whose noise is calibrated in no time."""

    steps: int = 20

    def __call__(self, default):
        return dataclasses.replace(default, steps=self.steps)
