# Every target sets up what it needs: a virtual environment of the project's own in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.installed-docs
WORKERS ?= 2
TESTS := $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: demo quick test deep lint docs bench setup clean

demo: $(STAMP)
	rm -rf demo
	$(BIN)/gossamer fit --out demo
	@echo "open demo/report.html in a browser"

# The three rings of tests; CONTRIBUTING.md says which test belongs where. A ring in which pytest finds no test fails.
quick: $(STAMP)
	$(TESTS) -m "not slow and not deep"

test: lint
	$(TESTS) -m "not deep"

deep: $(STAMP)
	$(TESTS) -m "deep and not hostile"
	XLA_FLAGS=--xla_force_host_platform_device_count=8 $(TESTS) -m hostile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/open_site.py site

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Gossamer needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,plots]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf .venv build dist site demo .pytest_cache .mypy_cache .ruff_cache
