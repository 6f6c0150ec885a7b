# Each target installs what it needs into .venv first. Without DATABASE_URL an embedded PostgreSQL is started.

VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITH_DATABASE := $(BIN)/python -m ledgence_project.embedded run --

# Tests also wait: there are half as many processes again as cores. They are spread file by file, so that each file's
# servers and rows are made once.
PROCESSES = $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores + (cores + 1) / 2)))
SPREAD = -n $(PROCESSES) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# The emulators of brokers pin versions that the project does not: they have an environment of their own.
BROKERS := .venv-brokers

# 'make test-brokers' fails if fewer tests passed over real brokers: whatever the reason, they did not run.
BROKER_TESTS := 300

# What 'make test' leaves to 'make test-slow'.
SLOW := slow or browser or broker or scale

.DEFAULT_GOAL := help
.PHONY: help demo demo-admin screenshots test test-fast test-slow test-brokers lint format mutants bench stop-db remove-db install elasticmq brokers interpreter

help:
	@echo "make demo       run real work on this machine: thousands of tasks, and a worker killed on the way"
	@echo "make demo-admin serve the admin over a ledger in which everything goes wrong; it prints where, and for whom"
	@echo "make test       run the tests, in minutes; make test-fast: in less than one; make test-slow: the rest"
	@echo "make screenshots make docs/images anew, in Chromium"
	@echo "make lint       run ruff, mypy and import-linter; make format: let ruff format the code"
	@echo "make mutants    take out each guard in turn and see the tests fail"
	@echo "make bench      measure speed"
	@echo "make elasticmq  fetch a broker, with Maven; make test-brokers: the part of test-slow that runs over brokers"
	@echo "make stop-db    stop the embedded PostgreSQL; make remove-db: also remove its data"

demo: $(INSTALLED)
	@$(WITH_DATABASE) sh -c '"$$0" manage.py migrate --verbosity 0 && exec "$$0" manage.py ledgence_demo' $(BIN)/python

demo-admin: $(INSTALLED)
	@$(WITH_DATABASE) $(BIN)/python manage.py ledgence_demo_admin

test: $(INSTALLED)
	$(BIN)/python -m pytest $(SPREAD) -m "not ($(SLOW))"

test-fast: $(INSTALLED)
	$(BIN)/python -m pytest $(SPREAD) -m "not ($(SLOW) or process)"

test-slow: $(INSTALLED) test-brokers
	$(BIN)/python -m pytest $(SPREAD) -m "($(SLOW)) and not broker"

test-brokers: brokers
	$(BIN)/python -m pytest $(SPREAD) --dist loadscope -m broker --passed-at-least $(BROKER_TESTS) tests/brokers

screenshots: $(INSTALLED)
	$(BIN)/python -m pytest --quiet tests/browser/screenshots.py

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

mutants: $(INSTALLED)
	$(BIN)/python -m tests.mutants

bench: $(INSTALLED)
	@$(WITH_DATABASE) $(BIN)/python manage.py ledgence_bench

stop-db:
	@! [ -x $(BIN)/python ] || $(BIN)/python -m ledgence_project.embedded stop

remove-db:
	@! [ -x $(BIN)/python ] || $(BIN)/python -m ledgence_project.embedded remove

install: $(INSTALLED)

# The broker of the tests, the measurements and the demonstration: fetched once, into the user's cache.
elasticmq: $(INSTALLED)
	@$(BIN)/python -m ledgence_project.elasticmq

brokers: elasticmq $(BROKERS)/.installed

$(BROKERS)/.installed: tests/brokers/requirements.txt | $(INSTALLED)
	@echo "Installing $< into $(BROKERS)"
	@$(BIN)/python -m venv --clear $(BROKERS)
	@$(BROKERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(INSTALLED): requirements.txt pyproject.toml workers/pyproject.toml
	@if [ "$$($(BIN)/python -c "$$JUDGE" 2>/dev/null)" != fit ]; then \
		python=$$(eval "$$FIND_INTERPRETER") || exit 1; \
		echo "Creating $(VENV) with $$python"; \
		"$$python" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "Installing requirements.txt into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

# Prints the interpreter that a new .venv would use.
interpreter:
	@eval "$$FIND_INTERPRETER"

# Run by each candidate: prints "fit", or why it is not.
define JUDGE
import sys
if sys.version_info < (3, 12):
    print("is Python %d.%d" % sys.version_info[:2])
else:
    try:
        import ensurepip, venv
        print("fit")
    except ImportError:
        print("lacks the venv module (on Debian it is the package python%d.%d-venv)" % sys.version_info[:2])
endef
export JUDGE

# A name on the PATH proves nothing: version managers leave names there that exist and fail. So each candidate is run.
define FIND_INTERPRETER
for candidate in $${PYTHON:-python3.13 python3.12 python3.14 python3 python \
    "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.13*/bin/python "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin/python \
    "$$HOME"/.local/share/uv/python/*/bin/python3}; do
  path=$$(command -v "$$candidate") || continue
  verdict=$$("$$path" -c "$$JUDGE" 2>/dev/null) || verdict="does not run"
  [ "$$verdict" = fit ] && { echo "$$path"; exit 0; }
  seen="$$seen  $$path $$verdict
"
done
{
  echo "Ledgence needs Python 3.12 or newer, with its venv module. None was found:"
  printf '%s' "$${seen:-  there is no Python on the PATH
}"
  echo "Install one (Debian: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12"
} >&2
exit 1
endef
export FIND_INTERPRETER
export PYTHON
