"""Import from other agents: what they keep on this machine, and how it is taken over.

The names and places of the programs stand here, so that the help can name them without loading the readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImportSource:
    """One program whose data can be imported."""

    name: str
    folder: str
    """Its usual place in the home of the person."""
    reads: str
    """What is taken over."""
    variable: str = ""
    """The variable that names another place, as the program itself reads it."""


_USUAL = "sessions, notes, skills, MCP servers"

PROGRAMS: Mapping[str, ImportSource] = {
    "claude": ImportSource("Claude Code", ".claude", f"{_USUAL}, permission rules", "CLAUDE_CONFIG_DIR"),
    "codex": ImportSource("Codex", ".codex", _USUAL, "CODEX_HOME"),
    "opencode": ImportSource("OpenCode", ".local/share/opencode", f"{_USUAL}, permission rules"),
    "hermes": ImportSource("the Hermes Agent that came before", ".hermes", _USUAL),
    "gemini": ImportSource("Gemini CLI", ".gemini", _USUAL),
    "pi": ImportSource("Pi", ".pi/agent", "sessions, notes, skills", "PI_CODING_AGENT_DIR"),
    "vibe": ImportSource("Mistral Vibe", ".vibe", _USUAL, "VIBE_HOME"),
    "cline": ImportSource("Cline", ".cline", _USUAL),
    "qwen": ImportSource("Qwen Code", ".qwen", _USUAL, "QWEN_HOME"),
}
