"""The keys of the prompt: each editing command has an id, so that keys can be given anew.

The prompt looks its keys up itself instead of leaving them to bindings: those
run after the key has travelled up the screen, and what is typed fast would overtake them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from widgets.prompt.buffer import Buffer


class Key(NamedTuple):
    """A command of the prompt and the keys that run it by default."""

    id: str
    keys: tuple[str, ...]
    description: str


KEYS: tuple[Key, ...] = (
    Key("prompt.submit", ("enter",), "Send, or queue while the agent works"),
    Key("prompt.steer", ("ctrl+s",), "Let the running turn hear it"),
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
"""The commands that concern the text alone."""


def bound(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Command ids by key. `changes` gives ids other keys, as `"ctrl+x,f2"`; an empty text gives it none."""
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
