"""The same effect gets the same verdict whichever tool causes it; the table of the page is made here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.core.event_data import VerdictKind
from agent.core.home import Home
from agent.core.messages import MODES, Mode
from agent.safety.gate import Gate
from agent.safety.rules import SEVERITY, UndoCoverage
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage
from tests.agent.safety.corpus_files import CLOSED
from tools.services.actions import Action, DeletePath, RunCommand, RunScript, WritePath

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
TOOLS = ("write_file", "patch", "terminal", "execute_code")
SAID: dict[VerdictKind, str] = {"allow": "passes", "ask": "asks", "deny": "denied", "hardline": "refused"}


@dataclass(frozen=True)
class Change:
    """One effect on one file."""

    title: str
    path: str
    deletes: bool = False


CHANGES = (
    Change("changes a file of the workspace", "src/a.py"),
    Change("makes a file in the workspace", "src/new.py"),
    Change("deletes a file of the workspace", "src/a.py", deletes=True),
    Change("changes a file that is too large for undo", "large.bin"),
    Change("deletes a file that is too large for undo", "large.bin", deletes=True),
    Change("changes secrets of the workspace", ".env"),
    Change("changes a hook of Git", ".git/hooks/pre-commit"),
    Change("changes what a CI service runs", ".github/workflows/ci.yml"),
    Change("changes a file outside of the workspace", "../other/a.py"),
    Change("changes Hermes' own settings", "../person/.hermes/config.yaml"),
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table").resolve()
    work = folder / "work"
    for name in ("work/src", "work/.git/hooks", "work/.github/workflows", "other", "person/.hermes"):
        (folder / name).mkdir(parents=True)
    for each in CHANGES:
        if "new" not in each.path:
            (work / each.path).write_bytes(b"x" * (2_000 if "large" in each.path else 1))
    return work


def gate(workspace: Path, mode: Mode, coverage: BoundaryCoverage) -> Gate:
    home = Home(workspace.parent / "person" / ".hermes")
    return Gate.for_home(home, workspace, mode, coverage=coverage, undo=UndoCoverage(largest=1_000))


def actions(tool: str, change: Change, workspace: Path, coverage: BoundaryCoverage) -> Iterator[Action]:
    """What a tool asks the gate for; a script is asked about itself, then about what it calls.

    Without a boundary it is asked about itself in any case, whatever it does.
    """
    path = Path(workspace / change.path).resolve()
    if tool == "terminal":
        command = f"rm {change.path}" if change.deletes else f"echo x >> {change.path}"
        yield RunCommand(tool=tool, command=command, cwd=workspace)
        return
    if tool == "execute_code" and coverage.guards_places:
        yield RunScript(tool=tool, code="…", sandboxed=True)
    yield DeletePath(tool=tool, path=path) if change.deletes else WritePath(tool=tool, path=path)


def verdict(
    tool: str, change: Change, workspace: Path, mode: Mode, coverage: BoundaryCoverage
) -> VerdictKind:
    decided = gate(workspace, mode, coverage).decide
    kinds = [decided(action).kind for action in actions(tool, change, workspace, coverage)]
    return max(kinds, key=SEVERITY.index)


@pytest.mark.sample(10)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
@pytest.mark.parametrize("coverage", [CLOSED, NO_COVERAGE], ids=["closed boundary", "no boundary"])
def test_the_same_effect_gets_the_same_verdict_from_every_tool(
    workspace: Path, change: Change, coverage: BoundaryCoverage
) -> None:
    for mode in MODES:
        said = {tool: verdict(tool, change, workspace, mode, coverage) for tool in TOOLS}
        assert len(set(said.values())) == 1, (mode, said)


def table(workspace: Path) -> str:
    """The verdicts as the page shows them."""
    tools, modes = (", ".join(f"`{t}`" for t in TOOLS), " | ".join(f"`{m}`" for m in MODES))
    lines = [f"| An effect, of any of {tools} | {modes} |"]
    lines.append("|---|" + "---|" * len(MODES))
    for change in CHANGES:
        said = (SAID[verdict("terminal", change, workspace, mode, NO_COVERAGE)] for mode in MODES)
        lines.append(f"| {change.title} | {' | '.join(said)} |")
    return "\n".join(lines)


def test_the_page_shows_these_verdicts(workspace: Path) -> None:
    assert table(workspace) in PAGE.read_text("utf-8")
