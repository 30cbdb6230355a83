"""What is left when a fault of ours ends the application."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path

import pytest

from app.tui.startup.crash import KEPT, CrashLog, farewell, write_report
from tests.support.command import ROOT, environment
from tests.support.terminal import Terminal

BROKEN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from app.tui.commands.actions import CommandActions
CommandActions.fold = lambda self, _argument: 1 / 0
from hermes_launcher import main
sys.exit(main())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [80, 9])
def test_a_crash_ends_in_calm_lines_and_a_report(tmp_path: Path, columns: int) -> None:
    env = environment(tmp_path / "home")
    with Terminal([sys.executable, "-I", "-c", BROKEN, "--model", "demo"], env, tmp_path, (80, 24)) as shown:
        shown.until(b"What should I do?")
        shown.resize(columns, 24)
        shown.press("/fold\r")
        code = shown.drain()
    after = shown.painted.rpartition(b"\x1b[?1049l")[2].decode()
    assert code != 0
    assert "Hermes ended unexpectedly." in after and "Traceback" not in after
    place = re.search(r"The report:\s+(\S+)", after)
    assert place is not None
    report = Path(place[1])
    assert report.parent == tmp_path / "home" / "logs"
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text("utf-8")
    assert "ZeroDivisionError: division by zero" in text and text.startswith("hermes ")


def crashed(words: str = "it broke") -> CrashLog:
    crash = CrashLog()
    crash.write(f"{words}\n")
    return crash


def test_secrets_stay_out_of_the_report(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    report = write_report(crashed(f"token = '{token}'"), tmp_path / "logs", "1")
    assert report is not None and token not in report.read_text("utf-8")


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 5):
        (tmp_path / f"crash-20200101-0000{number:02}.txt").touch()
    report = write_report(crashed(), tmp_path, "1")
    kept = sorted(tmp_path.glob("crash-*.txt"))
    assert len(kept) == KEPT and kept[-1] == report


def test_where_no_report_can_be_written_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    report = write_report(crashed(), tmp_path / "logs", "1")
    assert report is None
    assert "log" in farewell(report, "abc") and "hermes --resume abc" in farewell(report, "abc")


def test_the_calm_lines_fit_a_narrow_terminal() -> None:
    told = farewell(Path("/home/ada/.hermes/logs/crash-20260304-140211.txt"), "20260202-013000-cccccc")
    assert max(map(len, told.splitlines())) <= 80
