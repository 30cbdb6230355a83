"""What went wrong with a call: the telling line, its kind, its normalised form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent.knowledge.learnings.calls import command_form
from agent.knowledge.learnings.failures import failure_of, normalise, telling_line

CASES = [
    (
        "python app.py",
        127,
        "bash: line 1: python: command not found",
        "command not found",
        "python: command not found",
    ),
    (
        "python app.py",
        1,
        'Traceback (most recent call last):\n  File "/w/app.py", line 3, in <module>\n    import yaml\n'
        "ModuleNotFoundError: No module named 'yaml'",
        "ModuleNotFoundError",
        "modulenotfounderror: no module named 'yaml'",
    ),
    (
        "python serve.py",
        1,
        "OSError: [Errno 98] Address already in use: ('0.0.0.0', 8080)",
        "OSError",
        "oserror: [errno <n>] address already in use: ('<n>', <n>)",
    ),
    (
        "tool --fast",
        2,
        "usage: tool [-h]\ntool: error: unrecognized arguments: --fast",
        "unrecognized arguments",
        "tool: error: unrecognized arguments: --fast",
    ),
    (
        "ls /w/a",
        2,
        "ls: cannot access '/w/a': No such file or directory",
        "no such file or directory",
        "ls: cannot access '<path>': no such file or directory",
    ),
    (
        "cargo build",
        101,
        "error[E0425]: cannot find value `x` in this scope\n --> src/main.rs:2:5",
        "E0425",
        "error[e0425]: cannot find value 'x' in this scope",
    ),
    ("quiet", 3, "", "exit 3", "exit 3"),
    ("sleep 999", 124, "half of it", "timed out", "timed out"),
]


@pytest.mark.parametrize(("command", "code", "output", "kind", "error"), CASES)
def test_a_failure_is_told_by_one_line(command: str, code: int, output: str, kind: str, error: str) -> None:
    failure = failure_of({"output": output, "exit_code": code}, command_form(command, "/w", "/w"))
    assert failure is not None and (failure.kind, failure.error) == (kind, error)


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("true", {"output": "error: none", "exit_code": 0}),
        ("pytest -q", {"output": "1 failed", "exit_code": 1}),
        ("python -m pytest", {"output": "1 failed", "exit_code": 1}),
        ("grep x file", {"output": "", "exit_code": 1}),
        ("git diff --quiet", {"output": "", "exit_code": 1}),
        ("sleep 9", {"output": "", "exit_code": 130}),
        ("rm x", {"error": "No.", "status": "blocked"}),
        ("x", {"error": "Held.", "status": "held_back"}),
        ("server", {"output": "Started in the background.", "exit_code": 0}),
        ("odd", {"exit_code": "1"}),
        ("odd", {"exit_code": True}),
    ],
)
def test_reports_refusals_and_what_somebody_ended_are_no_failures(
    command: str, result: dict[str, object]
) -> None:
    assert failure_of(result, command_form(command, "/w", "/w")) is None


def test_usage_errors_of_test_runners_are_failures() -> None:
    result = {"output": "ERROR: file or directory not found: x", "exit_code": 4}
    assert failure_of(result, command_form("pytest x", "/w", "/w")) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("failed at 2024-01-02T03:04:05Z in /a/b.py:12", "failed at 2026-11-23 10:00:01 in /c/d/e.py:7"),
        ("commit 3fa9c1d not found", "commit 0b77e21f not found"),
        ("bash: line 3: foo: command not found", "/bin/sh: 1: foo: command not found"),
        ("cannot open “x”", "cannot open 'x'"),
        ("no answer from http://127.0.0.1:3000/x", "no answer from https://example.org/y?z=1"),
        ("took 12.5 ms", "took 3 ms"),
        ("object at 0x7f00aa11", "object at 0x12"),
        ("\x1b[31mError\x1b[0m: bad", "Error:   bad"),
    ],
)
def test_what_differs_each_time_is_not_part_of_the_error(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("No module named 'yaml'", "No module named 'requests'"),
        ("unknown option --fast", "unknown option --slow"),
        ("python: command not found", "python3: command not found"),
    ],
)
def test_names_are_part_of_the_error(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


_LINES = some.lists(
    some.one_of(
        some.text(max_size=20),
        some.sampled_from(
            [
                "/a/b",
                "./x",
                "12:30:01",
                "0xff",
                "3fa9c1d",
                "mar 3",
                "http://x/y",
                "error:",
                "'",
                "a1",
                "1.2",
                "<n>",
            ]
        ),
    ),
    max_size=60,
).map(" ".join)


@given(_LINES)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(some.integers(0, 10**12), some.integers(0, 10**12))
def test_any_two_numbers_are_alike(one: int, other: int) -> None:
    assert normalise(f"port {one} in use") == normalise(f"port {other} in use")


_NAMES = some.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)


@pytest.mark.thorough
@given(some.lists(_NAMES, min_size=1, max_size=5), some.lists(_NAMES, min_size=1, max_size=5))
def test_any_two_paths_are_alike(one: list[str], other: list[str]) -> None:
    assert normalise(f"cannot read /{'/'.join(one)}: denied") == normalise(
        f"cannot read /{'/'.join(other)}: denied"
    )


@given(some.text(max_size=400))
def test_every_output_has_a_telling_line_of_bounded_length(text: str) -> None:
    line = telling_line(text)
    assert len(line) <= 300 and "\n" not in line
