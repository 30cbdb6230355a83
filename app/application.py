"""The full-screen application: draws first, opens the engine afterwards, leaves the terminal as it was."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from textual import events, on, work
from textual.app import App, ScreenStackError, SuspendNotSupported, SystemCommand
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widget import MountError

from agent.errors import HermesError
from app import front, leaving, skeleton
from app.actions import Actions
from app.beginning import Beginning, taking_over
from app.commands import BY_ID, BY_SLASH, COMMANDS
from app.crash import CrashLog
from app.host import EngineHost, Opener, Wish
from app.keyboard import tell_apart
from app.line import lasting
from app.looks import Looks
from app.outbox import Outbox
from app.preferences import Preferences
from app.remembered import Remembered
from app.screens.session import FURNITURE, SessionScreen
from app.terminal import Attention, ControlFilter, speaking
from app.warmup import bring
from themes.skin import Skin
from tools.text import clean
from widgets.palette import css_variables
from widgets.panes.status import StatusBar
from widgets.prompt.completion import Command as MenuCommand
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from agent.engine import Engine
    from agent.events import BranchSwitched, Event
    from agent.store.nodes import Node
    from agent.workspace.repository import Checkout
    from app.agents import Agents
    from app.branch import BranchWatch
    from app.bridge import Bridge
    from app.journeys import Journeys
    from app.keys import Keys
    from app.screens.requests import RequestQueue
    from widgets.panes.agents import AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.workbench import Workbench
    from widgets.prompt.dropped import Found
    from widgets.transcript.items import Item
    from widgets.transcript.view import Transcript

log = logging.getLogger(__name__)

REPORT_SIZE = (110, 40)
"""Cells of the report of a crash."""
NO_DIFF = "There is no text to compare: the file is binary, too large, or was not read before it changed."


class HermesApp(App[None], inherit_bindings=False):
    """Wires engine and screen together. What commands do is in `Actions`, what events do in `Bridge`."""

    TITLE = "hermes"
    ENABLE_COMMAND_PALETTE = True
    NOTIFICATION_TIMEOUT = 4

    def __init__(
        self,
        opener: Opener,
        skin: Skin | None = None,
        skins: Path | None = None,
        *,
        history: History | None = None,
        files: Callable[[], Iterable[str]] | None = None,
        remembered: Remembered | None = None,
    ) -> None:
        self.looks = Looks(self, skin or Skin(), skins, os.environ)
        super().__init__()
        self.crash = CrashLog()
        self.error_console = Console(file=self.crash, width=REPORT_SIZE[0], no_color=True)
        self._write: Callable[[str], None] = lambda _text: None
        self.session = SessionScreen(history, files)
        self.looks.begin()
        self.remembered = remembered
        if remembered is not None:
            self.session.restore(remembered.part("panes"))
        self.attention = Attention(lambda text: self._write(text))
        self.host = EngineHost(opener, self._hear, self.session.prompt.put_before)
        self.actions = Actions(self)
        self.preferences = Preferences(self)
        self.beginning = Beginning(self)
        self.last_key = float("-inf")
        self.touched = asyncio.Event()
        """Set with the first key."""
        self._last_filter = ControlFilter()
        self.outbox = Outbox(self.host, self._show_queue, self.complain)
        self.session.prompt.look = self._look_for_files
        self.failure: HermesError | None = None
        """Why the application ended at once, if it did."""

    # What deals in events comes with the first one: reading it takes longer than drawing the screen.

    @cached_property
    def keys(self) -> Keys:
        """The keys in force; until the settings are read, those by default."""
        from app.keys import resolve

        return resolve({})

    @cached_property
    def requests(self) -> RequestQueue:
        from app.screens.requests import RequestQueue
        from app.screens.stage import DialogStage

        return RequestQueue(DialogStage(self))

    @cached_property
    def bridge(self) -> Bridge:
        from app.bridge import Bridge

        return Bridge(self.session, self.requests, self.attention)

    @cached_property
    def journeys(self) -> Journeys:
        from app.journeys import Journeys

        return Journeys(self)

    @cached_property
    def agents(self) -> Agents:
        from app.agents import Agents

        return Agents(self)

    @cached_property
    def branch(self) -> BranchWatch:
        from app.branch import BranchWatch

        return BranchWatch(self._show_branch)

    @property
    def direct_write(self) -> Callable[[str], None] | None:
        """What takes rows to the terminal past Textual's frames; None where there is no terminal of ours."""
        return None if self.is_headless or self.is_inline or self.is_web else self._write

    @property
    def crashed(self) -> bool:
        """Whether a fault of ours ended the application."""
        return self.crash.happened

    # What Textual asks for

    def get_default_screen(self) -> Screen[Any]:
        return self.session

    def get_driver_class(self) -> type[Driver]:
        def hear(write: Callable[[str], None]) -> None:
            self._write = write

        tell_apart()
        driver = lasting(super().get_driver_class(), self._hang_up, self._draw_anew)
        return speaking(taking_over(driver, skeleton.shown()), hear)

    def get_line_filters(self) -> list[LineFilter]:
        return [*self.looks.filters(super().get_line_filters()), self._last_filter]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(self.looks.shown)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for command in COMMANDS:
            if not command.by_prompt and command.action != "palette":
                keys = self.keys.shown(command.id)
                about = command.description.replace("`", "")
                words = f"{keys} · {about}" if keys else about
                yield SystemCommand(command.name, words, lambda id=command.id: self.action_order(id))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "order" and parameters:
            return self.actions.allowed(str(parameters[0]))
        return True

    def on_load(self) -> None:
        frame = skeleton.shown()
        self.beginning.hold(frame.typed if frame is not None else b"")

    def on_mount(self) -> None:
        # The report of a crash is written as wide as it reads well, however narrow the terminal is.
        self.console.size = REPORT_SIZE
        self.looks.start()
        self.looks.move(True)
        self.session.prompt.commands = [
            MenuCommand(each.slash, each.name, each.argument_hint) for each in BY_SLASH.values()
        ]
        # The terminal forgets the picture while another program has it.
        self.app_resume_signal.subscribe(self, lambda _app: self._draw_anew())
        if not self.is_headless:
            leaving.on_signals(lambda code: self.exit(return_code=code))

    def _draw_anew(self) -> None:
        self.refresh(layout=True)

    def _hang_up(self) -> None:
        leaving.ensure_end(leaving.HUNG_UP)
        self.exit(return_code=leaving.HUNG_UP)

    def on_ready(self) -> None:
        self.beginning.arrange()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.Paste)):
            self.last_key = time.monotonic()
            self.touched.set()
            if self.beginning.keeps(event):
                return
        if isinstance(event, events.Key) and self._leaves_a_dialog(event.key):
            self.actions.suspend("")
            return
        await super().on_event(event)

    def _leaves_a_dialog(self, key: str) -> bool:
        """Whether the key suspends from where the keys of the session do not reach."""
        return len(self.screen_stack) > 1 and key in self.keys.of("program.suspend")

    def action_command_palette(self) -> None:
        from app.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def on_app_blur(self) -> None:
        self.attention.away = True

    def on_app_focus(self) -> None:
        self.attention.away = False
        if self.host.session:
            self.branch.look()

    def _hear(self, event: Event) -> None:
        if not self.is_running:
            return  # what still comes while the engine is closed nobody looks at
        self.bridge(event)
        self.branch(event)
        if event.type == "branch" and event.agent == "main":
            self.journeys.show(cast("BranchSwitched", event))
        elif event.type == "turn_started" and self.host.engine is not None:
            # Another window on the same branch makes the session go on beside it.
            self.bridge.show_head(self.host.engine.session.head)

    def _show_branch(self, found: Checkout | None) -> None:
        if not self.is_running:
            return
        self.bridge.change(branch=found and found.name, detached=found is not None and found.detached)

    # Sessions

    @work(exclusive=True, group="session")
    async def begin(self) -> None:
        """Furnish the screen and open the first session, now that something is to be seen."""
        try:
            await bring(FURNITURE)
            await self.beginning.lull()
            await self.session.furnish()
            self.session.transcript.direct.write = self.direct_write
            self.beginning.complete()
            await bring("themes.watch")
            self.run_worker(self.looks.watch, group="looks")
            await self.open_session(Wish())
        except HermesError as error:
            self.failure = error
            self.exit(return_code=int(error.exit_code))
        except (ScreenStackError, MountError):
            # Who leaves while the session opens takes the screens away from under it.
            if self.return_code is None and self.session.is_attached:
                raise

    async def open_session(self, wish: Wish) -> None:
        """Open a session and show what was said in it. Raises `HermesError`; then nothing has changed."""
        try:
            engine = await self.host.open(wish)
        except HermesError as error:
            # Read by the opening itself, aside; here it would hold up a key.
            from agent.model.providers import NoModelError

            if not isinstance(error, NoModelError):
                raise
            from app.screens.onboarding import OnboardingScreen

            await self._pause_in_typing()
            model = await self.push_screen_wait(OnboardingScreen(error, self.spill))
            if model is None:
                raise
            engine = await self.host.open(wish._replace(model=model))
        self._show_past(engine)
        self.outbox.release(engine)

    async def _pause_in_typing(self) -> None:
        from app.screens.requests import TYPING_PAUSE

        left = TYPING_PAUSE - (time.monotonic() - self.last_key)
        if left > 0:
            await asyncio.sleep(left)
            await self._pause_in_typing()

    def spill(self, text: str) -> None:
        """Put what was meant for the draft into it, as if it were pasted."""
        front.prompt(self).post_message(events.Paste(text))

    def preview(self, path: Sequence[Node]) -> None:
        """Show the end of a session that is being opened."""
        self.session.transcript.load(earlier=self._said(path))

    def show_conversation(self, engine: Engine) -> None:
        """Show the branch in use in place of what is shown."""
        self.session.transcript.load(earlier=self._said(tuple(engine.session.path)))

    def _show_past(self, engine: Engine) -> None:
        from agent.home import Home

        self.session.transcript.document.archive.folder = Home.locate().root
        self.bridge.show_head(engine.session.head)
        self.agents.recall(engine)
        path = tuple(engine.session.path)
        if len(path) > 1:
            self.session.transcript.put_above(self._said(path))

    def _said(self, path: Sequence[Node]) -> Iterable[Item]:
        from app.replay import newest_first
        from tools.registry import registry

        return newest_first(path, registry)

    async def _show_call_of_before(self, call: str) -> None:
        """Show a call that only the store still has in full."""
        from app.replay import call_in_full
        from tools.registry import registry

        if (engine := self.host.engine) is not None:
            path = await engine.session.whole_path()
            if text := await asyncio.to_thread(call_in_full, path, call, registry):
                self._show_in_full("Call", text)

    def need_engine(self) -> Engine:
        """The engine. Raises `HermesError` while there is none."""
        if self.host.engine is None:
            raise HermesError("The session is not open yet; try again in a moment.")
        return self.host.engine

    # What the person sends

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        match event.kind:
            case "command":
                self.run_worker(partial(self.actions.run_slash, event.text))
            case "shell":
                self.run_worker(partial(self.actions.run_shell, event.text))
            case "steer":
                self.outbox.send(event.text, event.images, steer=True)
            case _:
                self.outbox.send(event.text, event.images)

    def _show_queue(self, texts: tuple[str, ...]) -> None:
        if self.is_running:
            self.session.prompt.queued = texts

    def _look_for_files(self, paths: Sequence[Sequence[str]]) -> Sequence[Found] | None:
        from app.attaching import look

        return look(paths, self.outbox.workspace)

    @on(Prompt.QueueRecalled)
    @on(Prompt.QueueRemoved)
    def _leave_queue(self, event: Prompt.QueueRecalled | Prompt.QueueRemoved) -> None:
        queue = self.waiting()
        if event.index < len(queue) and queue[event.index] == event.text:
            del queue[event.index]
            self.set_queue(queue)

    def set_queue(self, texts: list[str]) -> None:
        """Replace the messages that wait."""
        self.outbox.set_waiting(texts)

    def waiting(self) -> list[str]:
        """The messages that wait, in order."""
        return self.outbox.waiting()

    def on_prompt_editor_requested(self, event: Prompt.EditorRequested) -> None:
        from app.editor import edit

        try:
            with self.suspend():
                text = edit(event.text)
        except HermesError as error:
            self.complain(str(error))
        except SuspendNotSupported:
            self.complain("This terminal cannot be left to an editor.")
        else:
            front.prompt(self).set_text(text)

    # What the panes ask for

    # Named by their messages, as the classes of these are not there yet when the first picture is drawn.

    def on_workbench_state_changed(self, event: Workbench.StateChanged) -> None:
        if self.remembered is not None:
            self.remembered.note("panes", event.state)

    def on_transcript_copied(self, event: Transcript.Copied) -> None:
        self.copy_to_clipboard(event.text)
        self.say("Copied.")

    def _show_in_full(self, title: str, text: str) -> None:
        from app.screens.detail import DetailScreen

        self.push_screen(DetailScreen(title, text))

    def on_transcript_opened(self, event: Transcript.Opened) -> None:
        from widgets.transcript.items import source_of

        self._show_in_full("In full", source_of(event.item))

    def on_transcript_placed(self, event: Transcript.Placed) -> None:
        self.run_worker(partial(self.actions.run, BY_ID["session.timeline"], str(event.node or "")))

    def on_log_pane_opened(self, event: LogPane.Opened) -> None:
        if text := self.bridge.call_in_full(event.call_id):
            self._show_in_full("Call", text)
        else:
            self.run_worker(partial(self._show_call_of_before, event.call_id))

    def on_files_pane_opened(self, event: FilesPane.Opened) -> None:
        self._show_in_full(event.change.path, event.change.diff or NO_DIFF)

    def on_agents_pane_opened(self, event: AgentsPane.Opened) -> None:
        front.attach(self, event.agent)

    def on_agents_pane_asked(self, event: AgentsPane.Asked) -> None:
        match event.what:
            case "kill":
                self.run_worker(partial(self.agents.kill, event.agent))
            case "pause":
                self.run_worker(partial(self.agents.pause, event.agent))
            case "merge":
                self.run_worker(partial(self.actions.merge, event.agent))
            case "merge_all":
                self.run_worker(partial(self.actions.merge, "all"))
            case "clear":
                self.agents.clear_ended()

    @on(StatusBar.Chosen)
    def _open_part(self, event: StatusBar.Chosen) -> None:
        if event.part == "questions":
            self.requests.show_now()
        else:
            self.action_order("session.model" if event.part == "model" else "session.context")

    # Commands

    def action_order(self, id: str) -> None:
        """Carry out the command with this id."""
        self.run_worker(partial(self.actions.run, BY_ID[id]))

    def say(self, text: str, *, timeout: float | None = None) -> None:
        """A short remark that goes away."""
        self.notify(clean(text), timeout=timeout, markup=False)

    def complain(self, text: str) -> None:
        """A sentence about something that did not work."""
        self.notify(clean(text), severity="warning", timeout=8, markup=False)

    # Looks

    @property
    def skin(self) -> Skin:
        """The skin that is worn, as its file has it."""
        return self.looks.skin

    def show_skin(self, skin: Skin) -> None:
        """Draw everything with a skin."""
        self.looks.show(skin)

    async def use_skin(self, name: str) -> None:
        """Draw everything with the skin of this name. Raises `ConfigError` if there is none."""
        await self.looks.wear(name)
