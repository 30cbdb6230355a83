"""The tool of checkpoints against a service in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.tool_context import FakeContext, allow_all, deny_all
from tools import checkpoint_tool as module
from tools.registry import call_tool, registry
from tools.results import DiffDetail, ToolError
from tools.services.actions import RestoreFiles
from tools.services.checkpoints import (
    ChangesSince,
    FileStep,
    PermitBack,
    PointList,
    RestoreResult,
    SavedPoint,
)


class Points:
    """Answers with what it was given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, ...]] = []
        self.left: tuple[tuple[str, str], ...] = (("mine", "changed since by somebody else"),)

    async def save(self, name: str) -> SavedPoint:
        self.calls.append(("save", name))
        return SavedPoint(name, 4)

    async def list(self) -> PointList:
        return PointList(4, 1, (SavedPoint("start", 2),), (FileStep(4, "write_file a", 0.0, 1),))

    async def diff(self, reference: str, path: str = "") -> ChangesSince:
        self.calls.append(("diff", reference, path))
        return ChangesSince(
            2, "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", 1, 1, 1, (("b", "larger than 20 MB"),)
        )

    async def restore(
        self, reference: str, permit: PermitBack, path: str = "", hunks: Sequence[int] = ()
    ) -> RestoreResult:
        await permit(2, (self.root / "a",), (self.root / "new",))
        self.calls.append(("restore", reference, path, *map(str, hunks)))
        return RestoreResult(2, 5, ("a", "new"), self.left)

    async def branch(self, name: str) -> str:
        raise ToolError(f"There is a branch {name} already; choose another name.")


async def use(tmp_path: Path, *, deny: bool = False, **arguments: Any) -> tuple[dict[str, Any], FakeContext]:
    context = FakeContext(tmp_path, verdict=deny_all if deny else allow_all)
    context.checkpoints = Points(context.workspace)
    return json.loads(await call_tool("checkpoint", arguments, cast(Any, context))), context


async def test_a_place_gets_a_name(tmp_path: Path) -> None:
    result, _ = await use(tmp_path, action="save", name=" before ")
    assert result == {"saved": "before", "step": 4}


async def test_a_list_has_names_and_steps(tmp_path: Path) -> None:
    result, _ = await use(tmp_path, action="list")
    assert (result["step"], result["earliest"]) == (4, 1)
    assert result["checkpoints"] == [{"name": "start", "step": 2}]
    assert result["steps"][0]["what"] == "write_file a"


async def test_a_diff_names_what_it_cannot_show(tmp_path: Path) -> None:
    result, _ = await use(tmp_path, action="diff", name="2")
    assert (result["since_step"], result["files"], result["added"], result["removed"]) == (2, 1, 1, 1)
    assert result["not_shown"] == [{"path": "b", "reason": "larger than 20 MB"}]
    entry = registry.get("checkpoint")
    assert entry is not None
    assert entry.describe is not None
    shown = entry.describe({"action": "diff", "name": "2"}, result)
    assert (shown.subject, shown.summary) == ("diff 2", "1 file · +1 −1")
    assert isinstance(shown.detail, DiffDetail)


async def test_a_restore_asks_for_exactly_what_it_changes(tmp_path: Path) -> None:
    result, context = await use(tmp_path, action="restore", name="start")
    root = context.workspace
    assert context.actions == [
        RestoreFiles(tool="checkpoint", position=2, paths=(root / "a",), removes=(root / "new",))
    ]
    assert result["paths"] == ["a", "new"]
    assert result["left_as_they_are"] == [{"path": "mine", "reason": "changed since by somebody else"}]
    assert "`restore 4` undoes this" in result["note"]


async def test_a_restore_that_is_refused_does_nothing(tmp_path: Path) -> None:
    result, context = await use(tmp_path, deny=True, action="restore", name="start")
    assert result["status"] == "blocked"
    assert isinstance(context.checkpoints, Points)
    assert context.checkpoints.calls == []


async def test_single_hunks_are_asked_for_with_their_file(tmp_path: Path) -> None:
    _, context = await use(tmp_path, action="restore", name="2", path="a", hunks=[1, 3])
    assert isinstance(context.checkpoints, Points)
    assert context.checkpoints.calls == [("restore", "2", "a", "1", "3")]
    result, _ = await use(tmp_path, action="restore", name="2", hunks=[1])
    assert "Hunks are those of one file" in result["error"]
    result, _ = await use(tmp_path, action="restore", name="2", path="a", hunks=[0])
    assert "error" in result


async def test_errors_are_told_in_a_sentence(tmp_path: Path) -> None:
    result, _ = await use(tmp_path, action="branch", name="main")
    assert result == {"error": "There is a branch main already; choose another name."}
    result, _ = await use(tmp_path, action="branch")
    assert "needs a name" in result["error"]
    result, _ = await use(tmp_path, action="burn")
    assert "error" in result


async def test_where_nothing_is_kept_that_is_the_answer(tmp_path: Path) -> None:
    result = json.loads(await call_tool("checkpoint", {"action": "list"}, cast(Any, FakeContext(tmp_path))))
    assert "not kept in this session" in result["error"]


@pytest.mark.parametrize("action", module.ACTIONS)
def test_every_action_has_a_display_before_and_after(action: str) -> None:
    entry = registry.get("checkpoint")
    assert entry is not None
    assert entry.describe is not None
    arguments = {"action": action, "name": "x\x1b[2J"}
    for result in (None, {}, {"error": "no\x1b[2J"}, {"files": 2, "left_as_they_are": [1]}):
        shown = entry.describe(arguments, result)
        assert shown.verb == "checkpoint"
        assert "\x1b" not in shown.subject + shown.summary


def test_the_schema_is_short() -> None:
    entry = registry.get("checkpoint")
    assert entry is not None
    assert len(json.dumps(entry.schema)) < 1_400
