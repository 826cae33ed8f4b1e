"""How a run goes: `gs.solve`, the compiled loop, checkpoints, progress, diagnostics, forecasts."""

from gossamer.engine import diagnostics

__all__ = ["diagnostics"]
