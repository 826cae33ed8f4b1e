"""Run benchmarks by name, each in a process of its own: `python benchmarks/run.py [name ...]`.

Without names all of them run. Every benchmark prints ratios between competitors that took turns in one run, so that
whatever else the machine does falls on all of them alike.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ALL = (
    *("steps", "sampling", "calibration", "commands", "ghost", "svrg", "minimax", "stored", "processes", "people"),
    "tables",
)
NAMES = [name for name in ALL if (HERE / f"{name}.py").exists()]


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    codes = []
    for name in names or NAMES:
        print(f"\n{name}", flush=True)
        codes.append(subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
