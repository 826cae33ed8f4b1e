"""Numbers as configurations keep them, and what messages show of what may hold records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.base.messages import is_number, is_whole, plain, shown
from gossamer.privacy.certificate import certify


@pytest.mark.parametrize("given", [3, np.int64(3), np.uint8(3), np.array(3), jnp.int32(3)])
def test_whole_numbers_of_all_kinds_become_pythons_own(given):
    assert type(plain(given)) is int
    assert is_whole(plain(given), least=3)
    assert not is_whole(plain(given), least=4)


@pytest.mark.parametrize("given", [0.5, np.float32(0.5), np.float64(0.5), jnp.float32(0.5)])
def test_other_numbers_of_all_kinds_become_pythons_own(given):
    assert (type(plain(given)), plain(given)) == (float, 0.5)
    assert is_number(plain(given))
    assert not is_whole(plain(given))


def test_truth_values_are_no_numbers():
    for given in (True, np.bool_(True), np.array(True)):
        assert plain(given) is True
        assert not is_number(plain(given))
        assert not is_whole(plain(given))


def test_what_is_no_number_stays_as_it_is():
    for given in (None, "a", np.zeros(1), jax.random.key(0), np.sin):
        assert plain(given) is given
    assert plain([np.int64(1), [2.0]]) == (1, (2.0,))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (0.5, "0.5"),
        ("GD", "'GD'"),
        (np.full((2, 3), 7, np.float32), "float32[2, 3]"),
        ((np.full(4, 7.5), [7, "seven"]), "(float64[4], [int, str])"),
        ([7.0] * 20, f"[{', '.join(['float'] * 8)} and 12 more]"),
        ({"seven": 7}, "dict"),
        (gs.methods.GD, "the class GD"),
    ],
)
def test_messages_show_types_and_shapes_of_what_may_hold_records(given, text):
    assert shown(given) == text


def test_a_certificate_of_numpys_numbers_is_that_of_pythons():
    """One with NumPy's would fail to be written as JSON, after the budget is spent."""
    texts = {
        certify(
            gs.plan(
                gs.methods.Spider(
                    steps=i(4), batch_size=i(5), clip=f(0.5), learning_rate=f(0.5), noise=kind((f(1), f(2)))
                ),
                n=i(20),
                budget=gs.Budget(f(1), f(2**-10)),
            ),
            gs.ERM(gs.objectives.logistic),
            seed=None,
            diagnostics=False,
        ).to_json()
        for i, f, kind in ((int, float, tuple), (np.int64, np.float32, list))
    }
    assert len(texts) == 1
