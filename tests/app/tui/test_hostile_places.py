"""Every kind of hostile text in the lists and pages of the running application, to the byte.

One run of the application shows many kinds at once: each has words of its own,
and a list is paged through from its first row to its last.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from textual.widgets import OptionList

from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.store import Store
from agent.events import ApprovalAsked, Noticed
from agent.model.catalog import ModelInfo
from agent.model.model_choices import ModelChoice
from agent.safety.audit.log import AuditLog
from agent.safety.grants import Grants
from agent.session.conversation.stored_sessions import StoredSessions
from agent.session.pending_requests import Approvals
from app.tui.commands.shell import run_shell
from app.tui.screens import dialog as dialogs
from app.tui.screens.approvals import ApprovalsScreen, AuditScreen
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.logviewer import LogScreen, LogTail
from app.tui.screens.models.models import ModelsScreen
from app.tui.screens.page import Page
from app.tui.screens.sessions.sessions import SHOWN, SessionsScreen
from app.tui.screens.settings.preferences import Snapshot
from app.tui.screens.settings.settings import SettingsScreen
from app.tui.screens.skins.skins import SkinList, SkinsScreen
from tests.support.hostile import KINDS, RAW_BYTES, SHORT, Kind
from tests.support.waiting import until
from tests.support.watched import Watch, watched
from themes.loader import load_file
from tools.services.actions import RunCommand
from widgets.rows.row_list import RowList

pytestmark = pytest.mark.thorough

SIZE = (160, 100)
STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
NUMBERED = [kind.numbered(number) for number, kind in enumerate(KINDS)]
SMALL = [kind.numbered(number) for number, kind in enumerate(SHORT)]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(folder))
    monkeypatch.setenv("HERMES_REDUCED_MOTION", "1")
    return folder


def storable(text: str) -> str:
    """The text as a file can hold it: no halves of characters."""
    return text.encode("utf-8", "replace").decode()


async def every_page(watch: Watch, rows: RowList) -> str:
    """All that a list shows, from its first row to its last."""
    rows.action_first()
    await watch.settle()
    seen, before = [watch.seen()], None
    while rows.cursor != before:
        before = rows.cursor
        rows.action_page(1)
        await watch.settle()
        seen.append(watch.seen())
    return "\n".join(seen)


def check(watch: Watch, seen: str, kinds: Iterable[Kind]) -> None:
    """Nothing steered the terminal, and every kind can be told by its word."""
    assert watch.faults == []
    assert [kind.name for kind in kinds if kind.shows[0] not in seen] == []
    assert watch.app.is_running and not watch.app.has_crashed


async def show_page(watch: Watch, page: Page[Any], count: int, kinds: Sequence[Kind]) -> None:
    """Open a page of rows, wait for at least so many of them, look at all."""
    watch.app.push_screen(page)
    await until(watch.pilot, lambda: page.rows.count >= count)
    await watch.settle()
    check(watch, await every_page(watch, page.rows), kinds)


async def open_rows(watch: Watch, page: Page[Any], indexes: Iterable[int]) -> None:
    """Open these rows in full, one after the other."""
    for index in indexes:
        page.rows.move_to(index)
        page.rows.action_open()
        await until(watch.pilot, lambda: isinstance(watch.app.screen, DetailScreen))
        await watch.settle()
        watch.app.pop_screen()
        await watch.settle()
    assert watch.faults == []


# Sessions


@pytest.mark.parametrize("start", range(0, len(KINDS), SHOWN - 1))
async def test_titles_of_sessions(tmp_path: Path, start: int) -> None:
    kinds = NUMBERED[start : start + SHOWN - 1]
    async with await Store.open(tmp_path / "state.db") as store, watched(SIZE) as watch:
        ids = [(await store.create_session(workspace="/zoo", model="demo")).id for _ in kinds]
        # The store tidies a title; a file that came from elsewhere may hold any.
        with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
            for id, kind in zip(ids, kinds, strict=True):
                row = (storable(kind.text), storable(f"/{kind.text[:200]}"), storable(kind.text), id)
                connection.execute(
                    "UPDATE sessions SET title = ?, workspace = ?, model = ? WHERE id = ?", row
                )
        screen = SessionsScreen(StoredSessions(store, Home(tmp_path)), "")
        watch.app.push_screen(screen)
        await until(watch.pilot, lambda: any(listed.option_count for listed in screen.query(OptionList)))
        listed, seen = screen.query_one(OptionList), []
        assert listed.option_count == len(kinds)
        while True:
            await watch.settle()
            seen.append(watch.seen())
            if listed.scroll_y >= listed.max_scroll_y:
                break
            listed.scroll_page_down(animate=False)
        check(watch, "\n".join(seen), kinds)


# Pages of rows


class Menu:
    """Models of these names; every other one cannot be used."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds

    async def list_choices(self) -> list[ModelChoice]:
        return [
            ModelChoice(
                name=kind.text,
                label=kind.text,
                origin="server",
                info=ModelInfo(context_window=9_000),
                problem=kind.text if number % 2 else "",
                missing_key=kind.text if number % 4 == 1 else "",
            )
            for number, kind in enumerate(self._kinds)
        ]

    async def detect_choices(self) -> list[ModelChoice]:
        return []

    async def keep(self, name: str) -> str:
        return f"New sessions begin with {name}."


async def test_names_of_models() -> None:
    async with watched(SIZE) as watch:
        page = ModelsScreen(NUMBERED[0].text, Menu(NUMBERED))
        watch.app.push_screen(page)
        await until(watch.pilot, lambda: page.rows.count > 1)
        page.rows.move_to(page.rows.count - 2)
        page.rows.action_open()  # The models that need a key are one line that opens.
        await until(watch.pilot, lambda: page.rows.count >= len(NUMBERED))
        check(watch, await every_page(watch, page.rows), NUMBERED)
        for index in range(0, len(NUMBERED), 5):
            page.rows.move_to(index)
            await watch.settle()
            await watch.pilot.press("d" if index % 2 else "enter")
            await watch.settle()
            if watch.app.screen is not page:
                break
        assert watch.faults == []


def waiting(kind: Kind) -> ApprovalAsked:
    reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return ApprovalAsked(
        id=kind.name, agent=kind.text, tool=kind.text, headline=kind.text, reasons=(kind.text,), reply=reply
    )


async def test_approvals_that_hold_and_wait(tmp_path: Path) -> None:
    grants = Grants(tmp_path, tmp_path / "grants.json", session="s")
    for kind in NUMBERED:
        command = RunCommand(tool="terminal", command=kind.text, cwd=tmp_path)
        if grant := grants.prepare(command, "session"):
            await grants.give(grant)
    asked = [waiting(kind) for kind in NUMBERED]
    async with watched(SIZE) as watch:
        page = ApprovalsScreen(Approvals(grants, lambda: asked))
        await show_page(watch, page, len(asked) + len(grants.all()), NUMBERED)


async def test_the_audit_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    for kind in NUMBERED:
        said = kind.text[:20_000]
        log.append(
            {"time": 1_760_000_000, "session": said[:80], "judge": said[:80], "outcome": "denied"}
            | {"tool": said[:80], "headline": said, "agent": said[:12], "feedback": said, "reasons": [said]}
        )
    async with watched(SIZE) as watch:
        page = AuditScreen(tmp_path / "audit")
        await show_page(watch, page, len(NUMBERED), NUMBERED)
        await open_rows(watch, page, range(0, len(NUMBERED), 16))
        await watch.pilot.press("f5")
        await watch.settle(0.1)
        assert watch.faults == []


async def test_the_log_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "hermes.log"
    with path.open("wb") as file:
        for number, kind in enumerate(SMALL):
            name = b"agent" if number % 2 else kind.text.split()[0].encode("utf-8", "surrogatepass")
            file.write(b"2026-03-04 14:02:11,001 17 WARNING " + name + b" ")
            file.write(kind.text.encode("utf-8", "surrogatepass") + b"\n")
        for data in RAW_BYTES.values():
            file.write(b"2026-03-04 14:02:11,001 17 ERROR agent " + data + b"\n")
    async with watched(SIZE) as watch:
        page = LogScreen(LogTail(path, {}))
        await show_page(watch, page, len(SMALL), SMALL)
        await open_rows(watch, page, range(0, page.rows.count, 40))


class Keeper:
    """Settings that stay as they are."""

    def __init__(self, home: Home) -> None:
        self.home = home

    async def read(self) -> Snapshot:
        return Snapshot(load(self.home, {}), load(self.home, {}), self.home.root / "config.yaml")

    async def change(self, key: str, text: str) -> None:
        raise AssertionError("nothing is changed here")

    async def reset(self, key: str) -> Callable[[], Awaitable[object]]:
        raise AssertionError("nothing is changed here")


async def test_values_and_names_of_settings(home: Path) -> None:
    texts = [storable(kind.text)[:4_000] for kind in SMALL]
    models: dict[str, Any] = {text: {} for text in texts[::8]}
    settings = {
        "providers": {"mine": {"base_url": "https://models.example/v1", "models": models}},
        "model": {"name": texts[0]},
        "keys": {text: text for text in texts},
    }
    (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    keeper = Keeper(Home(home))
    async with watched(SIZE) as watch:
        screen = SettingsScreen(await keeper.read(), keeper)
        watch.app.push_screen(screen)
        await watch.settle()
        screen.list.move_to(next(at for at, row in enumerate(screen.list.rows) if row.kind == "entry"))
        await watch.pilot.press("i")
        await until(watch.pilot, lambda: any("models" in row.name for row in screen.list.rows))
        check(watch, await every_page(watch, screen.list), SMALL)


# Skins


def skin_file(folder: Path, kind: Kind, name: str) -> Path:
    """A skin in which every text says the same."""
    text = storable(kind.text)
    said: dict[str, Any] = dict.fromkeys(
        ("description", "agent_name", "welcome", "goodbye", "prompt_symbol", "banner", "base", "dark"), text
    )
    said |= {
        "spinner": text,
        "verbs": [text],
        "faces": [text, text[:12]],
        "tool_icons": {text[:50]: text[:3]},
    }
    said |= {"colors": {"accent": text, text[:50]: "#fff"}, text[:60]: text, "name": text}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(said, allow_unicode=False), encoding="utf-8")
    return path


def test_nothing_in_a_skin_is_left_that_could_steer(tmp_path: Path) -> None:
    for kind in SMALL:
        loaded = load_file(skin_file(tmp_path, kind, "one"))
        skin = loaded.skin
        said = [skin.description, skin.agent_name, skin.welcome, skin.goodbye, skin.prompt_symbol]
        said += [*skin.spinner, *skin.verbs, *skin.faces, *skin.tool_icons, *skin.tool_icons.values()]
        said += [*skin.banner.split("\n"), *map(str, loaded.problems)]
        assert not any(STEERS.search(each) for each in said), (kind.name, said)


async def test_skins_of_others_in_the_list_and_worn(tmp_path: Path) -> None:
    folder = tmp_path / "skins"
    folder.mkdir()
    kinds = SMALL[::6]
    for number, kind in enumerate(kinds):
        skin_file(folder, kind, f"s{number:03}")
    async with watched(SIZE, skins=folder) as watch:
        watch.app.push_screen(screen := SkinsScreen(watch.app.appearance))
        await until(watch.pilot, lambda: screen.query(SkinList) and screen.query_one(SkinList).count)
        listed, seen = screen.query_one(SkinList), []
        for number in range(len(kinds)):
            listed.move_to(listed.count - len(kinds) + number)
            await until(watch.pilot, lambda number=number: watch.app.appearance.skin.name == f"s{number:03}")
            await watch.settle()
            seen.append(watch.seen())
        assert watch.faults == [] and "✗" in "".join(seen)
        assert watch.app.is_running and not watch.app.has_crashed


# The prompt and what comes of it


async def test_output_of_own_commands(tmp_path: Path) -> None:
    data = [(kind.shows[0], kind.text.encode("utf-8", "surrogatepass")) for kind in NUMBERED]
    data += [("", each) for each in RAW_BYTES.values()]
    async with watched((110, 100)) as watch:
        for word, said in data:
            (tmp_path / "out").write_bytes(said)
            outcome = await run_shell("cat out", tmp_path)
            assert word in outcome.output
            watch.app.bridge(Noticed(kind="process", text=outcome.as_text()))
            await watch.pilot.pause()
            assert watch.faults == [], word
        assert watch.app.is_running and not watch.app.has_crashed
