"""The Opacus side of `steps.py`: its DP-SGD on logistic regression.

As its tutorials do it: a `PrivacyEngine` wraps a linear layer, SGD and a `DataLoader` without workers; samples are
Poisson; a step is `zero_grad`, loss, `backward`, `step`, and its time includes drawing and collating the batch.
PyTorch gets one thread: on busy cores two were far slower. Run by `steps.py` with an interpreter that has
torch and opacus; prints one line of JSON: for each way of clipping the seconds per step, by the clock and of CPU.

    python benchmarks/opacus_logistic.py rows features batch warm_up steps
"""

import json
import sys
import time
import warnings
from collections.abc import Iterable
from itertools import chain, islice, repeat

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset


def seconds_per_step(mode: str, table: TensorDataset, batch: int, warm_up: int, steps: int) -> tuple[float, float]:
    features = table.tensors[0].shape[1]
    linear = torch.nn.Linear(features, 1)
    criterion = torch.nn.BCEWithLogitsLoss()
    model, optimizer, *wrapped, loader = PrivacyEngine().make_private(
        module=linear,
        optimizer=torch.optim.SGD(linear.parameters(), lr=0.5),
        criterion=criterion,
        data_loader=DataLoader(table, batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=True,
        grad_sample_mode=mode,
    )
    if wrapped:
        criterion = wrapped[0]

    def run(batches: Iterable[list[torch.Tensor]]) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    batches = chain.from_iterable(repeat(loader))
    run(islice(batches, warm_up))
    begun, cpu = time.perf_counter(), time.process_time()
    run(islice(batches, steps))
    return (time.perf_counter() - begun) / steps, (time.process_time() - cpu) / steps


def main(rows: int, features: int, batch: int, warm_up: int, steps: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(rows, features), dim=1)
    table = TensorDataset(x, (x @ torch.randn(features, 1) > 0).float())
    print(json.dumps({mode: seconds_per_step(mode, table, batch, warm_up, steps) for mode in ("hooks", "ghost")}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
