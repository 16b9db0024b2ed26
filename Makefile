# `make run` starts Fedscape, `make test` tests it. Both build .venv first, where it is not there or does not fit.
#
#   make run  [PORT=8501] [HOST=127.0.0.1] [DATABASE_URL=...] [DATA_DIR=...]
#   make test [ARGS="-k name"] [SLOW=1] [BROWSER=0] [RAY=1] [CHROMIUM=/path/to/chrome] [POSTGRES_BIN=/path/to/bin]
#             [TEST_POSTGRES_URL=...]
#   make gpu  [GPU_PYTHON=python3] tests and measures on an NVIDIA GPU
#   PYTHON=/path/to/python3.11 chooses the interpreter of .venv.

.PHONY: run test gpu check docs lock clean
.DEFAULT_GOAL := run

run:
	@.ci/venv run
	@exec .venv/bin/python -m app

test:
	@.ci/venv dev
	@.ci/test $(ARGS)

# On a GPU, in less than 10 minutes: the tests marked gpu, then the tables of benchmarks/seeds.py and benchmarks/gpu.py.
gpu:
	@.ci/gpu

check:
	@.ci/venv dev
	.venv/bin/python -m ruff check
	.venv/bin/python -m ruff format --check --quiet
	.venv/bin/python -m mypy
	.venv/bin/lint-imports --no-logo

# Pages of docs/ that come from the code: cli.md, configuration.md, catalogue.md.
docs:
	@.ci/venv dev
	.venv/bin/python -m docs.generate

# Versions and hashes of every dependency, after a change to a requirements*.in.
lock:
	@.ci/venv dev
	.ci/lock

# Leaves var/ (your runs) and data/ (your data sets) alone.
clean:
	rm -rf .venv .venv-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find app engine storage tests docs -name __pycache__ -type d -prune -exec rm -rf {} +
