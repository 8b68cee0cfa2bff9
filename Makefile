# make demo: sets all up and runs the main job on this machine.   make test: sets all up and runs every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm

.PHONY: demo test test-vllm lint bench screenshots clean
.DELETE_ON_ERROR:

demo: $(VENV)/.setup-rehearsal
	$(BIN)/eaglewatch rehearse --fresh

test: lint
	NO_SKIPS=1 $(BIN)/pytest -n 4 --dist loadgroup --reruns 1

# serve and generate against the real vLLM on this machine's CPU: 3.7 GB and some minutes more, so no part of make test.
test-vllm: $(VLLM_VENV)/.setup
	$(VLLM_VENV)/bin/python -m pytest tests/real_vllm/against_vllm.py -p no:cacheprovider

lint: $(VENV)/.setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports

bench: $(VENV)/.setup-dev
	$(BIN)/python -m benchmarks.run

screenshots: $(VENV)/.setup-dev
	$(BIN)/python scripts/screenshots.py

$(VENV)/.setup-rehearsal: pyproject.toml constraints.txt scripts/make_venv.sh scripts/new_venv.sh
	scripts/make_venv.sh $(PYTHON) $(VENV) rehearsal
	@touch $@

$(VENV)/.setup-dev: pyproject.toml constraints.txt scripts/make_venv.sh scripts/new_venv.sh scripts/system_packages.sh
	scripts/system_packages.sh
	scripts/make_venv.sh $(PYTHON) $(VENV) rehearsal,dev
	@touch $@ $(VENV)/.setup-rehearsal

$(VLLM_VENV)/.setup: scripts/make_vllm_venv.sh scripts/new_venv.sh
	scripts/make_vllm_venv.sh $(PYTHON) $(VLLM_VENV)
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) build *.egg-info .pytest_cache .ruff_cache .import_linter_cache
