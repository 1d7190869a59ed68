# Targets are listed by `make help`: the text after `##` is the help.
PYTHON ?= $(or $(shell python3 tools/faster_python.py),python3)
VENV ?= .venv
# Levanter's newest versions need Python 3.12; the last one for 3.11 does as well.
LEVANTER_PYTHON ?= $(PYTHON)
# The first Python 3.12 that starts: a version manager may put a command on the path that does not. The newest jax needs it.
NEWEST_PYTHON ?= $(shell for python in python3.12 "$$HOME"/.pyenv/versions/3.12.*/bin/python; do "$$python" -c "" 2> /dev/null && echo "$$python" && break; done)
BIN := $(VENV)/bin
# Trainers whose steps `make gallery` measures have environments of their own: tools/gallery_catalog.py.
TRAINERS := $(addprefix $(VENV)-,google-tunix easydel maxtext kauldron)
STAMP := $(VENV)/.ready
JOBS ?= 2
PROGRAMS ?= 2500
# `all` compiles each program of the tests for each target; by default some take turns: test/target_turns.py.
ROWS ?=
# `skip` leaves out tests that have passed with it before, where nothing that they ran or read has changed: test/unchanged.py.
UNCHANGED ?= run
export PAROPT_ROWS := $(ROWS)
# Images set it to stay small. The tests start hundreds of processes, each of which would compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

# Debian's libjemalloc2, where it is installed: MLIR and XLA allocate so much that the tests take a tenth less with it.
JEMALLOC := $(wildcard /usr/lib/$(shell uname -m)-linux-gnu/libjemalloc.so.2)
quick lit pytest times nightly: export LD_PRELOAD := $(or $(LD_PRELOAD),$(JEMALLOC))

.DEFAULT_GOAL := help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with everything that demo, test and lint need

# Installs again only when pyproject.toml changes, whatever Python made it; everything else is an editable install.
$(STAMP): pyproject.toml
	@echo "== setting up $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint,demo]'
	@touch $@

extras: $(STAMP) ## Install the TPU and GPU compilers that the target tests use: 0.5 GB to load, 1.4 GB on disk
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[tpu,gpu]'

demo: $(STAMP) ## Train the transformer with and without par-opt; table, picture and modules in demo-out/
	$(BIN)/python tools/demo.py --out demo-out

# A sample of each kind of test; numeric/test_corpus.py executes the text tests.
QUICK_LIT := test/pipelines test/passes/fuse-all-reduces.mlir test/passes/defer-sync.mlir
QUICK_TESTS := $(addprefix test/,\
	$(addprefix unit/repository/,test_declarations.py test_layout.py test_op_lists.py) unit/passes/dataflow/test_linearity.py \
	frontend/test_readme.py numeric/test_user_programs.py property/test_loop_pairs.py)

quick: $(STAMP) lint ## Lint and a sample of each kind of test, in under 90 seconds
	$(BIN)/lit -q -j$(JOBS) $(QUICK_LIT)
	$(BIN)/python -m pytest -q -n $(JOBS) $(QUICK_TESTS)
	$(BIN)/python -m pytest -q test/numeric/test_corpus.py -k '[defer-sync-costs'

test: $(STAMP) ## Lint, text tests, numeric, property and unit tests; ROWS=all: each program for each target
	@$(MAKE) --no-print-directory --jobs=$(JOBS) --output-sync=target lint lit
	@$(MAKE) --no-print-directory pytest

lit: $(STAMP) ## FileCheck tests, with PyPI's filecheck and, where it is installed, LLVM's FileCheck
	$(BIN)/lit -j$(JOBS) test

pytest: $(STAMP) ## Numeric, property, frontend and unit tests on 8 simulated devices
	PAROPT_UNCHANGED=$(UNCHANGED) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal test

test-newest: ## The text tests and all others on Python 3.12, with the newest jax that it installs, in .venv-newest
	@test -n "$(NEWEST_PYTHON)" || { echo "No Python 3.12 was found: give NEWEST_PYTHON=..."; exit 1; }
	@$(MAKE) --no-print-directory extras lit pytest PYTHON="$(NEWEST_PYTHON)" VENV=$(VENV)-newest

newest-python: # prints which one `make test-newest` runs
	@echo "$(NEWEST_PYTHON)"

times: $(STAMP) ## All tests, and what they take: CPU seconds, compilations and processes per folder and file
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --spending build/spending.jsonl test
	$(BIN)/python tools/test_times.py build/spending.jsonl

# -q is the default: -vv shows each round, and how far the whole is.
nightly: $(STAMP) ## Random programs, others each time: at least PROGRAMS=2500 of the explicit form, as many plain ones
	PAROPT_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest -vv -n $(JOBS) -m random_programs test/property

lint: $(STAMP) ## Format, lint, types, dead check lines, stale docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/lint_checks.py test
	$(BIN)/python tools/gen_pass_docs.py --check
	$(BIN)/python tools/gen_api_docs.py --check
	$(BIN)/python tools/schedules_page.py --check
	$(BIN)/python tools/readme_picture.py --check
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade -t build/types .
	$(BIN)/mypy

bench: $(STAMP) ## What XLA alone and par-opt communicate, per target; step and rewrite times; written to docs/benchmarks.md
	$(BIN)/python tools/bench.py

gallery: $(STAMP) ## Steps of public packages without and with par-opt, per target; written to docs/gallery.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gallery,tpu,gpu]'
	$(LEVANTER_PYTHON) -m venv $(VENV)-levanter
	$(VENV)-levanter/bin/python -m pip install --quiet --disable-pip-version-check -e '.[levanter,tpu,gpu]'
	$(NEWEST_PYTHON) tools/gallery_environments.py $(VENV)
	$(BIN)/python tools/gallery.py --python $(VENV)-levanter/bin/python $(patsubst %,--python %/bin/python,$(TRAINERS))

scale: extras ## Language models of 1, 7 and 70 G parameters on described clusters, in hours; written to docs/scale.md
	$(BIN)/python tools/bench_scale.py

plans: extras ## Plans of GPT models of 0.35 to 39 G parameters beside published ones, in hours; written to docs/plans.md
	$(BIN)/python tools/bench_alpa.py

docs: $(STAMP) ## Write passes.md, api.md, and the generated parts of pipelines.md, benchmarks.md and README from their sources
	$(BIN)/python tools/gen_pass_docs.py
	$(BIN)/python tools/gen_api_docs.py
	$(BIN)/python tools/schedules_page.py
	$(BIN)/python tools/bench_summary.py
	$(BIN)/python tools/readme_picture.py

tutorials: extras ## Run the notebooks of docs/tutorials, and store what they print
	$(BIN)/ruff format docs/tutorials
	$(BIN)/python tools/run_tutorials.py

site: $(STAMP) ## Build these docs as a site, without warnings, in build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[site]'
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet docs build/site
	@echo "== build/site/index.html"

clean: ## Remove what the other targets made
	rm -rf $(VENV) $(VENV)-levanter $(VENV)-newest $(TRAINERS) build demo-out .test-store .pytest_cache .hypothesis .ruff_cache .mypy_cache

.PHONY: help setup extras demo quick test lit pytest test-newest newest-python times nightly lint bench gallery scale plans docs tutorials site clean
