# `make run` and `make test` set up everything they need in .venv; a second run reuses it and needs no network.
.DEFAULT_GOAL := run
.PHONY: run test test-changed test-acp test-newer-git test-conformance test-servers test-mcp-servers test-imports test-agents lint style types house bench bench-peers bench-terminals pictures test-realmodel test-thorough test-ray constraints clean install uninstall

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# One more than two cores, as tests of screens wait most of their time; each worker reads all tests (23 s of a core).
JOBS ?= 3
# Compiled modules are kept, whatever the shell says: every worker and every started program needs them.
unexport PYTHONDONTWRITEBYTECODE

# Starts Hermes. Arguments go through ARGS: make run ARGS="-p 'What is in this folder?'"
run:
	@sh .ci/environment run
	@$(BIN)/hermes $(ARGS)

# Puts `hermes` on the search path, as a link in ~/.local/bin; `make uninstall` takes it away again.
install:
	@sh .ci/environment run
	@sh .ci/command add

uninstall:
	@sh .ci/command remove

# Runs the suite. One file or one test: make test ARGS="tests/agent/core/config -k trust". Up to ten tests that failed
# are tried once more, each alone; those that pass then are named at the end, and so are the ten dearest files.
test:
	@sh .ci/environment dev
	@$(PYTEST) -m "not realmodel and not thorough" -n $(JOBS) --dist loadfile --no-loadscope-reorder \
	  -p tests.support.order -p tests.support.second_try --second-try 10 -p tests.support.dearest --dearest 10 $(ARGS)

# Runs the tests near what differs from a commit: make test-changed SINCE=origin/main
SINCE ?= HEAD
test-changed:
	@sh .ci/environment dev
	@$(PYTEST) -m "not realmodel and not thorough" -n $(JOBS) --dist loadfile \
	  -p tests.support.changed --changed $(SINCE) tests $(ARGS)

# Runs what takes minutes: every kind of hostile text in every list, and every property on many examples.
test-thorough:
	@sh .ci/environment dev
	@$(PYTEST) -m "thorough or hypothesis" --hypothesis-profile=thorough --timeout=900 -n $(JOBS) $(ARGS)

# Looks at the source, its parts side by side. What is in `house` belongs to the suite as well.
PARTS ?= types style house
lint:
	@sh .ci/environment dev
	@$(MAKE) --no-print-directory -j 2 $(PARTS)

types:
	@$(BIN)/pyright

style:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

house:
	@$(PYTEST) tests/test_floors.py tests/test_house.py

# Prints the figures, one file of benchmarks/ after the other.
bench:
	@sh .ci/environment dev
	@for file in benchmarks/[a-z]*.py; do \
	  [ -e "$$file" ] || continue; echo "== $$file"; $(BIN)/python "$$file" || exit 1; \
	done

# Measures Hermes by turns with other agents, which are installed below the cache folder at first, and prints the
# table of docs/developing/benchmarks.md. Some of it: make bench-peers ARGS="--only start,task --peers codex,pi"
bench-peers:
	@sh .ci/environment dev
	@$(BIN)/python -m benchmarks.peers $(ARGS)

# Runs Hermes in terminals and multiplexers of npm, PyPI and Debian (those that are on this machine) and prints what
# arrived. The table of docs/terminals.md: make bench-terminals ARGS=--write; one: ARGS="--only tmux"
bench-terminals:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.terminals $(ARGS)

# Draws every screen on contact sheets below build/pictures, to be looked at. Some of them: make pictures ARGS="--skin
# paper --size 80x24 --state error --only Sessions"
pictures:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.pictures build/pictures $(ARGS)

# Runs the tests that talk to a real model on this machine.
test-realmodel:
	@sh .ci/environment dev local
	@$(PYTEST) -m realmodel $(ARGS)

# Runs the official conformance suite of the Model Context Protocol through our command line, one scenario at a
# time. The first run fetches the suite and Node. One scenario: make test-conformance ARGS="auth/basic-cimd"
test-conformance:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.conformance $(ARGS)

# Plays dialogues with `hermes acp` through two clients of the Agent Client Protocol, then 10,000 generated exchanges;
# every line is held against the official schema. The first run fetches Node and the npm client.
test-acp:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.acp_suite $(ARGS)

# Gives tasks to real gateways and model servers (LiteLLM, llama.cpp, transformers serve), installed under
# build/servers at first, and prints the table of docs/models.md. One of them: make test-servers ARGS="llamacpp"
test-servers:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.model_servers $(ARGS)

# Starts 50 MCP servers of npm and PyPI cold in the default sandbox, lists, calls and starts them again.
# Some of them: make test-mcp-servers ARGS="memory git"
test-mcp-servers:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.mcp_servers $(ARGS)

# Makes sessions with the real programs of other agents (npm and PyPI, pinned, kept in ~/.cache/hermes-import-suite),
# imports them, and compares each with what went over the wire. Some of them: make test-imports ARGS="codex pi"
test-imports:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.import_suite $(ARGS)

# Sends the real agents of npm and PyPI that speak ACP, all with one scripted model, in 12 situations each. The table
# is in docs/subagents.md. Some of them: make test-agents ARGS="gemini opencode --only rule,yolo"
test-agents:
	@sh .ci/environment dev
	@$(BIN)/python -m tests.foreign_agents $(ARGS)

# Runs the tests of repositories that keep their refs in tables, with the git (2.45 or later) of the folder GIT:
# make test-newer-git GIT=$$HOME/git/bin. The suite runs them with the machine's own git, if that is new enough.
test-newer-git:
	@sh .ci/environment dev
	@HERMES_TEST_GIT="$(GIT)" $(PYTEST) -n 0 -rs tests/agent/session/turns/test_reftable.py $(ARGS)

# Runs the same batch on this machine and on an embedded Ray with two workers, in an environment of its own under build/.
RAY := build/ray/bin/python
test-ray:
	@[ -e build/ray/.ready ] || { python3 -m venv build/ray && $(RAY) -m pip install --quiet -e '.[ray]' \
	  pytest pytest-asyncio pytest-timeout && touch build/ray/.ready; }
	@$(RAY) -m pytest -p no:cacheprovider --noconftest -m thorough tests/agent/automation/batch/test_ray.py $(ARGS)

# Pins every dependency anew, with hashes. Run it on the oldest supported Python.
constraints:
	@sh .ci/pin

clean:
	@rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache snapshot_report.html
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
