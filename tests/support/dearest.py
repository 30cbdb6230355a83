"""Cost of a run by file, printed at its end: `--dearest 10`.

What counts is the work of the processor, in the workers and in the programs they start: the suite is as long
as that on a machine that does something else as well, and waiting costs nobody anything. A program that still
runs when its test has ended counts for the test at which it ends.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

COLLECTING = "reading and collecting the tests"

_COST = pytest.StashKey[dict[str, float]]()
_last = 0.0
"""What this process had cost when the last report was made."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--dearest", type=int, default=0, metavar="MANY", help="name the files that cost the most work"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COST] = defaultdict(float)


def cost() -> float:
    """Seconds of a processor that this process and the children it has waited for have taken."""
    return sum(os.times()[:4])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    global _last
    _last = cost()
    session.config.stash[_COST][COLLECTING] += _last


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _last
    report = yield
    if report.when == "teardown":
        before, _last = _last, cost()
        # Attributes of a report travel with it from a worker.
        setattr(report, "cost", _last - before)  # noqa: B010
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[COLLECTING] = session.config.stash[_COST][COLLECTING]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # A worker that crashed has no output.
    output: dict[str, float] = getattr(node, "workeroutput", None) or {}
    node.config.stash[_COST][COLLECTING] += output.get(COLLECTING, 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not (most := int(config.getoption("--dearest") or 0)):
        return
    costs = dict(config.stash[_COST])
    for reports in terminalreporter.stats.values():
        for report in reports:
            if (seconds := getattr(report, "cost", None)) is not None:
                name = report.nodeid.split("::")[0]
                costs[name] = costs.get(name, 0.0) + seconds
    terminalreporter.section(f"dearest of {sum(costs.values()):.0f} s of work")
    for name, seconds in sorted(costs.items(), key=lambda each: -each[1])[:most]:
        terminalreporter.write_line(f"{seconds:7.1f} s {name}")
