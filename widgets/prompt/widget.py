"""The prompt widget: keys, pastes and mouse events become edits and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from textual import events
from textual.geometry import Offset, Region
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.prompt import messages
from widgets.prompt.completion import (
    CommandChoice,
    Completer,
    CompletionChoice,
    CompletionMenu,
    FileMentions,
    Mention,
)
from widgets.prompt.draft import Draft, FoundFile, tidy
from widgets.prompt.history import History
from widgets.prompt.keys import KeyHints, PromptKeys, PromptState
from widgets.prompt.messages import route
from widgets.prompt.picture import PromptPicture, QueueView

TIDIED_ASIDE = 20_000
"""Characters from which a paste is cleaned in a thread, after its token is on the screen."""

_TYPED_TOO = ("\u3000", "\u00a0", "\u200c", "\u200d")
"""Blanks and joiners that users type, though they do not count as printable."""


class Prompt(Widget, can_focus=True):
    """A multi-line prompt with history, completion, pastes, vi keys and a message queue above it.

    It grows with its text to a third of the screen; other changes repaint only the changed rows. Unused keys
    continue to the application, including escape and ctrl+c unless they close a menu, search or selection.
    """

    DEFAULT_CSS = """
    Prompt { width: 100%; height: 1; overflow: hidden hidden; }
    """
    ALLOW_SELECT = False

    Changed = messages.Changed
    Submitted = messages.Submitted
    EditorRequested = messages.EditorRequested
    QueueRecalled = messages.QueueRecalled
    QueueRemoved = messages.QueueRemoved
    QueueSent = messages.QueueSent

    def __init__(
        self,
        *,
        placeholder: str = "",
        commands: Sequence[CommandChoice] = (),
        files_provider: Callable[[], Iterable[str]] | None = None,
        history: History | None = None,
        vi: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.palette = Palette(Skin())
        self.placeholder = placeholder
        self.history = history or History()
        self.menu = CompletionMenu()
        self.completer = Completer(self.menu, commands, files_provider)
        self.hints = KeyHints()
        self._draft = Draft(vi=vi)
        self.files = FileMentions(self._draft, self)
        self._queue = QueueView()
        self._picture = PromptPicture(self._draft, self._queue)
        self._keys = PromptKeys(
            self._draft, self._queue, self.history, self.completer, self.hints, self._picture, self
        )
        self._busy = False
        self._height = 1
        self._reported = ""
        """The text that was reported last."""
        self._waiting_to_leave: bool | None = None
        """Whether the text is submitted (True: to steer) once pasted paths are checked; None: it is not."""
        self._dragging = False

    # Properties and methods for the application

    @property
    def text(self) -> str:
        """The text to send, with pastes unfolded."""
        return self._draft.text

    @property
    def selected_text(self) -> str:
        """The selected text with pastes unfolded; empty without a selection."""
        return self._draft.selected

    @property
    def busy(self) -> bool:
        """True while the agent works: enter then queues and ctrl+s steers."""
        return self._busy

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._busy = busy
        self.draw()

    @property
    def queued(self) -> tuple[str, ...]:
        """The waiting messages in order, shown above the text."""
        return self._queue.queued

    @queued.setter
    def queued(self, queued: Sequence[str]) -> None:
        self._queue.queued = queued
        self.draw()

    @property
    def steering(self) -> tuple[str, ...]:
        """The messages being sent into the running turn, shown above the waiting ones."""
        return self._queue.steering

    @steering.setter
    def steering(self, steering: Sequence[str]) -> None:
        self._queue.steering = tuple(steering)
        self.draw()

    @property
    def vi(self) -> bool:
        """True if vi keys are used."""
        return self._draft.vi is not None

    @vi.setter
    def vi(self, vi: bool) -> None:
        self._draft.use_vi(vi)
        self.draw()

    def use(self, palette: Palette) -> None:
        """Draw in another palette."""
        self.palette = palette
        self.menu.use(palette)
        self.draw()

    def bind_keys(self, changes: Mapping[str, str]) -> None:
        """Assign other keys to commands (ids of `KEYS`), as in `{"prompt.steer": "f2"}`."""
        self.hints.bind(changes)
        self.draw()

    def set_text(self, text: str) -> None:
        """Replace the text; undo restores it. A very long text is folded."""
        self._draft.replace(tidy(text))
        self.completer.forget()
        self.draft_changed()

    def put_before(self, texts: Sequence[str]) -> None:
        """Insert returned messages before the present text."""
        self.set_text("\n\n".join([*texts, *filter(None, [self.text])]))

    def insert_files(self, files: Sequence[FoundFile]) -> None:
        """Insert files at the cursor: images as tokens, others as mentions."""
        self.files.insert(files)

    def insert_mention(self, name: str) -> None:
        """Insert `@name` at the cursor, separated from the text before it."""
        buffer = self._draft.buffer
        before = buffer.text[: buffer.cursor][-1:]
        self.insert(f"{' ' if before.strip() else ''}@{name} ")

    def clear(self) -> None:
        """Empty the prompt and its undo history."""
        self._draft.clear()
        self._waiting_to_leave = None
        self.history.leave()
        self.completer.forget()
        self.draft_changed()

    def dismiss(self) -> bool:
        """Close the menu, search or selection above the text; return False if none was open."""
        return self._keys.dismiss()

    # Methods for its parts

    def insert(self, text: str) -> None:
        """Insert text at the cursor."""
        if self.history.is_walking:
            self.history.leave()
        self._draft.buffer.insert(text)
        self.draft_changed()

    def files_settled(self) -> None:
        """Submit a text that waited for pasted paths to be checked."""
        steer, self._waiting_to_leave = self._waiting_to_leave, None
        if steer is not None:
            self.leave(steer=steer)

    def leave(self, *, steer: bool) -> bool:
        """Submit the text, once pasted paths are checked; return True. A folded paste never is a command."""
        pastes = self._draft.pastes
        way = route(self._draft.buffer.text, busy=self._busy, steer=steer)
        if way.kind == "nothing":
            if self._queue.queued and not self._busy and not steer:
                self.post_message(self.QueueSent())
            return True
        if pastes.is_pending and self._waiting_to_leave is None:
            self._waiting_to_leave = steer
            return True
        sent, whole, images = pastes.unfold(way.text), self.text, pastes.images(way.text)
        if self.history.add(whole):
            self.run_worker(partial(self._store_history, whole), group="history")
        self.clear()
        self.post_message(self.Submitted(sent, way.kind, images))
        return True

    def edit_elsewhere(self) -> None:
        """Request to edit the text in an external editor."""
        self.post_message(self.EditorRequested(self.text))

    def post_recall(self, index: int, text: str) -> None:
        """Post a message that a queued message was taken back into the prompt."""
        self.post_message(self.QueueRecalled(index, text))

    def post_removal(self, index: int, text: str) -> None:
        """Post a request to drop a queued message."""
        self.post_message(self.QueueRemoved(index, text))

    def take_choice(self, choice: CompletionChoice) -> None:
        """Replace a mention chosen from the menu with a token if it is an image."""
        self.files.take_choice(choice)

    def look_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a file check in the background."""
        self.run_worker(work, group="attach")

    def say(self, sentence: str) -> None:
        """Show a sentence about a failure."""
        self.app.notify(sentence, severity="warning", markup=False)

    # Mounting

    def compose(self) -> Iterable[Widget]:
        yield self.menu

    def on_mount(self) -> None:
        # The history is not needed before the first paint.
        self.call_after_refresh(lambda: self.run_worker(self._load_history, group="history"))

    def on_resize(self) -> None:
        self.draw()

    def watch_has_focus(self, has_focus: bool) -> None:
        # Focus events arrive before the focus is set.
        super().watch_has_focus(has_focus)
        self.draw()

    async def _load_history(self) -> None:
        try:
            await asyncio.to_thread(self.history.load)
        except OSError as error:
            self.say(f"What was sent before cannot be read: {error.strerror}.")

    async def _store_history(self, text: str) -> None:
        try:
            await asyncio.to_thread(self.history.store, text)
        except OSError as error:
            self.say(f"This message was not kept in the history: {error.strerror}.")

    # Drawing

    def draft_changed(self, *, typed: bool = True) -> None:
        """Update completion, screen and listeners after a change of text or cursor.

        With `typed` False, no menu is opened for the word at the cursor.
        """
        buffer = self._draft.buffer
        # A history entry was not typed: a menu would take the keys that step through the history.
        if buffer.selection is None and not self.history.is_walking:
            mention = self.completer.follow(buffer.text, buffer.cursor)
            if mention is not None:
                self.run_worker(partial(self._rank, mention), group="files", exclusive=True)
        self.draw()
        if buffer.text != self._reported:
            self._reported = buffer.text
            self.post_message(self.Changed(buffer.text))
        if not typed:
            self.completer.forget()
            self.draw()

    async def _rank(self, mention: Mention) -> None:
        try:
            await self.completer.rank(mention)
        except Exception as error:
            # The provider is not ours: whatever it raises costs the completion, never the prompt.
            self.completer.fail()
            self.say(f"The files cannot be listed: {clean(str(error)) or type(error).__name__}.")
        self.draw()

    def draw(self) -> None:
        """Update the screen; only changed rows are painted."""
        cells = self.size.width
        if not self.is_mounted or cells == 0:
            return
        picture = self._picture
        self._wish_height(picture.measure(cells, self.screen.size.height))
        changed = picture.draw(
            cells,
            self.size.height,
            self.palette,
            focused=self.has_focus and self._queue.chosen is None,
            placeholder=self.placeholder,
            hints=self.hints.words(self._state()),
            search=self._keys.search,
        )
        if changed:
            self.refresh(*(Region(0, at, cells, 1) for at in changed))
        if self.has_focus:
            # Input methods open their window where the terminal's own cursor is.
            self.app.cursor_position = self.content_region.offset + Offset(*picture.cursor_cell())

    def _state(self) -> PromptState:
        draft, vi = self._draft, self._draft.vi
        return PromptState(
            text=draft.buffer.text,
            busy=self._busy,
            queued=len(self._queue.queued),
            chosen=self._queue.chosen is not None,
            menu=self.menu.is_open,
            token=bool(draft.token_at_cursor()),
            vi=vi.pending if vi and vi.mode == "normal" else None,
        )

    def _wish_height(self, height: int) -> None:
        if height == self._height:
            return
        self._height = height
        if height > self.size.height:
            self.call_after_refresh(self._take_height)
        else:
            self._take_height()

    def _take_height(self) -> None:
        self.styles.height = self._height

    def render_line(self, y: int) -> Strip:
        if not self._picture.strips:
            self.draw()  # the first paint happens before the widget receives its size
        strips = self._picture.strips
        if y < len(strips):
            return strips[y]
        return Strip.blank(self.size.width, self.palette.style("text", "surface"))

    # Keys, pastes and the mouse

    def on_key(self, event: events.Key) -> None:
        if self._take_key(event):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if (search := self._keys.search) is not None:
            search.look_for(search.query + tidy(event.text[:1_000]).split("\n", 1)[0].replace("\t", " "))
            self.draw()
            return
        self._queue.chosen = None
        pastes = self._draft.pastes
        if len(event.text) > TIDIED_ASIDE:
            token = pastes.fold(event.text, is_tidy=False)
            self.run_worker(partial(pastes.content, token), group="paste", thread=True)
            self.insert(token)
        elif (text := tidy(event.text)) and not self.files.take_paste(text):
            self.insert(pastes.take(text))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        if event.button != 1:
            return
        if event.y < self._queue.height:
            self._queue.choose_at(event.y)
            self.draw()
            return
        self._queue.chosen = self._keys.search = None
        self._draft.buffer.move(self._picture.offset_at(event.x, event.y), select=event.shift)
        self._dragging = True
        self.capture_mouse()
        self.draft_changed()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._draft.buffer.move(self._picture.offset_at(event.x, event.y), select=True)
            self.draft_changed()

    def on_mouse_up(self) -> None:
        self._dragging = False
        self.release_mouse()

    def on_menu_picked(self, event: CompletionMenu.Picked) -> None:
        event.stop()
        self.menu.step(event.index - self.menu.selected)
        self._keys.complete()

    def _take_key(self, event: events.Key) -> bool:
        typed = event.character or ""
        if not event.is_printable and typed not in _TYPED_TOO:
            typed = ""
        # Some terminals send return with shift or alt as a number, which is read without a name.
        return self._keys.take("shift+enter" if event.key.endswith("\r") else event.key, typed)
