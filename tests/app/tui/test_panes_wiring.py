"""The panes and the status bar in the application: what events show there, and where keys and clicks lead."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agent.core.event_data import Usage
from agent.events import (
    AgentProgressed,
    AgentStarted,
    Event,
    FileChange,
    FilesChanged,
    Noticed,
    QuestionAsked,
    SessionOpened,
    ToolFinished,
    ToolStarted,
    UsageChanged,
)
from agent.session.engine import Engine
from app.tui.application import HermesApp
from app.tui.conversation.agent_screen import AgentScreen
from app.tui.conversation.session_host import Listener, SessionRequest
from app.tui.questions import request_queue
from app.tui.questions.dialogs import ClarifyDialog
from app.tui.screens.history.timeline_files import FileScreen
from tests.app.tui.test_going_back import drawn
from tests.support.waiting import until
from tools.context import Todo
from tools.results import Display
from widgets.painting.direct_rows import uncovered_region
from widgets.timeline.diff_rows import DiffRows

DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-before\n+after\n"


class Scene:
    """An application whose engine is the test."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.app = HermesApp(self._open)
        self.orders: list[str] = []

    async def _open(self, wish: SessionRequest, listener: Listener) -> Engine:
        self.listener = listener
        await asyncio.Event().wait()
        raise AssertionError

    def hear(self, *events: Event) -> None:
        assert self.listener is not None
        for event in events:
            self.listener(event)

    def status(self) -> str:
        return self.app.session.status.render_line(0).text


@asynccontextmanager
async def scene(size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Scene, Pilot[None]]]:
    made = Scene()
    async with made.app.run_test(size=size) as pilot:
        await until(pilot, lambda: made.listener is not None)
        yield made, pilot


def opened(workspace: Path, **fields: str) -> SessionOpened:
    return SessionOpened(
        session="s",
        title="the title",
        model="qwen",
        workspace=str(workspace),
        **fields,  # type: ignore[arg-type]
    )


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


def finished(call: str = "c") -> ToolFinished:
    return ToolFinished(
        node=1,
        call=call,
        tool="terminal",
        outcome="done",
        seconds=0.1,
        result="{}",
        display=Display("run", "x"),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
async def test_jump_mode_works_from_the_prompt_and_keeps_the_draft(size: tuple[int, int]) -> None:
    async with scene(size) as (stage, pilot):
        session = stage.app.session
        stage.hear(AgentStarted(agent="a", name="callers", goal="look"))
        session.todo.show((Todo("1", "look", "pending"),))
        session.calls.start("1", "read_file", Display("read", "x"), agent="callers")
        await pilot.press(*"draft")
        for key, place in (("t", session.todo), ("a", session.agents), ("l", session.calls)):
            session.prompt.focus()
            await pilot.press("alt+j")
            await pilot.pause()
            if size[0] >= 100:
                assert f" {key} " in place.render_line(0).text
            else:
                assert f" {key} " in session.workbench.bar.render_line(0).text
            await pilot.press(key)
            await until(pilot, lambda place=place: stage.app.focused is place)
        await pilot.press("alt+j", "p")
        await until(pilot, lambda: stage.app.focused is session.prompt)
        assert session.prompt.text == "draft"
        await pilot.press("alt+j", "z", "!")
        assert session.prompt.text == "draftz!"


@pytest.mark.thorough
async def test_the_branch_is_read_when_a_session_opens_and_after_commands(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    async with scene() as (stage, pilot):
        stage.hear(opened(tmp_path))
        await until(pilot, lambda: "· main" in stage.status())
        git(tmp_path, "checkout", "-q", "-b", "fix/rounding")
        stage.hear(
            ToolStarted(call="c", tool="terminal", arguments={}, display=Display("run", "x")), finished()
        )
        await until(pilot, lambda: "· fix/rounding" in stage.status())
        git(tmp_path, "checkout", "-q", "--detach")
        stage.hear(FilesChanged(by="others", files=(FileChange("x", "modified"),)))
        await until(pilot, lambda: "· detached " in stage.status())
        git(tmp_path, "checkout", "-q", "main")
        stage.hear(Noticed(kind="process", text="git checkout main"))
        await until(pilot, lambda: "· main" in stage.status())


async def test_no_branch_is_shown_outside_of_a_repository(tmp_path: Path) -> None:
    async with scene() as (stage, pilot):
        stage.hear(opened(tmp_path))
        await pilot.pause(0.1)
        assert stage.app.bridge.state.branch is None


@pytest.mark.sample(1)
@pytest.mark.parametrize(("mode", "shown"), [("ask", False), ("all", True), ("deny", True)])
async def test_approvals_have_a_badge_unless_the_person_is_asked(
    tmp_path: Path, mode: str, shown: bool
) -> None:
    async with scene() as (stage, pilot):
        stage.hear(opened(tmp_path, approvals=mode))
        await pilot.pause()
        assert (f"approvals {mode}" in stage.status()) is shown
        assert "unsandboxed" not in stage.status()


async def test_clicks_in_the_status_bar_lead_to_model_and_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene() as (stage, pilot):
        monkeypatch.setattr(stage.app, "action_order", stage.orders.append)
        stage.hear(opened(tmp_path))
        stage.hear(
            UsageChanged(
                request=Usage(1, 1),
                session_input=1,
                session_output=1,
                session_cached=0,
                session_cost=0.1,
                context_used=50_000,
                context_window=100_000,
            )
        )
        await pilot.pause()
        for words in ("qwen", "50%", "the title"):
            await pilot.click(stage.app.session.status, offset=(stage.status().index(words), 0))
            await pilot.pause()
        assert stage.orders == ["session.model", "session.context"]


@pytest.mark.thorough
async def test_a_click_on_the_badge_brings_up_what_waits_for_a_pause_in_typing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 60.0)
    async with scene() as (stage, pilot):
        stage.hear(opened(tmp_path))
        await pilot.press("C")
        stage.hear(
            QuestionAsked(id="q", question="Which?", choices=(), allow_freetext=True, reply=asyncio.Future())
        )
        await pilot.pause()
        assert not isinstance(stage.app.screen, ClarifyDialog)
        await pilot.click(stage.app.session.status, offset=(stage.status().index("◆"), 0))
        await until(pilot, lambda: isinstance(stage.app.screen, ClarifyDialog))


@pytest.mark.thorough
async def test_subagents_show_up_by_events_and_enter_tells_about_one(tmp_path: Path) -> None:
    async with scene() as (stage, pilot):
        stage.hear(
            opened(tmp_path),
            AgentStarted(agent="a", name="callers", goal="Find every caller."),
            AgentProgressed(agent="a", action="reading", calls=2),
            AgentStarted(agent="b", parent="a", name="views", goal="Look at views."),
            ToolStarted(agent="b", call="c", tool="read", arguments={}, display=Display("read", "views.py")),
        )
        pane = stage.app.session.agents
        await until(pilot, lambda: pane.display)
        assert [row.depth for row in pane.agents] == [0, 1]
        assert "b read" in stage.app.session.calls.render_line(1).text
        pane.focus()
        await pilot.press("g", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, AgentScreen))
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.focused is pane)
        stage.hear(opened(tmp_path))
        await until(pilot, lambda: not pane.display)


@pytest.mark.thorough
async def test_changes_of_others_stand_apart_and_open_their_diff(tmp_path: Path) -> None:
    async with scene() as (stage, pilot):
        stage.hear(
            opened(tmp_path),
            FilesChanged(by="agent", call="c", files=(FileChange("made.bin", "added"),)),
            finished(),
            FilesChanged(by="others", files=(FileChange("a.py", "modified", 1, 1, DIFF),), more=700),
        )
        pane = stage.app.session.files
        await until(pilot, lambda: pane.size.height == 3)
        rows = [pane.render_line(y).text.rstrip() for y in range(3)]
        assert rows[0].endswith("1 · 701 by others")
        assert rows[1].startswith(" ┊ a.py") and rows[1].endswith("+1 −1")
        assert rows[2].startswith("   made.bin") and rows[2].endswith("new")
        pane.focus()
        for key, words in (("g", "after"), ("G", "no text to compare")):
            await pilot.press(key, "enter")
            await until(pilot, lambda: isinstance(stage.app.screen, FileScreen))
            await until(pilot, lambda words=words: words in drawn(stage.app.screen.query_one(DiffRows)))
            await pilot.press("escape")
            await pilot.pause()


@pytest.mark.thorough
@pytest.mark.parametrize("pane", ["todo", "agents", "log", "files"])
async def test_esc_leads_from_a_pane_beside_the_conversation_back_to_the_prompt(pane: str) -> None:
    async with scene() as (made, pilot):
        await until(pilot, lambda: made.app.session.panes_mounted)
        made.hear(
            AgentStarted(agent="a", name="callers", goal="look"),
            FilesChanged(by="others", files=(FileChange("a.py", "modified"),)),
            ToolStarted(call="c", tool="terminal", arguments={}, display=Display("run", "x")),
        )
        made.app.session.todo.show((Todo("1", "look", "pending"),))
        await until(pilot, lambda: made.app.session.agents.display and made.app.session.files.display)
        await made.app.actions.run_slash(f"/{pane}")
        await until(
            pilot, lambda: made.app.focused is getattr(made.app.session, "calls" if pane == "log" else pane)
        )
        await pilot.press("escape", "C")
        await until(pilot, lambda: made.app.session.prompt.text == "C")


@pytest.mark.sample(1)
@pytest.mark.parametrize("pane", ["todo", "agents", "files"])
async def test_a_pane_with_nothing_in_it_takes_no_keys_where_it_is_out_of_sight(pane: str) -> None:
    async with scene() as (made, pilot):
        await until(pilot, lambda: made.app.session.panes_mounted)
        await made.app.actions.run_slash(f"/{pane}")
        await pilot.press("C")
        await until(pilot, lambda: made.app.session.prompt.text == "C")
        assert made.app.focused is made.app.session.prompt


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=str)
async def test_nothing_lies_over_the_conversation_so_its_rows_may_go_out_at_once(
    size: tuple[int, int],
) -> None:
    app = HermesApp(Scene()._open)
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        await until(pilot, lambda: app.session.panes_mounted and app.session.transcript.region)
        await until(pilot, lambda: uncovered_region(app.session.transcript) == app.session.transcript.region)
        await pilot.press("/")
        await until(pilot, lambda: uncovered_region(app.session.transcript) is None, "the menu")
        await pilot.press("backspace")
        await until(pilot, lambda: uncovered_region(app.session.transcript), "the end of the menu")
        app.notify("something happened", timeout=1_000)
        if size[0] < 200:  # else the side column is wide enough for it
            await until(pilot, lambda: uncovered_region(app.session.transcript) is None, "the notification")


async def test_an_application_without_a_terminal_has_no_direct_way() -> None:
    async with scene() as (stage, _):
        assert stage.app.session.panes_mounted
        assert stage.app.session.transcript.direct.write is None
