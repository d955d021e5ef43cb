# Every target sets up what it needs in .venv and reuses it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# NumPyro and PyMC have an environment of their own: nothing else here needs them.
BRIDGES := .venv-bridges

.PHONY: demo test test-slow test-bridges api lint format bench docs clean

$(BIN)/python $(BRIDGES)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sivi needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(@:/bin/python=)

# One stamp per set of packages; it is older than pyproject.toml when a set has changed.
$(VENV)/.plot: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plot]'
	touch $@

$(VENV)/.demo: $(VENV)/.plot
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plot,mcmc]'
	touch $@

$(VENV)/.test: $(VENV)/.plot
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all]' 'pytest>=8' 'pytest-xdist>=3.6' 'beartype>=0.21' 'hypothesis>=6' 'arviz-plots>=0.8'
	touch $@

$(VENV)/.lint: $(VENV)/.plot
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all]' ruff==0.17.4 basedpyright==1.40.2
	touch $@

$(VENV)/.docs: $(VENV)/.plot
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plot,arviz]' 'sphinx>=8' 'myst-parser>=4' 'furo>=2024.8' 'latex2mathml>=3.77'
	touch $@

$(VENV)/.bench: $(VENV)/.plot
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	touch $@

$(BRIDGES)/.test: pyproject.toml | $(BRIDGES)/bin/python
	$(BRIDGES)/bin/pip install --quiet --disable-pip-version-check --editable '.[numpyro,pymc,plot,mcmc,arviz]' 'pytest>=8' 'pytest-xdist>=3.6' 'beartype>=0.21' 'hypothesis>=6'
	touch $@

demo: $(VENV)/.demo  ## Logistic regression beside Markov chains, and two modes on which those are wrong; figures in demo/
	$(BIN)/sivi demo --out demo

test: $(VENV)/.test  ## All tests but the slow ones
	$(BIN)/pytest -q -n 2 --dist worksteal

test-slow: $(VENV)/.test  ## The slow tests
	$(BIN)/pytest -q -n 2 --dist worksteal -m slow

test-bridges: $(BRIDGES)/.test  ## The tests of NumPyro and PyMC models
	$(BRIDGES)/bin/pytest -q -n 2 --dist worksteal tests/bridges src/sivi/interop/numpyro.py

api: $(VENV)/.test  ## Writes tests/public_api.txt, after a change of the public API that is meant
	$(BIN)/python tests/write_public_api.py

lint: $(VENV)/.lint  ## Linter, formatter, type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## Side-by-side timings against PyTorch
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/elbo_methods.py
	$(BIN)/python benchmarks/structured_critic.py
	$(BIN)/python benchmarks/repeats.py
	$(BIN)/python benchmarks/waveform_torch.py
	$(BIN)/python benchmarks/default_call.py

docs: $(VENV)/.docs  ## HTML in docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(BRIDGES) docs/_build demo dist build
