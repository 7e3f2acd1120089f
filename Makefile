PY := .venv/bin/python
NATIVE := CMakeLists.txt $(wildcard src/native/*)

DATA ?=
SECONDS ?= 300

.PHONY: test test-slow fuzz lint demo docs bench quality clean

.venv/bin/python:
	python3 -m venv .venv

# Built anew when the native sources or the requirements change; Python sources are used in place.
.venv/.installed: pyproject.toml $(NATIVE) | .venv/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@

test: .venv/.installed
	$(PY) -m pytest -n 2 -q

test-slow: .venv/.installed
	$(PY) -m pytest -n 2 -q -m slow

# Hostile input of every kind, or of one: make fuzz KIND=frames SEED=5000; repeated: make fuzz KIND=frames CASE=5012.
fuzz: .venv/.installed
	$(PY) -m fuzz $(if $(KIND),--kind $(KIND)) $(if $(CASE),--case $(CASE),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

lint: .venv/.installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# A minute or two; ends with the table of wins and losses and the path of the page.
demo: .venv/.installed
	.venv/bin/fanbayes study real --suite builtin --folds 5 --out build/demo
	.venv/bin/fanbayes study report build/demo

docs: .venv/.docs
	.venv/bin/mkdocs build --strict --quiet
	@echo "The guide: build/docs/index.html"

.venv/.docs: .venv/.installed
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

# Peers live in an environment of their own. DATA=folder adds the benchmarks that need real datasets.
bench: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/run.py $(if $(DATA),--data $(DATA))

# Probabilities against those of other classifiers on the datasets of DATA: hours, but it goes on where it stopped.
quality: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/quality/run.py --data $(or $(DATA),../shared/data)
	.bench-venv/bin/python benchmarks/quality/report.py --data $(or $(DATA),../shared/data)

.bench-venv/.installed: pyproject.toml benchmarks/requirements.txt $(NATIVE) $(shell find src/fanbayes -name '*.py')
	python3 -m venv .bench-venv
	.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt .
	touch $@

clean:
	rm -rf .venv .bench-venv build
