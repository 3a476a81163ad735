# Every target installs what it needs below this folder; a later start takes seconds.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && exit; done; echo python3)
export TIDEGATE_CACHE ?= $(CURDIR)/.cache
# Modules are compiled when they are first imported. Tests start processes by the hundred.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PACKAGES := .venv/.installed
JARS := .venv/.jars
TEST_JARS := .venv/.test-jars
ARCHIVE := .venv/.class-archive
COMPILED := .venv/.compiled
GENERATOR := .venv/.client-generator
PYTEST := $(BIN)/python -m pytest
# Half of the time a test waits: five processes keep two cores busy for four fifths of a run.
WORKERS ?= 5
SPREAD = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

# What is fetched, built and compiled for one target is so side by side; `make clean test` stays in order.
ifeq ($(word 2,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=3
endif
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-long mutants sql-mutants storm storm-release check picture docs screenshots fuzz bench clean lock java FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

run: java $(PACKAGES) $(JARS) ## Start all servers, a daemon and the example pipelines (ONCE=1: exit after the first week)
	@$(BIN)/tidegate standalone $(if $(filter-out 0,$(ONCE)),--once) $(ARGS)

test: java $(PACKAGES) $(JARS) $(TEST_JARS) $(GENERATOR) $(ARCHIVE) $(if $(ARGS),,$(COMPILED)) ## Run the tests, five at a time (ARGS="-k word": only some, one by one)
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@$(PYTEST) $(SPREAD) --cov --cov-report=
	@$(BIN)/python -m coverage report --skip-covered --fail-under=100
endif

test-long: export TEST_LONG = 1
test-long: WORKERS = 2
test-long: java $(PACKAGES) $(JARS) $(TEST_JARS) $(GENERATOR) $(ARCHIVE) ## Run the tests that draw at random, or wait, at length (TEST_SEED=1: again)
	@$(PYTEST) -m long -v $(or $(ARGS),$(SPREAD))

mutants: $(PACKAGES) ## Change decisions one thing at a time, and list what no unit test notices (ARGS="handlers/tasks/*": only these files)
	@$(BIN)/python -m tests.mutants $(ARGS)

sql-mutants: java $(PACKAGES) $(JARS) ## Change locks, orders and comparisons of owners in SQL, and list what no test notices (ARGS=leases: only these)
	@$(BIN)/python -m tests.sql_mutants $(ARGS)

storm: java $(PACKAGES) $(JARS) ## Ride out the great storm, about six minutes (ARGS="--seed 7": one that was before)
	@$(BIN)/python -m tests.storms --great $(ARGS)

storm-release: java $(PACKAGES) $(JARS) ## Ride out great storms until a thousand daemons were killed, about two hours
	@$(BIN)/python -m tests.storms --release $(ARGS)

check: $(PACKAGES) ## Check format, style, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p tidegate
	$(BIN)/mypy tests
	$(BIN)/lint-imports

picture: $(PACKAGES) ## Draw the layout in CONTRIBUTING.md from the imports
	@$(BIN)/python -m tests.structure --write

docs: $(PACKAGES) ## Build the documentation site in dist/docs; broken links are errors
	@$(BIN)/python daemon/docs/generate.py
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c daemon/docs -d .cache/docs . dist/docs
	@echo "Open dist/docs/daemon/docs/index.html"

screenshots: $(PACKAGES) ## Take the pictures of the web pages in the documentation, with Chromium
	@TEST_PICTURES=1 $(PYTEST) tests/integration/browser/test_pictures.py -q

fuzz: $(PACKAGES) ## Give a million inputs to all doors, and print the faults (ARGS="--inputs 10000 --seed 7")
	@$(BIN)/python -m tests.fuzz --inputs 1000000 $(ARGS)

bench: java $(PACKAGES) $(JARS) ## Run the benchmarks on fresh servers (ARGS=A: only scenario A)
	@$(BIN)/python -m tests.benchmarks $(ARGS)

clean: ## Remove the environment, caches, builds, and the data of `make run`
	rm -rf .venv .cache .tidegate .mypy_cache .pytest_cache .import_linter_cache .hypothesis .coverage* dist build
	find . \( -name __pycache__ -o -name .ruff_cache \) -prune -exec rm -rf {} +

lock: ## Resolve the lock files with uv (ARGS=--upgrade: newest versions)
	uv pip compile $(UV) --all-extras pyproject.toml --output-file requirements.lock
	printf '%s\n' hatchling==1.33.0 editables setuptools | uv pip compile $(UV) - --output-file build.lock
	printf '%s\n' 'openapi-python-client>=0.29,<1' ruamel-yaml 'typer<0.28' | \
	    uv pip compile $(UV) --no-deps - --output-file tests/client_generator.lock
UV = --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS)

java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p'); \
	[ "$${version:-0}" -ge 17 ] || { \
	    echo "error: Java 17 or newer is required$${version:+, this is Java $$version}:" \
	        "apt-get install openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; }

# A virtual environment contains its path: a checkout that was moved or copied needs a new one.
# So does one whose interpreter went with an upgrade, and one that lacks a program or package that was installed.
COMPLETE = { [ "$$(head -n 1 $(PACKAGES))" = "$(CURDIR)" ] && $(BIN)/python -c 'import pip' && \
    sed 1d $(PACKAGES) | xargs ls -d; } > /dev/null 2>&1
ifneq ($(shell $(COMPLETE) && echo yes),yes)
$(PACKAGES): FORCE
endif

# Without Java these end before they install anything.
ifneq ($(filter run test test-long sql-mutants storm% bench,$(MAKECMDGOALS)),)
$(PACKAGES): | java
endif

# One make at a time installs. Its processes hold the lock, so after Ctrl-C the next make waits for the last of them.
# Without flock, of util-linux, nothing keeps two makes apart.
# xargs starts both in the foreground: a shell starts background processes with Ctrl-C ignored.
# Spark is an archive of sources of 400 MB: to build it takes as long as to install all others.
# Its wheel is not compressed: nearly all of it are jars, which are, and to compress them again took most of that time.
$(PACKAGES): requirements.lock build.lock pyproject.toml
	@[ "$$($(PYTHON) -c 'import sys; print(sys.version_info >= (3, 11))' 2> /dev/null)" = True ] || { \
	    echo "error: $(PYTHON) is not Python 3.11 or newer: apt-get install python3 python3-venv, or set PYTHON" >&2; exit 1; }
	@exec 9< Makefile; ! command -v flock > /dev/null || flock -n 9 || { \
	    echo "Waiting for another make, which installs the Python packages" && flock 9; }; \
	if ! $(COMPLETE); then \
	    quiet=; echo "Installing the Python packages, one to three minutes"; \
	    rm -rf .venv && $(PYTHON) -m venv .venv || { \
	        rm -rf .venv; echo "error: $(PYTHON) cannot make a virtual environment: apt-get install python3-venv" >&2; exit 1; }; \
	elif [ -n "$$(find requirements.lock build.lock pyproject.toml -newer $@)" ]; then quiet=--quiet; \
	else exit 0; \
	fi; \
	pip="$(BIN)/pip --disable-pip-version-check"; \
	$$pip install $$quiet --no-deps --require-hashes -r build.lock && \
	awk '/^[a-z]/ { part = /^pyspark==/ ? "spark" : "others" } { print > ".venv/" part ".lock" }' requirements.lock && \
	printf '%s\n' '[bdist_wheel]' 'compression = stored' > .venv/stored.cfg && \
	printf '%s\n' spark others | DIST_EXTRA_CONFIG="$(CURDIR)/.venv/stored.cfg" xargs -P 2 -I PART \
	    $$pip install $$quiet --no-compile --no-deps --require-hashes --no-build-isolation -r .venv/PART.lock && \
	$$pip install --quiet --no-deps --no-build-isolation --editable . && \
	$$pip check && \
	{ echo "$(CURDIR)"; ls -d $(BIN)/* .venv/lib/python*/site-packages/* | grep -v __pycache__; } > $@

# Each of the processes of tests would compile the same modules at the same time. What is wrong is said by the tests themselves.
$(COMPILED): $(PACKAGES)
	@$(PYTEST) --collect-only --quiet > /dev/null && touch $@ || true

$(ARCHIVE): tests/class_archive.py tests/initialized_cluster.py $(JARS)
	@$(BIN)/python -m tests.class_archive
	@touch $@

TEST_LOCKS := tests/spark/openlineage.lock tests/specification/tla.lock

$(TEST_JARS): $(TEST_LOCKS) $(PACKAGES)
	@echo "Fetching the jars of OpenLineage's listener and of TLC"
	@$(BIN)/python -m tidegate.daemon.standalone.jars $(TEST_LOCKS)
	@touch $@

$(GENERATOR): tests/client_generator.lock $(PACKAGES)
	@$(BIN)/python -m tests.client_generator
	@touch $@

$(JARS): daemon/standalone/kafka.lock $(PACKAGES)
	@echo "Fetching the Kafka jars"
	@$(BIN)/python -m tidegate.daemon.standalone.jars
	@touch $@
