"""Tests near a change: `--changed [REF]` collects the files that test what differs from REF, nearest first.

A test file is near when it differs itself, when it imports a module that differs, or when one module lies
between. Data beside a module (YAML, TCSS, SQL) counts as the modules of its folder, or of the next one above
that has any. Nearest means the fewest imports.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.support.source_facts import facts

FLOORS = ("app", "widgets", "agent", "tools", "themes", "tests")
MOST = 40
"""Test files that run at most: what is changed far below is needed by nearly all of them."""
DISTANCE = 2
_FILES = pytest.StashKey[frozenset[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed", nargs="?", const="HEAD", metavar="REF", help="run the tests near what differs from REF"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (ref := config.getoption("--changed")) is None:
        return
    if (told := getattr(config, "workerinput", {}).get("changed")) is not None:
        config.stash[_FILES] = frozenset(map(Path, told))
    else:
        root = config.rootpath
        config.stash[_FILES] = frozenset(near(differing(root, str(ref)), imports_of(root), root))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what was found, as reading all imports takes some seconds of a core."""
    if (files := node.config.stash.get(_FILES, None)) is not None:
        node.workerinput["changed"] = [str(each) for each in files]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    files = config.stash.get(_FILES, None)
    if files is None or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return collection_path not in files


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Nothing to run is not a failure."""
    if (
        session.config.stash.get(_FILES, None) == frozenset()
        and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    ):
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(_FILES, None) == frozenset():
        terminalreporter.write_line(f"No test is near what differs from {config.getoption('--changed')}.")


def differing(root: Path, ref: str) -> list[Path]:
    """Files that differ from a commit, also new ones. Raises `pytest.UsageError` for a bad name."""
    paths: set[str] = set()
    for words in (
        ["diff", "--name-only", "-z", "--end-of-options", ref],
        ["ls-files", "-z", "--others", "--exclude-standard"],
    ):
        result = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise pytest.UsageError(f"git cannot compare with {ref!r}: {result.stderr.strip()}")
        paths |= set(result.stdout.split("\0")) - {""}
    return [root / path for path in sorted(paths)]


def imports_of(root: Path) -> dict[Path, frozenset[Path]]:
    """Each module of ours with the modules it imports, those inside functions as well."""
    files = {path for floor in FLOORS for path in (root / floor).rglob("*.py") if "bundled" not in path.parts}

    def place(name: str) -> Path | None:
        for path in (root / f"{name.replace('.', '/')}.py", root / name.replace(".", "/") / "__init__.py"):
            if path in files:
                return path
        return None

    def needed(path: Path) -> Iterable[Path | None]:
        for node in facts(path).imports:
            if isinstance(node, ast.Import):
                yield from (place(each.name) for each in node.names)
            elif node.module:
                # What is not a module of the package is a name of the package itself.
                yield from (place(f"{node.module}.{each.name}") or place(node.module) for each in node.names)

    return {path: frozenset(each for each in needed(path) if each is not None) for path in files}


def near(changed: Iterable[Path], imports: Mapping[Path, frozenset[Path]], root: Path) -> list[Path]:
    """The test files to run for these changes, nearest first. Pure."""
    reached = {path for path in changed if path in imports}
    for path in changed:
        if path.suffix != ".py" and root in path.parents:
            folders = takewhile(lambda each: each != root, path.parents)
            beside = ({each for each in imports if each.parent == folder} for folder in folders)
            reached |= next(filter(None, beside), set())
    found: dict[Path, None] = {}
    for _ in range(DISTANCE + 1):
        found |= dict.fromkeys(sorted(path for path in reached if path.name.startswith("test_")))
        reached |= {path for path, needed in imports.items() if needed & reached}
    return list(found)[:MOST]
