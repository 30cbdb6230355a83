"""What a turn wrote into memory is taken back and done again with the turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.home import Home
from agent.events import StepTaken
from agent.knowledge.memory.files import MemoryOperation, Origin
from agent.knowledge.memory.service import MemoryFiles
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say


def remember(text: str, target: str = "memory", **more: str) -> object:
    return call("memory", target=target, action="add", content=text, **more)


def notes(b: Bench) -> MemoryFiles:
    return MemoryFiles(Home(b.home).memories, b.workspace)


async def entries(b: Bench, scope: str = "memory") -> tuple[str, ...]:
    return (await notes(b).read(scope)).entries  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["memory", "user", "project"])
async def test_a_note_goes_with_its_turn_and_comes_back_with_it(tmp_path: Path, target: str) -> None:
    script = by_step([remember("One.", target), say("1"), remember("Two.", target), say("2")])
    async with bench(tmp_path, script) as b, b.engine() as engine:
        await engine.run("first")
        await engine.run("second")
        assert await entries(b, target) == ("One.", "Two.")
        await engine.history.undo()
        assert await entries(b, target) == ("One.",)
        await engine.history.undo()
        assert await entries(b, target) == ()
        await engine.history.redo()
        await engine.history.redo()
        assert await entries(b, target) == ("One.", "Two.")
        assert not list(Home(b.home).memories.rglob("*.bak.*"))


@pytest.mark.thorough
async def test_a_note_taken_back_is_no_edit_by_hand_for_the_next_write(tmp_path: Path) -> None:
    script = [remember("One."), say("1"), remember("Two."), say("2"), remember("Three."), say("3")]
    async with bench(tmp_path, script) as b, b.engine() as engine:
        await engine.run("first")
        await engine.run("second")
        await engine.history.undo()
        await engine.run("third")
        assert await entries(b) == ("One.", "Three.")
        assert not list(Home(b.home).memories.rglob("*.bak.*"))


async def test_a_note_of_the_person_written_meanwhile_stays(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([remember("One."), say("1")])) as b, b.engine() as engine:
        await engine.run("first")
        await notes(b).write("memory", [MemoryOperation("add", "Mine.", "")], Origin(0.0, by="person"))
        went = (await engine.history.undo())[1]
        assert await entries(b) == ("One.", "Mine.")
        assert went.restored is not None and "MEMORY.md" in went.restored.sentence()


@pytest.mark.thorough
async def test_a_note_and_a_file_of_one_turn_go_together(tmp_path: Path) -> None:
    script = by_step(
        [
            remember("One."),
            call("write_file", path="a.txt", content="x"),
            call("terminal", command="echo y >b.txt"),
            say("done"),
        ]
    )
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            await engine.run("go")
            paths = [event.paths for event in b.seen(StepTaken)]
            assert paths[1:] == [("a.txt",), ("b.txt",)]
            assert paths[0][-1] == str(Home(b.home).memories / "MEMORY.md")
        async with b.engine(resume_last=True) as engine:
            await engine.history.undo()
            assert await entries(b) == () and not list(b.workspace.iterdir())


async def test_what_is_written_outside_of_known_folders_is_no_step(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = str(tmp_path / "elsewhere" / "a.txt")
    script = by_step([call("write_file", path=target, content="x"), say("done")])
    async with bench(tmp_path, script) as b, b.engine() as engine:
        await engine.run("go")
        assert not b.seen(StepTaken)
