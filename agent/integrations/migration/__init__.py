"""Import from other agents: where they store their data on this machine, and how it is copied.

The names and folders of the programs are here, so that the help can show them without loading the readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImportSource:
    """One program whose data can be imported."""

    name: str
    folder: str
    """Its usual folder, relative to the user's home folder."""
    reads: str
    """The kinds of data that are imported."""
    variable: str = ""
    """The environment variable with which the program itself is given another folder."""


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
