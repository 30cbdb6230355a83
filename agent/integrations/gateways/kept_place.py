"""Place up to which an adapter has read, in a private file behind what was stored. Functions block."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import PRIVATE_FILE


def kept_place(path: Path) -> str:
    """What was kept last; empty: nothing."""
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def keep_place(path: Path, text: str) -> None:
    """Keep it in one step: a kill leaves the old or the new one."""
    beside = path.with_name(f".{path.name}")
    beside.touch(PRIVATE_FILE)
    beside.write_text(text, "utf-8")
    beside.replace(path)
