PY := .venv/bin/python
NATIVE := CMakeLists.txt $(wildcard src/native/*)

.PHONY: test test-slow lint clean

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

lint: .venv/.installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

clean:
	rm -rf .venv build
