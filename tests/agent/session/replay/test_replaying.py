"""A recorded session runs again to the byte, and what was changed in it is found and named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.attachments import AttachmentStore
from agent.core.store.nodes import Node, Session
from agent.core.store.store import Store
from agent.session.replay.replaying import ReplayReport, replay, steps_of
from agent.session.replay.tape import is_answer
from tests.support import command
from tests.support.recorded import Recording
from tests.support.replies import by_step, call, calls, say

Recorded = tuple[Session, list[Node]]


async def again(recorded: Recorded, folder: Path) -> ReplayReport:
    return await replay(*recorded, AttachmentStore(folder))


async def read(home: Path) -> list[Recorded]:
    async with await Store.open(home / "state.db") as store:
        sessions = await store.list_sessions(500)
        return [(each, await store.path(each.id, (await store.heads(each.id))[0].name)) for each in sessions]


async def recorded(folder: Path, seeds: range) -> tuple[list[Recorded], Recording]:
    recording = Recording(folder)
    async with recording.server() as server:
        bench = recording.bench(server)
        for seed in seeds:
            await recording.session(bench, seed)
        assert server.refusals == []
    return await read(bench.home), recording


@pytest.mark.thorough
async def test_sessions_in_every_form_run_again_to_the_byte(tmp_path: Path) -> None:
    sessions, _ = await recorded(tmp_path, range(4))
    for each in sessions:
        report = await again(each, tmp_path)
        assert report.difference is None
        assert (report.nodes, report.steps) == (len(each[1]), steps_of(each[1]))
        assert (report.compared.whole, report.compared.unrecorded) == (report.steps, 0)


@pytest.mark.thorough
async def test_a_hundred_sessions_run_again_and_each_change_is_found(tmp_path: Path) -> None:
    sessions, recording = await recorded(tmp_path, range(100))
    same = missed = changes = 0
    for each in sessions:
        same += (await again(each, tmp_path)).difference is None
        for place, node in enumerate(each[1]):
            if not is_answer(node):
                continue
            path = list(each[1])
            path[place] = replace(node, content=node.content + " ")
            changes += 1
            missed += (await again((each[0], path), tmp_path)).difference is None
    assert (same, missed) == (100, 0) and changes > 100
    assert len(recording.seen) >= 12, recording.seen


SCRIPT = [
    calls(("read_file", {"path": "a.txt"}), text="I look."),
    call("write_file", path="b.txt", content="two"),
    say("Both are done."),
]


async def three_steps(folder: Path) -> tuple[Recorded, Any]:
    recording = Recording(folder)
    async with recording.server() as server:
        bench = recording.bench(server)
        (bench.workspace / "a.txt").write_text("one\n")
        server.script = by_step(SCRIPT)
        async with bench.engine(model="chat/scripted") as engine:
            await engine.run("Do both.")
    return (await read(bench.home))[0], bench


def said(node: Node, name: str, value: Any) -> Node:
    return replace(node, data={**node.data, name: value})


def request(node: Node, **parts: Any) -> Node:
    return said(node, "request", {**node.data["request"], **parts})


def arguments(node: Node) -> Node:
    return said(node, "calls", [{**call, "arguments": '{"path": "c.txt"}'} for call in node.data["calls"]])


def settings(node: Node) -> Node:
    told: Mapping[str, Any] = node.data["request"]["sent"]
    parts = {"settings": {**node.data["request"]["settings"], "temperature": 0.9}}
    return request(node, sent={**told, "sha256": "0" * 64}, **parts)


CHANGES: list[tuple[str, int, Callable[[Node], Node], int, str]] = [
    ("assistant", 0, lambda node: replace(node, content="I peep."), 1, "answer.text"),
    ("assistant", 0, arguments, 1, "answer.calls"),
    ("assistant", 2, lambda node: replace(node, content="Nothing is done."), 3, "answer.text"),
    ("assistant", 1, lambda node: said(node, "finish", "unheard"), 1, ""),
    ("tool", 0, lambda node: replace(node, content='{"content": "zwei"}'), 2, "the result of read_file"),
    ("user", 0, lambda node: replace(node, content="Do neither."), 1, "what was said to the model"),
    ("system", 0, lambda node: replace(node, content="You are somebody."), 1, "request.system"),
    ("system", 0, lambda node: said(node, "tools", node.data["tools"][:3]), 1, "request.tools"),
    ("assistant", 1, lambda node: request(node, system="0" * 12), 0, ""),
    ("assistant", 1, settings, 2, "the body of the request"),
    ("assistant", 0, lambda node: said(node, "request", {}), 1, "cannot be read"),
    ("assistant", 1, lambda node: request(node, **{"from": 10**12}), 2, "cannot be read"),
    ("assistant", 0, lambda node: request(node, format="none"), 1, "cannot be read"),
    ("assistant", 2, lambda node: said(node, "usage", [1]), 3, "cannot be read"),
]


async def test_a_change_is_found_and_named(tmp_path: Path) -> None:
    (session, path), _ = await three_steps(tmp_path)
    assert (await again((session, path), tmp_path)).difference is None
    for kind, number, change, step, named in CHANGES:
        place = [at for at, node in enumerate(path) if node.kind == kind][number]
        changed = list(path)
        changed[place] = change(changed[place])
        found = (await again((session, changed), tmp_path)).difference
        if not named:
            # Nothing that was sent or said is different: what left is decided by its bytes.
            assert found is None
            continue
        assert found is not None and found.step == step and named in found.field, (kind, found)


async def test_a_session_of_before_says_that_its_requests_were_not_compared(tmp_path: Path) -> None:
    (session, path), _ = await three_steps(tmp_path)
    older = [
        replace(node, data={name: value for name, value in node.data.items() if name != "request"})
        for node in path
    ]
    report = await again((session, older), tmp_path)
    assert report.difference is None
    assert (report.compared.whole, report.compared.unrecorded) == (0, 3)


@pytest.mark.thorough
async def test_the_command_replays_and_goes_on_live_from_a_step(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    async with recording.server() as server:
        bench = recording.bench(server)
        (bench.workspace / "a.txt").write_text("one\n")
        server.script = by_step(SCRIPT)
        async with bench.engine(model="chat/scripted") as engine:
            await engine.run("Do both.")
            session = engine.session.id

        async def hermes(*line: str) -> tuple[int, str]:
            env = command.environment(bench.home, ANY_KEY="k")
            ended = await asyncio.to_thread(command.run, "sessions", *line, env=env, cwd=tmp_path)
            return ended.returncode, ended.stdout + ended.stderr

        asked = len(server.requests)
        code, told = await hermes("replay", session, "--json")
        assert (code, json.loads(told)["same"], json.loads(told)["compared"]["whole"]) == (0, True, 3)
        assert len(server.requests) == asked
        server.script = lambda request: say("This time live.")
        code, told = await hermes("replay", session, "--from", "2", "--live", "--json")
        assert code == 0 and json.loads(told)["text"] == "This time live."
        assert server.requests[-1].messages[:4] == server.requests[asked - 2].messages[:4]
        code, told = await hermes("replay", session, "--branch", json.loads(told)["branch"])
        assert code == 0 and told.startswith("The same: 2 steps")
        assert (await hermes("replay", session))[1].startswith("The same: 3 steps")
        assert (await hermes("replay", session, "--live-from", "9"))[0] == 2
