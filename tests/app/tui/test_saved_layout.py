"""What is kept of the arrangement of the screen, and what becomes of a file that is broken."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import stat
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.session.engine import Engine
from app.tui.application import HermesApp
from app.tui.conversation.saved_layout import LARGEST, SavedLayout
from app.tui.conversation.session_host import Listener, SessionRequest

STATE = {"width": 52, "folded": ["todo", "log"]}


async def written(file: Path, **parts: object) -> None:
    remembered = SavedLayout(file)
    for name, state in parts.items():
        remembered.note(name, state)  # type: ignore[arg-type]
    await remembered.flush()


async def test_what_was_noted_is_there_after_the_next_start(tmp_path: Path) -> None:
    await written(tmp_path / "home" / "screen.json", panes=STATE)
    assert SavedLayout(tmp_path / "home" / "screen.json").part("panes") == STATE


async def test_the_file_is_nobody_elses(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    await written(home.screen, panes=STATE)
    assert stat.S_IMODE(home.screen.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


async def test_many_changes_are_one_write(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    remembered = SavedLayout(file)
    for width in range(30, 60):
        remembered.note("panes", {"width": width})
        await asyncio.sleep(0)
    assert not file.exists()
    await remembered.flush()
    assert SavedLayout(file).part("panes") == {"width": 59}


async def test_a_change_during_a_write_is_written_too(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    remembered = SavedLayout(file)
    for width in range(20):
        remembered.note("panes", {"width": width})
        await remembered.flush()
    assert SavedLayout(file).part("panes") == {"width": 19}


async def test_what_is_as_it_was_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    await written(file, panes=STATE)
    before = file.stat().st_ino
    await written(file, panes=STATE)
    assert file.stat().st_ino == before


BROKEN = {
    "empty": b"",
    "cut off": b'{"version": 1, "panes": {"wid',
    "no text": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "another version": b'{"version": 2, "panes": {"width": 9}}',
    "no version": b'{"panes": {"width": 9}}',
    "a part that is not an object": b'{"version": 1, "panes": [1]}',
    "deep": b"[" * 50_000,
    "a long number": b'{"version": 1, "panes": ' + b"9" * 5_000 + b"}",
    "too large": b'{"version": 1, "panes": {"width": 9}}' + b" " * LARGEST,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_is_ignored_and_replaced(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "screen.json"
    file.write_bytes(content)
    assert SavedLayout(file).part("panes") == {}
    await written(file, panes=STATE)
    assert SavedLayout(file).part("panes") == STATE


async def test_a_folder_or_a_pipe_in_its_place_harms_nothing(tmp_path: Path) -> None:
    import os

    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for file in (folder, pipe):
        assert SavedLayout(file).part("panes") == {}
        await written(file, panes=STATE)
    assert folder.is_dir() and pipe.is_fifo()


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "mine.txt", tmp_path / "screen.json"
    target.write_text("precious")
    link.symlink_to(target)
    await written(link, panes=STATE)
    assert target.read_text() == "precious"


async def test_a_home_behind_a_link_is_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to(tmp_path / "real")
    await written(tmp_path / "home" / "screen.json", panes=STATE)
    assert SavedLayout(tmp_path / "home" / "screen.json").part("panes") == STATE


def _write_often(file: str, start: int) -> None:
    async def work() -> None:
        remembered = SavedLayout(Path(file))
        for number in range(start, start + 40):
            remembered.note("panes", {"width": number, "folded": ["x" * 500]})
            await remembered.flush()

    asyncio.run(work())


@pytest.mark.thorough
async def test_two_programs_at_once_never_leave_a_broken_file(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_write_often, args=(str(file), start)) for start in (100, 200)]
    for each in both:
        each.start()
    while any(each.is_alive() for each in both):
        if file.exists():
            assert json.loads(file.read_bytes())["version"] == 1
        await asyncio.sleep(0.005)
    for each in both:
        each.join()
    assert SavedLayout(file).part("panes")["width"] in (139, 239)
    assert [entry.name for entry in tmp_path.iterdir()] == ["screen.json"]


async def _no_session(wish: SessionRequest, listener: Listener) -> Engine:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.thorough
async def test_panes_come_up_as_they_were_left(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    for fold_again in (True, False):
        app = HermesApp(_no_session, remembered=SavedLayout(file))
        async with app.run_test(size=(120, 40)) as pilot:
            while not app.session.panes_mounted:
                await pilot.pause(0.01)
            await pilot.pause()
            if fold_again:
                app.session.calls.focus()
                await pilot.press("space")
                await pilot.press("less_than_sign")
                await pilot.pause()
                assert app.remembered is not None
                await app.remembered.flush()
            assert app.session.calls.folded
            assert app.session.workbench.state()["width"] == 42
