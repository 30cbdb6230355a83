"""The prompt: where the person writes. Keys, pastes and the mouse, turned into edits and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from textual import events

from widgets.prompt import keymap, messages, queue_view
from widgets.prompt.buffer import Buffer, is_token, without_tokens
from widgets.prompt.completion import CompletionChoice
from widgets.prompt.dropped import SUFFIXES, readings
from widgets.prompt.editing import PromptEditing
from widgets.prompt.grapheme_cells import width
from widgets.prompt.history import HistorySearch
from widgets.prompt.layout import offset_at
from widgets.prompt.menu import CompletionMenu
from widgets.prompt.painting import GUTTER
from widgets.prompt.pastes import LARGEST_OPEN, tidy
from widgets.prompt.router import route
from widgets.prompt.vi import Vi

TIDIED_ASIDE = 20_000
"""Characters from which a paste is cleaned in a thread, after its token is on the screen."""

_TYPED_TOO = ("\u3000", "\u00a0", "\u200c", "\u200d")
"""Blanks and joiners that people type, though they do not count as printable."""


class Prompt(PromptEditing):
    """A multi-line prompt with history, completion, pastes, vi keys and the queue above it.

    It grows with its text to a third of the screen; every other change repaints
    only the rows that differ. Keys it has no use for travel on to the application,
    among them escape and ctrl+c unless they close a menu, a search or a choice.
    """

    Submitted = messages.Submitted
    EditorRequested = messages.EditorRequested
    QueueRecalled = messages.QueueRecalled
    QueueRemoved = messages.QueueRemoved

    _waiting_to_leave: bool | None = None
    """Whether the text is to leave (True: to steer) as soon as it is known what was pasted."""
    _dragging = False

    def set_text(self, text: str) -> None:
        """Put another text in place of the present one; undo brings that back. A very long one is folded."""
        self._replace_all(tidy(text))
        self.completer.forget()
        self._changed()

    def put_before(self, texts: Sequence[str]) -> None:
        """Put messages that were sent and come back before what is written."""
        self.set_text("\n\n".join([*texts, *filter(None, [self.text])]))

    def clear(self) -> None:
        """Empty the prompt; undo does not reach behind this."""
        killed, self._buffer = self._buffer.killed, Buffer()
        self._buffer.killed = killed
        if self._vi:
            self._vi = Vi(self._buffer)
        if not any(map(is_token, killed)):
            self.pastes.clear()
        self._waiting_to_leave = None
        self.history.leave()
        self.completer.forget()
        self._changed()

    def dismiss(self) -> bool:
        """Close what is open above the text: menu, search, choice. False when nothing was."""
        if self._search is not None or self._chosen is not None:
            self._search = self._chosen = None
            self._draw()
            return True
        closed = self.completer.close()
        self._draw()
        return closed

    # Keys, pastes and the mouse

    def on_key(self, event: events.Key) -> None:
        if self._take_key(event):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self._search is not None:
            self._search.look_for(
                self._search.query + tidy(event.text[:1_000]).split("\n", 1)[0].replace("\t", " ")
            )
            self._draw()
            return
        self._chosen = None
        if len(event.text) > TIDIED_ASIDE:
            token = self.pastes.fold(event.text, is_tidy=False)
            self.run_worker(partial(self.pastes.content, token), group="paste", thread=True)
            self._insert(token)
        elif text := tidy(event.text):
            paths = readings(text) if self._takes_files(text) else []
            if paths:
                self._hold(text, paths)
            else:
                self._insert(self.pastes.take(text))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        if event.button != 1:
            return
        if event.y < queue_view.height(self._queued, self._steering):
            self._chosen = queue_view.place_at(event.y, self._queued, self._steering, self._chosen)
            self._draw()
            return
        self._chosen = self._search = None
        self._buffer.move(self._offset_under(event), select=event.shift)
        self._dragging = True
        self.capture_mouse()
        self._changed()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._buffer.move(self._offset_under(event), select=True)
            self._changed()

    def on_mouse_up(self) -> None:
        self._dragging = False
        self.release_mouse()

    def on_menu_picked(self, event: CompletionMenu.Picked) -> None:
        event.stop()
        self.menu.step(event.index - self.menu.selected)
        self._complete()

    def _offset_under(self, event: events.MouseEvent) -> int:
        row = self._canvas.top + event.y - queue_view.height(self._queued, self._steering)
        return offset_at(self._buffer.text, self._canvas.rows, row, event.x - GUTTER, self.pastes.labels)

    def _take_key(self, event: events.Key) -> bool:
        typed = event.character or ""
        if not event.is_printable and typed not in _TYPED_TOO:
            typed = ""
        if self._search is not None:
            return self._search_key(event.key, typed)
        if self._chosen is not None:
            return self._choice_key(event.key, typed)
        vi = self._vi
        if vi and vi.mode == "normal" and (typed or event.key in ("ctrl+r", "backspace", "delete")):
            if vi.key(typed or event.key):
                self._changed()
            return True
        # Some terminals send return with shift or alt as a number, which is read without a name.
        key = "shift+enter" if event.key.endswith("\r") else event.key
        command = self._keys.get(key)
        if command is not None:
            return self._run(command)
        if typed:
            self._insert(without_tokens(typed))
        return bool(typed)

    def _run(self, command: str) -> bool:
        """Carry out a command. False when there is nothing for it to do here."""
        name = command.removeprefix("prompt.")
        if command == "prompt.delete_right" and not self._buffer.text:
            return False
        if (edit := keymap.EDITS.get(command)) is not None:
            if name not in ("undo", "redo") and not name.startswith(("select_", "left", "right")):
                self.history.leave()
            edit(self._buffer)
            self._changed()
            return True
        return bool(getattr(self, f"_do_{name}")())

    def _search_key(self, key: str, typed: str) -> bool:
        """A key while the history is searched. Keys that mean nothing here end it and go on to the text."""
        search = self._search
        assert search is not None
        command = self._keys.get(key)
        if typed:
            search.look_for(search.query + typed)
        elif command == "prompt.delete_left":
            search.look_for(search.query[:-1])
        elif command in ("prompt.search", "prompt.up"):
            search.step(1)
        elif command == "prompt.down":
            search.step(-1)
        elif command == "prompt.dismiss":
            return self.dismiss()
        else:
            self._search = None
            if search.match is not None:
                self._replace_all(search.match)
            if command not in ("prompt.submit", "prompt.complete", None):
                self._run(command)
            self._changed()
            return command is not None
        self._draw()
        return True

    def _choice_key(self, key: str, typed: str) -> bool:
        """A key while a queued message is chosen."""
        at = self._chosen or 0
        command = self._keys.get(key)
        if command in ("prompt.up", "prompt.queue") or typed == "k":
            self._chosen = max(at - 1, 0)
        elif command == "prompt.down" or typed == "j":
            self._chosen = at + 1 if at + 1 < len(self._queued) else None
        elif command == "prompt.submit":
            self._recall(at)
        elif typed == "x" or command == "prompt.delete_right":
            text = self._queued[at]
            self.queued = self._queued[:at] + self._queued[at + 1 :]
            self.post_message(self.QueueRemoved(at, text))
        elif command == "prompt.dismiss":
            return self.dismiss()
        else:
            return False
        self._draw()
        return True

    # Commands that concern more than the text

    def _do_submit(self) -> bool:
        if self.menu.is_open and not self.completer.is_exact():
            choice = self._complete()
            if choice is None or not choice.complete:
                return True
        return self._leave(steer=False)

    def _do_steer(self) -> bool:
        return self._leave(steer=True)

    def _do_complete(self) -> bool:
        return self._complete() is not None

    def _do_dismiss(self) -> bool:
        return self.dismiss() or (self._vi is not None and self._leave_insert_mode())

    def _do_up(self) -> bool:
        if self.menu.is_open:
            self.menu.step(-1)
            return True
        return self._walk(-1)

    def _do_down(self) -> bool:
        if self.menu.is_open:
            self.menu.step(1)
            return True
        return self._walk(1)

    def _do_select_up(self) -> bool:
        return self._move_row(-1, select=True)

    def _do_select_down(self) -> bool:
        return self._move_row(1, select=True)

    def _do_search(self) -> bool:
        self.completer.close()
        self._search = HistorySearch(self.history.entries)
        self._draw()
        return True

    def _do_editor(self) -> bool:
        self.post_message(self.EditorRequested(self.text))
        return True

    def _do_queue(self) -> bool:
        if not self._queued:
            return False
        self._chosen = len(self._queued) - 1
        self._draw()
        return True

    def _do_unfold(self) -> bool:
        token = self._token_at_cursor()
        if not token:
            return False
        text = self.pastes.content(token)
        if len(text) > LARGEST_OPEN:
            self._say("This paste is too long to open here; ctrl+g opens it in your editor.")
            return True
        buffer = self._buffer
        at = buffer.cursor if buffer.text[buffer.cursor : buffer.cursor + 1] == token else buffer.cursor - 1
        buffer.replace(at, at + 1, without_tokens(text))
        self._changed()
        return True

    def _paths_settled(self) -> None:
        steer, self._waiting_to_leave = self._waiting_to_leave, None
        if steer is not None:
            self._leave(steer=steer)

    def _leave_insert_mode(self) -> bool:
        left = self._vi is not None and self._vi.escape()
        self._draw()
        return left

    # Steps they are made of

    def _complete(self) -> CompletionChoice | None:
        choice = self.completer.take(self._buffer)
        self._changed()
        if choice is not None and self.look and choice.label.lower().endswith(SUFFIXES):
            self.run_worker(partial(self._attach_chosen, choice), group="attach")
        return choice

    def _leave(self, *, steer: bool) -> bool:
        """Send the text where it goes. The way is chosen by what is seen: a folded paste runs nothing."""
        way = route(self._buffer.text, busy=self._busy, steer=steer)
        if way.kind == "nothing":
            return True
        if self.pastes.is_pending and self._waiting_to_leave is None:
            self._waiting_to_leave = steer
            return True
        sent, whole, images = self.pastes.unfold(way.text), self.text, self.pastes.images(way.text)
        if self.history.add(whole):
            self.run_worker(partial(self._store_history, whole), group="history")
        self.clear()
        self.post_message(self.Submitted(sent, way.kind, images))
        return True

    def _move_row(self, count: int, *, select: bool = False) -> bool:
        moved = self._buffer.move_rows(
            count, self._canvas.rows, lambda piece: width(piece, self.pastes.labels), select=select
        )
        self._changed()
        return moved or select

    def _walk(self, count: int) -> bool:
        """Up or down: through the rows, then the queue, then the history."""
        if self._move_row(count):
            return True
        buffer = self._buffer
        if count < 0 and self._queued and not buffer.text:
            self._recall(len(self._queued) - 1)
            return True
        text = self.history.older(buffer.text) if count < 0 else self.history.newer()
        if text is None:
            return True
        if count < 0 or self.history.is_walking:
            text = tidy(text)
            self._replace_all(text)
        else:
            # The draft is our own text: its folded pastes stay folded.
            buffer.replace(0, len(buffer.text), text)
        if count < 0:
            # At the end of the first row: the next up goes on through the history.
            buffer.move(0)
            buffer.move(buffer.line_end())
        self.completer.forget()
        self._changed()
        return True

    def _recall(self, index: int) -> None:
        text = self._queued[index]
        self._chosen = None
        self.queued = self._queued[:index] + self._queued[index + 1 :]
        self._replace_all(tidy(text))
        self.post_message(self.QueueRecalled(index, text))
        self._changed()

    async def _store_history(self, text: str) -> None:
        try:
            await asyncio.to_thread(self.history.store, text)
        except OSError as error:
            self._say(f"This message was not kept in the history: {error.strerror}.")
