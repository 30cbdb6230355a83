"""What fixed a failure, from the calls alone."""

from __future__ import annotations

import pytest

from agent.knowledge.learnings.calls import CallForm, CallPlace, call_form
from agent.knowledge.learnings.failures import Fix, MadeCall, failure_of, what_worked

HERE = CallPlace("/w", "/w")


def run(command: str, code: int = 0, output: str = "", cwd: str = "/w", **more: object) -> MadeCall:
    form = call_form("terminal", {"command": command, **more}, CallPlace("/w", cwd))
    return MadeCall(form, failure_of({"output": output, "exit_code": code}, form.command))


def tool(name: str, error: str = "", **arguments: object) -> MadeCall:
    form = call_form(name, arguments, HERE)
    return MadeCall(form, failure_of({"error": error} if error else {}, None))


def is_read_only(form: CallForm) -> bool:
    return form.command is None or form.command.main.program in ("ls", "cat", "which")


def fix(*calls: MadeCall) -> Fix | None:
    return what_worked(calls, 0, is_read_only)


NOT_FOUND = "bash: line 1: {}: command not found"
MISSING = "ModuleNotFoundError: No module named 'yaml'"


@pytest.mark.parametrize(
    ("failed", "worked", "text"),
    [
        (run("python app.py", 127, NOT_FOUND.format("python")), run("python3 app.py"), "`python3 app.py`"),
        (run("pytest", 127, NOT_FOUND.format("pytest")), run("python3 -m pytest"), "`python3 -m pytest`"),
        (
            run("docker-compose up -d", 127, NOT_FOUND.format("docker-compose")),
            run("docker compose up -d"),
            "`docker compose up -d`",
        ),
        (
            run("tool --fast in", 2, "tool: error: unrecognized arguments: --fast"),
            run("tool --quick in"),
            "`tool --quick in`",
        ),
        (
            run("make test", 2, "make: *** No rule to make target 'test'.  Stop."),
            run("make check"),
            "`make check`",
        ),
        (
            run("make all", 2, "make: *** No targets specified and no makefile found."),
            run("cd sub && make all"),
            "`cd sub && make all`",
        ),
        (
            run("make all", 2, "make: *** No targets specified and no makefile found."),
            run("make all", workdir="sub"),
            "`make all` with workdir=sub",
        ),
        (
            run("python app.py", 1, "KeyError: 'API_URL'"),
            run("API_URL=x python app.py"),
            "`API_URL=x python app.py`",
        ),
        (
            run("pip install sklearn", 1, "ERROR: No matching distribution found for sklearn"),
            run("pip install scikit-learn"),
            "`pip install scikit-learn`",
        ),
        (
            run("pip install yaml", 1, "error: externally-managed-environment"),
            run("python3 -m venv .venv && .venv/bin/pip install yaml"),
            "`python3 -m venv .venv && .venv/bin/pip install yaml`",
        ),
        (
            run("serve --port 8000", 1, "OSError: [Errno 98] Address already in use"),
            run("serve --port 8001"),
            "`serve --port 8001`",
        ),
        (
            run("find . -name *.py", 1, "find: paths must precede expression: 'b.py'"),
            run("find . -name '*.py'"),
            "`find . -name '*.py'`",
        ),
        (
            run("python3 serve.py 38123", 1, "OSError: [Errno 98] Address already in use"),
            run("python3 serve.py 45679"),
            "`python3 serve.py 45679`",
        ),
        (run("./go.sh", 126, "bash: line 1: ./go.sh: Permission denied"), run("sh ./go.sh"), "`sh ./go.sh`"),
        (
            run("dash lists.sh", 2, 'lists.sh: 1: Syntax error: "(" unexpected'),
            run("bash lists.sh"),
            "`bash lists.sh`",
        ),
        (
            run("git checkout maste", 1, "error: pathspec 'maste' did not match any file(s) known to git"),
            run("git checkout master"),
            "`git checkout master`",
        ),
        (
            run("git comit -m x", 1, "git: 'comit' is not a git command. See 'git --help'."),
            run("git commit -m x"),
            "`git commit -m x`",
        ),
        (
            tool("read_file", "File not found: src/ap.py", path="src/ap.py"),
            tool("read_file", path="src/app.py"),
            "`path=src/app.py`",
        ),
        (run("slow", 124, ""), run("slow", timeout=600), "give it a longer timeout"),
        (
            run("make all", 2, "make: *** No targets specified and no makefile found."),
            run("make all", cwd="/w/sub"),
            "`make all` in the folder sub",
        ),
        (run("serve", 124, ""), run("serve", background=True), "`serve` with background"),
    ],
)
def test_the_same_done_another_way_is_the_fix(failed: MadeCall, worked: MadeCall, text: str) -> None:
    found = fix(failed, worked)
    assert found is not None and (found.kind, found.text) == ("instead", text)


def test_something_done_first_is_the_fix_where_the_same_call_works_then() -> None:
    found = fix(run("python app.py", 1, MISSING), run("ls"), run("pip install pyyaml"), run("python app.py"))
    key = run("pip install pyyaml").form.key
    assert found == Fix("first", "first `pip install pyyaml`", key, (key,))


@pytest.mark.parametrize(
    "calls",
    [
        # It went away by itself, or nobody knows why.
        [run("python app.py", 1, MISSING), run("python app.py")],
        [run("python app.py", 1, MISSING), run("ls"), run("python app.py")],
        # The code was changed.
        [
            run("python app.py", 1, MISSING),
            tool("write_file", path="app.py", content=""),
            run("python app.py"),
        ],
        [run("python app.py", 1, MISSING), tool("patch", path="app.py"), run("python app.py -v")],
        # Something else was done.
        [run("python app.py", 1, MISSING), run("python other.py")],
        [run("cat a.txt", 1, "cat: a.txt: No such file or directory"), run("touch a.txt")],
        [run("git push", 1, "fatal: no upstream"), run("git status")],
        [run("pip install a", 1, "error: timeout"), run("pip install completely-different")],
        [
            tool("read_file", "File not found: a.py", path="a.py"),
            tool("read_file", path="docs/guide/index.md"),
        ],
        [
            tool("patch", "old_string not found", path="a", old_string="x"),
            tool("patch", path="a", old_string="y"),
        ],
        # Too much happened in between.
        [run("python app.py", 1, MISSING), *[run(f"step{i} x") for i in range(5)], run("python app.py")],
        # It still fails.
        [run("python app.py", 127, NOT_FOUND.format("python")), run("python3 app.py", 1, "boom")],
    ],
)
def test_other_successes_are_no_fix(calls: list[MadeCall]) -> None:
    assert fix(*calls) is None


def test_a_program_that_is_not_there_is_mended_by_no_edit() -> None:
    calls = [
        run("python app.py", 127, NOT_FOUND.format("python")),
        tool("write_file", path="app.py", content="x"),
        run("python3 app.py"),
    ]
    assert fix(*calls) is not None
