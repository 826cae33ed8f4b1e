"""The networks of ghost.py in PyTorch: a plain gradient, Opacus hooks and Opacus ghost clipping. Prints JSON lines.

Run by ghost.py with an interpreter that has torch and opacus: `python opacus_side.py mlp-2048`.
"""

import json
import sys
import time
from itertools import pairwise

import torch
from opacus import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
from torch import nn
from torch.nn import functional

CLIP = 0.5
ROUNDS = 15
PATIENCE = 10.0
LARGEST = 4e9


class Block(nn.Module):
    """A residual block of ResNet-20 with GroupNorm."""

    def __init__(self, ins: int, outs: int):
        super().__init__()
        stride = 1 if ins == outs else 2
        self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, outs), nn.GroupNorm(8, outs)
        self.shortcut = None if ins == outs else nn.Conv2d(ins, outs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the block."""
        y = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def network(case: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    kind, size = case.split("-")
    if kind == "mlp":
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)]
        return nn.Sequential(*layers), torch.randn(int(size), 784), torch.sign(torch.randn(int(size), 1))
    channels = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(n, m) for n, m in pairwise(channels)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16), nn.ReLU()]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return model, torch.randn(int(size), 3, 32, 32), torch.randint(0, 10, (int(size),))


def losses(out: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    if label.dtype == torch.int64:
        return functional.cross_entropy(out, label, reduction="none")
    return functional.softplus(-label * out)[:, 0]


def steps(case: str) -> dict:
    """Functions that compute one (clipped) gradient each."""

    def plain():
        model, x, label = network(case)

        def run():
            model.zero_grad()
            losses(model(x), label).mean().backward()

        return run

    def hooks():
        model, x, label = network(case)
        model = GradSampleModule(model)

        def run():
            model.zero_grad()
            losses(model(x), label).mean().backward()
            samples = [p.grad_sample for p in model.parameters()]
            norms = torch.stack([s.flatten(1).norm(dim=1) for s in samples]).norm(dim=0) * len(x)
            factors = (CLIP / (norms + 1e-6)).clamp(max=1.0)
            for p, sample in zip(model.parameters(), samples, strict=True):
                p.grad = torch.einsum("i,i...->...", factors, sample)
                p.grad_sample = None

        return run

    def ghost():
        model, x, label = network(case)
        model = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True)

        def run():
            model.zero_grad()
            each = losses(model(x), label)
            each.mean().backward(retain_graph=True)
            factors = model.get_clipping_coef()
            model.zero_grad()
            model.disable_hooks()
            (factors * each).sum().backward()
            model.enable_hooks()

        return run

    return {"torch plain": plain, "opacus hooks": hooks, "opacus ghost": ghost}


def main(case: str) -> None:
    torch.manual_seed(0)
    model, x, _ = network(case)
    size = 4 * len(x) * sum(p.numel() for p in model.parameters())
    for name, make in steps(case).items():
        if name == "opacus hooks" and size > LARGEST:
            continue
        run, times = make(), []
        run()
        while len(times) < 2 or (len(times) < ROUNDS and sum(times) < PATIENCE):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(json.dumps({"method": name, "times": times}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
