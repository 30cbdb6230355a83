"""The end of a session is on the screen before the engine has been read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from app.tui.startup.resume_preview import ResumedSession, resume_preview, skip_repeats

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from agent.core.home import Home
from app.tui.startup.resume_preview import ResumedSession, resume_preview

def show(path):
    print([node.content for node in path], "agent.session.runtime" in sys.modules, "openai" in sys.modules)

asyncio.run(resume_preview(Home(Path(sys.argv[2])), ResumedSession(None, Path(sys.argv[3])), show))
"""


async def said(home: Home, folder: Path, *texts: str) -> str:
    """A session in which that was said; its id."""
    async with await Store.open(home.database) as store:
        record = await store.create_session(workspace=str(folder), model="m")
        for text in texts:
            await store.append(record.id, "user", text, {"origin": "prompt"})
        return record.id


async def seen(home: Home, wanted: ResumedSession) -> list[list[str]]:
    shown: list[list[str]] = []
    await resume_preview(home, wanted, lambda path: shown.append([node.content for node in path]))
    return shown


async def test_the_last_session_of_the_folder_is_shown(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    await said(home, tmp_path / "one", "here")
    await said(home, tmp_path / "two", "elsewhere")
    assert await seen(home, ResumedSession(None, tmp_path / "one")) == [["here"]]


async def test_a_session_is_found_by_its_id(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    id = await said(home, tmp_path / "one", "first", "second")
    assert await seen(home, ResumedSession(id, tmp_path)) == [["first", "second"]]


@pytest.mark.parametrize("wanted", ["nothing-like-it", None])
async def test_a_session_that_is_not_there_is_left_to_the_opening(tmp_path: Path, wanted: str | None) -> None:
    home = Home(tmp_path / "home")
    await said(home, tmp_path / "one", "here")
    assert await seen(home, ResumedSession(wanted, tmp_path / "two")) == []


async def test_nothing_is_made_where_there_is_no_database(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert await seen(home, ResumedSession(None, tmp_path)) == []
    assert not home.root.exists()


@pytest.mark.parametrize("content", [b"", b"no database at all", b"\x00" * 5_000])
async def test_a_broken_database_is_left_to_the_opening(tmp_path: Path, content: bytes) -> None:
    home = Home(tmp_path / "home")
    home.database.parent.mkdir(parents=True)
    home.database.write_bytes(content)
    assert await seen(home, ResumedSession("x", tmp_path)) == []


async def test_somebody_elses_database_is_left_to_the_opening(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(home.database)) as connection:
        connection.execute("create table sessions (x)")
    assert await seen(home, ResumedSession("x", tmp_path)) == []


@pytest.mark.thorough
async def test_the_engine_is_not_read_for_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    await said(home, tmp_path, "the very last words")
    done = subprocess.run(
        [sys.executable, "-I", "-c", CODE, str(ROOT), str(home.root), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stdout.split("\n")[0] == "['the very last words'] False False"


async def test_what_is_shown_already_is_not_shown_again(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    id = await said(home, tmp_path, "one", "two")
    shown: list[int] = []

    def show(path: Sequence[Node]) -> None:
        shown.append(len(path))

    async with await Store.open(home.database) as store:
        path = await store.path(id)
    news = skip_repeats(show)
    for each in (path, list(path), path[:1], path):
        news(each)
    assert shown == [2, 1, 2]
