"""Project files of folders below the workspace reach the agent with the first result from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.nodes import Node
from agent.events import Noticed, PrefixBroken, ToolFinished
from agent.knowledge.context.context_table import KEY, in_view
from agent.knowledge.context.folder_files import FolderRoom, read_folders, ways_to
from tests.support.engines import Bench, bench
from tests.support.model_server import Reply, call, calls, say

PATCH = """*** Begin Patch
*** Update File: by_patch/deep/a.txt
@@
-old
+new
*** End Patch"""

REACHING: dict[str, tuple[str, dict[str, Any]]] = {
    "by_read/deep": ("read_file", {"path": "by_read/deep/a.txt"}),
    "by_write/deep": ("write_file", {"path": "by_write/deep/b.txt", "content": "x"}),
    "by_patch/deep": ("patch", {"mode": "patch", "patch": PATCH}),
    "by_search/deep": ("search", {"pattern": "old", "path": "by_search/deep"}),
    "by_shell/deep": ("terminal", {"command": "cd by_shell/deep && pwd"}),
    "by_script/deep": (
        "execute_code",
        {"code": "from hermes_tools import read_file\nread_file('by_script/deep/a.txt')"},
    ),
}


def messages_of(b: Bench) -> list[dict[str, Any]]:
    """What was sent last."""
    return list(b.server.requests[-1].messages)


def project(b: Bench, folders: Any) -> None:
    (b.workspace / ".git").mkdir()
    (b.workspace / "AGENTS.md").write_text("Rule of the root.")
    for folder in folders:
        place = b.workspace / folder
        place.mkdir(parents=True)
        (place / "a.txt").write_text("old\n")
        (place / "AGENTS.md").write_text(f"Rule of {folder}.")
        (place.parent / "CLAUDE.md").write_text(f"Rule of {folder.split('/')[0]}.")


@pytest.mark.thorough
async def test_the_first_result_from_a_folder_brings_its_files_whatever_tool_got_there(
    tmp_path: Path,
) -> None:
    steps = [call(tool, **arguments) for tool, arguments in REACHING.values()]
    async with bench(tmp_path, [*steps, *steps[:1], say("Done.")]) as b:
        project(b, REACHING)
        ended = await b.turn("Go through all of them.")
        assert ended.outcome == "done", ended.error
        results = [json.loads(str(each["content"])) for each in messages_of(b) if each["role"] == "tool"]
        for folder, result in zip(REACHING, results, strict=False):
            assert "error" not in result, result
            outer, told = folder.split("/")[0], result[KEY]
            assert told.index(f"Rule of {outer}.") < told.index(f"Rule of {folder}.")
            assert told.count("<project-file>") == 2
        assert KEY not in results[-1]
        system = str(b.server.requests[-1].messages[0])
        assert "Rule of the root." in system
        assert "Rule of by_" not in system
        assert b.seen(PrefixBroken) == []
        notices = [each for each in b.seen(Noticed) if "goes to the agent" in each.text]
        assert len(notices) == 2 * len(REACHING)
        assert "Rule of by_read." in notices[0].detail


@pytest.mark.thorough
async def test_calls_side_by_side_bring_a_file_once_and_a_session_opened_again_remembers(
    tmp_path: Path,
) -> None:
    def script(request: Any) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return say("Done.")
        return calls(*(("read_file", {"path": f"lib/deep/{name}.txt"}) for name in "abc"))

    async with bench(tmp_path, script) as b:
        project(b, ["lib/deep"])
        for name in "bc":
            (b.workspace / "lib/deep" / f"{name}.txt").write_text(name)
        async with b.engine() as engine:
            await engine.run("Read.")
            session = engine.session.id
        async with b.engine(resume=session) as engine:
            await engine.run("Read again.")
        assert sum(KEY in each.result for each in b.seen(ToolFinished)) == 1


def test_what_a_compaction_took_out_of_view_is_told_again() -> None:
    told = {KEY: [{"folder": "/p/lib", "name": "Project", "chars": 9}, {"folder": 7}, None]}
    nodes = [
        Node(number, "s", number - 1, "tool", 0.0, "{}", told if number == 2 else {}) for number in (1, 2, 3)
    ]
    assert in_view(nodes) == {Path("/p/lib")}
    for data in ({"stage": "fold", "from": 3}, {"stage": "mask", "nodes": [2]}):
        assert in_view([*nodes, Node(4, "s", 3, "compaction", 0.0, "", data)]) == frozenset()


def test_the_ways_to_a_place_are_those_below_the_root_and_none_of_other_peoples_programs() -> None:
    root = Path("/p")
    places = [Path("/p/a/b/c.py"), Path("/q/x"), Path("/p/node_modules/x"), Path("/p/a/.venv/lib"), root]
    assert ways_to(root, places) == tuple(map(Path, ["/p", "/p/a", "/p/a/b", "/p/a/b/c.py"]))


@pytest.mark.parametrize(
    ("room", "expected"),
    [(FolderRoom(file=20_000, layer=200), "left out for want of room"), (FolderRoom(file=0, layer=9), "")],
)
def test_what_is_told_keeps_to_its_room(room: FolderRoom, expected: str, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\n\n".join(f"Rule {number} of many." for number in range(400)))
    read = read_folders([tmp_path], tmp_path, room)
    assert (expected in read.text) if expected else read.text == ""
    assert len(read.text) <= 4 * room.layer


def test_what_a_call_wrote_itself_is_not_told_again(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("mine")
    room = FolderRoom(file=100, layer=100)
    assert read_folders([tmp_path], tmp_path, room, frozenset({tmp_path / "AGENTS.md"})).parts == ()
