"""The heartbeat: HEARTBEAT.md is read to the model only when something happened; cheap checks come first.

A beat without a reason asks no model. Reasons: HEARTBEAT.md changed (once), a watched file changed, a watched
process ended, an item of HEARTBEAT.md came due, the mail command printed something.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from agent.automation.schedule.expression import parse_moment
from agent.automation.schedule.zones import ScheduleError, machine_zone
from agent.core.home import PRIVATE_FILE, private_folder

if TYPE_CHECKING:
    from agent.core.config.sections import HeartbeatSettings

FILE = "HEARTBEAT.md"
MOST = 6_000
"""Characters of HEARTBEAT.md that are read."""
MOST_MAIL = 2_000
_ITEM = re.compile(
    r"^\s*[-*] +(?:\[ \] +)?([0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:]{5,8}\S*)?)\s+(.+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class MailSaid:
    """What the mail command printed, and as a sentence why it could not run."""

    text: str = ""
    problem: str = ""


Mail = Callable[[str], Awaitable[MailSaid]]
"""Runs the mail command."""


@dataclass
class HeartbeatState:
    """What was seen at the last beat."""

    last: float = 0.0
    text: str = ""
    """Digest of HEARTBEAT.md."""
    files: dict[str, str] = field(default_factory=dict)
    """Stamps of watched files."""
    alive: list[str] = field(default_factory=list)
    """Watched processes that ran."""
    told: list[str] = field(default_factory=list)
    """Items that came due."""
    problem: str = ""
    """What was wrong with the mail command."""
    flaw: str = ""
    """Why HEARTBEAT.md was not read, as it was told last."""
    asked: list[str] = field(default_factory=list)
    """Reasons that the run `run` was given; they count as used when it got an answer."""
    run: int = 0
    waiting: list[str] = field(default_factory=list)
    """Reasons that no run was given yet."""

    @staticmethod
    def load(path: Path) -> HeartbeatState | None:
        """What was kept; None before the first beat."""
        try:
            return HeartbeatState(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, path: Path) -> None:
        """Keep it."""
        private_folder(path.parent)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), "utf-8")
        part.chmod(PRIVATE_FILE)
        part.replace(path)


def is_active(active: str, now: datetime) -> bool:
    """Whether a time of this machine lies within `08:00-22:00`; empty: always. Pure."""
    if not active:
        return True
    begin, _, end = active.partition("-")
    first, last, clock = time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()), now.time()
    return first <= clock < last if first <= last else clock >= first or clock < last


def read_heartbeat(folder: Path) -> str:
    """HEARTBEAT.md of a folder; empty where there is none."""
    try:
        with (folder / FILE).open("rb") as file:
            return file.read(MOST * 4).decode("utf-8", "replace")[:MOST].strip()
    except OSError:
        return ""


async def beat(
    text: str,
    folder: Path,
    state: HeartbeatState | None,
    now: float,
    settings: HeartbeatSettings,
    mail: Mail,
) -> tuple[list[str], HeartbeatState]:
    """The reasons to ask the model, none where nothing happened, and what was seen. Reads files."""
    files = {name: _stamp(folder, name) for name in settings.watch}
    seen = HeartbeatState(
        last=now,
        text=hashlib.sha256(text.encode()).hexdigest(),
        files=files,
        alive=[each for each in settings.processes if _runs(folder, each)],
        told=list(state.told) if state is not None else [],
        asked=list(state.asked) if state is not None else [],
        run=state.run if state is not None else 0,
        waiting=list(state.waiting) if state is not None else [],
    )
    reasons: list[str] = []
    if state is None or state.text != seen.text:
        reasons.append(f"{FILE} is new or was changed")
    if state is not None:
        changed = [
            name for name, stamp in files.items() if name in state.files and state.files[name] != stamp
        ]
        reasons += [f"the file {name} changed" for name in changed]
        reasons += [f"the process of {name} ended" for name in state.alive if name not in seen.alive]
    for at, item in due_items(text, now):
        key = f"{at} {item}"
        if key not in seen.told:
            seen.told.append(key)
            reasons.append(f"it is time for: {item}")
    said = await mail(settings.mail) if settings.mail else MailSaid()
    seen.problem = said.problem
    if printed := said.text.strip():
        reasons.append(f"the mail command printed:\n{printed[:MOST_MAIL]}")
    return reasons, seen


def due_items(text: str, now: float) -> list[tuple[str, str]]:
    """Items of HEARTBEAT.md, `- 2030-01-31T09:00 call Ana`, whose time has come. Pure."""
    moment = datetime.fromtimestamp(now, UTC)
    found: list[tuple[str, str]] = []
    for at, item in _ITEM.findall(text):
        try:
            if parse_moment(at, machine_zone()) <= moment:
                found.append((at, item.strip()))
        except ScheduleError:
            continue
    return found


def message(text: str, reasons: list[str]) -> str:
    """What the model reads at a beat with reasons. Pure."""
    listed = "\n".join(f"- {each}" for each in reasons)
    return (
        f"This is a heartbeat. What happened since the last one:\n{listed or '- you were asked for'}\n\n"
        f"{FILE}:\n<heartbeat>\n{text}\n</heartbeat>\n\n"
        "Do what it says about this, if anything. If nothing needs attention, answer only HEARTBEAT_OK."
    )


def _stamp(folder: Path, name: str) -> str:
    try:
        status = (folder / Path(name).expanduser()).stat()
    except OSError:
        return "none"
    return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"


def _runs(folder: Path, pid_file: str) -> bool:
    """Whether the process named by a file runs."""
    try:
        os.kill(int((folder / Path(pid_file).expanduser()).read_text().strip()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True
