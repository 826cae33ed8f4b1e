"""Values that nobody has listed, by noisy counts: the mechanism of `gossamer.privacy.discovery`, which has the proof.

Counts are whole numbers. In points of 2⁻¹⁶ they are whole numbers too, and so is the noise, which has the law of a
rounded Gaussian (`gossamer.oracle.integer_noise`): count + noise is a Gaussian answer, rounded, and rounding is
post-processing. What the sampler's error costs is charged for c·n numbers, more than are ever drawn.
"""

import math
from collections.abc import Sequence

import jax
import numpy as np

from gossamer.base.generator import check_key
from gossamer.oracle.integer_noise import integers
from gossamer.privacy import arithmetic
from gossamer.privacy.discovery import Discovery

_POINTS = 2.0**16


def discovered(
    columns: Sequence[np.ndarray], discovery: Discovery, deviation: float, key: jax.Array, kinds: int = 1
) -> tuple[tuple[str, ...], ...]:
    """Return the values of each column whose noisy count is above the threshold, in alphabetical order.

    Args:
      columns: the text of each record, "" for a missing one, one array for each of the discovery's columns.
      discovery: what was planned.
      deviation: of the noise of a count; 0 adds none.
      key: of the noise.
      kinds: how many kinds of query the whole run has, which share what the sampler's error is charged for.
    """
    check_key("key", key)
    if len(columns) != discovery.columns:
        raise ValueError(f"the discovery was planned for {discovery.columns} columns, and there are {len(columns)}.")
    numbers = kinds * len(columns) * len(columns[0])
    if numbers * deviation * _POINTS > arithmetic.MOST_NOISE or deviation * _POINTS > arithmetic.LARGEST_NOISE:
        raise ValueError("the noise is larger than the sampler's error is charged for. Allow a larger epsilon.")
    least = math.ceil(discovery.threshold * deviation * _POINTS) + 1
    found = []
    for column, own in zip(columns, jax.random.split(key, len(columns)), strict=True):
        values, counts = np.unique(column, return_counts=True)
        points = counts * int(_POINTS)
        if deviation and len(values):
            with jax.enable_x64(True):
                noise = np.asarray(integers(own, (len(values),), np.float64(deviation * _POINTS)))
            points = points + noise.astype(np.int64)
        found.append(tuple(str(value) for value in values[points >= least] if value))
    return tuple(found)
