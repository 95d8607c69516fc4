# Every target starts from a bare clone: `.venv` is made when it is missing or older than pyproject.toml.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-long bench lint docs sbom bundle clean

demo: $(STAMP)
	$(BIN)/sharewood demo

# Two at a time: most tests wait for other processes. A file's tests stay together, since they share fixtures.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: $(STAMP)
	$(BIN)/python -m pytest -m long

bench: $(STAMP)
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/mypy

# Not quiet: mkdocs would then count no warnings, and pass a site with broken links.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 PYTHONWARNINGS=ignore $(BIN)/mkdocs build

# What an installation of the wheel consists of, in CycloneDX. The tool has an environment of its own.
sbom:
	$(PYTHON) -m venv out/sbom/package
	$(PYTHON) -m venv out/sbom/tool
	out/sbom/package/bin/pip install --quiet '.[align,cluster,federated,forests,parquet,report,secureboost,serve,sources,tables,tracing,xgboost]'
	out/sbom/tool/bin/pip install --quiet cyclonedx-bom
	out/sbom/tool/bin/cyclonedx-py environment out/sbom/package/bin/python --pyproject pyproject.toml \
		--of JSON -o out/sbom/sharewood.cdx.json

# All wheels of an installation, with their hashes, for hosts without internet: docs/offline.md. FOR="--platform ..."
# chooses another platform or Python.
EXTRAS ?= align,parquet,report,serve,tables
FOR    ?=
bundle:
	rm -rf out/bundle
	$(PYTHON) -m venv out/bundle/tool
	out/bundle/tool/bin/pip wheel --quiet --no-deps --wheel-dir out/bundle/wheels .
	out/bundle/tool/bin/pip download --quiet --only-binary :all: $(FOR) --dest out/bundle/wheels \
		"$$(ls out/bundle/wheels/sharewood-*.whl)[$(EXTRAS)]"
	rm -r out/bundle/tool
	cd out/bundle/wheels && sha256sum *.whl | \
		awk '{split($$2, part, "-"); print part[1] "==" part[2] " --hash=sha256:" $$1}' > ../requirements.txt

# CrypTen's metadata names packages that no longer exist, so it goes in without them, after what it needs.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Sharewood needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps crypten==0.4.1
	@touch $@

clean:
	rm -rf $(VENV) out
