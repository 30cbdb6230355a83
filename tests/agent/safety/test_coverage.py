"""What the gate counts on is what the boundary says of itself, and whether steps are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.home import Home
from agent.safety.gate import Gate
from agent.safety.rules import NO_UNDO
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage, BoundaryFolders, SessionBoundary
from agent.safety.sandbox.opening import NoSandbox
from tests.agent.safety.sandbox.kinds import KINDS, WITH_NAMESPACES
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say
from tools.services.actions import Action, RunCommand, RunScript, WritePath


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("steps", [True, False])
def test_a_boundary_guards_places_where_it_has_mounts_and_steps_are_kept(
    tmp_path: Path, kind: str, steps: bool
) -> None:
    boundary = SessionBoundary(
        KINDS[kind], BoundaryFolders(tmp_path, tmp_path, Home(tmp_path / "home")), network="off"
    )
    found = boundary.coverage(steps=steps)
    assert (found.level, found.network) == (KINDS[kind].name, "closed")
    assert found.guards_places is found.is_closed is (steps and kind in WITH_NAMESPACES)
    none = SessionBoundary(NoSandbox(), BoundaryFolders(tmp_path, tmp_path, Home(tmp_path / "home")))
    assert none.coverage(steps=steps) == NO_COVERAGE


def actions(top: Path) -> list[Action]:
    """What may change a guarded place, or what nothing brings back where no steps are kept."""
    return [
        RunScript(tool="execute_code", code="x", sandboxed=True),
        RunCommand(tool="terminal", command="python3 act.py", cwd=top),
        RunCommand(tool="terminal", command="git branch -D other", cwd=top),
        RunCommand(tool="terminal", command="rm code", cwd=top),
        WritePath(tool="write_file", path=top / "code"),
    ]


def test_without_steps_what_may_change_a_guarded_place_or_lose_a_file_is_asked(tmp_path: Path) -> None:
    (tmp_path / "code").write_text("code")
    (tmp_path / "act.py").write_text("")
    home = Home(tmp_path / "home" / ".hermes")
    closed = BoundaryCoverage(level="bubblewrap", network="closed", guards_places=True)
    kept = Gate.for_home(home, tmp_path, "normal", coverage=closed)
    lost = Gate.for_home(
        home,
        tmp_path,
        "normal",
        coverage=BoundaryCoverage(level="bubblewrap", network="closed"),
        undo=NO_UNDO,
    )
    assert [kept.decide(each).kind for each in actions(tmp_path)] == ["allow"] * 5
    assert [lost.decide(each).kind for each in actions(tmp_path)] == ["ask"] * 5
    new = WritePath(tool="write_file", path=tmp_path / "new", creates=True)
    assert lost.decide(new).kind == "allow"


async def test_with_checkpoints_off_a_script_that_may_write_a_guarded_place_needs_a_yes(
    tmp_path: Path,
) -> None:
    script = by_step([call("execute_code", code="open('.envrc', 'w').write('evil')"), say("done")])
    async with bench(tmp_path, script) as b:
        b.config("checkpoints:\n  enabled: false\n")
        await b.turn("go", attended=False, approve="normal")
        assert list(b.workspace.iterdir()) == [] and told(b)


def told(b: Bench) -> bool:
    return "runs something later" in b.server.requests[-1].messages[-1]["content"]
