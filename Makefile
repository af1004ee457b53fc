# wirefmt: `make run` and `make test` are all a new checkout needs (Python 3.11 or later and a C compiler).

.DEFAULT_GOAL := help
.PHONY: help run test live builds uvloop portable lint dev wheel sdist docs docs-serve fuzz coverage mutants quality \
	explore simulate bench release clean types wheels
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
DONE := $(VENV)/done
PIP := $(BIN)/python -m pip --disable-pip-version-check
# everything the wheel is made of
SOURCES := $(shell find src spark/pyspark_wirefmt -name '*.py' -o -name '*.py[ix]' -o -name '*.p[xy][id]' -o -name py.typed) setup.py

# the installed wheel is what runs and what is tested, never the checkout
unexport PYTHONPATH
export PIP_NO_INPUT := 1
# pytest's workers: one more than processors, for some wait; of live tests two more, which begin with those that wait for brokers
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
export PYTEST_XDIST_AUTO_NUM_WORKERS := $(shell echo $$(($(PROCESSORS) + 1)))
# packages are downloaded while the wheel is built; a make that this one calls shares its jobs
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif

LINT = export PATH="$(abspath $(BIN)):$$PATH"; echo lint; \
	ruff check --quiet . && ruff format --check --quiet . && mypy --no-error-summary && \
	cython-lint src && codespell && python tools/check_words.py && python tools/gen_tables.py --check

# the parts of the tests that are wanted (tests/lib/parts.py): the first of the goals runs them all, so that workers share them
PARTS := $(or $(filter test live builds,$(MAKECMDGOALS)),test)
define TESTS
test $@ = $(firstword $(PARTS)) || exit 0; tests=0; \
( $(if $(filter test,$(PARTS)),$(LINT),:) ) >$(VENV)/lint.log 2>&1 & linters=$$!; \
$(BIN)/python -m pytest -q -n $(if $(filter live,$(PARTS)),$$(($(PROCESSORS) + 2)),auto) $(PARTS:%=--part=%) || tests=$$?; \
wait $$linters || linters=failed; cat $(VENV)/lint.log; test $$tests = 0 || exit $$tests; test $$linters != failed
endef

# tests that read and write what the branches for SSE2 read and write
PORTABLE := $(foreach name,vectors fast written_headers shapes topics batch encode_batch values,$(wildcard tests/*/test_$(name).py)) \
	tests/core/test_columns.py tests/core/test_text_of_values.py

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(DONE)/run  ## decode samples/ with Spark on this machine, to Parquet in out/
	@$(BIN)/python -m pyspark_wirefmt samples/ --out out/messages --overwrite

test: $(DONE)/test  ## tests of the installed wheel by itself; linters beside them, whose words come last
	@$(TESTS)

live: $(DONE)/test  ## tests with brokers, clients and their test suites, and Spark
	@$(TESTS)

builds: $(DONE)/test  ## tests that run compilers and type checkers for long. `make test live builds`: all tests, in one run
	@$(TESTS)

uvloop: $(DONE)/test  ## tests of clients, servers and brokers once more, on uvloop (simulations have a loop of their own)
	@WIREFMT_LOOP=uvloop $(BIN)/python -m pytest -q -n auto \
		$$(grep -lE 'asyncio|lib\.loopback|wirefmt_broker' tests/connection/test_*.py tests/broker/test_*.py tests/cli/test_serve.py | \
		grep -vE '_simulation|_liveness')

portable: $(DONE)/test  ## tests of the codecs against a build without SSE2, as for processors that do not have it
	@CFLAGS="-U__SSE2__ -w" WIREFMT_DEBUG=1 $(BIN)/python setup.py --quiet build --build-base build/portable 2>/dev/null
	@PYTHONPATH=$$(echo $(abspath build/portable)/lib*) $(BIN)/python -m pytest -q -n auto $(PORTABLE)

lint: $(DONE)/test  ## ruff, mypy, cython-lint, codespell, words, generated tables (the stubs are checked by a test)
	@$(LINT)

types: $(DONE)/test  ## what users see of types, and the programs of the pages, with pyright; `make lint` has mypy
	@$(PIP) install --quiet --group types
	@$(BIN)/pyright --pythonpath $(BIN)/python && $(BIN)/python -m pytest -q tests/project/test_pages.py

dev: $(DONE)/tools  ## compiled modules built in place without optimisation, and an editable install: for work on wirefmt itself
	@printf '[build]\nbuild_base = build/dev\n' > $(VENV)/dev.cfg
	@export WIREFMT_DEBUG=1 DIST_EXTRA_CONFIG=$(abspath $(VENV)/dev.cfg); \
	$(BIN)/python setup.py --quiet build_ext --inplace; \
	test $(DONE)/editable -nt pyproject.toml || $(PIP) install --quiet --no-build-isolation --no-deps --editable .
	@rm -f $(DONE)/run $(DONE)/test; touch $(DONE)/editable
	@echo "editable: run $(BIN)/python, $(BIN)/pytest; again 'make dev' after a change of what is compiled"

wheel: $(DONE)/wheel  ## dist/*.whl

wheels: $(DONE)/build  ## dist/wheels/: of the last commit, for each CPython here, for Linux with glibc and musl, x86_64 and aarch64
	@$(PIP) install --quiet --group cross
	@$(BIN)/python tools/wheels.py

sdist: $(DONE)/build  ## dist/*.tar.gz
	@$(BIN)/python setup.py --quiet sdist

docs: $(DONE)/docs  ## the documentation site, in build/site/html; a warning is an error
	@$(BIN)/python tools/site/build.py

quality:  ## docs/quality.md: what the tests show, counted; LOG=FILE adds a run of .ci/run from what it printed
	@$(PYTHON) tools/quality.py $(if $(LOG),--record $(LOG))

docs-serve: docs  ## the site at http://127.0.0.1:8000/ (the files can also be opened without a server)
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site/html 8000

fuzz: $(DONE)/test  ## every decoder on mutated octets under sanitizers, for FUZZ_SECONDS (default 600)
	@PYTHON=$(abspath $(BIN)/python) SECONDS_TO_FUZZ=$${FUZZ_SECONDS:-600} fuzz/sanitized.sh

coverage: $(DONE)/test  ## lines of the rooms that the fuzz targets run: all inputs, then FUZZ_SECONDS (default 60)
	@PYTHON=$(abspath $(BIN)/python) fuzz/coverage.sh $${FUZZ_SECONDS:-60}

mutants: $(DONE)/test  ## faults planted in what is compiled, and which of them no test notices (MUTANTS="--room nsq" for some)
	@$(BIN)/python tools/mutants/run.py $(MUTANTS)

explore: $(DONE)/test  ## the property tests with EXPLORE (default 1000) new examples each
	@EXPLORE=$${EXPLORE:-1000} $(BIN)/python -m pytest -q -n auto $$(grep -rl --include='test_*.py' '^@given' tests)

simulate: $(DONE)/test  ## clients and servers under cuts, kills and refusals, for SIMULATE_STEPS (default 10 million) from SIMULATE_SEED
	@SIMULATE_STEPS=$${SIMULATE_STEPS:-10000000} SIMULATE_FAULTS=all $(BIN)/python -m pytest -q -x -n auto \
		tests/connection/test_*_simulation.py tests/connection/test_liveness*.py

bench: $(DONE)/test  ## benchmarks; ratios within one run, printed and in bench/results/
	@mkdir -p bench/results
	@failed=0; for bench in bench/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || failed=1; done; exit $$failed

release: $(DONE)/build  ## VERSION=1.2.3: notes, commit, distributions and tag, without the network that a release needs; prints the rest
	@test -n "$(VERSION)" || { echo "say which: make release VERSION=1.2.3" >&2; exit 1; }
	@$(PIP) install --quiet --group release
	@$(BIN)/python tools/quality.py --check || { echo "first: make quality, and commit docs/quality.md" >&2; exit 1; }
	@$(BIN)/python tools/release.py $(VERSION)

clean:  ## all that was made
	rm -rf $(VENV) build dist out .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
	find src -name '*.so' -delete

# ---- set-up: each step leaves a stamp in the virtual environment and runs again when what it reads has changed

$(DONE)/build: pyproject.toml
	@test -n "$(PYTHON)" || { echo "wirefmt needs Python 3.11 or later (or say make PYTHON=...)" >&2; exit 1; }
	@command -v "$${CC:-cc}" >/dev/null || { echo "wirefmt needs a C compiler: install gcc or clang" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --upgrade pip 'setuptools>=80' 'Cython>=3.3,<4'
	@mkdir -p $(DONE) && touch $@

$(DONE)/wheel: $(DONE)/build $(SOURCES)
	@echo "building the wheel"
	@printf '[build]\nbuild_base = build/wheel\n' > $(VENV)/wheel.cfg
	@rm -rf dist/*.whl
	@# what was deleted from src/ must not linger in the wheel; compiled modules may stay
	@test ! -d build/wheel || find build/wheel -type f -path '*/lib*' ! -name '*.so' -delete
	@DIST_EXTRA_CONFIG=$(abspath $(VENV)/wheel.cfg) \
		$(PIP) wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	@touch $@

$(DONE)/needs: $(DONE)/build
	@echo "installing what the command line and Spark need (the first time this is some 500 MB)"
	@$(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		extras = project["optional-dependencies"]; \
		print(*project["dependencies"], *extras["cli"], *extras["spark"], sep="\n")' > $(VENV)/needs.txt
	@$(PIP) install --quiet --requirement $(VENV)/needs.txt
	@touch $@

$(DONE)/run: $(DONE)/wheel $(DONE)/needs
	@$(PIP) install --quiet --no-deps --force-reinstall dist/*.whl
	@rm -f $(DONE)/editable
	@touch $@

$(DONE)/tools: $(DONE)/needs
	@echo "installing what the tests need"
	@$(PIP) install --quiet --group test --group lint --group examples --group bench
	@touch $@

$(DONE)/docs: $(DONE)/run
	@echo "installing what the documentation site needs"
	@$(PIP) install --quiet --group docs
	@touch $@

$(DONE)/test: $(DONE)/run
	@$(MAKE) --no-print-directory $(DONE)/tools
	@touch $@
