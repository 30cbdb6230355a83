"""Key names in three forms: as typed by users, as in Textual, and as displayed."""

from __future__ import annotations

import string
import unicodedata
from difflib import get_close_matches

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
"""The modifier keys, in the order in which Textual writes them before a key."""

_ALIASES = {
    "esc": "escape",
    "return": "enter",
    "⏎": "enter",
    "↑": "up",
    "↓": "down",
    "←": "left",
    "→": "right",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "page_up": "pageup",
    "page_down": "pagedown",
    "control": "ctrl",
    "option": "alt",
}
_ONE_BYTE = {"ctrl+m": "enter", "ctrl+i": "tab", "ctrl+left_square_bracket": "escape"}
"""Keys for which most terminals send the same byte as for another key, with that key."""
_SHOWN = {"escape": "esc", "enter": "⏎", "pageup": "PgUp", "pagedown": "PgDn", "delete": "del"}
_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}


def _name_of(character: str) -> str:
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_PUNCTUATION = {character: _name_of(character) for character in string.punctuation}
_CHARACTERS = {name: character for character, name in _PUNCTUATION.items()}
_NAMED = frozenset(
    name
    for key in Keys
    if len(name := key.value.rpartition("+")[2]) > 1 and "<" not in name and "-" not in name
) | frozenset(_PUNCTUATION.values())


def read_key(text: str) -> str:
    """Return Textual's name for `^L`, `Ctrl+l` or `?`. Raises `ValueError` with the reason."""
    given = text.strip()
    if len(given) == 2 and given[0] == "^" and given[1].isprintable():
        given = f"ctrl+{given[1].lower()}"
    ahead, name = ("", given) if len(given) <= 1 else _split(given)
    modifiers = [
        _ALIASES.get(each.strip().lower(), each.strip().lower()) for each in ahead.split("+") if each
    ]
    for each in modifiers:
        if each not in MODIFIERS:
            raise ValueError(f"has no modifier `{each}`; there are {', '.join(MODIFIERS)}")
    name = _base(name.strip())
    if len(name) == 1 and name.isascii():
        name = name.lower() if "ctrl" in modifiers else name
        if modifiers == ["shift"]:
            modifiers, name = [], name.upper()
    key = "+".join([*sorted(set(modifiers)), name])
    if key in _ONE_BYTE:
        raise ValueError(f"reaches us as {_ONE_BYTE[key]}; terminals send the same for both")
    return "ctrl+@" if key in ("ctrl+space", "ctrl+at") else key


def _split(text: str) -> tuple[str, str]:
    """Split a key into modifiers and key; the key may be a plus."""
    if text.endswith("++"):
        return text[:-2], "+"
    ahead, _, name = text.rpartition("+")
    return ahead, name


def _base(name: str) -> str:
    name = _ALIASES.get(name, name)
    if len(name) == 1 and name.isprintable():
        return _PUNCTUATION.get(name) or (name if name.isalnum() else _name_of(name)) or name
    lowered = _ALIASES.get(name.lower(), name.lower())
    if lowered in _NAMED:
        return lowered
    if (character := character_of(lowered)) is not None:
        return _base(character)
    near = get_close_matches(lowered[:40], sorted(_NAMED), 1, 0.6)
    raise ValueError("names no key" + (f"; did you mean `{near[0]}`?" if near else ""))


def types_text(key: str) -> bool:
    """Return whether the key types a character."""
    return "+" not in key and (key == "space" or key in _CHARACTERS or key not in _NAMED)


def character_of(name: str) -> str | None:
    character = _CHARACTERS.get(name) or (name if len(name) == 1 else key_to_character(name))
    return character if character and character.isprintable() else None


def shown_key(key: str) -> str:
    """Return the displayed form of a key: `ctrl+p` as `^P`, `escape` as `esc`, `question_mark` as `?`."""
    ahead, plus, name = key.rpartition("+")
    if key == "ctrl+@":
        return "ctrl+space"
    if len(name) == 1 and ahead == "ctrl":
        return f"^{name.upper()}"
    if name in _SHOWN or name in _ARROWS:
        return ahead + plus + (_SHOWN.get(name) or _ARROWS[name])
    if len(name) > 1 and name[0] == "f" and name[1:].isdigit():
        return f"{ahead}{plus}F{name[1:]}"
    character = None if name == "space" else character_of(name)
    if character is None:
        return key
    return f"^{character}" if ahead == "ctrl" else ahead + plus + character
