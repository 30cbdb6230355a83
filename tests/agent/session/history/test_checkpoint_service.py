"""The agent saves, looks back and takes files back, in a whole engine with real files."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.store import Store
from agent.events import ApprovalAsked, StepTaken, ToolFinished
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say


def results(b: Bench) -> list[dict[str, Any]]:
    """What the calls of `checkpoint` gave back."""
    finished = [event for event in b.events if isinstance(event, ToolFinished)]
    return [json.loads(event.result) for event in finished if event.tool == "checkpoint"]


@pytest.mark.thorough
async def test_a_name_leads_back_over_tools_and_commands(tmp_path: Path) -> None:
    replies = by_step(
        [
            call("write_file", path="a.txt", content="one\n"),
            call("checkpoint", action="save", name="first try"),
            call("write_file", path="a.txt", content="two\n"),
            call("terminal", command="echo made >b.txt; rm seed"),
            call("checkpoint", action="diff", name="First Try"),
            call("checkpoint", action="restore", name="first try"),
            call("checkpoint", action="list"),
            call("checkpoint", action="restore", name="3"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        (b.workspace / "seed").write_text("x\n")
        assert (await b.turn("go")).outcome == "done"
        saved, diff, back, listed, undone = results(b)
        assert saved == {"saved": "first try", "step": 1}
        assert (diff["since_step"], diff["files"], diff["added"], diff["removed"]) == (1, 3, 2, 2)
        assert "-one\n+two\n" in diff["diff"]
        assert "deleted file mode" in diff["diff"]
        assert (back["restored_to_step"], back["step"], back["paths"]) == (1, 4, ["a.txt", "b.txt", "seed"])
        assert "left_as_they_are" not in back
        assert listed["checkpoints"] == [{"name": "first try", "step": 1}]
        assert [step["step"] for step in listed["steps"]] == [1, 2, 3, 4]
        assert undone["files"] == 3
        assert (b.workspace / "a.txt").read_text() == "two\n"
        assert (b.workspace / "b.txt").read_text() == "made\n"
        assert not (b.workspace / "seed").exists()
        taken = [event for event in b.events if isinstance(event, StepTaken)]
        assert [event.step for event in taken] == [1, 2, 3, 4, 5]
        finished = {event.call for event in b.events if isinstance(event, ToolFinished)}
        assert {event.call for event in taken} <= finished
        async with await Store.open(b.home / "state.db") as store:
            (session,) = await store.list_sessions()
            rows = await store.outline(session.id)
        steps = [row.step for row in rows if row.tool == "checkpoint"]
        assert steps == [None, None, 4, None, 5]


@pytest.mark.thorough
async def test_what_the_person_changed_since_stays(tmp_path: Path) -> None:
    replies = by_step(
        [
            call("write_file", path="a.txt", content="agent\n"),
            call("write_file", path="b.txt", content="agent\n"),
            say("first"),
            call("checkpoint", action="restore", name="0"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b, b.engine() as engine:
        assert (await engine.run("go")).outcome == "done"
        (b.workspace / "b.txt").write_text("person\n")
        assert (await engine.run("back")).outcome == "done"
        (back,) = results(b)
        assert back["paths"] == ["a.txt"]
        assert back["left_as_they_are"] == [{"path": "b.txt", "reason": "changed since by somebody else"}]
        assert not (b.workspace / "a.txt").exists()
        assert (b.workspace / "b.txt").read_text() == "person\n"


async def test_taking_files_back_obeys_the_rules(tmp_path: Path) -> None:
    replies = by_step(
        [
            call("write_file", path="a.txt", content="agent\n"),
            call("checkpoint", action="restore", name="0"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        b.config("")
        (b.home / "permissions.yaml").write_text("rules: {write_file: allow, checkpoint: deny}\n")
        assert (await b.turn("go", approve="ask")).outcome == "denied"
        (refused,) = results(b)
        assert refused["status"] == "blocked"
        assert (b.workspace / "a.txt").read_text() == "agent\n"
        assert not b.seen(ApprovalAsked)


@pytest.mark.thorough
async def test_what_does_not_make_sense_is_told_in_a_sentence(tmp_path: Path) -> None:
    replies = by_step(
        [
            call("checkpoint", action="save", name="12"),
            call("checkpoint", action="save", name=" "),
            call("checkpoint", action="save", name="here"),
            call("checkpoint", action="save", name="Here"),
            call("checkpoint", action="save", name="x" * 200),
            call("checkpoint", action="restore", name="nowhere"),
            call("checkpoint", action="restore", name="99"),
            call("checkpoint", action="diff"),
            call("checkpoint", action="diff", name="0"),
            call("checkpoint", action="restore", name="0"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        assert (await b.turn("go")).outcome == "done"
        number, empty, _, taken, long, unknown, beyond, nameless, nothing, same = results(b)
        assert "number of a step" in number["error"]
        assert "needs a name" in empty["error"]
        assert "There is a checkpoint here already" in taken["error"]
        assert "at most 80 characters" in long["error"]
        assert "There is no checkpoint nowhere; there are here" in unknown["error"]
        assert beyond["error"] == "There is no step 99; there is none yet."
        assert "Say which one" in nameless["error"]
        assert (nothing["files"], nothing["diff"]) == (0, "")
        assert "already" in same["note"]


async def test_a_branch_is_left_where_the_agent_stands(tmp_path: Path) -> None:
    replies = by_step(
        [
            call("write_file", path="a.txt", content="x"),
            call("checkpoint", action="branch", name="plan b"),
            call("checkpoint", action="branch", name="plan b"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        assert (await b.turn("go")).outcome == "done"
        left, again = results(b)
        assert left["note"] == "Branch plan b begins here; the conversation continues in main."
        assert "already" in again["error"]
        async with await Store.open(b.home / "state.db") as store:
            (session,) = await store.list_sessions()
            path = await store.path(session.id, "plan b")
            assert await store.unfinished_branches(session.id) == ()
        assert [node.kind for node in path][-2:] == ["assistant", "tool"]
        assert path[-1].data["step"] == 1


async def test_the_tool_is_not_offered_where_steps_are_not_kept(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("done")])) as b:
        b.config("checkpoints: {enabled: false}")
        assert (await b.turn("go")).outcome == "done"
        (request,) = b.server.requests
        assert "checkpoint" not in {tool["function"]["name"] for tool in request.body["tools"]}


@pytest.mark.thorough
async def test_single_hunks_of_a_file_go_back(tmp_path: Path) -> None:
    then = "".join(f"line {number}\n" for number in range(30))
    now = then.replace("line 2\n", "two\n").replace("line 15\n", "").replace("line 28\n", "more\n")
    replies = by_step(
        [
            call("write_file", path="src/a.txt", content=then),
            call("write_file", path="src/a.txt", content=now),
            call("write_file", path="b.txt", content="b\n"),
            call("checkpoint", action="diff", name="1", path="src/a.txt"),
            call("checkpoint", action="restore", name="1", path="src/a.txt", hunks=[1, 3]),
            call("checkpoint", action="restore", name="1", path="src/a.txt", hunks=[1]),
            call("checkpoint", action="restore", name="1", path="src/a.txt", hunks=[1]),
            call("checkpoint", action="restore", name="2", path="src", hunks=[9]),
            call("checkpoint", action="restore", name="0", path=".", hunks=[1]),
            call("checkpoint", action="restore", name="0", path="../x"),
            call("checkpoint", action="restore", name="0", path="src"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        assert (await b.turn("go")).outcome == "done"
        diff, some, rest, none, missing, folder, outside, back = results(b)
        heads = [line.partition(" @@ ")[2] for line in diff["diff"].splitlines() if line.startswith("@@")]
        assert (diff["files"], heads) == (1, ["hunk 1", "hunk 2", "hunk 3"])
        assert (some["paths"], some["step"]) == (["src/a.txt"], 4)
        assert rest["step"] == 5
        assert "already" in none["note"]
        assert "there is no hunk 9; the last one is 3" in missing["error"]
        assert "the path is a folder" in folder["error"]
        assert "is not in" in outside["error"]
        assert back["paths"] == ["src/a.txt"]
        assert (b.workspace / "b.txt").read_text() == "b\n"
        async with await Store.open(b.home / "state.db") as store:
            (session,) = await store.list_sessions()
        steps = CheckpointStore(b.home / "checkpoints").line(session.id).steps()
        kept = steps[3].changes[0].after
        assert kept is not None and kept.digest == sha256(then.replace("line 15\n", "").encode()).hexdigest()
