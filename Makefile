# The two commands of the README: `make demo` and `make test`. Each makes what it needs, and both can be run again.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
CASES ?= 2000
SEED ?= 1

.PHONY: help demo test check format sync fire clean
.PHONY: bench-acl-recall bench-exposure bench-latency bench-policy bench-promise bench-rebuild bench-retrieval bench-row-security bench-soak bench-text bench-vector

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv

.venv/.local: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/.local

demo: .venv/.local  ## ingest the example handbook and search it as three callers
	$(BIN)/python examples/demo.py

test: .venv/.dev  ## run the whole test suite on an embedded PostgreSQL
	$(BIN)/python -m pytest -n $(WORKERS)

check: .venv/.dev  ## formatting, lint, types, import rules, generated code, then the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/unasync.py --check
	$(BIN)/python -m pytest -n $(WORKERS)

format: .venv/.dev  ## lay out the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

sync: .venv/.dev  ## generate the synchronous code from the asynchronous
	$(BIN)/python tools/unasync.py

bench-acl-recall: .venv/.dev  ## 100,000 chunks: each caller's searches held against a database with only their documents
	$(BIN)/python -m benchmarks.acl_recall $(ARGS)

bench-exposure: .venv/.dev  ## recall under permissions on 100,000 rows in three layouts
	$(BIN)/python -m benchmarks.exposure

bench-latency: .venv/.dev  ## 50,000 documents with real owners: ingest, sizes, search times beside plain SQL
	$(BIN)/python -m benchmarks.latency

bench-promise: .venv/.dev  ## 2,000 random worlds held against visible-only databases and the oracle; SEED=n draws others
	CONTEXT_ENGINE_PROMISE_CASES=$(CASES) CONTEXT_ENGINE_PROMISE_OUT=benchmarks/promise_campaign/results \
		$(BIN)/python -m pytest tests/authz/test_promise.py -n $(WORKERS) --timeout=0 --hypothesis-seed=$(SEED)

bench-policy: .venv/.dev  ## change who may read 100,000 chunks: by policy and by tagging; what time tells; verify
	$(BIN)/python -m benchmarks.policy

bench-soak: .venv/.dev  ## readers, writers, revokers and deleters at once, 8 processes for 10 minutes and for 3 more
	$(BIN)/python -m benchmarks.soak

bench-row-security: .venv/.dev  ## what row-level policies cost, on 50,000 documents with real owners
	$(BIN)/python -m benchmarks.row_security

fire: .venv/.dev  ## kill -9 at every step and ten times as often at random, cut connections, full disks, PgBouncer
	CONTEXT_ENGINE_FIRE=10 $(BIN)/python -m pytest tests/fire --timeout=0

bench-retrieval: .venv/.dev  ## judged sets: hybrid beside the vector leg alone, with 95 % intervals
	$(BIN)/python -m benchmarks.retrieval $(ARGS)

bench-text: .venv/.dev  ## the text legs beside plain PostgreSQL, and from 10,000 chunks to a million
	$(BIN)/python -m benchmarks.text $(ARGS)

bench-vector: .venv/.dev  ## 100,000 vectors: recall and time for callers who see 0.1 to 100 %, beside plain pgvector
	$(BIN)/python -m benchmarks.vector $(ARGS)

bench-rebuild: .venv/.dev  ## the vector index rebuilt under 100 searches a second and writes
	$(BIN)/python -m benchmarks.vector.rebuild $(ARGS)

clean:  ## remove the virtual environment and caches
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
