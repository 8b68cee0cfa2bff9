# make demo: sets all up and runs the main job on this machine.   make test: sets all up and runs every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench screenshots clean
.DELETE_ON_ERROR:

demo: $(VENV)/.setup-rehearsal
	$(BIN)/eaglewatch rehearse --fresh

test: lint
	NO_SKIPS=1 $(BIN)/pytest -n 2 --dist loadgroup

lint: $(VENV)/.setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports

bench: $(VENV)/.setup-dev
	$(BIN)/python -m benchmarks.run

screenshots: $(VENV)/.setup-dev
	$(BIN)/python scripts/screenshots.py

$(VENV)/.setup-rehearsal: pyproject.toml constraints.txt scripts/make_venv.sh
	scripts/make_venv.sh $(PYTHON) $(VENV) rehearsal
	@touch $@

$(VENV)/.setup-dev: pyproject.toml constraints.txt scripts/make_venv.sh scripts/system_packages.sh
	scripts/system_packages.sh
	scripts/make_venv.sh $(PYTHON) $(VENV) rehearsal,dev
	@touch $@ $(VENV)/.setup-rehearsal

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .import_linter_cache
