"""The keys of the prompt by what they do now, and the words for them at the right of its last row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from widgets.key_names import shown_key
from widgets.prompt import keymap
from widgets.prompt.router import route


class PromptState(NamedTuple):
    """What decides which keys are worth a word."""

    text: str
    busy: bool = False
    queued: int = 0
    """How many messages wait."""
    chosen: bool = False
    """Whether one of them is chosen."""
    menu: bool = False
    """Whether the completion menu is open."""
    token: bool = False
    """Whether the cursor touches a folded paste."""
    vi: str | None = None
    """What was typed of a command of vi; None outside of its normal mode."""


class KeyHints:
    """The commands by key, and the first key of each as it is shown."""

    def __init__(self) -> None:
        self.commands: Mapping[str, str] = {}
        """The id of the command of each key."""
        self._shown: dict[str, str] = {}
        self.stop_key = "esc"
        """How the key that stops the turn is shown; it is the application's, not the prompt's."""
        self.bind({})

    def bind(self, changes: Mapping[str, str]) -> None:
        """Give commands (ids of `keymap.KEYS`) other keys, as `{"prompt.steer": "f2"}`."""
        self.commands = keymap.bound(changes)
        self._shown = {}
        for key, command in self.commands.items():
            self._shown.setdefault(command, shown_key(key))

    def words(self, state: PromptState) -> list[str]:
        """What the keys do now, most important last."""
        if state.chosen:
            return ["x delete", "⏎ take back", "esc back"]
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
        """The first key of a command and what it does; nothing for a command without a key."""
        key = self._shown.get(command)
        return [] if key is None else [f"{key} {word}"]
