PYTHON ?= python3
PY := .venv/bin/python
NATIVE := CMakeLists.txt $(wildcard src/native/*)

DATA ?=
SECTIONS ?=
RUN := build/published/$(shell git describe --always --dirty --exclude '*')
SECONDS ?= 300

.PHONY: test test-slow test-oldest fuzz fuzz-full sanitize lint demo wheel docs docs-output bench bench-scale witnesses compare quality published pages need-data clean

.venv/bin/python:
	$(PYTHON) -m venv .venv

# Built anew when the native sources or the requirements change; Python sources are used in place.
.venv/.installed: pyproject.toml $(NATIVE) | .venv/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@

test: .venv/.installed
	$(PY) -m pytest -n 2 -q

test-slow: .venv/.installed
	$(PY) -m pytest -n 2 -q -m slow

# With the oldest versions that pyproject.toml allows, in an environment of their own. Old libraries use what newer ones
# of theirs have deprecated, hence the one kind of warning that is let pass.
test-oldest: .oldest-venv/.installed
	.oldest-venv/bin/python -m pytest -n 2 -q -W ignore::DeprecationWarning
	.oldest-venv/bin/mkdocs build --strict --quiet --site-dir build/oldest-docs

.oldest-venv/.installed: pyproject.toml tests/oldest.py $(NATIVE)
	$(PYTHON) -m venv .oldest-venv
	mkdir -p build
	$(PYTHON) tests/oldest.py > build/oldest.txt
	PIP_CONSTRAINT=build/oldest.txt .oldest-venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--config-settings build-dir=build/oldest --editable '.[test,docs]'
	touch $@

# Hostile input of every kind, or of one: make fuzz KIND=frames SEED=5000; repeated: make fuzz KIND=frames CASE=5012.
fuzz: .venv/.installed
	$(PY) -m fuzz $(if $(KIND),--kind $(KIND)) $(if $(CASE),--case $(CASE),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

# As many cases of each kind as are published, an hour or two, and the counts and texts that tell of them.
fuzz-full: .venv/.installed
	$(PY) -m fuzz --share 1 --record docs/results/fuzz.json
	$(PY) -m fuzz.report

# The tests with the native core built to watch its memory and its arithmetic, in an environment of its own. Python keeps
# memory until it ends, so leaks are not looked for; libstdc++ has to be there before the sanitizer hooks its exceptions.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g
sanitize: .sanitize-venv/.installed
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 .sanitize-venv/bin/python -m pytest -n 2 -q $(TESTS)

.sanitize-venv/.installed: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv .sanitize-venv
	CXXFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" .sanitize-venv/bin/python -m pip install --quiet \
	  --disable-pip-version-check --editable '.[test]' -C build-dir=build/sanitize -C cmake.define.OPTIMISATION=-O1
	touch $@

lint: .venv/.installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# A minute or two after the installation; ends with the table of wins and losses and the path of the page.
demo: $(if $(wildcard .venv/.installed),.venv/.installed,.venv/.demo)
	@echo "Comparing NB, FM and FAN on the built-in datasets:"
	@.venv/bin/fanbayes study real --suite builtin --folds 5 --out build/demo
	@.venv/bin/fanbayes study report build/demo > /dev/null
	@echo "The page: build/demo/report.html"

# Only what the demonstration needs. The library comes first and alone, so that what takes time can be told apart.
.venv/.demo: pyproject.toml $(NATIVE) | .venv/bin/python
	@echo "1/2 Compiling the native core, which takes some minutes"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@echo "2/2 Installing the libraries that it needs: NumPy, SciPy, scikit-learn, pandas and others"
	@$(PY) -m pip install --quiet --disable-pip-version-check 'fanbayes[files,report]'
	@touch $@

# The source archive and a wheel in dist/, the wheel for as many Linuxes as can be had, and tried without a compiler.
wheel:
	$(PYTHON) -m venv --clear build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check -r release/requirements.txt
	build/wheel-venv/bin/python release/build.py

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "The guide: build/docs/index.html"

# Runs the examples of README and guide and writes below each what it prints.
docs-output: .venv/.installed
	$(PY) docs/examples.py
	$(PY) docs/notebook.py

.venv/.docs: .venv/.installed
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

# Peers live in an environment of their own. DATA=folder adds the benchmarks that need real datasets; SECTIONS names some.
bench: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/run.py $(SECTIONS) $(if $(DATA),--data $(DATA))

# Tables larger than memory, Dask and Spark: an hour, ROWS="1000000 10000000" for less. Needs some 20 GB of disk, and Java.
bench-scale: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/run.py scale scale_dask scale_peers $(if $(ROWS),--rows $(ROWS))

# What Weka and pyAgrum say of tables that anyone can make, for the tests to compare with, and accuracy beside Weka's on the
# datasets of DATA. Weka is Debian's, with a Java runtime (weka, default-jre-headless), or the jar that WEKA_JAR names.
witnesses: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/witnesses/record.py
	$(if $(DATA),.bench-venv/bin/python benchmarks/witnesses/accuracy.py --data $(DATA))

# Do two commits give the same answers? Each is built in an environment of its own, under build/agreement.
NEW ?= HEAD
compare:
	@test -n "$(OLD)" || { echo "Which commits? OLD=commit, and NEW=commit unless it is HEAD"; exit 2; }
	$(PYTHON) benchmarks/agreement/compare.py $(OLD) $(NEW)

# Probabilities against those of other classifiers on the datasets of DATA, or on those that come with the library and those
# of OpenML that can be reached: hours, but it goes on where it stopped.
quality: .bench-venv/.installed
	.bench-venv/bin/python benchmarks/quality/run.py $(if $(DATA),--data $(DATA))
	.bench-venv/bin/python benchmarks/quality/timing.py $(if $(DATA),--data $(DATA))
	.bench-venv/bin/python benchmarks/quality/report.py --records build/quality $(if $(DATA),,--out build/quality/page)

# Everything that is published, by the code as it is: hours. First all is run, into a folder of this commit, so that it
# goes on where it stopped and takes nothing over from another commit; only then are files of the project written.
published: need-data .venv/.installed .bench-venv/.installed
	.venv/bin/fanbayes study real --suite $(DATA) --out $(RUN)/real --jobs 2
	.venv/bin/fanbayes study simulated --suite $(DATA) --out $(RUN)/simulated --jobs 2
	.venv/bin/fanbayes study real --models all --suite $(DATA) --out $(RUN)/relatives --jobs 2
	.bench-venv/bin/python benchmarks/quality/run.py --data $(DATA) --out $(RUN)/quality
	.bench-venv/bin/python benchmarks/quality/timing.py --data $(DATA) --out $(RUN)/quality
	.bench-venv/bin/python benchmarks/run.py $(SECTIONS) --data $(DATA) --out $(RUN)/speed
	.bench-venv/bin/python benchmarks/quality/report.py --records $(RUN)/quality
	$(PY) benchmarks/publish.py $(RUN)
	$(MAKE) pages docs-output

need-data:
	@test -n "$(DATA)" || { echo "Which datasets? Give a folder with a manifest.json: DATA=folder"; exit 2; }

# The pages of all results, from what is stored beside them; nothing is run again.
pages: .venv/.installed
	.venv/bin/fanbayes study report docs/results
	$(PY) benchmarks/quality/report.py
	$(PY) benchmarks/quality/defaults.py report
	$(PY) benchmarks/page.py
	$(PY) benchmarks/cluster_costs.py
	$(PY) -m fuzz.report

.bench-venv/.installed: pyproject.toml benchmarks/requirements.txt $(NATIVE) $(shell find src/fanbayes -name '*.py')
	$(PYTHON) -m venv .bench-venv
	.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt .
	touch $@

clean:
	rm -rf .venv .bench-venv .oldest-venv .sanitize-venv build dist
