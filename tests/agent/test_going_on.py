"""A turn that ended with its process is carried to its end, and nothing that is stored is asked for again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.session.turns.turn_runner import CUT_OFF
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

STEPS = [
    call("write_file", path="a.txt", content="one\n"),
    call("read_file", path="a.txt"),
    say("It says one."),
]


def images_of(folder: Path, home: Path) -> Any:
    """A script that keeps what a `kill -9` would leave at each request: the home as it is on disk then."""
    scripted = by_step(STEPS)

    def script(request: Any) -> Any:
        number = len(list(folder.glob("image-*")))
        shutil.copytree(home, folder / f"image-{number}", ignore=shutil.ignore_patterns("*.sock"))
        return scripted(request)

    return script


@pytest.mark.thorough
@pytest.mark.parametrize(("image", "asked"), [(0, 3), (1, 2), (2, 1)])
async def test_a_turn_goes_on_where_its_process_was_killed(tmp_path: Path, image: int, asked: int):
    async with bench(tmp_path, images_of(tmp_path, tmp_path / "home")) as first:
        await first.turn("what does it say?")
        first.server.script = by_step(STEPS)
        before = len(first.server.requests)
        left = Bench((tmp_path / f"image-{image}").resolve(), first.workspace, first.server)
        async with left.engine(resume_last=True) as engine:
            ended = await engine.go_on()
            assert ended is not None and (ended.outcome, ended.text) == ("done", "It says one.")
            assert len(first.server.requests) - before == asked
            said = [node.kind for node in engine.session.path if node.kind in ("user", "assistant", "tool")]
            assert said == ["user", *["assistant", "tool"] * 2, "assistant"]
            assert await engine.go_on() is None
            await engine.history.undo()
            assert [node for node in engine.session.path if node.kind in ("user", "assistant")] == []
        assert first.server.refusals == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("cuts", [["one two"], ["one", " two"], ["one two", ""], ["", "one", "", " two"]])
async def test_an_answer_that_was_cut_off_is_gone_on_with(tmp_path: Path, cuts: list[str]):
    """Each cut is a process that ended; an empty one ended before the model had said anything."""
    async with bench(tmp_path, [say("one two three")]) as each:
        async with each.engine() as engine:
            await engine.run("count")
            session, store = engine.session, engine.session.store
            cut = dict(session.path[-1].data) | {"state": "interrupted", "calls": []}
            await store.append(session.id, "user", "again", {"origin": "prompt"}, head=session.head)
            begun = False
            for text in cuts:
                if begun:
                    await store.append(session.id, "user", CUT_OFF, {"origin": "engine"}, head=session.head)
                if text:
                    begun = True
                    await store.append(session.id, "assistant", text, cut, head=session.head)
        each.server.script = lambda request: say(" three")
        async with each.engine(resume_last=True) as engine:
            ended = await engine.go_on()
        assert ended is not None and (ended.outcome, ended.text) == ("done", "one two three")
        assert "Continue where your answer stops" in str(each.server.requests[-1].messages[-1]["content"])


async def test_a_session_whose_last_turn_ended_has_nothing_to_go_on_with(tmp_path: Path):
    async with bench(tmp_path, [say("done")]) as each:
        async with each.engine() as engine:
            assert await engine.go_on() is None
            await engine.run("hello")
            assert await engine.go_on() is None
        assert len(each.server.requests) == 1
