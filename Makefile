# Every target sets up .venv by itself; none needs anything but Python >= 3.11 with venv and a package index.
# Settings: PYTHON (the interpreter that makes .venv), ARGS (passed on to pytest), IMAGE (name of the built image).

.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
IMAGE ?= phalanx
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Newer than pyproject.toml when the environment holds what pyproject.toml asks for.
STAMP := $(VENV)/.installed

.PHONY: help venv demo test differential reference check fmt test-containers bench image clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with Phalanx (editable) and the development tools

# A venv made where ensurepip is missing (Debian without python3-venv) has a python but no pip, hence the test for pip.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Phalanx needs Python >= 3.11, {sys.executable} is {sys.version.split()[0]}: try make PYTHON=python3.12")'
	@test -x $(BIN)/pip || { echo "creating $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing Phalanx and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP) ## Run a code census of Python's standard library on two local workers
	$(BIN)/phalanx run examples/census.py:graph --local 2

test: $(STAMP) ## Run the tests (the container ring is skipped where Docker is missing)
	$(BIN)/pytest $(ARGS)

differential: $(STAMP) ## Compare 50,000 random graphs and 25,000 random threads with the installed langgraph (about an hour)
	PHALANX_DIFFERENTIAL_EXAMPLES=$${PHALANX_DIFFERENTIAL_EXAMPLES:-50000} $(BIN)/pytest tests/differential/test_random_graphs.py tests/differential/test_random_threads.py $(ARGS)

reference: $(STAMP) ## Run the behaviour tests on the installed langgraph, to check what they say
	PHALANX_TESTS_ON=langgraph $(BIN)/pytest tests/behaviour $(ARGS)

check: $(STAMP) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

fmt: $(STAMP) ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# With PHALANX_TEST_PHALANX_IMAGE set, that image is tested; otherwise the one that `make image` builds.
test-containers: $(STAMP) $(if $(PHALANX_TEST_PHALANX_IMAGE),,image) ## Run the container ring against Docker
	PHALANX_TEST_PHALANX_IMAGE=$${PHALANX_TEST_PHALANX_IMAGE:-$(IMAGE)} $(BIN)/pytest tests/containers $(ARGS)

bench: $(STAMP) ## Measure, and write docs/benchmarks.md
	$(BIN)/python -m bench.run --write docs/benchmarks.md

image: ## Build the container image
	docker build -f deploy/Dockerfile -t $(IMAGE) .

clean: ## Remove caches and build output (.venv stays)
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
