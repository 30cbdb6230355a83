"""The help screen: the keys of the focused widget, all commands, and keys that work everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from app.tui.commands.keys import LETTERS, Keys
from app.tui.commands.registry import NO_KEY, all_commands, group_commands
from app.tui.screens.page import Page
from widgets.key_names import shown_key
from widgets.panes.pane import Pane
from widgets.prompt.keys import EDITS
from widgets.prompt.keys import KEYS as PROMPT_KEYS
from widgets.prompt.widget import Prompt
from widgets.rows.row_list import ReadingRows, RowList
from widgets.rows.row_text import fit, one_line
from widgets.transcript.view import Transcript

KEY_CELLS = 18
"""The width in cells of the column of keys, including two blanks."""
SLASH_CELLS = 14
WIDE = 110
"""The width in cells from which a command and its description share one line."""

EVERYWHERE = (*LETTERS.items(), ("j k", "down, up (arrows work too)"), ("tab", "next region"))
"""Keys with the same meaning in all lists."""


PROMPT, EDITING = "Here: prompt", "Editing in the prompt"
ESSENTIAL = (
    ("/", "", "Commands by name, skills too"),
    ("@", "", "Attach a file, its lines, a folder or a page; send an agent"),
    ("!", "", "Run a shell command yourself"),
    ("", "program.palette", "Find any command"),
    ("", "session.model", "Choose the model, connect one"),
    ("esc esc", "", "Go back to before one of your messages"),
    ("", "session.undo", "Take back the last turn, the files with it"),
    ("", "session.timeline", "See all turns and branches"),
    ("", "view.jump", "Go to tasks, agents, log or files by a letter"),
    ("", "program.mode", "Next mode: what may run without asking"),
)
"""The most important keys: as typed, or by the id of the command that has the key; with a description."""
SOMETIMES = ("stop", "quit", "jump_to_end")
"""Actions whose keys the prompt handles while it holds text."""


@dataclass(frozen=True, slots=True)
class HelpEntry:
    """A command or key for the list; without a name, the title of a section."""

    section: str
    name: str = ""
    keys: str = ""
    slash: str = ""
    about: str = ""

    @property
    def text(self) -> str:
        """The entry as text for search and copying; empty for a title."""
        return "  ".join(filter(None, (self.keys, self.slash, self.name, self.about))) if self.name else ""


class HelpScreen(Page[None]):
    """One page of keys and commands that can be filtered."""

    heading = "Help"
    keys = "↑↓ PgUp PgDn move · / filter · y copy · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1,question_mark", "back", "Back", id="help.back")]

    def __init__(self, here: Sequence[HelpEntry], keys: Keys) -> None:
        """`here` lists the keys of the widget that had the focus, `keys` are the bindings in effect."""
        editing = [each for each in here if each.section == EDITING]
        places = [each for each in here if each.section != EDITING]
        at_prompt = any(each.section == PROMPT for each in here)
        first = [*essential(keys), *places] if at_prompt else [*places, *essential(keys)]
        super().__init__(HelpRows([*with_titles([*first, *commands(keys), *everywhere(), *editing])]))

    def on_mount(self) -> None:
        self.rows.move_to(1)


class HelpRows(ReadingRows):
    """The entries, each on one or two lines."""

    def __init__(self, entries: Sequence[HelpEntry]) -> None:
        self._entries = entries
        self._names = max((len(each.name) for each in entries if each.about), default=0) + 2
        super().__init__(self._lines, search_text=self._text, count=len(entries))

    def _text(self, index: int) -> str:
        entry = self._entries[index]
        return f"{entry.text}  {entry.section}" if entry.text else ""

    def _lines(self, index: int, width: int) -> list[Text]:
        entry = self._entries[index]
        if not entry.name:
            title = Text(f" {entry.section}", self.ink("accent", bold=True))
            return [Text(" "), fit(title, width)] if index else [fit(title, width)]
        first, *more = in_column(entry.keys, KEY_CELLS - 2)
        line = self._lead(first)
        if entry.slash or entry.about:
            line.append(f"{entry.slash:<{SLASH_CELLS}}", self.ink("accent"))
        line.append(entry.name, self.ink("text"))
        wide = width >= WIDE
        indent = SLASH_CELLS + self._names if wide else 0
        room = max(width - 2 - KEY_CELLS - indent - 1, 20)
        about = [*Text(entry.about, self.ink("dim")).wrap(self.app.console, room)] if entry.about else []
        if wide and about:
            gap = 1 + KEY_CELLS + indent - line.cell_len
            line.append(" " * max(gap, 2)).append_text(about.pop(0))
        below = [
            self._lead(keys).append(" " * indent).append_text(words)
            for keys, words in zip_longest(more, about, fillvalue=Text())
        ]
        return [fit(each, width) for each in (line, *below)]

    def _lead(self, keys: str | Text) -> Text:
        """Return the gutter and the column of keys."""
        return Text(f" {keys!s:<{KEY_CELLS}}", self.ink("text"))


def in_column(keys: str, cells: int) -> list[str]:
    """Split the keys at blanks into lines of at most `cells`, at least one key each. Pure."""
    lines: list[str] = [""]
    for key in keys.split():
        if lines[-1] and len(f"{lines[-1]} {key}") > cells:
            lines.append(key)
        else:
            lines[-1] = f"{lines[-1]} {key}".lstrip()
    return lines


def here(screen: Screen[Any], keys: Keys) -> list[HelpEntry]:
    """Return the keys of the focused widget and its ancestors, without those of commands."""
    if isinstance(screen.focused, Prompt):
        taken = {
            key
            for each in all_commands()
            if each.first and not each.by_prompt and each.action not in SOMETIMES
            for key in keys.of(each.id)
        }
        return [
            HelpEntry(edits(key.id) or PROMPT, key.description, " ".join(map(shown_key, working)))
            for key in PROMPT_KEYS
            if (working := [each for each in keys.of(key.id) if each not in taken])
        ]
    found: dict[tuple[DOMNode, str], tuple[Binding, list[str]]] = {}
    for key, active in screen.active_bindings.items():
        binding = active.binding
        hidden = key.startswith(NO_KEY) or not binding.description
        if not (hidden or isinstance(active.node, App) or binding.action.startswith("app.")):
            found.setdefault((active.node, binding.action), (binding, []))[1].append(shown_key(key))
    return [
        HelpEntry(f"Here: {place(node)}", binding.description, " ".join(pressed))
        for (node, _), (binding, pressed) in found.items()
    ]


def edits(id: str) -> str:
    """Return the section `EDITING` for a key that moves in the prompt's text or changes it, else ""."""
    only = (id in EDITS and id != "prompt.newline") or id.startswith("prompt.select_")
    return EDITING if only else ""


def essential(keys: Keys) -> Iterator[HelpEntry]:
    """Yield the most important keys; commands without a key are left out."""
    for typed, id, words in ESSENTIAL:
        if shown := typed or keys.label(id):
            yield HelpEntry("What makes Hermes", words, shown)


def place(node: DOMNode) -> str:
    """Return the display name of a part of the screen."""
    match node:
        case Transcript():
            return "conversation"
        case Pane():
            return one_line(node.title).lower()
        case Page():
            return node.heading.lower()
        case RowList():
            return "list"
        case _:
            name = re.sub(r"Screen$", "", type(node).__name__)
            return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def commands(keys: Keys) -> Iterator[HelpEntry]:
    """Yield every command of the registry."""
    for group, members in group_commands(all_commands()):
        for each in members:
            slash = f"/{each.slash}" if each.slash else ""
            yield HelpEntry(group, each.name, keys.label(each.id), slash, each.description)


def everywhere() -> Iterator[HelpEntry]:
    """Yield the keys with the same meaning in all lists."""
    for keys, words in EVERYWHERE:
        yield HelpEntry("The same in every list", words, keys)


def with_titles(entries: Sequence[HelpEntry]) -> Iterator[HelpEntry]:
    """Yield the entries with a title before each section."""
    section = ""
    for entry in entries:
        if entry.section != section:
            section = entry.section
            yield HelpEntry(section)
        yield entry
