# Every target sets up what it needs: a virtual environment of the project's own in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo test lint bench setup clean

demo: $(STAMP)
	$(BIN)/gossamer fit

test: lint
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Gossamer needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,plots]'
	@touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
