"""A skin: semantic colours, symbols and words. Widgets know roles, never colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROLES: Mapping[str, str] = {
    "background": "behind the conversation",
    "surface": "behind panes, dialogs and the prompt",
    "text": "what is read",
    "dim": "what matters less: durations, hints, line numbers",
    "accent": "what draws the eye: focus, selection bar, links to act on",
    "user": "the gutter and the words of the person",
    "reasoning": "what the model thinks aloud",
    "rule": "lines between regions",
    "success": "done",
    "warning": "worth a look, and the badge of a waiting question",
    "error": "failed or dangerous",
    "selection": "behind selected text",
    "match": "behind what a search found",
    "cursor": "the cursor of the prompt",
    "code_background": "behind code",
    "added": "added lines, foreground",
    "added_background": "added lines, background",
    "removed": "removed lines, foreground",
    "removed_background": "removed lines, background",
    "keyword": "code: keywords",
    "string": "code: texts",
    "number": "code: numbers and constants",
    "comment": "code: comments",
    "function": "code: functions and classes",
}
"""Every role a skin colours, and what it is for."""

NIGHT: Mapping[str, str] = {
    "background": "#14161b",
    "surface": "#1b1e25",
    "text": "#d7dae0",
    "dim": "#939aa4",
    "accent": "#7aa2f7",
    "user": "#9ece6a",
    "reasoning": "#9aa3b5",
    "rule": "#61687c",
    "success": "#7fbf6a",
    "warning": "#e0af68",
    "error": "#f7768e",
    "selection": "#2f3b57",
    "match": "#5a4a1f",
    "cursor": "#d7dae0",
    "code_background": "#191c22",
    "added": "#a6d189",
    "added_background": "#1d2b1f",
    "removed": "#f28fa0",
    "removed_background": "#33202a",
    "keyword": "#bb9af7",
    "string": "#9ece6a",
    "number": "#ff9e64",
    "comment": "#9099a8",
    "function": "#7dcfff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skin:
    """One look. Missing parts of a skin file fall back to these defaults.

    Colours are `#rrggbb`, or a name of the terminal's own palette (`ansi_red`,
    `ansi_default` …) in skins for terminals of 16 colours.
    """

    name: str = "night"
    description: str = "Neutral dark; the default."
    dark: bool = True
    colors: Mapping[str, str] = field(default_factory=lambda: dict(NIGHT))
    """Every role of `ROLES`."""
    prompt_symbol: str = "❯"
    spinner: tuple[str, ...] = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
    verbs: tuple[str, ...] = ("Thinking",)
    """What the status bar says while the model works."""
    agent_name: str = "hermes"
    welcome: str = "What should I do?"
    goodbye: str = "Until next time."
    tool_icons: Mapping[str, str] = field(default_factory=dict)
    """Glyphs by tool name, drawn instead of the state glyph's blank."""
    faces: tuple[str, ...] = ()
    """Shown beside the verb in the status bar while the model works; never in the gutter."""
    banner: str = ""
    """Art for the empty conversation; plain text."""
