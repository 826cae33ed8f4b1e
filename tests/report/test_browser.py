"""The page in a real browser: no complaints, its figures are there, and it fits a phone."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from testkit.pages import certificate

from gossamer.report import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
)
PHONE = """<!DOCTYPE html><iframe style="width: 360px; height: 800px; border: 0" srcdoc="{}"></iframe><script>
document.querySelector("iframe").onload = event => {{
  const page = event.target.contentDocument;
  const figures = [...page.querySelectorAll("svg[role=img]")].map(figure => ({{
    wide: figure.getBoundingClientRect().width,
    lines: [...figure.querySelectorAll("path.line")].filter(path => path.getTotalLength() > 200).length,
    title: page.getElementById(figure.getAttribute("aria-labelledby").split(" ")[0]).textContent
  }}));
  const seen = {{window: event.target.contentWindow.innerWidth, width: page.documentElement.scrollWidth, figures}};
  const cell = [...page.querySelectorAll("td")].find(cell => cell.textContent == "category");
  const lines = () => {{
    const range = page.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length;
  }};
  seen.lines = lines();
  cell.style = "display: block; width: 2rem; overflow-wrap: anywhere";
  seen.broken = lines();
  page.body.insertAdjacentHTML("beforeend", "<div style='width: 3000px'>wide</div>");
  seen.stretched = page.documentElement.scrollWidth;
  document.body.textContent = "MEASURED" + JSON.stringify(seen) + "DONE";
}};
</script>"""
EVIL = {
    "objective": "<script>console.error('objective')</script>",
    "target": "<img src=x onerror=console.error('target')>",
    "schema": {
        "columns": {
            "w" * 10_000: {"kind": "number", "low": 0, "high": 1},
            "<style>*{display:none}</style>": {"kind": "category", "values": ["v" * 300] * 30},
        }
    },
}


def browse(path, tmp_path):
    """Return the page after loading, and what its console said."""
    command = [CHROMIUM, *SWITCHES, f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return out.stdout, [line for line in out.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page():
    return render(certificate(), {"gradient_norm": np.geomspace(1.0, 1e-3, 300)}, EVIL)


@pytest.mark.slow
def test_the_console_stays_silent(page, tmp_path):
    """And it is heard when it does not: a control page asks for a picture, against its own policy."""
    sound, control = tmp_path / "report.html", tmp_path / "control.html"
    sound.write_text(page, encoding="utf-8")
    control.write_text(page.replace("</main>", "<img src='https://127.0.0.1/x.png'></main>"), encoding="utf-8")
    loaded, console = browse(sound, tmp_path)
    assert "What was promised" in loaded
    assert console == []
    _, console = browse(control, tmp_path)
    assert any("Content Security Policy" in line for line in console)


@pytest.mark.slow
def test_it_fits_a_phone_breaks_no_words_and_shows_its_figures(page, tmp_path):
    """Measured from outside, in a frame as wide as a small phone; as controls a wide block stretches it, and a narrow
    cell breaks its word."""
    phone = tmp_path / "phone.html"
    phone.write_text(PHONE.format(html.escape(page)), encoding="utf-8")
    loaded, _ = browse(phone, tmp_path)
    seen = json.loads(re.search(r"MEASURED(.*)DONE", loaded)[1])
    assert seen["window"] == 360
    assert seen["width"] <= 360
    assert seen["stretched"] >= 3000
    assert seen["lines"] == 1 and seen["broken"] > 1
    assert [(figure["title"], figure["lines"]) for figure in seen["figures"]] == [
        ("Limits to every attack", 3),
        ("Norm of the gradient estimate", 2),
    ]
    assert all(figure["wide"] > 280 for figure in seen["figures"])
