"""Key bindings from the setting `keys`: what can be bound, the bindings, and problems in the setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from app.tui.commands.registry import BY_ID, COMMANDS, NO_KEY
from tools.text.safe_text import reveal
from widgets.key_names import read_key, shown_key, types_text

Surface = Literal["session", "prompt", "conversation", "lists", "bar", "frame"]
"""Where a key works. Keys of the session take precedence over the focused widget."""

LETTERS: Mapping[str, str] = {
    "⏎": "open or choose",
    "n": "new",
    "e": "edit",
    "r": "rename",
    "d": "delete; u takes it back",
    "space": "mark; in a text: fold",
    "y": "copy",
    "/": "filter",
    "s": "scope or sort",
    "x": "stop",
    "p": "pause or resume",
    "t": "trust or allow",
    "i": "details",
    "u": "undo",
    "F5": "again: count, read, check, run or start",
    "?": "the keys of the place",
    "esc": "back",
    "g G": "first, last",
    "n N": "in a text: next, previous",
}
"""The meanings of keys that are the same in every list."""
ALIASES = {"turn.steer": "prompt.steer"}
"""Commands whose keys are bound under another id in the prompt."""
NEVER_WITHOUT = {
    "program.back": "nothing could be stopped or left",
    "prompt.submit": "nothing could be sent",
}
"""Commands that must have a key, each with the consequence of having none."""
_EDITING = frozenset(
    {"enter", "tab", "shift+tab", "backspace", "delete", "escape"}
    | {"up", "down", "left", "right", "home", "end", "pageup", "pagedown"}
)
"""Keys that no command of the session may take, because the focused widget needs them."""
_LONGEST = 200
_PREFIXES: Mapping[str, Surface] = {
    "prompt": "prompt",
    "transcript": "conversation",
    "rows": "lists",
    "pane": "lists",
    "agents": "lists",
    "files": "lists",
    "bar": "bar",
    "workbench": "frame",
}


@dataclass(frozen=True, slots=True)
class Bindable:
    """A command or widget action that can have keys."""

    id: str
    name: str
    keys: tuple[str, ...]
    """The default keys, by Textual's names."""
    surface: Surface
    first: bool = False
    """True if its keys are handled before the focused widget sees them."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The key bindings in effect, by command id."""

    by_id: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()
    """Problems in the setting and consequences of its entries, one sentence each."""
    changed: frozenset[str] = field(default_factory=frozenset)
    """The ids whose keys differ from the defaults."""

    def of(self, id: str) -> tuple[str, ...]:
        """Return the keys of a command; empty if it has none."""
        found = self.by_id.get(ALIASES.get(id, id))
        if found is None:  # a command found later has the keys it declares
            return BY_ID[id].keys if id in BY_ID else ()
        return found

    def label(self, id: str) -> str:
        """Return the keys of a command in a terminal's notation, such as `^P`; empty if it has none."""
        return " ".join(map(shown_key, self.of(id)))

    def hints(self) -> list[str]:
        """Return two lines for an empty conversation with the most important keys."""
        words = {
            "program.palette": "finds a command",
            "program.help": "shows the keys",
            "session.undo": "undoes a turn, files too",
        }
        known = [f"{key} {what}" for id, what in words.items() if (key := self.label(id))]
        return ["@ adds a file · ! runs a command · / lists the commands", " · ".join(known)]

    def keymap(self) -> dict[str, str]:
        """Return the argument for `App.set_keymap`.

        A keymap cannot remove a key, so a key that nobody can press replaces it.
        """
        return {id: ",".join(self.by_id[id]) or NO_KEY + id for id in self.changed if not _by_prompt(id)}

    def for_prompt(self) -> dict[str, str]:
        """Return the argument for `Prompt.bind_keys`."""
        return {id: ",".join(self.by_id[id]) for id in self.changed if _by_prompt(id)}


def _by_prompt(id: str) -> bool:
    return id.startswith("prompt.")


@lru_cache(maxsize=1)
def bindables() -> Mapping[str, Bindable]:
    """Return everything that can have keys, by id: commands, then the prompt, then conversation and panes."""
    found: dict[str, Bindable] = {}
    for each in (*_commands(), *_prompt(), *_widgets()):
        found.setdefault(each.id, each)
    return MappingProxyType(found)


def _commands() -> Iterator[Bindable]:
    for command in COMMANDS:
        if not command.by_prompt:
            yield Bindable(command.id, command.name, command.keys, "session", command.first)


def _prompt() -> Iterator[Bindable]:
    from widgets.prompt.keys import KEYS

    for key in KEYS:
        yield Bindable(key.id, key.description, key.keys, "prompt")


def _widgets() -> Iterator[Bindable]:
    from textual.binding import Binding

    from widgets.panes.agents import AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.pane import Pane, PaneBar
    from widgets.panes.workbench import Workbench
    from widgets.rows.row_list import ReadingRows, RowList
    from widgets.transcript.view import Transcript

    for owner in (Transcript, RowList, ReadingRows, Pane, AgentsPane, FilesPane, PaneBar, Workbench):
        for binding in owner.BINDINGS:
            if isinstance(binding, Binding) and binding.id:
                keys = tuple(key.key for key in Binding.make_bindings([binding]))
                surface = _PREFIXES[binding.id.partition(".")[0]]
                yield Bindable(binding.id, binding.description, keys, surface)


def resolve(wishes: Mapping[str, str]) -> Keys:
    """Return the key bindings that result from the setting `keys`. Never raises.

    An entry that cannot be granted leaves the default keys and becomes a problem.
    """
    known = bindables()
    if not wishes:
        return Keys({id: each.keys for id, each in known.items()})
    problems: list[str] = []
    granted = _grant_keys(_read(wishes, problems), problems)
    by_id = {**_left_over(granted, problems), **granted}
    changed = frozenset(id for id, keys in by_id.items() if keys != known[id].keys)
    return Keys(by_id, tuple(problems), changed)


def _read(wishes: Mapping[str, str], problems: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the entries that are valid on their own, ordered by priority.

    Commands that must keep a key come first, then those whose keys precede the focused widget's.
    """
    read: dict[str, tuple[str, ...]] = {}
    for given, text in wishes.items():
        id = ALIASES.get(given, given)
        bindable = bindables().get(id)
        if bindable is None:
            problems.append(_unknown(given))
        elif id in read:
            problems.append(_problem(given, f"`{id}` means the same and is given too; this one is left out"))
        elif not text.strip() and id in NEVER_WITHOUT:
            problems.append(
                _problem(given, f"without a key {NEVER_WITHOUT[id]}; it keeps {_keys_text(bindable.keys)}")
            )
        elif (keys := _keys_of(given, text, bindable, problems)) is not None:
            read[id] = keys

    def rank(wish: tuple[str, tuple[str, ...]]) -> tuple[bool, bool]:
        return wish[0] not in NEVER_WITHOUT, not bindables()[wish[0]].first

    return dict(sorted(read.items(), key=rank))


def _keys_of(given: str, text: str, bindable: Bindable, problems: list[str]) -> tuple[str, ...] | None:
    """Return the keys that an entry names, empty if it asks for none; None if none is available."""
    if len(text) > _LONGEST:
        problems.append(_problem(given, "that is not a list of keys"))
        return None
    keys: list[str] = []
    pieces = [piece for piece in text.split(",") if piece.strip()]
    if text.strip() and not pieces:
        pieces = [","]
    for piece in pieces:
        try:
            key = read_key(piece)
        except ValueError as error:
            problems.append(_problem(given, f"`{_shorten(piece)}` {error}"))
            continue
        if reason := _refusal(key, bindable):
            problems.append(_problem(given, f"{shown_key(key)} {reason}"))
        elif key not in keys:
            keys.append(key)
    return tuple(keys) if keys or not pieces else None


def _refusal(key: str, bindable: Bindable) -> str:
    """Return the reason why a command may not have a key, ignoring other commands; empty if it may."""
    if key in bindable.keys:
        return ""
    if bindable.surface in ("session", "prompt") and types_text(key):
        return "types a character; it would be missing from the prompt"
    if bindable.surface == "session" and key in _EDITING:
        return "is needed by whatever has the focus"
    return ""


def _grant_keys(wishes: Mapping[str, tuple[str, ...]], problems: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the wished keys of each command that no other command keeps; the others become problems."""
    granted: dict[str, tuple[str, ...]] = {}
    pending = set(wishes)
    for id, wished in wishes.items():
        pending.remove(id)
        keys: list[str] = []
        for key in wished:
            holder = _holder(key, id, granted, pending)
            if holder is None:
                keys.append(key)
            else:
                problems.append(
                    _problem(id, f"{shown_key(key)} is taken by {_command_label(holder)} already")
                )
        if keys or not wished:
            granted[id] = tuple(keys)
    return granted


def _holder(key: str, id: str, granted: Mapping[str, tuple[str, ...]], pending: set[str]) -> str | None:
    """Return the command that keeps `id` from having the key; None if the key is free.

    Such a command has the key by another entry, or as a default that must remain or takes precedence.
    """
    one = bindables()[id]
    for other, two in bindables().items():
        if other == id or other in pending:
            continue
        same = one.surface == two.surface
        if other in granted:
            if key in granted[other] and (same or one.first or two.first):
                return other
        elif (
            key in two.keys
            and key not in one.keys
            and ((same and other in NEVER_WITHOUT) or (two.first and not same))
        ):
            return other
    return None


def _left_over(granted: Mapping[str, tuple[str, ...]], problems: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the keys of commands without an entry: their defaults, except those granted to others."""
    rest: dict[str, tuple[str, ...]] = {}
    for id, each in bindables().items():
        if id in granted:
            continue
        kept: list[str] = []
        for key in each.keys:
            taker = next((other for other, keys in granted.items() if key in keys and _same(other, id)), None)
            if taker is None:
                kept.append(key)
            else:
                problems.append(
                    f"{shown_key(key)} is now {_command_label(taker)}, no longer {_command_label(id)}; "
                    f'give that another key, or none with `{id}: ""`.'
                )
        rest[id] = tuple(kept)
    return rest


def _same(one: str, two: str) -> bool:
    return bindables()[one].surface == bindables()[two].surface


def _unknown(id: str) -> str:
    near = get_close_matches(id[:60], [*bindables(), *ALIASES], 1, 0.6)
    return _problem(id, "there is no such command" + (f"; did you mean `{near[0]}`?" if near else ""))


def _problem(id: str, words: str) -> str:
    return f"`keys.{_shorten(id)}`: {words}" + ("" if words.endswith("?") else ".")


def _shorten(text: str) -> str:
    line = " ".join(reveal(text[:60]).split())
    return line + ("…" if len(text) > 60 else "")


def _command_label(id: str) -> str:
    name = BY_ID[id].name if id in BY_ID else bindables()[id].name
    return f"“{name}” (`{id}`)"


def _keys_text(keys: tuple[str, ...]) -> str:
    return " ".join(map(shown_key, keys))
