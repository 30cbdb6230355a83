"""Hostile text in the screens over a session and in what is left of a crash, to the byte."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList

from agent.core.home import Home
from agent.core.store.store import Store
from agent.events import FileChange, FilesChanged
from agent.model.detect import DetectedServer
from agent.model.providers import NoModelError
from agent.session.conversation.stored_sessions import StoredSessions
from agent.workspace.git import checkout
from app.tui.screens import dialog as dialogs
from app.tui.screens.context import ContextScreen
from app.tui.screens.history.compare import BranchEntry, BranchesScreen, CompareScreen
from app.tui.screens.history.restoring import RewindScreen, SaidMessage
from app.tui.screens.models.models import OnboardingScreen
from app.tui.screens.page import Page
from app.tui.screens.sessions import sessions
from app.tui.screens.sessions.sessions import SearchScreen, SessionsScreen
from app.tui.screens.skins.skins import SkinList, SkinsScreen
from app.tui.startup.crash import CrashLog, farewell, write_report
from tests.app.tui.going_back_stage import SAID, rewind
from tests.app.tui.test_context_screen import FULL
from tests.support.hostile import KINDS, RAW_BYTES, SHORT, Kind, some_or_all
from tests.support.waiting import until
from tests.support.watched import Watch, watched
from tools.text.safe_text import steers
from widgets.rows.row_list import RowList

SIZE = (140, 50)
SMALL = [kind.numbered(number) for number, kind in enumerate(SHORT)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setattr(sessions, "SEARCH_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMES_REDUCED_MOTION", "1")


def of(step: int, kinds: Sequence[Kind] = SMALL) -> Sequence[Kind]:
    """All kinds for the thorough tests, a few of all sorts else."""
    return kinds[:: 1 if step == 1 else 3 * step]


async def every_page(watch: Watch, rows: RowList) -> str:
    """All that a list shows, from its first row to its last."""
    rows.action_first()
    await watch.settle()
    seen, before = [watch.seen()], None
    while rows.cursor != before:
        before = rows.cursor
        rows.action_page(1)
        await watch.settle(0.1)
        seen.append(watch.seen())
    return "\n".join(seen)


async def check_page(watch: Watch, page: Page[Any], count: int, kinds: Sequence[Kind]) -> None:
    """A page of at least so many rows shows the word of every kind, and nothing that steers."""
    watch.app.push_screen(page)
    await until(watch.pilot, lambda: page.rows.count >= count)
    seen = await every_page(watch, page.rows)
    assert watch.faults == []
    assert [kind.name for kind in kinds if kind.shows[0] not in seen] == []
    assert watch.app.is_running and not watch.app.has_crashed


# Lists over the session


@pytest.mark.thorough
@some_or_all
async def test_what_was_found_and_what_stands_around_it(tmp_path: Path, step: int) -> None:
    kinds = of(step)
    async with await Store.open(tmp_path / "state.db") as store, watched(SIZE) as watch:
        for kind in kinds:
            session = await store.create_session(
                workspace=f"/{kind.text[:90]}", model="m", title=kind.text[:150]
            )
            await store.append(session.id, "user", kind.text, {"origin": "prompt"})
            await store.append(session.id, "tool", f"zebra {kind.text}", {"tool": kind.text})
        watch.app.push_screen(screen := SearchScreen(StoredSessions(store, Home(tmp_path)), "zebra"))
        await until(watch.pilot, lambda: screen.query(RowList) and screen.query_one(RowList).count)
        await until(watch.pilot, lambda: screen.query_one(RowList).count >= min(len(kinds), 100))
        await every_page(watch, screen.query_one(RowList))
        assert watch.faults == [] and "zebra" in watch.seen()
        assert watch.app.is_running and not watch.app.has_crashed


@pytest.mark.thorough
@some_or_all
async def test_the_preview_of_a_session(tmp_path: Path, step: int) -> None:
    kinds = of(step)
    async with await Store.open(tmp_path / "state.db") as store, watched(SIZE) as watch:
        for kind in kinds:
            session = await store.create_session(workspace="/zoo", model="m", title=kind.name)
            await store.append(session.id, "tool", kind.text, {"tool": kind.text})
            await store.append(session.id, "assistant", kind.text, {})
            await store.append(session.id, "user", kind.text.lstrip(), {"origin": "prompt"})
        watch.app.push_screen(screen := SessionsScreen(StoredSessions(store, Home(tmp_path)), ""))
        await until(watch.pilot, lambda: screen.query(OptionList))
        await until(watch.pilot, lambda: screen.query_one(OptionList).option_count == min(len(kinds), 200))
        for _ in kinds[:: 1 + len(kinds) // 60]:
            await watch.settle(0.03)
            assert watch.faults == []
            await watch.pilot.press("j")
        assert watch.app.is_running and not watch.app.has_crashed


@pytest.mark.thorough
@some_or_all
async def test_names_of_branches_and_what_was_said_on_them(step: int) -> None:
    kinds = of(step)
    branches = [BranchEntry(kind.text, 1, kinds[-1].text, 2, 1_770_000_000.0) for kind in kinds]
    async with watched(SIZE) as watch:
        await check_page(watch, BranchesScreen(branches), len(branches), kinds)


@pytest.mark.thorough
@some_or_all
async def test_messages_to_go_back_to(step: int) -> None:
    kinds = of(step)
    said = [replace(SAID[0], node=at, text=kind.text) for at, kind in enumerate(kinds)]
    assert isinstance(said[0], SaidMessage)
    async with watched(SIZE) as watch:
        await check_page(watch, RewindScreen(rewind(said)), len(said), kinds)


@pytest.mark.thorough
@some_or_all
async def test_names_and_places_of_the_context(step: int) -> None:
    kinds = of(step)
    layers = tuple(
        replace(FULL.layers[0], name=kind.text, source=f"/{kind.text}", notes=(kind.text,)) for kind in kinds
    )

    async def count() -> Any:
        return replace(FULL, layers=layers, model=kinds[-1].text)

    async with watched(SIZE) as watch:
        await check_page(watch, ContextScreen(count), len(layers), kinds)


async def test_a_comparison_that_cannot_be_made_says_so_and_steers_nothing() -> None:
    from agent.errors import StoreError
    from app.tui.screens.history.compare import CompareServices

    async def nothing(*_: object) -> Any:
        raise StoreError(SMALL[0].text)

    async with watched(SIZE) as watch:
        watch.app.push_screen(CompareScreen(CompareServices(nothing, nothing, nothing)))
        await watch.settle(0.05)
        assert watch.faults == [] and SMALL[0].shows[0] in watch.seen()


# Names that a server or a folder gives


@pytest.mark.thorough
@some_or_all
async def test_models_of_a_server_at_the_first_start(step: int) -> None:
    kinds = of(step)
    async with watched(SIZE) as watch:
        for start in range(0, len(kinds), 4):
            some = kinds[start : start + 4]
            servers = [
                DetectedServer("ollama", "http://127.0.0.1:11434/v1", tuple(kind.text for kind in some))
            ]
            watch.app.push_screen(OnboardingScreen(NoModelError((), servers)))
            await watch.settle(0.03)
            seen = watch.seen()
            assert watch.faults == []
            assert some[0].shows[0] in seen, some[0].name  # the others may be further down
            watch.app.pop_screen()
        assert watch.app.is_running


@pytest.mark.thorough
@some_or_all
async def test_skins_whose_files_have_hostile_names(tmp_path: Path, step: int) -> None:
    folder = tmp_path / "skins"
    folder.mkdir()
    for kind in of(step):
        name = kind.text.encode("utf-8", "surrogatepass").replace(b"\0", b"").replace(b"/", b"-")[:200]
        (folder / os.fsdecode(name + b".yaml")).write_text("base: paper\n")
    async with watched(SIZE, skins=folder) as watch:
        watch.app.push_screen(screen := SkinsScreen(watch.app.appearance))
        await until(watch.pilot, lambda: screen.query(SkinList) and screen.query_one(SkinList).count)
        await every_page(watch, screen.query_one(SkinList))
        assert watch.faults == [] and watch.app.is_running and not watch.app.has_crashed


@pytest.mark.thorough
@some_or_all
async def test_the_branch_of_a_repository_in_the_status_bar(tmp_path: Path, step: int) -> None:
    heads = [f"ref: refs/heads/{kind.text}".encode("utf-8", "surrogatepass") for kind in of(step)]
    heads += [b"ref: refs/heads/" + data for data in RAW_BYTES.values()]
    (tmp_path / ".git").mkdir()
    async with watched(SIZE) as watch:
        for head in heads:
            (tmp_path / ".git" / "HEAD").write_bytes(head)
            found = checkout(tmp_path)
            watch.app.bridge.change(
                branch=found and found.name, detached=found is not None and found.detached
            )
            await watch.settle()
            assert watch.faults == [], head
        assert watch.app.is_running


@pytest.mark.thorough
@some_or_all
async def test_files_that_others_changed(step: int) -> None:
    async with watched(SIZE) as watch:
        for kind in of(step):
            name = kind.text.replace("/", "-")
            files = tuple(FileChange(f"{name}{at}", "modified", 1, 1, kind.text) for at in range(3))
            watch.app.bridge(FilesChanged(by="others", files=files))
            await watch.settle()
            assert watch.faults == [], kind.name
        assert watch.app.is_running


# What is left of a crash


@some_or_all
def test_the_report_of_a_crash_can_be_shown_by_any_program(tmp_path: Path, step: int) -> None:
    for kind in of(step, [kind.numbered(at) for at, kind in enumerate(KINDS)]):
        crash = CrashLog()
        crash.write(f"ValueError: {kind.text}\n")
        report = write_report(crash, tmp_path / "logs", "1")
        assert report is not None
        text = report.read_text("utf-8")
        assert kind.shows[0] in text and not steers(text.replace("\n", "").replace("\t", "")), kind.name
        assert not steers(farewell(report, "20260202-013000-cccccc").replace("\n", "")), kind.name
        report.unlink()
