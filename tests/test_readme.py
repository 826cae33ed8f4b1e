"""Every Python block of the README runs, in order, in one namespace."""

import re
from pathlib import Path


def test_readme_examples_run(capsys):
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "(1, 0.0001)-differential privacy" in printed
    assert "2000 × poisson" in printed
