"""Two real processes are one run; when one is killed the other says so and stops, and both can go on."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from gossamer.base import processes
from gossamer.base.entropy import new_key
from gossamer.base.exceptions import LostProcessError
from gossamer.engine.solving import _stops

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_processes.py"
SECONDS = 240


def start(folder, process, processes, address, *options, devices=1):
    flags = f"--xla_backend_optimization_level=0 --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, EXAMPLE, "--process", process, "--processes", processes, "--address", address]
    command += ["--steps", "3000", "--checkpoints", folder, *options]
    return subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def numbers(process):
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    (line,) = (line for line in out.splitlines() if line.startswith("weights"))
    return np.array([float(word) for word in line.split()[1:]])


@pytest.mark.deep
def test_one_of_two_processes_is_killed(tmp_path):
    """The other ends within a minute with a message; resumed, both give every digit that one process alone gives."""
    run, saved = tmp_path / "run", tmp_path / "run" / "run.npz"
    where = address()
    pair = [start(run, process, 2, where) for process in range(2)]
    deadline, first = time.monotonic() + SECONDS, None
    while first is None or saved.stat().st_mtime_ns == first:  # until there is a checkpoint behind the first
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in pair)
        first = first or (saved.stat().st_mtime_ns if saved.exists() else None)
        time.sleep(0.005)
    pair[1].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    _, said = pair[0].communicate(timeout=SECONDS)
    pair[1].communicate()
    assert time.monotonic() - begun < 60
    assert pair[0].returncode != 0
    assert "process 0 of 2 stopped: it lost its connection to another process" in said
    assert "--resume" in said
    where = address()
    pair = [start(run, process, 2, where, "--resume") for process in range(2)]
    resumed = [numbers(process) for process in pair]
    alone = numbers(start(tmp_path / "alone", 0, 1, address()))
    np.testing.assert_array_equal(resumed[0], resumed[1])
    np.testing.assert_array_equal(resumed[0], alone)


def test_with_one_process_nothing_is_exchanged():
    tree = {"key": new_key(3), "number": np.float32(2)}
    assert processes.from_first(tree) is tree
    assert processes.of_all(2**61 - 1) == [2**61 - 1]
    assert processes.all_agree(lambda: 7) == 7
    with pytest.raises(ValueError, match="no"):
        processes.all_agree(lambda: (_ for _ in ()).throw(ValueError("no")))


def test_only_the_loss_of_a_process_is_called_one(monkeypatch):
    with pytest.raises(RuntimeError, match=r"^Gloo all-reduce failed"), processes.watched(""):
        raise RuntimeError("Gloo all-reduce failed: Connection reset by peer")
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(LostProcessError, match="Start again"), processes.watched("Start again."):
        raise RuntimeError("Gloo all-reduce failed: Connection reset by peer")
    with pytest.raises(ValueError, match="batch_size"), processes.watched(""):
        raise ValueError("batch_size = 0")


def test_many_processes_pause_at_the_same_steps(monkeypatch):
    def stops(shown):
        return list(_stops(0, 250, SimpleNamespace(shown=shown), None, None))

    assert stops(True) != stops(False), "one process alone goes by the clock of whoever watches it"
    monkeypatch.setattr(processes, "many", lambda: True)
    assert stops(True) == stops(False) == list(range(2, 251, 2))
