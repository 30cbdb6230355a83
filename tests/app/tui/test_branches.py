"""Branches, comparison, labels and the timeline in the application, over a real session."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import DetailScreen, TextDialog
from app.tui.screens.history.compare import BranchesScreen, BranchRows, CompareRows, CompareScreen
from app.tui.screens.history.timeline import TimelineScreen
from app.tui.screens.history.timeline_files import FileScreen
from tests.app.tui.test_going_back import drawn, files, history_actions, notices, said, screen, worked
from widgets.transcript.parts import UserItem


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.mark.thorough
async def test_a_branch_begins_here_and_is_switched_renamed_and_compared(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", size=(120, 40)) as scene:
        app = scene.app
        await scene.type("/branch side", "enter")
        await scene.until(lambda: app.bridge.state.head == "side")
        await scene.until(lambda: bool(notices(scene)), "the notice")
        assert "On branch side." in notices(scene)[-1]
        app.message_sender.send("write a two")
        await scene.quiet(2)

        await scene.type("/branches", "enter")
        await scene.until(screen(scene, BranchesScreen))
        shown = drawn(app.screen.query_one(BranchRows))
        assert "● ↳ side   write a two" in shown and "↳ main   write a one" in shown
        await scene.pilot.press("c")
        await scene.until(screen(scene, CompareScreen))
        rows = app.screen.query_one(CompareRows)
        await scene.until(lambda: rows.count)
        shown = drawn(rows)
        assert "They part after" in shown and "↳ side" in shown and "│ ↳ main" in shown
        assert "❯ write a two" in shown and "Files, from side to main" in shown and "M a" in shown
        await scene.pilot.press("enter")
        await scene.until(screen(scene, DetailScreen))
        await scene.pilot.press("escape", "G", "enter")
        await scene.until(screen(scene, FileScreen))
        await scene.until(lambda: "two" in drawn(app.screen.query_one("DiffRows")))
        await scene.pilot.press("escape", "escape")
        await scene.until(lambda: app.screen is app.session)

        await scene.type("/branches", "enter")
        await scene.until(screen(scene, BranchesScreen))
        await scene.pilot.press("g", "r")
        await scene.until(screen(scene, TextDialog))
        await scene.until(lambda: getattr(app.screen, "armed", False))
        await scene.pilot.press("ctrl+u", *"other", "enter")
        await scene.until(lambda: app.bridge.state.head == "other")

        await scene.type("/branches", "enter")
        await scene.until(screen(scene, BranchesScreen))
        await scene.pilot.press("enter")
        await scene.until(lambda: app.bridge.state.head == "")
        await scene.until(lambda: history_actions(scene))
        assert (files(scene), said(scene)) == ({"a": "one"}, ["write a one"])
        await scene.pilot.press("alt+u")
        await scene.until(lambda: said(scene) == ["write a one", "write a two"])
        assert files(scene) == {"a": "two"}


async def test_the_list_of_branches_keeps_main_and_says_what_cannot_be_done(tmp_path: Path) -> None:
    async with worked(tmp_path, "hello") as scene:
        app = scene.app
        await scene.type("/branches", "enter")
        await scene.until(screen(scene, BranchesScreen))
        told: list[str] = []
        app.screen.notify = lambda text, **_: told.append(text)  # type: ignore[method-assign, assignment]
        await scene.pilot.press("enter", "c", "r")
        await scene.until(lambda: len(told) == 3)
        assert "already" in told[0] and "another branch" in told[1] and "keeps its name" in told[2]


@pytest.mark.thorough
async def test_the_timeline_opens_at_a_message_and_leads_back_to_it(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "write a two", size=(120, 40)) as scene:
        app = scene.app
        await scene.type("/checkpoint both done", "enter")
        node = scene.items(UserItem)[1].node
        app.session.transcript.focus()
        await scene.pilot.press("k", "left_square_bracket", "t")
        await scene.until(screen(scene, TimelineScreen))
        shown = app.screen
        assert isinstance(shown, TimelineScreen)
        await scene.until(lambda: shown.complete)
        await scene.until(
            lambda: shown.timeline.selected_node is not None and shown.timeline.selected_node.id == node
        )
        assert "both done" in drawn(shown.timeline)
        assert "+1" in drawn(shown.timeline) or "a" in drawn(shown.timeline)
        await scene.pilot.press("R")
        await scene.until(lambda: getattr(app.screen, "armed", False))
        await scene.pilot.press("1")
        await scene.until(lambda: files(scene) == {"a": "one"})
        await scene.until(lambda: app.session.prompt.text == "write a two")
        await scene.pilot.press("E")
        exported = tmp_path / "home" / "exports"
        await scene.until(lambda: exported.is_dir() and list(exported.glob("*.html")))
        (page,) = exported.glob("*.html")
        assert "html" not in page.stem
        assert page.stat().st_mode & 0o777 == 0o600 and "write a one" in page.read_text()
        await scene.pilot.press("escape")
        await scene.until(lambda: app.screen is app.session)
        assert said(scene) == ["write a one"]


async def test_an_item_of_the_conversation_is_copied_and_opened_on_the_full_screen(tmp_path: Path) -> None:
    async with worked(tmp_path, "hello") as scene:
        copied: list[str] = []
        scene.app.copy_to_clipboard = lambda text, _more="": copied.append(text)  # type: ignore[method-assign]
        scene.app.session.transcript.focus()
        await scene.pilot.press("k", "k", "y")
        await scene.until(lambda: copied == ["hello"])
        await scene.pilot.press("o")
        await scene.until(screen(scene, DetailScreen))
