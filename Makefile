# `make help` lists the targets. Each one makes .venv with what it needs, from the lock requirements.txt.
PYTHON ?= python3
LOCK ?= requirements.txt
NB ?=
FROM ?= text
BENCH ?= cpu
NBVAL ?= --nbval

# Two processes of two threads each are slower on two cores than two of one; a fixed count also fixes the bits.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export PYTHONHASHSEED := 0
export PYTHONPATH := $(CURDIR)/utils
export PYTHON LOCK

ENVIRONMENT := sh utils/booktools/environment.sh
RUN := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help book test test-all chapters sync proofs bench lab lint lock offline-zip clean

help:  ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

book:  ## build the site strictly and print the address of its first page
	@$(ENVIRONMENT) book
	@$(RUN) -m booktools.build

test:  ## lint, unit, conformance, meta, doctests, chapters, proofs, site, with the time of each
	@$(ENVIRONMENT) test
	@$(RUN) -m booktools.suite --nbval=$(NBVAL)

test-all:  ## the same and the tests marked slow
	@$(ENVIRONMENT) test
	@$(RUN) -m booktools.suite --all --nbval=$(NBVAL)

sync:  ## write the notebooks from book/text, the errata and the cards (FROM=ipynb: notebooks to text; NB=02: one)
	@$(ENVIRONMENT) test
	@$(RUN) -m booktools.sync --from $(FROM) $(NB)
	@$(RUN) -m booktools.errata
	@$(RUN) -m booktools.cards

chapters:  ## run the notebooks and store their outputs (NB=02: one chapter)
	@$(ENVIRONMENT) test
	@$(RUN) -m booktools.execute $(NB)
	@$(RUN) -m booktools.status

proofs:  ## prove every printed formula, show the verdicts and write the ledger
	@$(ENVIRONMENT) test
	@$(RUN) -m attngrad.proofs --write

bench:  ## check and time each operator on one thread of the CPU (BENCH="cpu --record": also store the rows)
	@$(ENVIRONMENT) test
	@$(RUN) -m attngrad.bench $(BENCH)

lab:  ## open the notebooks in JupyterLab
	@$(ENVIRONMENT) lab
	@$(RUN) -m jupyterlab chapters

lint:  ## style of the code, and whether what is generated is fresh
	@$(ENVIRONMENT) test
	@$(RUN) -m booktools.suite lint

lock:  ## resolve requirements.txt anew from the ranges in pyproject.toml
	@$(ENVIRONMENT) book
	@$(RUN) -m pip install --quiet --disable-pip-version-check uv
	@# The CUDA libraries of a Linux torch are torch's own business: a CPU build of it has none.
	@$(RUN) -m uv pip compile pyproject.toml --upgrade --quiet > .venv/resolved.txt
	@(grep -v -E '^(nvidia|cuda|triton)' .venv/resolved.txt; echo '-e .') > requirements.txt
	@echo "requirements.txt: $$(grep -c == requirements.txt) releases"

offline-zip: book  ## the built site as one archive that opens from disk
	@$(RUN) -m booktools.build --zip

clean:  ## remove the built site, caches and .venv
	rm -rf _build .venv .pytest_cache .ruff_cache .hypothesis utils/attngrad.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
