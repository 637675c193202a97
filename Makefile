# make up     everything on this machine, until Ctrl-C          PORT=8000
# make test   the tests on private servers                      ARGS="tests/local -x"
# make check  format, lint, types, import rules, migrations, deploy check, tests
# make bench  measurements on private servers                   ARGS=
# make manage manage.py on this checkout's data                 ARGS="verify_ledger"
# make clean  removes what can be made again; data in var/ stay
.PHONY: help up test check lint bench manage requirements clean
.DEFAULT_GOAL := help
PYTHON ?= python3.13 python3.12 python3.11 python3
VENV := .venv/bin
LOCAL := $(VENV)/python -m opsledger.local
# Wanted as they are: headings in a line, empty placeholders, a button's default type, fixed addresses.
DJLINT_WANTED := H015,H020,H043,D018
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links

# The first Python that is new enough makes .venv and installs what is pinned; nothing to do takes no time.
define install
	@for python in $(PYTHON); do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && exec $$python -m opsledger.local.install $(1); \
	done; \
	echo "Python 3.11 or newer is needed; none of these is: $(PYTHON)."; \
	echo "Nothing was changed. Install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python),"; \
	echo "or name yours: make PYTHON=/path/to/python3 $@"; exit 1
endef

# What the measurements are held against has a .venv of its own; without it the rest is measured all the same.
define install_peers
	@cmp -s requirements-bench.txt .venv-bench/installed.txt || { \
		echo "Installing the peers that are measured beside us: this happens once."; \
		$(VENV)/python -m venv .venv-bench \
		&& .venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt \
		&& cp requirements-bench.txt .venv-bench/installed.txt; \
	} || echo "The peers could not be installed; they are left out."
endef

help:
	@sed -n 's/^# //p' Makefile | head -6

up:
	$(call install)
	@exec $(LOCAL) up

test:
	$(call install,dev)
	@exec $(LOCAL) test $(ARGS)

check: lint
	@exec $(LOCAL) test $(ARGS)

lint:
	$(call install,dev)
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy opsledger
	$(VENV)/lint-imports
	@if find templates -name '*.html' | grep -q .; then $(VENV)/djlint templates --profile django --ignore $(DJLINT_WANTED) --lint --quiet; fi
	$(LOCAL) run -- python manage.py makemigrations --check --dry-run
	PUBLIC_URL=https://ops.example $(VENV)/python manage.py check --deploy --fail-level WARNING

bench:
	$(call install)
	$(call install_peers)
	@exec $(LOCAL) run -- python -m bench $(ARGS)

manage:
	$(call install)
	@exec $(LOCAL) manage $(ARGS)

# For every platform and Python at once; needs `uv` (pip install uv).
requirements: export UV_CUSTOM_COMPILE_COMMAND = make requirements
requirements:
	uv pip compile $(COMPILE) requirements.in -o requirements.txt
	uv pip compile $(COMPILE) requirements-dev.in -o requirements-dev.txt
	uv pip compile $(COMPILE) requirements-bench.in -o requirements-bench.txt

clean:
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache var/static var/collected var/test
	find opsledger tests -name __pycache__ -type d -prune -exec rm -rf {} +
