"""Notices about watched lines, and their restraint."""

from __future__ import annotations

import pytest

from tools.results import ToolError
from tools.terminal.output import INTERVAL, STRIKES, OutputWatch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_match_is_told_with_its_line(clock: Clock):
    watch = OutputWatch(["ERROR", r"^ready in \d+"], clock)
    assert watch.feed("all is well\n") == ""
    assert watch.feed("one ERROR here\n") == "one ERROR here"
    clock.now += INTERVAL
    assert watch.feed("x\nready in 5 s\nERROR\n") == "ready in 5 s (and 1 more matching lines)"


def test_what_is_no_regular_expression_is_taken_literally(clock: Clock):
    watch = OutputWatch(["[ok", "a(b", "*"], clock)
    assert watch.feed("it is [ok]\n") == "it is [ok]"
    clock.now += INTERVAL
    assert watch.feed("a * b\n") == "a * b"


def test_matches_in_quick_succession_are_counted_and_told_later(clock: Clock):
    watch = OutputWatch(["hit"], clock)
    assert watch.feed("hit 1\n") == "hit 1"
    clock.now += 1
    assert watch.feed("hit 2\nhit 3\n") == ""
    clock.now += INTERVAL
    assert watch.feed("hit 4\n") == "hit 4 (and 2 more matching lines)"


def test_a_noisy_process_is_watched_no_longer(clock: Clock):
    watch = OutputWatch(["hit"], clock)
    told = []
    for _ in range(200):
        clock.now += 1
        told.append(watch.feed("hit\n"))
    notices = [one for one in told if one]
    assert watch.gave_up
    assert len(notices) == STRIKES + 1
    assert "when it ends" in notices[-1]


def test_a_quiet_interval_forgives(clock: Clock):
    watch = OutputWatch(["hit"], clock)
    for _ in range(20):
        assert watch.feed("hit\n")
        clock.now += 1
        watch.feed("hit\n")
        clock.now += INTERVAL
        assert watch.feed("hit\n")
        clock.now += INTERVAL
    assert not watch.gave_up


@pytest.mark.parametrize(
    "pattern", [r"(?:GET|POST) /\w+", r"\[\+*] done", "(?i)error: .*", "[(*+]{2}", "a{2,}b*c+"]
)
def test_ordinary_patterns_are_taken_as_they_are(pattern: str, clock: Clock):
    assert OutputWatch([pattern], clock).feed("GET /x [+] done error: (( aabc\n") != ""


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|b*)*c", "(x{1,9})+", ".*.*.*.*x", "((a*)b)* ", "(a|aa)+$", "(?:a?){30}", "x" * 300],
)
def test_patterns_that_may_never_end_are_refused(pattern: str):
    with pytest.raises(ToolError, match="repeats too much"):
        OutputWatch([pattern])


def test_a_long_line_is_looked_at_only_at_its_start(clock: Clock):
    watch = OutputWatch(["needle"], clock)
    assert watch.feed("x" * 100_000 + "needle\n") == ""
    assert len(watch.feed("needle" + "x" * 100_000 + "\n")) == 300


def test_without_patterns_nothing_is_told():
    assert OutputWatch([]).feed("anything\n") == ""
    assert OutputWatch([""]).feed("anything\n") == ""
