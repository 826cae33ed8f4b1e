"""One private run in several processes, each with its own rows: here on one machine, elsewhere under any launcher.

    python examples/two_processes.py --process 0 --checkpoints run &
    python examples/two_processes.py --process 1 --checkpoints run

If a process is lost, the others stop within a minute and say so; the same commands with --resume continue the run.
Under Slurm or Kubernetes leave out the three arguments of `jax.distributed.initialize`: docs/scale.md has the details.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

import gossamer as gs


def rows(which: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return some rows of a table: every process makes, or reads, only its own."""
    made = [np.random.default_rng(i).normal(size=8) for i in range(which.start, which.stop)]
    X = np.stack([row / max(1.0, np.linalg.norm(row)) for row in made]).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > 0).astype(np.float32)


def main() -> None:
    """Train on this process's rows together with the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--process", type=int, default=0, help="which process this is")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--address", default="127.0.0.1:12345", help="where process 0 listens")
    parser.add_argument("--records", type=int, default=4001)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--checkpoints", default="run", help="a folder that all processes see")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()

    jax.config.update("jax_enable_recoverability", True)  # a lost process is an error to handle, not an abort
    jax.distributed.initialize(given.address, given.processes, given.process, heartbeat_timeout_seconds=20)
    mesh = Mesh(jax.devices(), ("records",))
    result = gs.solve(
        gs.ERM(gs.objectives.logistic),
        rows(gs.local_rows(given.records, mesh)),
        gs.methods.SGD(steps=given.steps, batch_size=256),
        gs.Budget(epsilon=1.0, delta=1e-5),
        init={"weights": jnp.zeros(8), "intercept": jnp.zeros(())},
        seed=0,  # for the example only: leave it out, and the first process takes entropy for all
        mesh=mesh,
        checkpoints=gs.Checkpoints(given.checkpoints, every=100, resume=given.resume),
    )
    print("weights", " ".join(f"{value:.9g}" for value in np.asarray(result.params["weights"])))
    print("epsilon", result.certificate.epsilon)

    multihost_utils.sync_global_devices("done")
    if given.process == 0:
        time.sleep(5)  # the others ask it for leave: a process whose first one is gone calls that a loss
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
