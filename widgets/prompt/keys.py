"""Keys of the prompt: commands, mapping, and the hints below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from widgets.key_names import shown_key
from widgets.prompt.buffer import Buffer, without_tokens
from widgets.prompt.completion import Completer, CompletionChoice
from widgets.prompt.draft import Draft, tidy
from widgets.prompt.grapheme_cells import width
from widgets.prompt.history import History, HistorySearch
from widgets.prompt.messages import route
from widgets.prompt.picture import PromptPicture, QueueView


class PromptState(NamedTuple):
    """The state that decides which key hints are shown."""

    text: str
    busy: bool = False
    queued: int = 0
    """The number of messages that wait."""
    chosen: bool = False
    """Whether one of them is chosen."""
    menu: bool = False
    """Whether the completion menu is open."""
    token: bool = False
    """Whether the cursor touches a folded paste."""
    vi: str | None = None
    """The part of a vi command typed so far; None outside of normal mode."""


class KeyHints:
    """The commands by key, and the displayed key of each command."""

    def __init__(self) -> None:
        self.commands: Mapping[str, str] = {}
        """The command id for each key."""
        self._shown: dict[str, str] = {}
        self.stop_key = "esc"
        """The displayed key that stops the turn; the application handles it, not the prompt."""
        self.bind({})

    def bind(self, changes: Mapping[str, str]) -> None:
        """Assign other keys to commands (ids of `KEYS`), as in `{"prompt.steer": "f2"}`."""
        self.commands = key_table(changes)
        self._shown = {}
        for key, command in self.commands.items():
            self._shown.setdefault(command, shown_key(key))

    def words(self, state: PromptState) -> list[str]:
        """Return the current key hints, most important last."""
        if state.chosen:
            return ["d delete", "⏎ take back", "esc back"]
        hints: list[str] = []
        if state.vi is not None:
            hints.append(f"vi {state.vi}".rstrip())
        if state.menu:
            return [*hints, *self._hint("prompt.submit", "take"), *self._hint("prompt.dismiss", "close")]
        if state.token:
            hints += self._hint("prompt.unfold", "open")
        if state.text.lstrip("\n").startswith(("/", "!")) and (
            route(state.text, busy=False, steer=False).kind in ("command", "shell")
        ):
            hints += self._hint("prompt.submit", "run")
        elif state.busy:
            hints += [f"queued {state.queued}"] if state.queued else []
            hints += [*self._hint("prompt.submit", "queue"), *self._hint("prompt.steer", "steer")]
        elif state.queued and not state.text.strip():
            hints += [f"queued {state.queued}", *self._hint("prompt.queue", "choose")]
            hints += self._hint("prompt.submit", "send them" if state.queued > 1 else "send it")
        else:
            hints += self._hint("prompt.submit", "send")
        return [*hints, f"{self.stop_key} stop"] if state.busy and self.stop_key else hints

    def _hint(self, command: str, word: str) -> list[str]:
        """Return the hint of a command, none for a command without a key."""
        key = self._shown.get(command)
        return [] if key is None else [f"{key} {word}"]


class PromptKeysHost(Protocol):
    """The methods of the prompt that `PromptKeys` uses."""

    def insert(self, text: str) -> None:
        """Insert text at the cursor."""

    def draft_changed(self, *, typed: bool = True) -> None:
        """Handle a changed text or cursor."""

    def draw(self) -> None:
        """Update the screen."""

    def leave(self, *, steer: bool) -> bool:
        """Send the text; return True if the key is handled."""
        ...

    def edit_elsewhere(self) -> None:
        """Request to edit the text in an external editor."""

    def post_recall(self, index: int, text: str) -> None:
        """Post a message that a queued message was taken back into the prompt."""

    def post_removal(self, index: int, text: str) -> None:
        """Post a request to drop a queued message."""

    def take_choice(self, choice: CompletionChoice) -> None:
        """Handle a menu choice that was inserted."""

    def say(self, sentence: str) -> None:
        """Show a sentence to the user."""


class PromptKeys:
    """The key handling of a prompt. An open search and a selected queue message get keys first."""

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
        """The open search through the history; None if there is none."""

    def take(self, key: str, typed: str) -> bool:
        """Handle a key, given by name and typed text; return False if it has no use here."""
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
        """Close the menu, search or selection above the text; return False if none was open."""
        if self.search is not None or self._queue.chosen is not None:
            self.search = self._queue.chosen = None
            self._host.draw()
            return True
        closed = self._completer.close()
        self._host.draw()
        return closed

    def complete(self) -> CompletionChoice | None:
        """Insert the selected menu choice; return None if the menu is not open."""
        choice = self._completer.take(self._draft.buffer)
        self._host.draft_changed()
        if choice is not None:
            self._host.take_choice(choice)
        return choice

    def _run(self, command: str) -> bool:
        """Run a command; return False if it has no use here."""
        name = command.removeprefix("prompt.")
        if command == "prompt.delete_right" and not self._draft.buffer.text:
            return False
        if (edit := EDITS.get(command)) is not None:
            if name not in ("undo", "redo") and not name.startswith(("select_", "left", "right")):
                self._history.leave()
            edit(self._draft.buffer)
            self._host.draft_changed()
            return True
        return bool(getattr(self, f"_do_{name}")())

    def _search_key(self, search: HistorySearch, key: str, typed: str) -> bool:
        """Handle a key during a history search. An unused key ends the search and is applied to the text."""
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
        """Handle a key while the queued message `at` is selected."""
        command = self._hints.commands.get(key)
        if command in ("prompt.up", "prompt.queue"):
            self._queue.step(-1)
        elif command == "prompt.down":
            self._queue.step(1)
        elif command == "prompt.submit":
            self._recall(at)
        elif typed == "d" or command == "prompt.delete_right":
            self._host.post_removal(at, self._queue.take(at))
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
        """Move up or down: in the menu, else through the rows, the queue, then the history."""
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
            # At the end of the first row: the next up moves through the history.
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
        self._host.post_recall(index, text)
        self._host.draft_changed()


class Key(NamedTuple):
    """A command of the prompt and its default keys."""

    id: str
    keys: tuple[str, ...]
    description: str


KEYS: tuple[Key, ...] = (
    Key("prompt.submit", ("enter",), "Send, or queue while the agent works"),
    Key("prompt.steer", ("ctrl+s",), "Steer: the running turn reads it next"),
    Key("prompt.newline", ("ctrl+j", "shift+enter", "alt+enter"), "New line"),
    Key("prompt.complete", ("tab",), "Take the selected completion"),
    Key("prompt.dismiss", ("escape", "ctrl+c"), "Close the menu or the search"),
    Key("prompt.up", ("up",), "Up a row, or an older message"),
    Key("prompt.down", ("down",), "Down a row, or a newer message"),
    Key("prompt.select_up", ("shift+up",), "Select up a row"),
    Key("prompt.select_down", ("shift+down",), "Select down a row"),
    Key("prompt.search", ("ctrl+r",), "Search what was sent before"),
    Key("prompt.editor", ("ctrl+g",), "Write in your editor"),
    Key("prompt.unfold", ("alt+p",), "Open the folded paste at the cursor"),
    Key("prompt.queue", ("alt+up",), "Choose among queued messages"),
    Key("prompt.left", ("left", "ctrl+b"), "Left"),
    Key("prompt.right", ("right", "ctrl+f"), "Right"),
    Key("prompt.word_left", ("ctrl+left", "alt+left", "alt+b"), "Word left"),
    Key("prompt.word_right", ("ctrl+right", "alt+right", "alt+f"), "Word right"),
    Key("prompt.line_start", ("home", "ctrl+a"), "Start of the line"),
    Key("prompt.line_end", ("end", "ctrl+e"), "End of the line"),
    Key("prompt.start", ("ctrl+home",), "Start of the text"),
    Key("prompt.end", ("ctrl+end",), "End of the text"),
    Key("prompt.select_left", ("shift+left",), "Select left"),
    Key("prompt.select_right", ("shift+right",), "Select right"),
    Key("prompt.select_word_left", ("ctrl+shift+left",), "Select word left"),
    Key("prompt.select_word_right", ("ctrl+shift+right",), "Select word right"),
    Key("prompt.select_line_start", ("shift+home",), "Select to the start of the line"),
    Key("prompt.select_line_end", ("shift+end",), "Select to the end of the line"),
    Key("prompt.delete_left", ("backspace", "ctrl+h"), "Delete left"),
    Key("prompt.delete_right", ("delete", "ctrl+d"), "Delete right"),
    Key("prompt.kill_blank_left", ("ctrl+w",), "Cut back to the blank"),
    Key("prompt.kill_word_left", ("alt+backspace", "ctrl+backspace"), "Cut the word left"),
    Key("prompt.kill_word_right", ("alt+d", "ctrl+delete"), "Cut the word right"),
    Key("prompt.kill_line_start", ("ctrl+u",), "Cut to the start of the line"),
    Key("prompt.kill_line_end", ("ctrl+k",), "Cut to the end of the line"),
    Key("prompt.yank", ("ctrl+y",), "Insert what was cut"),
    Key("prompt.undo", ("ctrl+underscore", "ctrl+z"), "Undo"),
    Key("prompt.redo", ("alt+z", "ctrl+shift+z"), "Redo"),
)
"""Every command of the prompt."""

EDITS: Mapping[str, Callable[[Buffer], object]] = {
    "prompt.left": lambda b: b.move(b.selection[0] if b.selection else b.previous_character()),
    "prompt.right": lambda b: b.move(b.selection[1] if b.selection else b.next_character()),
    "prompt.word_left": lambda b: b.move(b.previous_word()),
    "prompt.word_right": lambda b: b.move(b.next_word()),
    "prompt.line_start": lambda b: b.move(b.line_start()),
    "prompt.line_end": lambda b: b.move(b.line_end()),
    "prompt.start": lambda b: b.move(0),
    "prompt.end": lambda b: b.move(len(b.text)),
    "prompt.select_left": lambda b: b.move(b.previous_character(), select=True),
    "prompt.select_right": lambda b: b.move(b.next_character(), select=True),
    "prompt.select_word_left": lambda b: b.move(b.previous_word(), select=True),
    "prompt.select_word_right": lambda b: b.move(b.next_word(), select=True),
    "prompt.select_line_start": lambda b: b.move(b.line_start(), select=True),
    "prompt.select_line_end": lambda b: b.move(b.line_end(), select=True),
    "prompt.delete_left": lambda b: b.delete(b.previous_character()),
    "prompt.delete_right": lambda b: b.delete(b.next_character()),
    "prompt.kill_blank_left": lambda b: b.kill(b.previous_blank()),
    "prompt.kill_word_left": lambda b: b.kill(b.previous_word()),
    "prompt.kill_word_right": lambda b: b.kill(b.next_word()),
    "prompt.kill_line_start": lambda b: b.kill_to_line_start(),
    "prompt.kill_line_end": lambda b: b.kill_to_line_end(),
    "prompt.yank": lambda b: b.yank(),
    "prompt.undo": lambda b: b.undo(),
    "prompt.redo": lambda b: b.redo(),
    "prompt.newline": lambda b: b.insert("\n"),
}
"""The commands that concern only the text and the cursor."""


def key_table(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return command ids by key. `changes` assigns ids other keys, as `"ctrl+x,f2"`, or none if empty."""
    changes = changes or {}
    table: dict[str, str] = {}
    for known in KEYS:
        if known.id not in changes:
            table.update(dict.fromkeys(known.keys, known.id))
    for known in KEYS:
        if known.id in changes:
            keys = (key.strip() for key in changes[known.id].split(","))
            table.update(dict.fromkeys(filter(None, keys), known.id))
    return table
