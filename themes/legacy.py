"""Skins of other editions of Hermes, read as if they were written in our words.

They name colours after widgets, keep their texts under `branding`, and their faces and
verbs under `spinner`. Where a file says a thing in both ways, our way counts.
"""

from __future__ import annotations

import re

from themes.document import Node, Report, SkinSection, SkinValue
from themes.skin_problem import nearest
from themes.skin_text import quoted

_COLORS = {
    "accent": ("banner_title", "ui_accent", "banner_accent"),
    "text": ("banner_text", "status_bar_text"),
    "dim": ("banner_dim", "session_label", "status_bar_dim", "ui_label"),
    "user": ("prompt",),
    "rule": ("response_border", "input_rule", "banner_border", "session_border"),
    "success": ("ui_ok", "status_bar_good"),
    "warning": ("ui_warn", "status_bar_warn"),
    "error": ("ui_error", "status_bar_bad", "status_bar_critical"),
    "surface": ("status_bar_bg", "completion_menu_bg"),
    "selection": ("selection_bg", "completion_menu_current_bg"),
}
"""Our role, and the old names for it, the most telling one first."""

_NO_COLORS = frozenset(
    {"status_bar_strong", "voice_status_bg", "completion_menu_meta_bg", "completion_menu_meta_current_bg"}
)
_BRANDING = ("agent_name", "welcome", "goodbye", "prompt_symbol")
_NO_BRANDING = frozenset({"response_label", "help_header"})
_SPINNER = {
    "spinner": ("frames",),
    "faces": ("thinking_faces", "waiting_faces"),
    "verbs": ("thinking_verbs",),
}
_NO_SPINNER = frozenset({"wings"})
_BANNER = ("banner_logo", "banner_hero")
_NOTHING = frozenset({"tool_prefix"})

_MARKUP = re.compile(r"\[/?[a-z#][a-z0-9_#. ]*\]|\[/\]", re.IGNORECASE)


def translated(root: SkinSection, report: Report) -> SkinSection:
    """`root` in our words only. Reports sections that are none, and names within them nobody knows."""
    entries, lines = dict(root.entries), dict(root.lines)
    for key in _NOTHING:
        entries.pop(key, None)
    _lift(entries, lines, "branding", {key: (key,) for key in _BRANDING}, _NO_BRANDING, report)
    if isinstance(entries.get("spinner"), SkinSection):
        _lift(entries, lines, "spinner", _SPINNER, _NO_SPINNER, report)
    if isinstance(colors := entries.get("colors"), SkinSection):
        entries["colors"] = _colors(colors)
    if "tool_emojis" in entries:
        icons = entries.pop("tool_emojis")
        entries.setdefault("tool_icons", icons)
        lines.setdefault("tool_icons", lines["tool_emojis"])
    _banner(entries, lines)
    return SkinSection(entries, {key: lines[key] for key in entries}, root.line)


def _lift(
    entries: dict[str, Node],
    lines: dict[str, int],
    name: str,
    moves: dict[str, tuple[str, ...]],
    ignored: frozenset[str],
    report: Report,
) -> None:
    """Move what the section `name` holds to the top, the first old name that is there for each of ours."""
    if name not in entries:
        return
    section = entries.pop(name)
    if not isinstance(section, SkinSection):
        report(f"`{name}` must be a section of `key: value` lines.", section.line)
        return
    known = {old for names in moves.values() for old in names}
    for key, line in section.lines.items():
        if key not in known | ignored:
            report(_unknown(name, key, known), line)
    for ours, names in moves.items():
        old = next((old for old in names if old in section.entries), None)
        if old is not None and ours not in entries:
            entries[ours] = section.entries[old]
            lines[ours] = section.lines[old]


def _unknown(section: str, key: str, known: set[str]) -> str:
    """The sentence about a key that a section does not have."""
    return f"`{quoted(key)}` is nothing that `{section}` has{nearest(key, sorted(known))}"


def _colors(colors: SkinSection) -> SkinSection:
    entries, lines = dict(colors.entries), dict(colors.lines)
    for role, names in _COLORS.items():
        for old in names:
            color, line = entries.pop(old, None), lines.pop(old, 0)
            if color is not None and role not in entries:
                entries[role], lines[role] = color, line
    for old in _NO_COLORS:
        entries.pop(old, None)
    return SkinSection(entries, {role: lines[role] for role in entries}, colors.line)


def _banner(entries: dict[str, Node], lines: dict[str, int]) -> None:
    """One banner of logo and hero, without the markup of its colours."""
    parts = [
        part for key in _BANNER if isinstance(part := entries.pop(key, None), SkinValue) and not part.empty
    ]
    if parts and "banner" not in entries:
        art = "\n\n".join(_MARKUP.sub("", part.text).strip("\n") for part in parts)
        entries["banner"] = SkinValue(art, parts[0].line)
        lines["banner"] = parts[0].line
