"""The impact of an action, shown to the user with the question: files, network, and limits.

It is only information. The gate has already judged, and the boundary applies in any case.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.safety.places import joined
from agent.safety.reader.script import read
from agent.safety.reader.state import Command, Reading
from agent.safety.reader.tree import ANY, GLOBS, UNKNOWN, literal, words
from agent.safety.sentences import Account, account
from agent.safety.typed_input import as_command
from agent.safety.verdict import DELETERS, OWNERS, WRITERS, Verdict
from tools.services.actions import (
    Action,
    ChangeFiles,
    Fetch,
    ReachHost,
    RunCommand,
    RunScript,
    SearchWeb,
    SendInput,
)
from tools.services.sandbox import NetworkMode, SandboxName

NetworkImpact = Literal["", "yes", "no", "open", "filtered"]
"""`yes`: it certainly uses the network; `open`: nothing prevents that; `filtered`: unlisted hosts are
asked about separately; empty: unknown.
"""
SandboxImpact = Literal["", "bubblewrap", "landlock", "seatbelt", "none", "outside"]
"""Where it would run; `outside`: there is a sandbox, and it would leave it; empty: it runs nothing."""

MOST_TOUCHED = 6
"""The number of named paths; more are counted."""
MOST_COUNTED = 1_000
"""The number of files counted in a folder."""

_CHANGERS = DELETERS | OWNERS | WRITERS | words("touch mkdir rmdir tee truncate shred")
_ONTO = words("cp install ln rsync scp")
"""Programs that change only their last operand."""


@dataclass(frozen=True, slots=True)
class ActionEnvironment:
    """The workspace, home, sandbox and network with which actions of a session are carried out."""

    workspace: Path
    home: Path
    sandbox: SandboxName = "none"
    network: NetworkMode = "on"
    commands_elsewhere: bool = False
    """Whether commands run in a container or on another machine, unknown here."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of one action. `touches` are paths, relative to the workspace if they are in it."""

    touches: tuple[str, ...] = ()
    network: NetworkImpact = ""
    sandbox: SandboxImpact = ""


def impact(action: Action, verdict: Verdict, around: ActionEnvironment) -> Impact:
    """Return the impact of `action`. Reads the disk; use a thread."""
    match action:
        case RunCommand() if around.commands_elsewhere:
            return Impact()
        case RunCommand():
            outside = action.outside and around.sandbox != "none"
            reading = read(action.command, str(action.cwd), str(around.home))
            return Impact(
                tuple(_names(_changed(reading), around.workspace)),
                _network(action, verdict, around),
                "outside" if outside else around.sandbox,
            )
        case RunScript():
            kept = action.sandboxed and around.sandbox != "none"
            return Impact(
                (), "no" if kept and around.network != "on" else "open", around.sandbox if kept else "none"
            )
        case ChangeFiles():
            paths = map(str, (*action.paths, *action.removes))
            return Impact(tuple(_names(paths, around.workspace)))
        case Fetch() | SearchWeb() | ReachHost():
            return Impact((), "yes")
        case _:
            return Impact()


def account_of(action: Action, verdict: Verdict, around: ActionEnvironment) -> Account:
    """Return the sentence about `action`, and what undo could bring back. Reads no files."""
    reading = None
    if isinstance(action, RunCommand):
        reading = read(action.command, str(action.cwd), str(around.home))
    elif isinstance(action, SendInput):
        reading = read(as_command(action, around.home), str(around.workspace), str(around.home))
    return account(action, verdict, around.workspace, reading)


def _network(action: RunCommand, verdict: Verdict, around: ActionEnvironment) -> NetworkImpact:
    is_open = (
        action.outside
        or around.sandbox == "none"
        or around.network == "on"
        or (around.network == "ask" and action.network)
    )
    if not is_open:
        return "filtered" if around.network == "filtered" else "no"
    said = (*verdict.reasons, *(part.reason for part in verdict.parts))
    return "yes" if any("network" in reason or "remote" in reason for reason in said) else "open"


def _changed(reading: Reading) -> Iterator[str]:
    """Yield marked absolute paths that the command would visibly write or delete."""
    for each in reading.writes:
        yield from (joined(folder, each.path) for folder in each.cwds[:1])
    for command in reading.commands:
        if command.name in _CHANGERS and not (command.name in ("sed", "perl") and not _in_place(command)):
            operands = [word for word in command.arguments if word and not word.startswith("-")]
            if command.name in _ONTO:
                operands = operands[-1:]
            elif command.name in OWNERS or command.name in ("sed", "perl"):
                operands = operands[1:]
            for word in operands:
                yield from (joined(folder, word) for folder in command.cwds[:1])


def _in_place(command: Command) -> bool:
    return any(word.startswith(("-i", "--in-place", "-pi", "-ni")) for word in command.arguments)


def _names(paths: Iterator[str], workspace: Path) -> Iterator[str]:
    found = [path for path in dict.fromkeys(paths) if path != "/dev/null"]
    for path in found[:MOST_TOUCHED]:
        yield _name(path, workspace)
    if len(found) > MOST_TOUCHED:
        yield f"{len(found) - MOST_TOUCHED} more"


def _name(path: str, workspace: Path) -> str:
    plain = literal(path)
    shown = plain
    if plain.startswith(f"{workspace}/"):
        shown = plain[len(str(workspace)) + 1 :]
    if UNKNOWN in path or any(mark in path for mark in (ANY, *GLOBS)):
        return shown
    try:
        if not stat.S_ISDIR(os.lstat(plain).st_mode):
            return shown
    except (OSError, ValueError):
        return shown
    count = _files_in(plain)
    many = f"{count:,} files" if count < MOST_COUNTED else f"{MOST_COUNTED:,} files or more"
    return f"{shown.rstrip('/')}/ ({'1 file' if count == 1 else many})"


def _files_in(folder: str) -> int:
    count = 0
    for _, folders, files in os.walk(folder):
        count += len(files)
        if count >= MOST_COUNTED or len(folders) > MOST_COUNTED:
            return MOST_COUNTED
    return count
