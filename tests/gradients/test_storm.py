"""STORM: what it asks of a record, and that its recursion estimates a mean."""

import jax.numpy as jnp
import numpy as np
import pytest

from gossamer import gradients


def _value(w, z):
    return w * z**2


@pytest.mark.parametrize(("momentum", "expected"), [(1.0, 9.0), (0.0, 18.0), (0.9, 9.9)])
def test_change_is_taken_at_one_record(momentum, expected):
    """2·3² − m·1·3²."""
    assert float(gradients.change(_value, 2.0, 1.0, momentum)(jnp.float32(3.0))) == pytest.approx(expected)


def test_the_recursion_is_exact_when_every_record_is_asked():
    """s_t = mean f(w_t), whatever the weight of the past, as long as it was exact before."""
    records = np.array([0.5, -1.0, 2.0])
    for momentum in (0.0, 0.7, 1.0):
        s = np.mean(1.0 * records**2)
        for before, at in ((1.0, 1.5), (1.5, 0.2)):
            change = gradients.change(_value, at, before, momentum)
            s = np.mean([change(z) for z in records]) + momentum * s
        assert s == pytest.approx(np.mean(0.2 * records**2), rel=1e-5)


def test_the_threshold_is_never_exceeded_and_is_reached():
    """Over all pairs f, f′ in [0, 4] with |f − f′| ≤ change, the largest |f − m f′| is the threshold."""
    f = np.linspace(0.0, 4.0, 81)
    for momentum in (0.0, 0.6, 1.0):
        for change in (0.0, 0.5, 9.0):
            near = np.abs(f[:, None] - f) <= change + 1e-12
            largest = np.max(np.abs(f[:, None] - momentum * f)[near])
            threshold = float(gradients.storm_clip(4.0, momentum, jnp.float32(change)))
            assert largest == pytest.approx(threshold, rel=1e-6)
