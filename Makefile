# Two commands: `make run` (the default study) and `make test`. Both make the virtual environment first.
# Needs Python 3.11 or newer and make, nothing else.

PYTHON ?= python3
CORES ?= all
VENV := .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)
# What `make plan` looks at: a study's config file.
STUDY ?= config.yaml
# The figure to have first, while the trajectory is still training.
FIRST := results/figures/layers-smollm2.png

# Packages are installed uncompiled (half the time until the first job) and compiled as they are imported: once, also
# where the user's environment asks for no bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run plan test lint report bench schema install install-dev clean-environment

run: install
	@$(SNAKEMAKE) --prioritize $(FIRST) || \
	{ echo "Some jobs failed: drawing what there is, with its gaps." >&2; $(SNAKEMAKE) --config gaps=draw; exit 1; }

# What a run would cost: jobs, time, downloads, disk. Nothing is run or fetched to say so.
plan: install
	@PYTHONPATH=workflow_scripts $(BIN)/python -m strataprobe.workflow.planning --cores $(CORES) $(STUDY)

test: install-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST)

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	PYTHONPATH=workflow_scripts $(BIN)/lint-imports
	$(BIN)/snakemake --lint

report: run
	$(BIN)/snakemake --cores 1 --report results/report.html

bench: install-dev
	PYTHONPATH=workflow_scripts $(BIN)/python -m bench $(BENCH)

schema: install
	PYTHONPATH=workflow_scripts $(BIN)/python -m strataprobe.config.schema schemas/config.schema.json

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name it: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: requirements.txt | $(VENV)/.python
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements-dev.txt
	@touch $@

clean-environment:
	rm -rf $(VENV)
