"""The robust experiments: their measures, and small runs from files to tables."""

import math

import jax
import numpy as np
import pytest
from testkit.images import TRAIN, write_images

import gossamer as gs
from gossamer.experiments import Settings, dro, mia, pictures
from gossamer.models import init_mlp


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Return a directory of small data files."""
    return write_images(tmp_path_factory.mktemp("data"))


@pytest.mark.deep
def test_a_quick_run_writes_all_that_a_full_one_does(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "HELD_OUT", 100)
    dro.main(Settings(data_dir, tmp_path, quick=True))
    header, *rows = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("data,method,ε,rate ×,accuracy,AUC,F1,worst class")
    assert [row.split(",")[1] for row in rows] == ["SGDA", "DoubleSpider"]
    assert (tmp_path / "dro.png").read_bytes().startswith(b"\x89PNG")
    certificates = list((tmp_path / "certificates").glob("*.json"))
    assert len(certificates) == 2
    for path in certificates:
        certificate = gs.Certificate.from_json(path.read_text(encoding="utf-8"))
        assert certificate.n == 333 < TRAIN  # 300 negatives and a tenth of positives
        assert certificate.verify()


@pytest.mark.deep
def test_a_quick_attack_writes_its_table(data_dir, tmp_path):
    mia.main(Settings(data_dir, tmp_path, quick=True))
    header, *rows = (tmp_path / "mia.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("method,ε,attack,AUC")
    assert [row.split(",")[2] for row in rows] == ["loss", "confidence", "lira"]
    assert (tmp_path / "mia.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_measures_of_a_network_that_always_says_the_first_class():
    rng = np.random.default_rng(0)
    records = rng.normal(size=(40, 3)).astype(np.float32), (np.arange(40) % 4 == 0).astype(np.float32)
    first, last = init_mlp(jax.random.key(0), 3, (2,))
    found = dro.measure((first, {**last, "bias": last["bias"] - 2.0}), records, records)
    assert found["accuracy"] == 0.75
    assert found["worst"] == 0.0
    assert found["auc"] == 0.5
    assert found["f1"] == pytest.approx((2 * 0.75 / 1.75 + 0.0) / 2)
    # All records have a loss of one of two values; the worst case in the ball raises the rare label to a share p, and
    # the gradient is its mean: of the biases −(p − q), with q = sigmoid(−2).
    losses = np.where(records[1] == 1, np.logaddexp(0, 2.0), np.logaddexp(0, -2.0))
    p = dro.robust().worst_case(losses).weights[records[1] == 1].sum()
    assert found["gradient"] >= abs(p - 1 / (1 + math.exp(2.0)))


def test_published_figures_are_complete():
    assert {(task.title, name) for task in dro.TASKS for name in dro.ENTRIES if name != "SGD"} == set(dro.PUBLISHED)
    assert all(len(figures) == len(dro.EPSILONS) - 1 for figures in dro.PUBLISHED.values())
