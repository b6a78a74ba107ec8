# Everything runs in a virtual environment of its own; nothing is installed twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
STAMP := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

STUDIES := study-svm study-attack study-lenet study-scaling study-defaults study-bars study-peers study-why
# What tells most in little time: two minutes on two cores.
QUICK := test_arguments across/test_layers across/test_golden methods/test_algorithms test_minimize run/test_budget run/test_failures attack/test_core estimate/test_smoothing across/test_docs
# What the versions of numpy, scipy, numba and scikit-learn may break.
OLDEST := test_arguments methods/test_algorithms test_minimize run/test_budget across/test_manners compiled/test_compiled methods/test_sift sklearn/test_estimators report/test_report report/test_plot cli/test_commands
.PHONY: help venv demo demo-attack check test wheel oldest lint bench docs browser clean $(STUDIES)

help:
	@echo "make demo   run the main job on data that comes inside scikit-learn; leaves a table and a figure in out/demo"
	@echo "make demo-attack   attack a small network on digits that come inside scikit-learn"
	@echo "make check  style, types and the quick tests, within two minutes"
	@echo "make test   run the tests"
	@echo "make wheel  build the wheel and try it in an environment of its own; EXTRAS=\"torch ray\" tries these extras"
	@echo "make oldest some tests with the oldest versions that are allowed"
	@echo "make lint   style, format and strict types"
	@echo "make bench  speed, as ratios measured in one run"
	@echo "make study-svm, study-attack, study-lenet, study-scaling, study-defaults, study-bars, study-peers, study-why"
	@echo "            run an experiment, such as make study-svm ARGS=--quick"
	@echo "make docs   the documentation site in out/docs, gallery included"
	@echo "make browser   look at the site in Chromium, which must be installed, as must npm"

venv: $(STAMP)

$(DEMO): pyproject.toml constraints.txt
	@echo "Installing what the demo needs into $(VENV): about 600 MB, once."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[compiled,sklearn,plot,report,cli]"
	touch $(DEMO)

$(STAMP): $(DEMO)
	@echo "Installing all extras and the tools of development into $(VENV): about 2 GB more, once, a few minutes."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[compiled,sklearn,plot,report,cli,torch,onnx,ray,dask,simopt]" --group dev
	touch $(STAMP)

demo: $(DEMO)
	$(BIN)/goldstein demo

demo-attack: $(STAMP)
	$(BIN)/goldstein demo-attack

check: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK:%=tests/%.py)

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

wheel: $(STAMP)
	$(BIN)/python tests/check_wheel.py $(EXTRAS)

oldest: $(STAMP)
	test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable ".[compiled,sklearn,plot,report,cli]" pytest pytest-xdist pytest-benchmark hypothesis pandas
	$(VENV)-oldest/bin/python -m pytest -n 2 --dist loadfile $(OLDEST:%=tests/%.py)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m benchmarks

$(STUDIES): study-%: $(STAMP)
	$(BIN)/python -m studies $* $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	$(BIN)/python -m sphinx --builder html --nitpicky --fail-on-warning --keep-going --doctree-dir out/doctrees docs out/docs
	$(BIN)/python -m pytest tests/site/built.py

browser: docs
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group browser
	npm install --silent --no-save --prefix out/browser axe-core@4.14.0
	$(BIN)/python -m pytest tests/site/browser.py

clean:
	rm -rf $(VENV) $(VENV)-oldest out build dist docs/api/generated docs/examples docs/sg_execution_times.rst
	find src studies benchmarks -name "*.nb[ic]" -delete
