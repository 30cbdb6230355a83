"""The command line at a glance agrees with the parser that knows all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.command_line import build_parser
from app.tui.startup.fast_args import FastOptions, fast_options

WORDS = st.sampled_from(
    [
        *("--demo", "--continue", "--model", "--cwd", "--resume", "--approve", "--max-turns", "--plain"),
        *(
            "-p",
            "-p=x",
            "--prompt",
            "--json",
            "--version",
            "--help",
            "--mod",
            "--model=x",
            "--cwd=",
            "--resume=-1",
            "--demo=x",
        ),
        *("--effort", "--tools", "--tools=file,web", "-m", "-mx", "-m=x", "-r", "-c", "-cm", "-c=x"),
        *("sessions", "list", "x", "a b", "", "-", "--", "-1", "normal", "3", "--=", "=", "@x", "\u0664"),
    ]
)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--demo",
        "--continue",
        "--model x",
        "--model=x --cwd /",
        "-c -m x -r abc",
        "--resume abc --approve ask --effort high --max-turns 3",
    ],
)
def test_a_plain_start_is_known_at_a_glance(line: str) -> None:
    options = fast_options(line.split())
    assert options is not None and options.has_screen


@pytest.mark.parametrize("line", ["-p hello", "--prompt=x", "--json", "-m x -p hello --json"])
def test_a_session_that_answers_and_ends_is_known_at_a_glance(line: str) -> None:
    options = fast_options(line.split())
    assert options is not None and not options.has_screen


@pytest.mark.parametrize(
    "line",
    [
        *("-p -", "-phello", "--plain", "--help", "--version", "sessions", "--bogus"),
        *("--model", "--model --plain", "--demo sessions", "-ph", "--cwd", "--", "--demo=x --plain"),
    ],
)
def test_every_other_command_line_is_not(line: str) -> None:
    assert fast_options(line.split()) is None


def test_values_that_may_be_wrong_are_left_to_the_parser() -> None:
    for line in (["--approve", "careful"], ["--max-turns=3"], ["--tools", "file"]):
        options = fast_options(line)
        assert options is not None and not options.is_complete


@given(st.lists(WORDS, max_size=6))
def test_what_is_read_at_a_glance_means_the_same_to_the_parser(line: list[str]) -> None:
    options = fast_options(line)
    if options is None or not options.is_complete:
        return
    parsed = vars(build_parser(line).parse_args(line))
    assert {name: getattr(options, name) for name in parsed if name != "image"} | {"image": []} == parsed
    assert not options.image


def test_every_option_of_the_program_has_a_place() -> None:
    assert vars(build_parser().parse_args([])).keys() <= {*dir(FastOptions())}
