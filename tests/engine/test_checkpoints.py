"""A run that is killed and continued is the run that was never interrupted."""

import io
import os
import random
import signal
import stat
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.catalogue import ENTRIES
from testkit.rings import deep_but

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.engine.checkpoints import Checkpoints
from gossamer.learn import PrivateAUCClassifier


class Killed(BaseException):
    """What a run is interrupted by in these tests: nobody catches it."""


def killed_after(saves, monkeypatch):
    """Let a run die right after so many checkpoints."""
    save, count = Checkpoints.save, iter(range(1000))

    def saving(self, identity, run):
        save(self, identity, run)
        if next(count) + 1 == saves:
            raise Killed

    monkeypatch.setattr(Checkpoints, "save", saving)


def same(one, other):
    """Whether two results agree bit for bit."""
    leaves = [jax.tree.leaves((result.params, result.history)) for result in (one, other)]
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(*leaves, strict=True))
    assert one.certificate == other.certificate


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(ENTRIES, "SGD", "SVRG", "PrivateDiff", "RGDA in one pass"))
def test_a_continued_run_is_the_uninterrupted_one(name, tmp_path, monkeypatch):
    entry = ENTRIES[name]
    whole = entry.solve(seed=0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(2, patch)
        entry.solve(seed=0, checkpoints=Checkpoints(tmp_path, every=1))
    # Another seed: a continued run goes on with the keys that it finds.
    continued = entry.solve(seed=1, checkpoints=Checkpoints(tmp_path, every=1, resume=True))
    same(continued, whole)
    same(entry.solve(seed=2, checkpoints=Checkpoints(tmp_path, resume=True)), whole)


@pytest.mark.slow
def test_entropy_of_the_operating_system_is_kept_too(tmp_path, monkeypatch):
    entry = ENTRIES["SGD"]
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(1, patch)
        entry.solve(checkpoints=Checkpoints(tmp_path / "a", every=1))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.npz").write_bytes((tmp_path / "a" / "run.npz").read_bytes())
    results = [entry.solve(checkpoints=Checkpoints(tmp_path / name, resume=True)) for name in "ab"]
    same(*results)
    fresh = entry.solve()
    assert fresh.history["gradient_norm"].tobytes() != results[0].history["gradient_norm"].tobytes()


@pytest.mark.slow
def test_the_first_checkpoint_precedes_the_first_query(tmp_path, monkeypatch):
    asked = []
    real = loop.advance

    class Watched:
        lower = staticmethod(real.lower)

        def __call__(self, *arguments, **options):
            asked.append((tmp_path / "run.npz").exists())
            return real(*arguments, **options)

    monkeypatch.setattr(loop, "advance", Watched())
    ENTRIES["GD"].solve(seed=0, checkpoints=Checkpoints(tmp_path))
    assert asked == [True]


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Return the folder of a run of GD that was killed after two of six steps."""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(3, patch)
        ENTRIES["GD"].solve(seed=0, checkpoints=Checkpoints(tmp_path / "run", every=1))
    return tmp_path / "run"


def test_what_is_refused(begun, monkeypatch):
    entry = ENTRIES["GD"]
    resume = Checkpoints(begun, resume=True)
    X, y = entry.data
    moved = X.copy()
    moved[7, 2] = np.nextafter(moved[7, 2], np.float32(9))
    with pytest.raises(ValueError, match="checkpoint of a run that was begun"):
        entry.solve(checkpoints=Checkpoints(begun))
    with pytest.raises(ValueError, match="another table of records"):
        entry._replace(data=(moved, y)).solve(seed=0, checkpoints=resume)
    with pytest.raises(ValueError, match="another configuration"):
        entry.solve(gs.methods.GD(steps=6, learning_rate=0.7), seed=0, checkpoints=resume)
    with pytest.raises(ValueError, match="another configuration"):
        entry.solve(budget=gs.Budget(3.0, 1e-3), seed=0, checkpoints=resume)
    with pytest.raises(ValueError, match="another configuration"):
        entry.solve(seed=None, checkpoints=resume)
    with pytest.raises(ValueError, match="diagnostics=True does not go"):
        entry.solve(seed=0, checkpoints=resume, diagnostics=True)
    monkeypatch.setattr("gossamer.privacy.certificate._versions", lambda: {"gossamer": "0.0.1"})
    with pytest.raises(ValueError, match="another version of Gossamer or JAX"):
        entry.solve(seed=0, checkpoints=resume)


@pytest.mark.slow
def test_a_loss_of_the_same_name_is_another_program(tmp_path, monkeypatch):
    def entry(scale):
        def loss(params, record):
            return scale * gs.objectives.logistic(params, record)

        return ENTRIES["GD"]._replace(problem=gs.ERM(loss))

    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(1, patch)
        entry(1.0).solve(seed=0, checkpoints=Checkpoints(tmp_path))
    with pytest.raises(ValueError, match="another program"):
        entry(2.0).solve(seed=0, checkpoints=Checkpoints(tmp_path, resume=True))
    entry(1.0).solve(seed=0, checkpoints=Checkpoints(tmp_path, resume=True))


@pytest.mark.slow
def test_part_of_a_file_is_never_taken_for_the_whole(begun):
    path = begun / "run.npz"
    content = path.read_bytes()
    resume = Checkpoints(begun, resume=True)
    rng = random.Random(0)
    cuts = [content[: rng.randrange(len(content))] for _ in range(30)]
    flips = [bytes(b ^ (i == place) for i, b in enumerate(content)) for place in (len(content) // 2, len(content) // 3)]
    for damaged in (*cuts, *flips, b"", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.npz (is not a whole checkpoint|belongs to a run of another)"):
            ENTRIES["GD"].solve(seed=0, checkpoints=resume)
    path.write_bytes(content)
    same(ENTRIES["GD"].solve(seed=0, checkpoints=resume), ENTRIES["GD"].solve(seed=0))


def test_only_the_owner_reads_it_and_nothing_else_is_left(begun):
    assert [path.name for path in begun.iterdir()] == ["run.npz"]
    assert stat.S_IMODE((begun / "run.npz").stat().st_mode) == 0o600
    Checkpoints(begun).remove()
    assert not begun.exists()


@pytest.mark.deep
def test_what_was_bought_before_the_run_is_not_bought_twice(tmp_path, monkeypatch):
    X, y = ENTRIES["GD"].data
    options = {"epsilon": 1.0, "delta": 1e-3, "data_norm": 1.0, "classes": [0, 1]}
    options["method"] = gs.methods.SGDA(steps=3, batch_size=8)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(2, patch)
        PrivateAUCClassifier(**options, checkpoints=Checkpoints(tmp_path, every=1)).fit(X, y)
    resumed = {**options, "checkpoints": Checkpoints(tmp_path, resume=True)}
    models = [PrivateAUCClassifier(**resumed).fit(X, y) for _ in range(2)]
    assert models[0].positive_share_ == models[1].positive_share_
    assert models[0].certificate_.verify()
    with pytest.raises(ValueError, match="another table of records"):
        PrivateAUCClassifier(**resumed).fit(X, 1 - y)


def test_bits_of_types_that_numpy_does_not_know(tmp_path):
    run = {"weights": jnp.arange(4, dtype=jnp.bfloat16), "key": new_key(3)}
    saved = Checkpoints(tmp_path)
    saved.begin({"name": "x"}, run)
    like = {"weights": jnp.zeros(4, jnp.bfloat16), "key": new_key(0)}
    back = Checkpoints(tmp_path, resume=True).begin({"name": "x"}, like)
    assert back["weights"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(back["weights"], run["weights"])
    assert jax.random.key_data(back["key"]).tolist() == jax.random.key_data(run["key"]).tolist()


LONG_RUN = """
import sys
import numpy as np
import gossamer as gs
from testkit.catalogue import ENTRIES
method = gs.methods.SGD(steps=100_000, batch_size=8)
print("begun", flush=True)
result = ENTRIES["SGD"].solve(method, seed=0, checkpoints=gs.Checkpoints(sys.argv[1], every=200, resume=True))
print(np.asarray(result.params["weights"]).tobytes().hex(), flush=True)
print(result.certificate.to_json().replace("\\n", " "), flush=True)
"""
KILLS = 10


@pytest.mark.deep
def test_kill_minus_nine_at_ten_moments(tmp_path):
    """One run is killed 10 times and continued: at any moment of its start, or at any moment after a new checkpoint."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
    command = [sys.executable, "-c", LONG_RUN, str(tmp_path / "run")]
    saved = tmp_path / "run" / "run.npz"
    rng, reached = random.Random(1), set()
    for kill in range(KILLS):
        before = saved.stat().st_mtime_ns if saved.exists() else None
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
            assert process.stdout.readline() == "begun\n"
            while kill % 2 and (not saved.exists() or saved.stat().st_mtime_ns == before) and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.1 if kill % 2 else 1.0))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        if saved.exists():
            with np.load(io.BytesIO(saved.read_bytes()[:-32])) as file:  # raises if it is not whole
                numbers = [file[name] for name in file if file[name].shape == ()]
            reached.add(tuple(int(number) for number in numbers if number.dtype == np.int32))  # the step among them
    assert len(reached) >= 4, reached  # it moved on between the kills
    whole = [*command[:-1], str(tmp_path / "whole")]
    printed = [subprocess.check_output(line, env=environment, text=True) for line in (command, whole)]
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == 3


def black_box(moved, version):
    """A black box in Python: what it does is not in the compiled program."""
    return gs.BlackBox(lambda x, records: np.sum((records - x - moved) ** 2, axis=-1), python=True, version=version)


def solve_black_box(problem, checkpoints, seed=0):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(64, 2)), jnp.float32)
    method, budget = gs.methods.O2NC(steps=4, inner_steps=5), gs.Budget(1.0, 1e-3)
    return gs.solve(problem, data, method, budget, init=jnp.zeros(2), seed=seed, checkpoints=checkpoints)


@pytest.mark.deep
def test_other_python_code_does_not_go_on_with_the_noise_of_a_saved_run(tmp_path, monkeypatch):
    """Two answers under one noise would differ by a number that nothing hides."""
    with pytest.raises(ValueError, match="version="):
        solve_black_box(black_box(0.0, None), Checkpoints(tmp_path))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(2, patch)
        solve_black_box(black_box(0.0, "first"), Checkpoints(tmp_path, every=1))
    with pytest.raises(ValueError, match="configuration"):
        solve_black_box(black_box(1.0, "second"), Checkpoints(tmp_path, resume=True))
    continued = solve_black_box(black_box(0.0, "first"), Checkpoints(tmp_path, resume=True), seed=1)
    same(continued, solve_black_box(black_box(0.0, "first"), None))
