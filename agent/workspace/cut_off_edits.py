"""Changes of several files that the end of a process interrupted: they are finished and reported at start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent.core.home import Home
from tools.kit.files import write_new
from tools.text.safe_text import clean

_TOLD = ".told"


def finish_cut_off(home: Home) -> list[str]:
    """Finish all interrupted changes; return a sentence about each, which is also stored for its session.

    Blocking; never raises.
    """
    if not home.edits.is_dir():
        return []
    from tools.files.committing import finish_all

    told: list[str] = []
    for done in finish_all(home.edits):
        told.append(clean(done.sentence()))
        _keep(home.edits, done.task, done.workspace, told[-1])
    return told


def notes_for(home: Home, session: str, workspace: Path) -> list[str]:
    """Return notes for a resumed session about changes interrupted in it or in its workspace.

    Each note is returned only once. Blocking; never raises.
    """
    found: list[str] = []
    for path, note in _notes(home.edits):
        if note.get("task") == session or note.get("workspace") == str(workspace):
            found.append(str(note.get("text", "")))
            with suppress(OSError):
                path.unlink()
    return found


def _keep(folder: Path, task: str, workspace: str, text: str) -> None:
    record = json.dumps({"task": task, "workspace": workspace, "text": text})
    with suppress(OSError):
        path = folder / f"{os.urandom(8).hex()}{_TOLD}"
        write_new(path, record.encode())


def _notes(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    for path in sorted(folder.glob(f"*{_TOLD}")):
        with suppress(OSError, ValueError):
            note = json.loads(path.read_bytes())
            if isinstance(note, dict):
                yield path, note
