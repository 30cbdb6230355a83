"""Modes: what happens to an action about which no rule says anything.

A mode never lifts the hardline, a deny rule or self-protection.
"""

from __future__ import annotations

from typing import Literal, cast

Mode = Literal["careful", "normal", "auto-edit", "plan", "yolo", "deny"]
"""`careful` asks for everything but reading inside the workspace. `normal` lets plain work pass and asks
for the rest. `auto-edit` is `normal`, with edits of files inside the workspace allowed. `plan` only reads:
every effect is denied. `yolo` lets everything pass that nothing forbids. `deny` is `normal` where
nobody is asked: what would be asked is denied."""

ModeName = Literal["ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo"]
"""As people write modes; `ask` is an older name of `normal`, `all` of `yolo`."""

MODES: tuple[Mode, ...] = ("careful", "normal", "auto-edit", "plan", "yolo", "deny")
NAMES: tuple[ModeName, ...] = ("ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo")
CYCLE: tuple[Mode, ...] = ("careful", "normal", "auto-edit", "plan")
"""What the key steps through: `yolo` and `deny` are only ever named, never stumbled into."""

_OLD: dict[str, str] = {"ask": "normal", "all": "yolo"}
_STRICTNESS: tuple[Mode, ...] = ("yolo", "auto-edit", "normal", "careful", "deny", "plan")

SUMMARIES: dict[Mode, str] = {
    "careful": "asks for everything but reading inside the workspace",
    "normal": "plain work passes, the rest is asked",
    "auto-edit": "edits of files inside the workspace pass as well, the rest is asked",
    "plan": "reads only; every effect is denied",
    "yolo": "everything passes that nothing forbids",
    "deny": "plain work passes, the rest is denied without asking",
}


def canonical(name: str) -> Mode:
    """The mode a name stands for. Raises `ValueError` for a name that is none."""
    mode = _OLD.get(name, name)
    if mode not in MODES:
        raise ValueError(f"there is no mode {name!r}; modes are {', '.join(MODES)}")
    return cast("Mode", mode)


def stricter(one: Mode, other: Mode) -> Mode:
    """The one of two modes that lets less pass."""
    return one if _STRICTNESS.index(one) >= _STRICTNESS.index(other) else other


def following(mode: Mode) -> Mode:
    """The mode the key leads to; from one outside the cycle, `normal`."""
    return CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else "normal"
