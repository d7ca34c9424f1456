# `make run` and `make test` need Python 3.11+, make and git, and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The tests wait about as long as they compute.
PYTEST_WORKERS ?= 3
TESTS ?=
# What does not depend on the version of Python, such as pace and browsers, is left out.
TESTS_OF_OLDEST := tests/unit tests/edges/cli tests/acceptance/test_envelopes.py tests/acceptance/test_first_way.py
BROWSERS := chromium chromium-browser google-chrome
FIND_BROWSER := command -v $(BROWSERS) >/dev/null
COMPILE = $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate \
	--python-version 3.11 --universal --upgrade pyproject.toml --group build

.PHONY: help run test oldest browser javascript nghttp2 fuzz soak upgrade check format bench screenshots lock clean

help: ## Show what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/sandbox.done ## Start everything on embedded defaults and send a first notification.
	@$(BIN)/tocsin demo

# The tests start many processes: without its byte code each compiles the server again.
test: $(VENV)/dev.done browser javascript nghttp2 ## Run every test against real parts that it starts itself.
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal $(TESTS)

oldest: ## Run most tests with the oldest supported Python of this machine, unless `test` did so.
	@oldest=$$(for each in /usr/bin/python3 python3.11 $(PYTHON); do \
		$$each -c 'import ensurepip, sys; v = sys.version_info; v < (3, 11) or print(*v[:3], sys.executable)' 2>/dev/null || true; \
	done | sort -n -k1 -k2 -k3 | head -n 1); \
	version="$${oldest% *}"; \
	if [ -z "$$oldest" ] || [ "$$version" = "$$($(BIN)/python -c 'import sys; print(*sys.version_info[:3])')" ]; then \
		echo "The tests ran with the oldest supported Python of this machine ($${version// /.})."; \
	else \
		echo "Testing with Python $${version// /.} …"; \
		$(MAKE) VENV=.venv-oldest PYTHON="$${oldest##* }" TESTS="$(TESTS_OF_OLDEST)" test; \
	fi

SECONDS ?= 300
soak: $(VENV)/dev.done ## Kill processes and servers for seven minutes, and count what is lost; SEED=… repeats.
	@$(BIN)/python -m tests.soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.soak.galaxy $(if $(SEED),--seed $(SEED))

FRAMES ?= 1000000
fuzz: $(VENV)/dev.done ## Send a million random frames to the HTTP/2 client; SEED=… repeats.
	@$(BIN)/python -m tests.providers.http.h2.fuzz --frames $(FRAMES) $(if $(SEED),--seed $(SEED))

upgrade: $(VENV)/dev.done ## Upgrade the version of BEFORE=… (a tag or commit) under load, and count what is lost.
	@$(BIN)/python -m tests.soak.upgrade --before $(BEFORE)

browser:
	@if ! $(FIND_BROWSER) && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium for the browser tests …"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
			|| echo "Chromium could not be installed."; \
	fi
	@$(FIND_BROWSER) || echo "WARNING: THE BROWSER TESTS ARE LEFT OUT: none of $(BROWSERS) is installed."

# Tests compare Tocsin with what others publish: FlatBuffers for TypeScript, the schema of AsyncAPI, clients.
javascript:
	@if ! command -v flatc >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing the compiler of FlatBuffers …"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends flatbuffers-compiler; } >/dev/null \
			|| echo "The compiler of FlatBuffers could not be installed."; \
	fi
	@command -v flatc >/dev/null || echo "WARNING: TESTS WITH flatc ARE LEFT OUT: it is not installed."
	@if command -v npm >/dev/null && [ ! tests/javascript/node_modules/.package-lock.json -nt tests/javascript/package-lock.json ]; then \
		npm ci --prefix tests/javascript --ignore-scripts --no-audit --no-fund --silent || true; \
	fi
	@[ -d tests/javascript/node_modules/typescript ] || echo "WARNING: TESTS WITH PACKAGES OF npm ARE LEFT OUT: they are not installed."

# The HTTP/2 client is tested with the server of nghttp2.
nghttp2:
	@if ! command -v nghttpd >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing the server of nghttp2 …"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nghttp2-server; } >/dev/null \
			|| echo "The server of nghttp2 could not be installed."; \
	fi
	@command -v nghttpd >/dev/null || echo "WARNING: TESTS WITH nghttpd ARE LEFT OUT: it is not installed."

check: $(VENV)/dev.done ## Check format, lint, types, layers, migrations, catalogs and docs.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/squawk --config .squawk.toml src/tocsin/store/migrations/*.sql
	$(BIN)/tocsin catalog check
	$(BIN)/tocsin catalog check examples/gym/catalog
	$(BIN)/tocsin catalog check examples/django_shop/catalog
	$(BIN)/tocsin catalog check examples/galaxy/catalog
	$(BIN)/python -m tools.docs --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/dev.done ## Bring the code into form.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Builds of Python differ by a third: everybody who is written in it runs on the fastest that is here.
bench: ## Measure Tocsin beside its rivals; writes bench/RESULTS.md.
	@fastest="$$($(PYTHON) bench/fastest_python.py)"; \
	echo "Measuring with $$fastest …"; \
	$(MAKE) VENV=.venv-bench PYTHON="$$fastest" .venv-bench/bench.done; \
	.venv-bench/bin/python -m bench

screenshots: $(VENV)/dev.done browser ## Take the pictures of the dashboard and the demo in the docs, and the animation.
	@$(BIN)/python -m tools.screenshots

lock: $(VENV)/server.done ## Pin the newest packages that pyproject.toml allows, with hashes.
	$(BIN)/pip install --quiet uv
	$(COMPILE) --extra server --extra redis --extra aws --output-file requirements/server.txt
	$(COMPILE) --extra sandbox --extra redis --extra aws --constraint requirements/server.txt --output-file requirements/sandbox.txt
	for group in dev bench; do $(COMPILE) --extra sandbox --extra redis --extra aws --group $$group \
		--constraint requirements/sandbox.txt --output-file requirements/$$group.txt; done

clean: ## Remove everything that was made here.
	rm -rf $(VENV) .venv-oldest .venv-bench site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .tocsin bench/out bench/bullmq/node_modules tests/javascript/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Tocsin needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. Try: make PYTHON=python3.11")'
	@echo "Making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/%.done: requirements/%.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing the packages of requirements/$*.txt …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/$*.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
