"""Open pages of the built site in a headless browser: nothing may be said on its console, nothing may be missing.

python docs/open_site.py SITE
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = ("index.html", "quickstart.html", "examples/erm.html", "api/methods.html")
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--dump-dom"),
)
BROKEN = "<!DOCTYPE html><img src='missing.png'><script>console.error('seen')</script>"


def complaints(browser: str, page: Path) -> list[str]:
    """Return what a page says on the console."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *SWITCHES, f"--user-data-dir={profile}", page.resolve().as_uri()]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "</html>" not in outcome.stdout:
        return [f"{page} did not open: {outcome.stderr[-300:]}"]
    return [line for line in outcome.stderr.splitlines() if "CONSOLE" in line]


def main(site: Path) -> None:
    """Open the pages, and first one that is broken, which must be noticed."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium on PATH: the site was built and not opened")
        return
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder, "broken.html")
        broken.write_text(BROKEN, encoding="utf-8")
        assert complaints(browser, broken), "a page that complains was taken for a good one"
    found = {page: complaints(browser, site / page) for page in PAGES}
    for page, lines in found.items():
        print(f"{page}: {lines or 'opens without errors'}")
    if any(found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
