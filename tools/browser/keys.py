"""Keys by their names, as the protocol wants them pressed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_NAMED: dict[str, tuple[str, int, str]] = {
    "enter": ("Enter", 13, "\r"),
    "tab": ("Tab", 9, ""),
    "escape": ("Escape", 27, ""),
    "backspace": ("Backspace", 8, ""),
    "delete": ("Delete", 46, ""),
    "arrowup": ("ArrowUp", 38, ""),
    "arrowdown": ("ArrowDown", 40, ""),
    "arrowleft": ("ArrowLeft", 37, ""),
    "arrowright": ("ArrowRight", 39, ""),
    "home": ("Home", 36, ""),
    "end": ("End", 35, ""),
    "pageup": ("PageUp", 33, ""),
    "pagedown": ("PageDown", 34, ""),
    "insert": ("Insert", 45, ""),
    "space": (" ", 32, " "),
    **{f"f{number}": (f"F{number}", 111 + number, "") for number in range(1, 13)},
}
_ALSO = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "up": "arrowup",
    "down": "arrowdown",
    "left": "arrowleft",
    "right": "arrowright",
    "pgup": "pageup",
    "pgdn": "pagedown",
    " ": "space",
}
_MODIFIERS = {
    "alt": 1,
    "option": 1,
    "control": 2,
    "ctrl": 2,
    "meta": 4,
    "cmd": 4,
    "command": 4,
    "shift": 8,
}
_COMMANDS = {"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo"}


@dataclass(frozen=True, slots=True)
class KeyPress:
    """One key with its modifiers."""

    key: str
    code: str
    number: int
    text: str
    modifiers: int
    commands: tuple[str, ...] = ()

    def down(self) -> dict[str, object]:
        """Parameters of `Input.dispatchKeyEvent` that press it."""
        kind = "keyDown" if self.text else "rawKeyDown"
        event: dict[str, object] = {**self._common(), "type": kind, "commands": list(self.commands)}
        return event | ({"text": self.text, "unmodifiedText": self.text} if self.text else {})

    def up(self) -> dict[str, object]:
        """Those that let it go."""
        return {**self._common(), "type": "keyUp"}

    def _common(self) -> dict[str, object]:
        return {
            "key": self.key,
            "code": self.code,
            "windowsVirtualKeyCode": self.number,
            "modifiers": self.modifiers,
        }


def key_press(name: str) -> KeyPress:
    """`Enter`, `a`, `Control+Shift+K`. Raises `ValueError` for what is no key."""
    plain = name.strip() or name
    *before, last = [plain] if plain in ("+", " ") else plain.replace("++", "+plus").split("+")
    last = "+" if last == "plus" else last
    modifiers = 0
    for each in before:
        if each.strip().lower() not in _MODIFIERS:
            raise ValueError(f"{each!r} is no modifier; use Control, Alt, Shift or Meta")
        modifiers |= _MODIFIERS[each.strip().lower()]
    lowered = last.lower() if last == " " else last.strip().lower()
    lowered = _ALSO.get(lowered, lowered)
    quiet = bool(modifiers & 7)
    if lowered in _NAMED:
        key, number, text = _NAMED[lowered]
        code = "Space" if key == " " else key
        return KeyPress(key, code, number, "" if quiet else text, modifiers)
    if len(last) != 1:
        raise ValueError(f"{last!r} is no key; use a character or a name such as Enter, Tab, ArrowDown")
    letter = last.upper() if modifiers & 8 else last
    code = f"Key{last.upper()}" if last.isascii() and last.isalpha() else ""
    code = f"Digit{last}" if last.isdigit() else code
    commands = (_COMMANDS[last.lower()],) if modifiers & 2 and last.lower() in _COMMANDS else ()
    number = ord(last.upper()) if last.isascii() and last.isalnum() else 0
    return KeyPress(letter, code, number, "" if quiet else letter, modifiers, commands)
