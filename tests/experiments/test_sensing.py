"""The matrix-sensing experiment: its data, its settings, and what it writes."""

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments import Settings, sensing


@pytest.mark.slow
def test_a_measurement_has_unit_variance_and_one_matrix_explains_it():
    """The variance of 4000 squares of standard normals has a standard error of √(2/4000) = 0.022."""
    a, b = sensing.table(4_000, np.random.default_rng(0))
    assert abs(np.var(b) - 1) < 5 * 0.023
    flat = a.reshape(len(a), -1)
    matrix, residual, *_ = np.linalg.lstsq(flat.astype(np.float64), b, rcond=None)
    assert abs(np.sqrt(residual[0] / (4_000 - 400)) - sensing.NOISE) < 0.1 * sensing.NOISE
    values = np.linalg.svd(matrix.reshape(20, 20), compute_uv=False)
    assert values[2] > 0.2
    assert values[3] < 0.05


def test_the_printed_settings():
    methods = sensing.methods(400, 400)
    assert set(methods) == set(sensing.PUBLISHED)
    for name, method in methods.items():
        first, *rest = method.schedule(400)
        assert first.sampling.rate == 200 / 400
        assert [query.sampling.rate for query in rest] == [50 / 400]
        assert first.count == 40, name
    assert methods["RGDA"].schedule(400)["difference"].count == 360


@pytest.mark.deep
def test_the_start_and_a_short_run():
    """At the start Φ is about ½ E b² = ½; two steps without noise, of length 0.2 each, lower it."""
    value, norm, smallest = sensing.outcome(None, sensing.BUDGET, 100, 0)
    assert 0.3 < value < 0.8
    assert smallest < 0 < norm
    method = gs.methods.RGDA(steps=2, ascent="public", batch_size=100, learning_rate_x=0.2, tolerance=1e-4)
    after, *_ = sensing.outcome(method, sensing.FREE, 100, 0)
    assert after < value


@pytest.mark.deep
def test_the_command_writes_a_table_and_certificates(tmp_path, monkeypatch):
    few = {"RGDA": gs.methods.RGDA(steps=2, period=2, ascent="public", batch_size=50, refresh_batch_size=200)}
    monkeypatch.setattr(sensing, "methods", lambda n, steps: few)
    monkeypatch.setattr(sensing, "outcome", lambda method, budget, n, seed: (0.5 + seed, 0.25, -0.125))
    sensing.main(Settings(None, tmp_path, quick=True))
    text = (tmp_path / "sensing.md").read_text(encoding="utf-8")
    assert "| start | 400 |  | 2 | 1 | 0.7071 | 0.25 | -0.125 |  |  |  |  |" in text
    assert "| RGDA | 400 | 2 | 2 | 1 | 0.7071 | 0.25 | -0.125 |" in text
    assert text.count("0.9119") == 1
    certificate = gs.Certificate.from_json((tmp_path / "certificates" / "RGDA-400.json").read_text(encoding="utf-8"))
    noise = certificate.schedule["gradient"].noise_multiplier * np.sqrt(120) / 200
    assert f"| {noise:.4g} | 0.9119 |" in text
    assert json.loads(certificate.to_json())["epsilon"] == 2.0
