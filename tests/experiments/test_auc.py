"""The AUC experiment: its data, its cache, and a small run from files to table."""

import dataclasses
import gzip
import json
import math
import struct

import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments import Settings, auc

TRAIN, TEST = 600, 200


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Write files of images in which a class lights pixels of its own."""
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        (root / name).mkdir()
        for part, n in (("train", TRAIN), ("t10k", TEST)):
            labels = (np.arange(n) % 10).astype(np.uint8)
            images = rng.integers(0, 60, size=(n, 28, 28)).astype(np.uint8)
            images[np.arange(n), 2 * labels] = 255
            for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
                header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
                path = root / name / f"{part}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(header + array.tobytes()))
    return root


@pytest.fixture(scope="module")
def out(data_dir, tmp_path_factory):
    """Run the quick version once."""
    out = tmp_path_factory.mktemp("out")
    auc.main(Settings(data_dir, out, quick=True))
    return out


def test_a_quick_run_writes_all_that_a_full_one_does(out):
    header, *rows = (out / "table.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("data,method,neighbors,ε,AUC")
    assert len(rows) == 2 * 3 + 2  # MNIST, balanced or not, three methods; SGDA again with other neighbours
    assert (out / "auc.png").read_bytes().startswith(b"\x89PNG")
    for path in (out / "certificates").glob("*.json"):
        certificate = gs.Certificate.from_json(path.read_text(encoding="utf-8"))
        assert certificate.n == TRAIN
        assert certificate.verify()


def test_finished_runs_are_not_repeated(out, data_dir, monkeypatch):
    before = (out / "table.md").read_text(encoding="utf-8")
    monkeypatch.setattr(auc, "solve", lambda *_: pytest.fail("a run was repeated"))
    auc.main(Settings(data_dir, out, quick=True))
    assert (out / "table.md").read_text(encoding="utf-8") == before


def test_a_run_with_other_settings_is_not_taken_from_the_cache(out, data_dir, monkeypatch):
    """A changed learning rate must not be answered by the old score."""
    monkeypatch.setitem(auc.BALANCED, 1.0, dataclasses.replace(auc.BALANCED[1.0], rate=0.1))
    cache = auc.Cache(out / "runs.jsonl")
    known = {json.dumps(line["run"]) for line in cache.found.values()}
    cell = auc.Cell(auc.VARIANTS[1], "SGDA", 1.0, "replace_one", 0)
    method = dataclasses.replace(auc.configure(cell, TRAIN), steps=20)
    run = ["MNIST", "1.0", "replace_one", 0, TRAIN, None, repr(method)]
    assert json.dumps(run) not in known
    run[-1] = repr(method).replace("rate=0.1,", "rate=1.2,")
    assert json.dumps(run) in known


def test_imbalance_is_in_training_alone(data_dir, tmp_path):
    for variant in auc.VARIANTS:
        (X, y), (_, y_test) = auc.load(variant, Settings(data_dir, tmp_path))
        assert len(X) == len(y)
        assert y.mean() == pytest.approx(variant.share, abs=1 / len(y))
        assert y_test.mean() == 0.5


def test_held_out_images_are_not_trained_on(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(auc, "HELD_OUT", 100)
    (X, _), (held, _) = auc.load(auc.VARIANTS[0], Settings(data_dir, tmp_path, data="held-out"))
    assert (len(X), len(held)) == (TRAIN - 100, 100)
    assert not {row.tobytes() for row in X} & {row.tobytes() for row in held}


def test_an_unknown_choice_of_data_is_refused(data_dir, tmp_path):
    with pytest.raises(ValueError, match="data = 'train' must be held-out"):
        auc.load(auc.VARIANTS[0], Settings(data_dir, tmp_path, data="train"))


def test_published_figures_are_complete():
    for variant in auc.VARIANTS:
        for figures in variant.published.values():
            assert len(figures) == len(auc.EPSILONS)
    assert set(auc.BALANCED) == set(auc.IMBALANCED) == set(auc.EPSILONS)
    assert auc.EPSILONS[-1] == math.inf
