"""Who is in which model."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.audit.game import draw_members


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_members_are_drawn_as_the_relation_demands(neighbors):
    """Halves of fixed size, or coins; shadow models in opposite pairs; attacked models independent."""
    members = draw_members(jax.random.key(0), 2_000, 40, gs.Budget(1.0, 1e-3, neighbors))
    shadows, attacked = members[:1_000], members[1_000:]
    np.testing.assert_array_equal(shadows[::2], ~shadows[1::2])
    sizes = attacked.sum(axis=1)
    if neighbors == "replace_one":
        assert set(sizes) == {20}
    else:  # the variance of Binomial(40, ½) is 10, and 1000 draws tell it to √(2/1000) = 4.5 %
        assert abs(np.var(sizes) / 10 - 1) < 5 * 0.045
    shares = attacked.mean(axis=0)  # to 0.016
    assert np.max(np.abs(shares - 0.5)) < 5 * 0.016
    agreement = np.mean(attacked[1:] == attacked[:-1])  # 999·40 coins, to 0.0025
    assert abs(agreement - 0.5) < 5 * 0.0025
