# Ren: one command each. `make` alone lists them. The only thing needed is a Python >= 3.11 with venv;
# another one than the first found: make PYTHON=/path/to/python3.12 test

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
OPENFHE := .venv-openfhe

.DEFAULT_GOAL := help
.PHONY: help demo example test long slow xla sanitize golden check format bench docs notebooks dist matrix clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp ## classify real images that the scoring process never sees in the clear
	@$(BIN)/python -m ren.demo

example: $(VENV)/demo.stamp ## score encrypted patients in a server process, over a local socket
	@$(BIN)/python -m examples

test: $(VENV)/test.stamp ## run the tests, a process a core; COVERAGE="--cov=ren" measures what they reach
	@$(BIN)/python -m pytest -m "not slow and not long and not gpu" -n $(WORKERS) --dist worksteal -q $(COVERAGE)

long: $(VENV)/test.stamp ## run the tests marked long, which `test` leaves out: before a commit that touches much
	@$(BIN)/python -m pytest -m "long and not slow and not gpu" -n $(WORKERS) --dist worksteal -q $(COVERAGE)

slow: $(VENV)/test.stamp ## run the tests marked slow, over ten seconds each, and more examples of properties
	@XLA_FLAGS= $(BIN)/python -m pytest -m "(slow or property) and not gpu" --hypothesis-profile=thorough -n $(WORKERS) --dist worksteal -q

xla: $(VENV)/test.stamp ## run `test`, or TESTS="tests/lowering", without native code, of fewer examples, but for what is marked `once`
	@REN_NATIVE=0 $(BIN)/python -m pytest -m "not slow and not long and not gpu and not once" --hypothesis-profile=quick \
	    -n $(WORKERS) --dist worksteal -q $(TESTS)

sanitize: $(VENV)/test.stamp ## run native code under the sanitizers of gcc: addresses, undefined behavior, races
	@$(BIN)/python -m tests.sanitize

golden: $(VENV)/test.stamp ## rewrite the golden files of the compiler's stages and the pictures of pages; read the diff
	@$(BIN)/python -m tests.golden_programs
	@$(BIN)/python -m tests.pictures
	@$(BIN)/python -m tests.counted_programs

check: $(VENV)/test.stamp ## lint, formatting, types, layers, prose, lines of code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.prose
	@$(BIN)/python -m tests.code_lines

format: $(VENV)/test.stamp ## rewrite the sources in the one format that `check` accepts
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/bench.stamp $(OPENFHE)/stamp ## time CKKS, and SEAL and OpenFHE beside it: BENCH="--log-n 14", BENCH=bootstrap, BENCH=eager, BENCH=estimates, BENCH=models, BENCH=rings
	@$(BIN)/python -m benchmarks.run $(BENCH)

docs: $(VENV)/docs.stamp ## build the pages and the reference as a site; a warning fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html (its search needs a server: $(BIN)/python -m http.server -d build/site)"

notebooks: $(VENV)/notebooks.stamp ## run the notebooks and keep their outputs: NOTEBOOKS="--check 03_jit"
	@$(BIN)/python -m notebooks.run $(NOTEBOOKS)

dist: $(VENV)/test.stamp ## build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --quiet
	@ls dist

matrix: $(VENV)/test.stamp ## install the wheel under each Python and JAX here, run its self-test: MATRIX="3.12 oldest"
	@$(BIN)/python .ci/matrix.py $(MATRIX)

clean: ## remove the virtual environment and everything that the other commands wrote
	rm -rf $(VENV) $(OPENFHE) build dist .coverage .coverage.* .hypothesis .pytest_cache .ruff_cache
	rm -rf .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment, once; then one stamp for each extra, renewed when pyproject.toml changes.
$(BIN)/python:
	@py="$(PYTHON)"; found=""; \
	known=$$(ls -d "$$(pyenv root 2>/dev/null)"/versions/3.13.*/bin/python 2>/dev/null); \
	for p in $${py:-python3.13 $$known python3.12 python3.11 python3.14 python3 python}; do \
	    "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        2>/dev/null && found="$$p" && break; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Ren needs Python 3.11 or later with venv; none of the usual names is one." >&2; \
	    echo "Name yours: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	echo "$(VENV): a virtual environment of $$($$found --version)"; "$$found" -m venv $(VENV)

$(VENV)/%.stamp: pyproject.toml | $(BIN)/python
	@echo "$(VENV): installing ren[$*]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# OpenFHE has an environment of its own, of a Python that its wheels are for: those for Ubuntu 22.04
# need 3.10, those for 24.04 need 3.12 and a newer libstdc++. `make bench` runs without it too.
$(OPENFHE)/stamp:
	@for p in $(OPENFHE_PYTHON) python3.10 \
	    $$(ls "$$(pyenv root 2>/dev/null)"/versions/3.10.*/bin/python 2>/dev/null) python3.12; do \
	    rm -rf $(OPENFHE); \
	    "$$p" -m venv $(OPENFHE) 2>/dev/null || continue; \
	    $(OPENFHE)/bin/python -m pip install --quiet --disable-pip-version-check openfhe \
	        2>/dev/null || continue; \
	    $(OPENFHE)/bin/python -c 'import openfhe' 2>/dev/null && touch $@ && exit 0; \
	done; \
	rm -rf $(OPENFHE); \
	echo "OpenFHE is left out: its wheel installs for none of python3.10, python3.12."; \
	echo "Name one: make bench OPENFHE_PYTHON=/path/to/python3.10"
