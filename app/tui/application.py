"""The full-screen application. It paints its first frame before it opens a session, and restores the terminal
when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from textual import events, on, work
from textual.app import App, ScreenStackError, SuspendNotSupported
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widget import MountError
from textual.worker import WorkerFailed

from agent.errors import HermesError
from app.tui.commands.actions import CommandActions
from app.tui.commands.registry import BY_ID
from app.tui.commands.slash_menu import SkillNames, add_found_commands, offer_commands, palette_entries
from app.tui.conversation import active_conversation
from app.tui.conversation.saved_layout import SavedLayout
from app.tui.conversation.session_host import (
    MessageSender,
    NotOpenYetError,
    Opener,
    SessionHost,
    SessionRequest,
)
from app.tui.conversation.session_screen import PANES_MODULE, SessionScreen
from app.tui.conversation.shown_history import ShownHistory
from app.tui.conversation.typed_text import focus_prompt
from app.tui.screens.models.first_model import begin_tour, open_with_model
from app.tui.screens.settings.preferences import Preferences
from app.tui.screens.skins.appearance import Appearance
from app.tui.startup import shutdown, skeleton
from app.tui.startup.crash import CrashLog
from app.tui.startup.handover import Startup, driver_for_frame
from app.tui.startup.preload import import_yielding
from app.tui.terminal.attention import Attention
from app.tui.terminal.terminals import (
    TerminalAnswers,
    ask_background,
    background_report,
    mouse_policy,
    multiplexer,
    takes_questions,
)
from app.tui.terminal.tty_input import add_key_sequences
from app.tui.terminal.tty_modes import MOUSE_MODES, PAGE_REPORTS, driver_with_modes
from app.tui.terminal.tty_output import (
    ControlFilter,
    driver_with_output,
    driver_with_writer,
)
from themes.skin import Skin
from tools.command_name import as_typed
from tools.text.safe_text import clean
from widgets.palette import css_variables
from widgets.panes.status import StatusBar
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.events import BranchSwitched, Event
    from agent.workspace.git import Checkout
    from app.tui.commands.agent_actions import AgentActions
    from app.tui.commands.history_actions import HistoryActions
    from app.tui.commands.keys import Keys
    from app.tui.conversation.background_watch import GitBranchWatch
    from app.tui.conversation.bridge import Bridge
    from app.tui.questions.request_queue import RequestQueue
    from app.tui.terminal.clipboard import Clipboard
    from widgets.panes.agents import AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.workbench import Workbench
    from widgets.prompt.draft import FoundFile
    from widgets.transcript.view import Transcript

    # Type checkers accept a property for a protocol's attribute, but not a `cached_property`.
    late = property
else:
    late = cached_property

log = logging.getLogger(__name__)

REPORT_SIZE = (110, 40)
"""The size of the crash report, in columns and rows."""
NO_DIFF = "There is no text to compare: the file is binary, too large, or was not read before it changed."


class HermesApp(App[None], inherit_bindings=False):
    """The Textual application. It connects engine and screen; `CommandActions` runs commands, `Bridge` shows
    events.
    """

    TITLE = "hermes"
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 4
    # Below the title: notices cover neither the prompt nor a line of keys, and no more cells than they need.
    CSS = """
    ToastRack { dock: top; align: right top; max-height: 70vh; margin: 2 0 0 0; scrollbar-size: 0 0; }
    Toast { width: auto; padding: 0 1; margin: 0; }
    """

    def __init__(
        self,
        opener: Opener,
        skin: Skin | None = None,
        skins: Path | None = None,
        *,
        history: History | None = None,
        files: Callable[[], Iterable[str]] | None = None,
        remembered: SavedLayout | None = None,
        tour: bool = False,
    ) -> None:
        self.appearance = Appearance(self, self, skin or Skin(), skins, os.environ)
        super().__init__()
        self.crash = CrashLog()
        self.error_console = Console(file=self.crash, width=REPORT_SIZE[0], no_color=True)
        self._write: Callable[[str], None] = lambda _text: None
        self.session = SessionScreen(history, files)
        self.appearance.apply_before_mount()
        self.tour = tour
        """True if the first session is the tour, which starts automatically."""
        self.resumes = False
        """True if the first session is resumed, so that its conversation is about to be filled."""
        self.first_command = ""
        """The slash command that runs once the first session is open."""
        self.remembered = remembered
        if remembered is not None:
            self.session.restore(remembered.part("panes"))
        self.attention = Attention(lambda text: self._write(text), os.environ, self._note_call)
        self.host = SessionHost(opener, self._handle, self.session.prompt.put_before)
        self.actions = CommandActions(self)
        self.shown = ShownHistory(self)
        self.skills = SkillNames(self)
        self.preferences = Preferences(self)
        self.beginning = Startup(self)
        self._keys: Keys | None = None
        self.last_key = float("-inf")
        self.touched = asyncio.Event()
        """Set by the first key press or paste."""
        self._last_filter, self.answers = ControlFilter(), TerminalAnswers()
        self.drawn: Callable[[str], str] = str
        self.copy_on_select = False
        """True if text is copied as soon as it is selected with the mouse."""
        self.leave_answer = False
        """True if the last answer is printed at the end, below the shell's prompt."""
        self.mouse = mouse_policy("full", os.environ)
        self.message_sender = MessageSender(
            self.host, self._show_queue, self.show_warning, self.session.prompt.put_before
        )
        self.session.prompt.files.look = self._look_for_files
        self.failure: HermesError | None = None
        """The error because of which no session could be opened at the start, if any."""

    # Modules that handle events are imported with the first one: that takes longer than drawing.

    @property
    def keys(self) -> Keys:
        """The key bindings in effect; the default ones until the settings are read."""
        from app.tui.commands.keys import resolve

        self._keys = self._keys or resolve({})
        return self._keys

    def use_keys(self, keys: Keys) -> None:
        """Put these key bindings into effect."""
        self._keys = keys
        self.set_keymap(keys.keymap())

    @late
    def requests(self) -> RequestQueue:
        from app.tui.questions.dialog_stage import DialogStage
        from app.tui.questions.request_queue import RequestQueue

        return RequestQueue(DialogStage(self))

    @late
    def bridge(self) -> Bridge:
        from app.tui.conversation.bridge import Bridge

        return Bridge(self.session, self.requests, self.attention)

    @late
    def history_actions(self) -> HistoryActions:
        from app.tui.commands.history_actions import HistoryActions

        return HistoryActions(self, self.shown)

    @late
    def agents(self) -> AgentActions:
        from app.tui.commands.agent_actions import AgentActions

        return AgentActions(self)

    @late
    def branch(self) -> GitBranchWatch:
        from app.tui.conversation.background_watch import GitBranchWatch

        return GitBranchWatch(self._show_branch)

    @property
    def direct_write(self) -> Callable[[str], None] | None:
        """A function that writes rows to the terminal outside Textual's frames; None if Hermes does not
        control it.
        """
        return None if self.is_headless or self.is_inline or self.is_web else self._write

    @property
    def backlog(self) -> int:
        """The number of bytes not yet written to the terminal."""
        return getattr(self._driver, "backlog", 0)

    @property
    def has_crashed(self) -> bool:
        """True if an unexpected exception ended the application."""
        return self.crash.has_happened

    # Overrides of Textual

    def get_default_screen(self) -> Screen[Any]:
        return self.session

    def get_driver_class(self) -> type[Driver]:
        def set_writer(write: Callable[[str], None]) -> None:
            self._write = write

        add_key_sequences()
        plain = super().get_driver_class()
        driver = driver_with_output(
            plain, self._hang_up, self._draw_anew, self._take_answer, lambda text: self.drawn(text)
        )
        driver = driver_with_modes(driver, os.environ, lambda: self.mouse, self._renew_terminal)
        return driver_with_writer(driver_for_frame(driver, skeleton.drawn_frame()), set_writer)

    def get_line_filters(self) -> list[LineFilter]:
        return [*self.appearance.filters(super().get_line_filters()), self._last_filter]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(self.appearance.shown)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "order" and parameters:
            return self.actions.is_allowed(str(parameters[0]))
        return True

    def on_load(self) -> None:
        frame = skeleton.drawn_frame()
        self.beginning.hold(frame.typed if frame is not None else b"")

    def on_mount(self) -> None:
        # A crash report has a readable width, even on a narrow terminal.
        self.console.size = REPORT_SIZE
        self.appearance.apply_after_mount()
        self.appearance.set_motion(True)
        offer_commands(self.session.prompt)
        # The terminal loses the frame while another program uses it.
        self.app_resume_signal.subscribe(self, lambda _app: self._redraw_unknown_terminal())
        if not self.is_headless:
            shutdown.on_signals(lambda code: self.exit(return_code=code))

    def _draw_anew(self) -> None:
        self.refresh(layout=True)

    def _renew_terminal(self) -> None:
        """Treat a newly attached terminal like a return from suspension."""
        self.app_resume_signal.publish(self)

    def _redraw_unknown_terminal(self) -> None:
        """Show everything again on a terminal whose state is unknown."""
        self.attention.show_again()
        self._forget_terminal()
        self._draw_anew()

    def _take_answer(self, answer: str) -> None:
        """Handle the terminal's answer to a query, in the thread that reads input."""
        if (light := background_report(answer)) is not None:
            self.call_later(self.appearance.set_light, light)
        self.answers.receive_answer(answer)

    async def ask_background(self) -> bool | None:
        """Ask the terminal whether its background is light; return None if it does not answer."""
        if self.direct_write is None or not await asyncio.to_thread(takes_questions, os.environ):
            return None
        self._write(PAGE_REPORTS)
        return await ask_background(self._write, self.answers)

    def _forget_terminal(self) -> None:
        self.run_worker(self.appearance.match_background, group="page", exclusive=True)
        if "clipboard_ways" in self.__dict__:
            self.clipboard_ways.forget()

    def _hang_up(self) -> None:
        shutdown.ensure_end(shutdown.HUNG_UP)
        self.exit(return_code=shutdown.HUNG_UP)

    def on_ready(self) -> None:
        self.beginning.arrange()

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, (events.Key, events.Paste)) or event.is_forwarded:
            await super().on_event(event)
            return
        self.last_key = time.monotonic()
        self.attention.press()
        self.touched.set()
        if self.beginning.hold_back(event):
            return
        if isinstance(event, events.Key) and self._leaves_a_dialog(event.key):
            self.actions.suspend("")
            return
        focus_prompt(self.screen, event)
        await super().on_event(event)
        self.beginning.follow(event)

    async def on_passed_by(self) -> None:
        await self.beginning.send_held_keys()

    def _leaves_a_dialog(self, key: str) -> bool:
        """Return whether the key suspends Hermes from a screen where the session's keys do not apply."""
        return len(self.screen_stack) > 1 and key in self.keys.of("program.suspend")

    def action_command_palette(self) -> None:
        from app.tui.screens.palette import PaletteScreen

        if not isinstance(self.screen, PaletteScreen):
            self.push_screen(PaletteScreen([*palette_entries(self, self.remembered)]))

    def on_app_blur(self) -> None:
        self.attention.focus(False)

    def on_app_focus(self) -> None:
        self.attention.focus(True)
        if multiplexer(os.environ):
            self._forget_terminal()  # it may be attached elsewhere now
        if self.host.session:
            self.branch.check()

    def _subscribe_parts(self) -> None:
        """Subscribe the parts to the events that they handle, in addition to those of the bridge."""
        from agent.events import BranchSwitched, FilesChanged, TurnEnded, TurnStarted

        subscribe = self.bridge.listeners.subscribe
        for kind, pane in self.session.hearing:
            subscribe(partial(kind.handle, pane), *kind.events)
        subscribe(self.branch, *self.branch.HEARD)
        subscribe(self._show_branch_switch, BranchSwitched)
        subscribe(self._update_changed_files, TurnEnded, FilesChanged)
        subscribe(self._show_first_title, TurnStarted)

    def _show_branch_switch(self, event: Event) -> None:
        if event.agent == "main":
            self.history_actions.show(cast("BranchSwitched", event))

    def _show_first_title(self, event: Event) -> None:
        """Show the title that the session got from its first message."""
        if event.agent == "main" and not self.bridge.state.title:
            self.run_worker(self.show_title, group="title", exclusive=True)

    async def show_title(self) -> None:
        """Show the title of the session as it is in the store."""
        if (client := self.host.client) is not None:
            with suppress(HermesError):
                self.bridge.change(title=(await client.stored.session(client.id)).title)

    def _update_changed_files(self, event: Event) -> None:
        """Update the list of changed files after a turn, and after an undo or merge between turns."""
        over = event.type == "turn_ended" or not self.session.prompt.busy
        if event.agent == "main" and over and self.session.files.unsettled:
            self.run_worker(self.history_actions.update_changed_files, group="settle", exclusive=True)

    def _handle(self, event: Event) -> None:
        if not self.is_running:
            return  # nobody looks at events that arrive while the engine closes
        with self._context():  # An event may come from a thread, such as the one that filters the network.
            self.bridge(event)
        if self.host.is_served and self.host.is_lost:
            self.bridge.change(service="ended")
        elif event.type == "effort_changed" and self.host.client is not None:
            self.bridge.change(model=self.host.client.model)  # another client may have chosen another one
        elif event.type == "turn_started" and self.host.client is not None:
            # If another window has the same branch open, the session continues on a new branch.
            self.bridge.show_head(self.host.client.branch)

    def _show_branch(self, found: Checkout | None) -> None:
        if not self.is_running:
            return
        self.bridge.change(branch=found and found.name, detached=found is not None and found.detached)

    # Sessions

    @work(exclusive=True, group="session")
    async def open_first_session(self) -> None:
        """Mount the panes and open the first session, once the first frame is visible; exit if that fails."""
        try:
            await import_yielding(PANES_MODULE)
            await self.beginning.wait_for_idle_keys()
            await self.session.mount_panes(welcome=not self.resumes)
            self._subscribe_parts()
            self.session.transcript.direct.write = self.session.status.direct.write = self.direct_write
            # Held keys may belong to the conversation and panes.
            await add_found_commands(self)
            self.beginning.complete()
            await import_yielding("themes.skin_changes")
            self.run_worker(self.appearance.watch, group="looks")
            self.run_worker(self.appearance.match_background, group="page", exclusive=True)
            if not self.is_headless:
                self.run_worker(self._watch_jobs, group="jobs")
            await self.open_session(SessionRequest())
        except HermesError as error:
            self.failure = error
            self.exit(return_code=int(error.exit_code))
        except (ScreenStackError, MountError):
            # Leaving while the session opens removes the screens that opening uses.
            if self.return_code is None and self.session.is_attached:
                raise

    async def _watch_jobs(self) -> None:
        watch = (await import_yielding("app.tui.conversation.background_watch")).watch_jobs
        await watch(lambda title, text: self.notify(text, title=title, timeout=30, markup=False))

    def _handle_exception(self, error: Exception) -> None:
        """Show a `HermesError` of a background worker as a notice; end the application on any other error."""
        if isinstance(error, WorkerFailed) and isinstance(error.error, HermesError):
            log.warning("work in the background failed: %s", error.error)
            self.show_warning(str(error.error))
        else:
            super()._handle_exception(error)

    async def open_session(self, wish: SessionRequest) -> None:
        """Open a session and show its conversation. On a `HermesError` the previous one is open again."""
        before = self.host.client
        try:
            client = await open_with_model(self, self.host, wish)
        finally:
            # If that failed, the previous session was opened again, on a cleared screen.
            if (opened := self.host.client) is not None and opened is not before:
                await self.shown.show_past(opened)
                if len(opened.path) > 1:
                    self.history_actions.fill_panes(opened)
        self.message_sender.release(client)
        self.run_worker(self.skills.refresh, group="skills", exclusive=True)
        if self.tour:
            self.tour = False
            begin_tour(client)
        if self.first_command:
            command, self.first_command = self.first_command, ""
            self.run_worker(partial(self.actions.run_slash, command))

    def paste_into_draft(self, text: str) -> None:
        """Insert into the prompt, as if pasted, text that was typed for the draft."""
        active_conversation.prompt(self).on_paste(events.Paste(text))

    def press_on_draft(self, key: str) -> None:
        """Handle a key press in the prompt, if the prompt holds text."""
        if self.draft():
            active_conversation.prompt(self).on_key(events.Key(key, None))

    def draft(self) -> str:
        """The text written in the prompt and not yet sent."""
        return active_conversation.prompt(self).text

    def need_client(self) -> SessionClient:
        """Return the client of the open session. Raises `HermesError` while there is none."""
        if self.host.client is None:
            raise NotOpenYetError("The session is not open yet; this waits until it is.")
        return self.host.client

    # Messages of the user

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        match event.kind:
            case "command":
                self.run_worker(partial(self.actions.run_slash, event.text))
            case "shell":
                self.run_worker(partial(self.actions.run_shell, event.text))
            case _:
                self.session.go_to_end()
                self.message_sender.send(event.text, event.images, steer=event.kind == "steer")

    def _show_queue(self, texts: tuple[str, ...]) -> None:
        if self.is_running:
            self.session.prompt.queued = texts

    def _look_for_files(self, paths: Sequence[Sequence[str]]) -> Sequence[FoundFile] | None:
        from app.tui.conversation.attachments import first_existing

        return first_existing(paths, self.message_sender.workspace)

    @on(Prompt.QueueRecalled)
    @on(Prompt.QueueRemoved)
    def _leave_queue(self, event: Prompt.QueueRecalled | Prompt.QueueRemoved) -> None:
        queue = self.waiting()
        if event.index < len(queue) and queue[event.index] == event.text:
            del queue[event.index]
            self.set_queue(queue)

    def set_queue(self, texts: list[str]) -> None:
        """Replace the queued messages."""
        self.message_sender.set_waiting(texts)

    def waiting(self) -> list[str]:
        """Return the queued messages, in order."""
        return self.message_sender.waiting()

    def on_prompt_queue_sent(self) -> None:
        if (client := self.host.client) is not None:
            client.send_queue()

    def on_prompt_editor_requested(self, event: Prompt.EditorRequested) -> None:
        from app.tui.terminal.editor import edit

        try:
            with self.suspend():
                text = edit(event.text)
        except HermesError as error:
            self.show_warning(str(error))
        except SuspendNotSupported:
            self.show_warning("This terminal cannot be left to an editor.")
        else:
            active_conversation.prompt(self).set_text(text)

    # Requests of the panes

    # Handlers are named after their messages, as those classes are not imported before the first frame.

    def on_workbench_state_changed(self, event: Workbench.StateChanged) -> None:
        if self.remembered is not None:
            self.remembered.note("panes", event.state)

    def on_transcript_copied(self, event: Transcript.Copied) -> None:
        self.copy_to_clipboard(event.text, event.more)

    def on_text_selected(self) -> None:
        if self.copy_on_select and (selected := self.screen.get_selected_text()):
            self.copy_to_clipboard(selected)

    def _show_in_full(self, title: str, text: str) -> None:
        from app.tui.screens.dialog import DetailScreen

        self.push_screen(DetailScreen(title, text))

    async def _show_diff(self, path: str, diff: str) -> None:
        """Show a unified diff on a screen of its own, in the style of the conversation."""
        from app.tui.screens.history.timeline_files import FileDifferenceRow, FileScreen

        new, gone = diff.startswith("--- /dev/null"), "\n+++ /dev/null" in diff
        screen = FileScreen(FileDifferenceRow(path, "added" if new else "deleted" if gone else "changed"))
        await self.push_screen(screen)
        screen.show(diff, NO_DIFF)

    async def on_transcript_opened(self, event: Transcript.Opened) -> None:
        from widgets.transcript.parts import CallItem, single_file_diff, source_of

        item = event.item
        if isinstance(item, CallItem) and (diff := single_file_diff(item.display)):
            await self._show_diff(item.display.subject, diff)
        else:
            self._show_in_full("In full", source_of(item))

    def on_transcript_placed(self, event: Transcript.Placed) -> None:
        self.run_worker(partial(self.actions.run, BY_ID["session.timeline"], str(event.node or "")))

    async def on_log_pane_opened(self, event: LogPane.Opened) -> None:
        from widgets.transcript.parts import single_file_diff

        display = self.bridge.display_of(event.call_id)
        if display is not None and (diff := single_file_diff(display)):
            await self._show_diff(display.subject, diff)
        elif text := self.bridge.call_in_full(event.call_id):
            self._show_in_full("Call", text)
        else:
            self.run_worker(partial(self._show_stored_call, event.call_id))

    async def _show_stored_call(self, call: str) -> None:
        if text := await self.shown.call_in_full(call):
            self._show_in_full("Call", text)

    async def on_files_pane_opened(self, event: FilesPane.Opened) -> None:
        await self._show_diff(event.change.path, event.change.diff)

    def on_files_pane_ignored_asked(self) -> None:
        self.run_worker(self.history_actions.show_ignored, group="ignored", exclusive=True)

    def on_agents_pane_opened(self, event: AgentsPane.Opened) -> None:
        active_conversation.attach(self, event.agent)

    def on_agents_pane_asked(self, event: AgentsPane.Asked) -> None:
        if event.what == "clear":
            self.agents.clear_ended()
            return
        act, agent = {
            "kill": (self.agents.kill, event.agent),
            "pause": (self.agents.pause, event.agent),
            "merge": (self.actions.merge, event.agent),
            "merge_all": (self.actions.merge, "all"),
        }[event.what]
        self.run_worker(partial(act, agent))

    @on(StatusBar.Chosen)
    def _open_part(self, event: StatusBar.Chosen) -> None:
        if event.part == "questions":
            self.requests.show_now()
        else:
            self.action_order("session.model" if event.part == "model" else "session.context")

    # Commands

    def action_order(self, id: str) -> None:
        """Run the command with this id."""
        self.run_worker(partial(self.actions.run, BY_ID[id]))

    @late
    def clipboard_ways(self) -> Clipboard:
        """The available ways of copying text."""
        from agent.core.home import Home
        from app.tui.terminal.clipboard import Clipboard

        return Clipboard(
            lambda text: self._write(text), self.answers, Home.locate().clipboard, os.environ, sys.platform
        )

    def copy_to_clipboard(self, text: str, more: str = "") -> None:
        """Copy a text in the first way that works here; a notice names that way, followed by `more`."""
        self._clipboard = text
        self.run_worker(partial(self._copy, text, more), group="copy")

    async def _copy(self, text: str, more: str) -> None:
        from agent.events import Copied

        try:
            result = await self.clipboard_ways.copy(text)
        except OSError as error:
            self.show_warning(f"Not copied: {error.strerror}.")
            return
        (self.show_notice if result.is_copied else self.show_warning)(f"{result.sentence} {more}".rstrip())
        self._handle(Copied(way=result.way))

    def report_mouse(self, policy: str) -> None:
        """Make the terminal report the mouse events that a value of `display.mouse` asks for."""
        if (policy, self.mouse) != ("full", "full"):
            self._write(MOUSE_MODES[policy])
        self.mouse = policy

    def _note_call(self, way: str) -> None:
        from agent.events import Notified

        self._handle(Notified(way=way))

    def show_notice(self, text: str, *, timeout: float | None = None) -> None:
        """Show a short notice, for `timeout` seconds or `NOTIFICATION_TIMEOUT`."""
        self.notify(clean(as_typed(text)), timeout=timeout, markup=False)

    def show_warning(self, text: str) -> None:
        """Show a sentence as a warning notice for eight seconds."""
        self.notify(clean(as_typed(text)), severity="warning", timeout=8, markup=False)

    @property
    def skin(self) -> Skin:
        """The skin in use, in colours that the terminal can show."""
        return self.appearance.shown
