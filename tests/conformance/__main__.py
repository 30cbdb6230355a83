"""Running the conformance suite and the reference server: one scenario after the other, and how many pass.

Each scenario starts our command line, and the suite has a limit of its own, so they run one after the other.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.conformance import everything, packages

REVISIONS = ("2026-07-28", "2025-11-25")
ADAPTER = Path(__file__).with_name("client_adapter.py")
LIMIT = 120
"""Seconds for one scenario."""


def main(wanted: list[str]) -> int:
    """Run all scenarios, or those named; 0 if none failed."""
    node, suite = packages.node(), packages.script(packages.SUITE)
    counted = Count()
    for revision in REVISIONS:
        for scenario in _scenarios(node, suite, revision):
            if not wanted or scenario in wanted:
                counted.add(f"{revision}  {scenario}", *_run(node, suite, revision, scenario))
    for transport in everything.TRANSPORTS:
        if not wanted or f"everything/{transport}" in wanted:
            for check, passed, said in everything.checks(transport):
                counted.add(f"everything  {transport}  {check}", passed, said)
    return counted.told()


class Count:
    """What passed and what did not."""

    def __init__(self) -> None:
        self._passed = 0
        self._failed: list[str] = []

    def add(self, name: str, passed: bool, said: str) -> None:
        print(f"{'pass' if passed else 'FAIL'}  {name}", flush=True)
        if passed:
            self._passed += 1
        else:
            self._failed.append(name)
            print(said[-3_000:], flush=True)

    def told(self) -> int:
        """Say the figure; the exit code."""
        count = self._passed + len(self._failed)
        print(f"{self._passed} of {count} scenarios passed.")
        for each in self._failed:
            print(f"  failed: {each}")
        return 1 if self._failed or not count else 0


def _scenarios(node: Path, suite: Path, revision: str) -> list[str]:
    """The scenarios of clients that a revision requires."""
    asked = [str(node), str(suite), "list", "--requirements", revision]
    listed = subprocess.run(
        asked, env=packages.environment(), capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[2], re.MULTILINE)


def _run(node: Path, suite: Path, revision: str, scenario: str) -> tuple[bool, str]:
    command = [str(node), str(suite), "client", "--command", f"{sys.executable} {ADAPTER}"]
    command += ["--scenario", scenario, "--spec-version", revision, "--timeout", str(LIMIT * 1_000)]
    try:
        done = subprocess.run(
            command,
            env=packages.environment(),
            cwd=packages.BUILD,
            capture_output=True,
            text=True,
            timeout=LIMIT + 30,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return False, str(error)
    return done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
