# `make help` lists the targets. Everything runs inside .venv, which `make setup` builds.
PYTHON ?= python3
VENV   := .venv
WORKERS ?= 3
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --no-emit-index-url --no-emit-find-links --no-header --no-annotate

ifdef UV
INSTALL = uv pip install --quiet --compile-bytecode --python $(BIN)/python
MAKE_VENV = uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
MAKE_VENV = $(PYTHON) -m venv $(VENV)
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-services test-kills test-faults test-slow lint \
        format bench bench-peers lock release clean compose-check docs docs-test

# Every test runs in one target of `test`, `test-services`, `test-kills`, or is slow: then in
# `test-slow`, and in `test-faults` if it is about faults.
PYTEST = $(BIN)/python -m pytest
FAST   = not slow and not services and not long
HEAVY  = (services or long) and not slow

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

setup: $(VENV)/.run-installed  ## build .venv with what a run needs (idempotent)

setup-dev: $(VENV)/.dev-installed  ## the same, plus what tests, linters and benches need

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "headrace needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(MAKE_VENV)

$(VENV)/.run-installed: $(BIN)/python requirements/run.txt pyproject.toml
	@echo "installing what a run needs into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/run.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.run-installed requirements/dev.txt
	@echo "installing what development needs into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

demo: setup  ## five products from a simulated exchange into a lake, in Prefect
	@$(BIN)/headrace demo

test: setup-dev  ## the fast tests: units, contracts, flows, faults (4 minutes on two idle cores)
	@$(PYTEST) -m "$(FAST)" -n $(WORKERS) --dist worksteal

test-services: setup-dev  ## on real servers: S3, DynamoDB, Cassandra, Prefect, a browser
	@$(PYTEST) --ignore tests/faults -m "$(HEAVY)" -n $(WORKERS) --dist loadfile

test-kills: setup-dev  ## the reduced kill matrix: local, S3, in flows
	@$(PYTEST) tests/faults -m "$(HEAVY)" -n $(WORKERS) --dist loadfile

test-faults: setup-dev  ## every fault and kill test, many at random (an hour)
	@$(PYTEST) tests/faults -m "slow or not slow"

test-slow: setup-dev  ## every slow test, of faults and all else (hours)
	@$(PYTEST) -m slow

lint: setup-dev  ## ruff, types, import layers
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-dev  ## let ruff mend what it can
	@$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .

compose-check: setup-dev  ## validate deploy/compose.yaml, with Docker where it is there
	@$(BIN)/python -m deploy.check

bench: setup-dev  ## the measurements of docs/benchmarks.md
	@$(BIN)/python -m bench

bench-peers: setup-dev  ## Headrace beside its peers, for docs/peers.md (45 minutes; SHORT=1: 13)
	@$(BIN)/python -m bench.peers $(if $(SHORT),--short)
	@$(if $(SHORT),,$(BIN)/python -m bench.peers.table)

lock:  ## pin the newest allowed versions with hashes (needs uv)
	@$(COMPILE) pyproject.toml --all-extras --group build -o requirements/run.txt
	@$(COMPILE) pyproject.toml --all-extras --group dev -c requirements/run.txt -o requirements/dev.txt
	@$(COMPILE) --group release -c requirements/run.txt -o requirements/release.txt
	@$(COMPILE) --group docs -c requirements/run.txt -o requirements/docs.txt
	@for each in bench/peers/requirements/*.in; do $(COMPILE) $$each -o $${each%.in}.txt; done

# Tools whose requirements are no concern of a run have an environment each.
$(VENV)/release/.installed $(VENV)/docs/.installed: $(VENV)/%/.installed: requirements/%.txt
	@$(PYTHON) -m venv $(VENV)/$*
	@$(VENV)/$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

docs: setup $(VENV)/docs/.installed  ## build the documentation site into .site/html; a dead link fails
	@$(BIN)/python docs/site.py .site/pages
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict
	@echo "the site begins at .site/html/index.html"

docs-test: setup-dev  ## run every command block of the tutorial and of how-tos
	@$(PYTEST) tests/services/test_documents.py -n 2 --dist worksteal
	@$(BIN)/python -m tests.support.documents

release: setup $(VENV)/release/.installed  ## build and check dist/ with its SBOM; TAG=tag also tags
	@.ci/release $(TAG)

clean:  ## remove .venv and caches, never data
	@rm -rf $(VENV) .site .mypy_cache .ruff_cache .pytest_cache .hypothesis
