"""The live table of a batch in each size of terminal, and its lines without one."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from agent.automation.batch.attempt import TaskResult
from agent.automation.batch.run import BatchProgress
from agent.automation.checks.check import CheckResult
from app.cli.automate.batch_lines import line_of
from app.cli.automate.batch_table import LiveTable

LONG = "a very long name of a task that goes on and on"
NOTE = "One task at once: " + "the model runs on this machine and each session loads its own weights. " * 2


def result(number: int) -> TaskResult:
    usage = {"input": 900, "output": 100}
    done = TaskResult(f"task-{number}", f"k{number}", "done", "It works.\nAll of it.", usage, 0.8, 1, (), "s")
    return (
        done,
        replace(done, id=LONG, seconds=4021.5),
        replace(done, checks=(CheckResult("contains", False, "Paris is not in the answer"),), seconds=456.7),
        replace(done, outcome="failed", text="", error="\x1b[31mInternal error\x1b[0m [bold]500[/bold]"),
    )[number % 4]


def picture(width: int, height: int, *, note: str = "", running: int = 16) -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), color_system=None, force_terminal=True)
    table = LiveTable(console)
    progress = BatchProgress(1000, note=note)
    for number in range(403):
        progress = progress.with_result(result(number))
        names = tuple(f"{LONG} {each}" if each % 2 else f"run-{each}" for each in range(running))
        table.update(replace(progress, last=result(number), running=names))
    lines = console.render_lines(table, console.options.update_height(height), pad=False)
    return ["".join(segment.text for segment in line) for line in lines]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("width", "height", "note", "running"),
    [
        (80, 24, "", 16),
        (120, 40, "", 16),
        (80, 24, NOTE, 1),
        (120, 40, NOTE, 256),
        (40, 12, "", 4),
        (200, 60, "", 0),
    ],
)
def test_the_table_fills_the_screen_and_no_more(width: int, height: int, note: str, running: int):
    lines = picture(width, height, note=note, running=running)
    assert len(lines) == height and max(map(len, lines)) <= width
    assert lines[0].startswith("403 of 1,000 tasks   201 failed"[:width])
    assert lines[-1].startswith("ctrl+c stops")
    shown = sum(line.startswith("▸") for line in lines)
    more = [line.strip() for line in lines if line.startswith("  and ")]
    assert more == ([f"and {running - shown} more"] if shown < running else [])
    if note:
        assert " ".join(" ".join(lines[2:6]).split()).startswith(NOTE[:100])


def test_rows_tell_state_time_and_reason():
    lines = [" ".join(line.split()) for line in picture(120, 40)]
    newest = [line for line in lines if line[:1] in ("✓", "✗")]
    assert newest[0] == "✗ task-402 7:36 wrong contains Paris is not in the answer"
    assert (
        newest[1].startswith("✓ a very long name of a task that goes")
        and "1:07:01 It works. All of it." in newest[1]
    )
    assert newest[2] == "✓ task-400 0.8 s It works. All of it."
    # What comes from outside steers neither the terminal nor the markup.
    assert newest[3] == "✗ task-399 0.8 s failed Internal error [bold]500[/bold]"


def test_a_line_keeps_an_id_that_can_be_recognised_and_marks_what_it_cuts():
    assert line_of(result(0)) == "done     task-0          0.8 s  It works. All of it."
    assert "a very long name of a task that goes on…" in line_of(result(1))
    assert line_of(result(2)).startswith("wrong    task-2 ")
    assert line_of(replace(result(0), text="x" * 200)).endswith("x" * 89 + "…")
