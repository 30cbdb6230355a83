"""Keys of the prompt carried out: on the text, the menu, the queue and the history."""

from __future__ import annotations

from typing import Protocol

from widgets.prompt import keymap
from widgets.prompt.buffer import without_tokens
from widgets.prompt.completer import Completer
from widgets.prompt.completion import CompletionChoice
from widgets.prompt.draft import Draft
from widgets.prompt.grapheme_cells import width
from widgets.prompt.hints import KeyHints
from widgets.prompt.history import History, HistorySearch
from widgets.prompt.pastes import tidy
from widgets.prompt.picture import PromptPicture
from widgets.prompt.queue_view import QueueView


class PromptKeysHost(Protocol):
    """What is asked of the prompt."""

    def insert(self, text: str) -> None:
        """Put a text in at the cursor."""

    def draft_changed(self, *, typed: bool = True) -> None:
        """The text or the cursor is another one."""

    def draw(self) -> None:
        """Bring the screen up to date."""

    def leave(self, *, steer: bool) -> bool:
        """Send the text where it goes. True: the key has done its work."""
        ...

    def edit_elsewhere(self) -> None:
        """The person wants to go on in an editor of their own."""

    def recalled(self, index: int, text: str) -> None:
        """A queued message was taken back into the prompt."""

    def removed(self, index: int, text: str) -> None:
        """A queued message is to be dropped."""

    def completed(self, choice: CompletionChoice) -> None:
        """A choice of the menu was put into the text."""

    def say(self, sentence: str) -> None:
        """Tell the person."""


class PromptKeys:
    """Carries out keys on the parts of a prompt; an open search and a choice in the queue come first."""

    def __init__(
        self,
        draft: Draft,
        queue: QueueView,
        history: History,
        completer: Completer,
        hints: KeyHints,
        picture: PromptPicture,
        host: PromptKeysHost,
    ) -> None:
        self._draft = draft
        self._queue = queue
        self._history = history
        self._completer = completer
        self._hints = hints
        self._picture = picture
        self._host = host
        self.search: HistorySearch | None = None
        """The search through the history that is open."""

    def take(self, key: str, typed: str) -> bool:
        """A key by its name, and what it types. False when there is nothing for it to do here."""
        if self.search is not None:
            return self._search_key(self.search, key, typed)
        if self._queue.chosen is not None:
            return self._choice_key(self._queue.chosen, key, typed)
        vi = self._draft.vi
        if vi and vi.mode == "normal" and (typed or key in ("ctrl+r", "backspace", "delete")):
            if vi.key(typed or key):
                self._host.draft_changed()
            return True
        command = self._hints.commands.get(key)
        if command is not None:
            return self._run(command)
        if typed:
            self._host.insert(without_tokens(typed))
        return bool(typed)

    def dismiss(self) -> bool:
        """Close what is open above the text: menu, search, choice. False when nothing was."""
        if self.search is not None or self._queue.chosen is not None:
            self.search = self._queue.chosen = None
            self._host.draw()
            return True
        closed = self._completer.close()
        self._host.draw()
        return closed

    def complete(self) -> CompletionChoice | None:
        """Put the selected choice of the menu into the text. None when it is not open."""
        choice = self._completer.take(self._draft.buffer)
        self._host.draft_changed()
        if choice is not None:
            self._host.completed(choice)
        return choice

    def _run(self, command: str) -> bool:
        """Carry out a command. False when there is nothing for it to do here."""
        name = command.removeprefix("prompt.")
        if command == "prompt.delete_right" and not self._draft.buffer.text:
            return False
        if (edit := keymap.EDITS.get(command)) is not None:
            if name not in ("undo", "redo") and not name.startswith(("select_", "left", "right")):
                self._history.leave()
            edit(self._draft.buffer)
            self._host.draft_changed()
            return True
        return bool(getattr(self, f"_do_{name}")())

    def _search_key(self, search: HistorySearch, key: str, typed: str) -> bool:
        """A key while the history is searched. Keys that mean nothing here end it and go on to the text."""
        command = self._hints.commands.get(key)
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
            self.search = None
            if search.match is not None:
                self._draft.replace(search.match)
            if command not in ("prompt.submit", "prompt.complete", None):
                self._run(command)
            self._host.draft_changed()
            return command is not None
        self._host.draw()
        return True

    def _choice_key(self, at: int, key: str, typed: str) -> bool:
        """A key while the queued message `at` is chosen."""
        command = self._hints.commands.get(key)
        if command in ("prompt.up", "prompt.queue"):
            self._queue.step(-1)
        elif command == "prompt.down":
            self._queue.step(1)
        elif command == "prompt.submit":
            self._recall(at)
        elif typed == "x" or command == "prompt.delete_right":
            self._host.removed(at, self._queue.take(at))
        elif command == "prompt.dismiss":
            return self.dismiss()
        elif typed:
            self._queue.chosen = None
            self._host.insert(without_tokens(typed))
        else:
            return False
        self._host.draw()
        return True

    # Commands that concern more than the text

    def _do_submit(self) -> bool:
        if self._completer.menu.is_open and not self._completer.is_exact():
            choice = self.complete()
            if choice is None or not choice.complete:
                return True
        return self._host.leave(steer=False)

    def _do_steer(self) -> bool:
        return self._host.leave(steer=True)

    def _do_complete(self) -> bool:
        return self.complete() is not None

    def _do_dismiss(self) -> bool:
        if self.dismiss():
            return True
        vi = self._draft.vi
        left = vi is not None and vi.escape()
        self._host.draw()
        return left

    def _do_up(self) -> bool:
        return self._step(-1)

    def _do_down(self) -> bool:
        return self._step(1)

    def _do_select_up(self) -> bool:
        return self._move_row(-1, select=True)

    def _do_select_down(self) -> bool:
        return self._move_row(1, select=True)

    def _do_search(self) -> bool:
        self._completer.close()
        self.search = HistorySearch(self._history.entries)
        self._host.draw()
        return True

    def _do_editor(self) -> bool:
        self._host.edit_elsewhere()
        return True

    def _do_queue(self) -> bool:
        if not self._queue.choose_last():
            return False
        self._host.draw()
        return True

    def _do_unfold(self) -> bool:
        token = self._draft.token_at_cursor()
        if not token:
            return False
        if self._draft.unfold(token):
            self._host.draft_changed()
        else:
            self._host.say("This paste is too long to open here; ctrl+g opens it in your editor.")
        return True

    # Steps they are made of

    def _step(self, count: int) -> bool:
        """Up or down: in the menu, else through the rows, then the queue, then the history."""
        if self._completer.menu.is_open:
            self._completer.menu.step(count)
            return True
        if self._move_row(count):
            return True
        buffer = self._draft.buffer
        if count < 0 and self._queue.queued and not buffer.text:
            self._recall(len(self._queue.queued) - 1)
            return True
        text = self._history.older(buffer.text) if count < 0 else self._history.newer()
        if text is None:
            return True
        if count < 0 or self._history.is_walking:
            self._draft.replace(tidy(text))
        else:
            # The draft is our own text: its folded pastes stay folded.
            buffer.replace(0, len(buffer.text), text)
        if count < 0:
            # At the end of the first row: the next up goes on through the history.
            buffer.move(0)
            buffer.move(buffer.line_end())
        self._completer.forget()
        self._host.draft_changed()
        return True

    def _move_row(self, count: int, *, select: bool = False) -> bool:
        labels = self._draft.pastes.labels
        moved = self._draft.buffer.move_rows(
            count, self._picture.rows, lambda piece: width(piece, labels), select=select
        )
        self._host.draft_changed()
        return moved or select

    def _recall(self, index: int) -> None:
        """Take a queued message back into the text."""
        self._queue.chosen = None
        text = self._queue.take(index)
        self._draft.replace(tidy(text))
        self._host.recalled(index, text)
        self._host.draft_changed()
