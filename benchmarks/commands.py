"""How long the command line takes to answer, beside starting Python and importing NumPy and SciPy, which it needs.

Each command runs in a process of its own, in turns; processor seconds, the least of five.

    python benchmarks/commands.py
"""

import resource
import subprocess
import sys

ROUNDS = 5
MAIN = "from gossamer.cli import main; main()"
COMMANDS = {
    "import numpy, scipy": ["import numpy, scipy.optimize"],
    "gossamer --help": [MAIN, "--help"],
    "gossamer plan --n 60000": [MAIN, "plan", "--n", "60000"],
    "gossamer plan --method SGD": [MAIN, "plan", "--n", "60000", "--method", "SGD", "--batch-size", "256"],
}


def seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    least = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            least[name] = min(least[name], seconds(command))
    imports = least["import numpy, scipy"]
    for name, took in least.items():
        print(f"{name:30} {took:6.2f} s   {took / imports:5.1f} ×")


if __name__ == "__main__":
    main()
