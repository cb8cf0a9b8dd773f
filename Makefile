# make serve: set up and serve on PORT.   make test: set up, lint, check types, run the tests.

PYTHON ?= python3.11
PORT ?= 8000
WORKERS ?= 2
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install serve test lint format lock demo-train demo-eval

help:
	@echo "make install   set up .venv (again only when pyproject.toml or constraints.txt changed)"
	@echo "make serve     install, then serve on port $(PORT) (PORT=... changes it)"
	@echo "make test      install, lint, then run the tests with coverage (WORKERS=$(WORKERS))"
	@echo "make lint      ruff and mypy --strict"
	@echo "make format    let ruff rewrite what it can"
	@echo "make demo-train  train the demo model anew, or on from build/demo (hours on 2 cores)"
	@echo "make demo-eval   measure the packaged demo model (STATE=... a training state)"
	@echo "make lock      resolve pyproject.toml anew into constraints.txt"

install: $(STAMP)

# PIP_CONSTRAINT rather than -c: it pins the build's own requirements too.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c "import venv, ensurepip" || { \
	  echo "make: $(PYTHON) with its venv module is needed: install Python 3.11, or name another" \
	    "one (3.11 or later) as PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check \
	  --editable '.[test,dev]'
	@touch $@

# exec: Ctrl-C and a supervisor's signals reach the server itself.
serve: install
	@exec $(BIN)/gpt-oss-server serve --port $(PORT)

# OMP_NUM_THREADS: each test worker has a core of its own.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# "+cpu" and the like name a build of a version: dropped, so that every machine finds its own.
lock:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT \
	  && $(PYTHON) -m venv "$$dir" \
	  && "$$dir/bin/pip" install --disable-pip-version-check --quiet '.[gpu,test,dev]' setuptools \
	  && "$$dir/bin/pip" freeze --all --exclude pip --exclude gpt-oss-server \
	    | sed -e '1i # What is tested, for every extra. Made by "make lock".' \
	      -e 's/+[a-z0-9.]*$$//' > constraints.txt

demo-train: install
	$(BIN)/python -m demo.train

demo-eval: install
	$(BIN)/python -m demo.evaluate $(if $(STATE),--state $(STATE))
