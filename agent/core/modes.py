"""Modes: what happens to an action about which no rule says anything.

A mode never lifts the hardline, a deny rule or self-protection.
"""

from __future__ import annotations

from typing import Literal, cast

Mode = Literal["careful", "normal", "plan", "yolo", "deny"]
"""`careful` asks about each effect. `normal` lets pass what stays inside the workspace and undo brings back,
and asks about the rest. `plan` only reads: every effect is denied. `yolo` lets everything pass that nothing
forbids. `deny` only reads, and asks nobody."""

ModeName = Literal["ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo"]
"""As people write modes; `ask` and `auto-edit` are older names of `normal`, `all` of `yolo`."""

MODES: tuple[Mode, ...] = ("careful", "normal", "plan", "yolo", "deny")
NAMES: tuple[ModeName, ...] = ("ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo")
CYCLE: tuple[Mode, ...] = ("careful", "normal", "plan")
"""What the key steps through: `yolo` and `deny` are only ever named, never stumbled into."""

_OLD: dict[str, str] = {"ask": "normal", "auto-edit": "normal", "all": "yolo"}
_STRICTNESS: tuple[Mode, ...] = ("yolo", "normal", "careful", "deny", "plan")

SUMMARIES: dict[Mode, str] = {
    "careful": "asks about each effect",
    "normal": "what stays inside the workspace and undo brings back passes, the rest is asked",
    "plan": "reads only; every effect is denied",
    "yolo": "everything passes that nothing forbids",
    "deny": "reads only; every effect is denied without asking",
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
