"""A second try for tests that failed in a full run, each alone in a process of its own: `--second-try 10`.

What passes then was held up by the rest of the run. It is named where it cannot be overlooked, with what went
wrong at first, and the run is green. When more tests failed than the option says, something is broken and
nothing is tried again. A worker that crashed counts as the failure of the test it was at.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

PATIENCE = 180.0
"""Seconds all second tries may take together; what is left over then has failed."""
UNSTEADY = "unsteady"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-try",
        type=int,
        default=0,
        metavar="MOST",
        help="try failed tests once more, each alone, unless more than MOST failed",
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(config, "workerinput") or terminal is None or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    stats: dict[str, list[pytest.TestReport]] = terminal.stats
    failed = [*stats.get("failed", []), *stats.get("error", [])]
    names = list(dict.fromkeys(each.nodeid for each in failed))
    if not 0 < len(names) <= int(config.getoption("--second-try") or 0):
        return
    terminal.ensure_newline()
    end = time.monotonic() + PATIENCE
    passed: set[str] = set()
    for name in names:
        terminal.write_line(f"Trying once more, alone: {name}")
        if _passes(name, config.rootpath, end - time.monotonic()):
            passed.add(name)
    for kind in ("failed", "error"):
        terminal.stats[kind] = [each for each in stats.get(kind, []) if each.nodeid not in passed]
    # One report of each: the same test can have failed itself and when it was torn down.
    unsteady = {each.nodeid: each for each in reversed(failed) if each.nodeid in passed}
    if unsteady:
        terminal.stats[UNSTEADY] = list(reversed(unsteady.values()))
    if len(passed) == len(names) and session.exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports: list[pytest.TestReport] = terminalreporter.stats.get(UNSTEADY, [])
    if not reports:
        return
    terminalreporter.section("UNSTEADY TESTS", yellow=True)
    for each in reports:
        terminalreporter.write_line(f"{each.nodeid} failed at the first try:", yellow=True)
        terminalreporter.write_line(each.longreprtext)
    for each in reports:
        terminalreporter.write_line(f"UNSTEADY: passed at the second try: {each.nodeid}", yellow=True)


def _passes(name: str, root: Path, seconds: float) -> bool:
    """Whether a test passes by itself. One that is left out does not."""
    if seconds <= 0:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as arguments:
        # On a line of a file a name can hold whatever it wants.
        arguments.write(f"{name}\n")
        arguments.flush()
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"@{arguments.name}"]
        try:
            ended = subprocess.run(
                argv, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
    return ended.returncode == 0 and re.search(r"^\d+ passed", ended.stdout, re.MULTILINE) is not None
