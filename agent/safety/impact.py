"""The impact of an action, shown to the user with the question: files, network, and limits.

It is only information. The gate has already decided, and the sandbox applies in any case.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from agent.safety.effects import ProgramEffects, effects_of
from agent.safety.places import joined
from agent.safety.programs.table import EFFECTS, EffectName, programs
from agent.safety.reader.expansion import Command, Reading
from agent.safety.reader.script import read
from agent.safety.reader.tree import ANY, GLOBS, UNKNOWN, literal, words
from agent.safety.rules import DELETERS, OWNERS, WRITERS, Verdict
from agent.safety.typed_input import as_command
from tools.services.actions import (
    Action,
    ChangeFiles,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReachHost,
    ReadPath,
    RunCommand,
    RunScript,
    SearchWeb,
    SendInput,
    SpawnAgent,
    WritePath,
)
from tools.services.sandbox import NetworkMode, SandboxName
from tools.text.words import plural, shorten

LONGEST = 60
"""The number of characters of a name in a sentence; the whole action is shown below it."""
INTERPRETERS = words("sh bash zsh dash ksh fish ash python python3 perl ruby node")

BY_EFFECT: dict[EffectName, str] = {
    "looks": "Runs {program}, which only looks: this mode asks about every command",
    "edits": "Changes files with {program}: this mode asks about every change",
    "code": "Runs {program}: nobody has read the code that it runs, and it can change whatever it reaches",
    "network": "Connects to {hosts} with {program}: what it sends leaves this machine",
    "history": "Changes the history of the repository with {program}: git may lose commits or changes",
    "machine": "Changes this machine beyond the workspace with {program}: undo does not cover that",
    "publishes": "Sends data to other machines or changes them with {program}: nobody can take that back",
    "lost": "Removes for good with {program}: nothing brings it back",
}
"""A sentence for each class of effects: what happens and why it is asked about."""
UNDO: dict[EffectName, str] = {
    "looks": "there is nothing to undo",
    "edits": "undo brings back the files of the workspace",
    "code": "undo brings back files of the workspace, not what the program does elsewhere",
    "network": "undo brings back files of the workspace; what was sent stays sent",
    "history": "undo does not bring back what git loses here",
    "machine": "undo brings back files of the workspace, not changes to this machine",
    "publishes": "undo brings back files of the workspace, nothing on other machines",
    "lost": "undo does not bring this back",
}
"""Clauses about what undo could restore afterwards, for each class of effects."""


class _Case(NamedTuple):
    """A kind of command with its own sentence."""

    programs: str
    """Names of programs, separated by spaces."""
    words: str
    """A pattern that the arguments match from their beginning."""
    sentence: str
    """The sentence, with fields that `_fill_in` replaces."""


_FORCED = r"push\b.*(?: (?:-\w*f\w*|--force\S*)(?: |$)| \+\S)"
_PACKS = "apt apt-get dnf yum pacman brew apk zypper snap"
_ELSEWHERE = "kubectl helm terraform tofu pulumi ansible-playbook"
_TAKEN = "others can see it at once, and it cannot be taken back"
_NO_COPY = "git keeps no copy of them"
_NOT_COVERED = "undo does not cover that"
CASES = (
    _Case("git", _FORCED, "Force-pushes {branch}: commits that others have may be lost"),
    _Case("git", r"push\b.* --mirror\b", "Makes {first} equal to this repository: its other branches go"),
    _Case("git", r"push\b.* (?:-d|--delete|:\S+)", "Deletes {branch} on {first}: others lose it too"),
    _Case("git", r"push\b", f"Pushes {{branch}} to {{first}}: {_TAKEN}"),
    _Case("git", r"reset\b.*--hard", f"Throws away all changes that are not committed: {_NO_COPY}"),
    _Case("git", r"clean\b", f"Deletes files that git does not know: {_NO_COPY}"),
    _Case("git", r"stash (?:drop|clear)", "Throws away stashed changes: git keeps no name for them"),
    _Case("git", r"branch\b.*-[DMf]\b", "Deletes or moves {after}: commits that only it has may be lost"),
    _Case("git", r"(?:reflog|gc|prune|filter-\w+)\b", "Removes old commits: nothing brings them back"),
    _Case("git", r"config\b", "Changes the git setting {first}: git may run a program because of it"),
    _Case("rm unlink shred srm rmdir", r"", "Deletes {all}{whole}: what undo does not keep is lost"),
    _Case("sudo doas su", r"", "Runs {all} as the administrator: it can change anything on this machine"),
    _Case("dd mkfs fdisk parted", r"", "Writes to a disk or device directly: what was there is lost"),
    _Case("chmod chown chgrp chattr", r"", "Changes who may use {after}: others may get in"),
    _Case("kill killall pkill", r"", "Ends processes ({all}): they lose what they have not saved"),
    _Case("npm pnpm yarn bun cargo poetry flit hatch uv gem twine", r"(?:un)?(?:publish|upload|push|yank)\b",
          "Publishes a package with {name}: everybody can get it, and it cannot be taken back"),
    _Case("docker podman", r"push\b", f"Pushes an image with {{name}}: {_TAKEN}"),
    _Case("docker podman", r"(?:\w+ )?(?:prune|rm|rmi)\b", "Removes containers or volumes: data is lost"),
    _Case(_ELSEWHERE, r"(?:delete|destroy)\b", "Deletes what runs elsewhere with {name}: it is lost"),
    _Case(_ELSEWHERE, r"", "Changes what runs on other machines with {name}: undo does not reach them"),
    _Case("ssh", r"", "Works on another machine ({host}): undo does not reach it"),
    _Case("scp sftp rsync", r"", "Copies files between machines with {name}: undo does not reach them"),
    _Case("systemctl service launchctl shutdown reboot", r"", f"Changes services ({{all}}): {_NOT_COVERED}"),
    _Case(_PACKS, r"(?:auto)?(?:remove|purge|uninstall)\b", f"Removes {{after}} from here: {_NOT_COVERED}"),
    _Case(_PACKS, r"", f"Installs or changes packages of this machine with {{name}}: {_NOT_COVERED}"),
    _Case("crontab at", r"", f"Changes what this machine runs by itself later: {_NOT_COVERED}"),
    _Case("gh", r"(?:pr|issue|release|repo) ", f"Changes something on the code host ({{all}}): {_TAKEN}"),
)  # fmt: skip
"""The commands with their own sentence; the first match counts."""


def _fill_in(sentence: str, command: Command, found: ProgramEffects) -> str:
    """Return `sentence` with its fields replaced by the words of a command."""
    words = [_short(each) for each in command.arguments if not each.startswith("-")]
    branch = (words[2:3] or [""])[0].lstrip("+").removeprefix(":").partition(":")[0]
    options = [each for each in command.arguments if each.startswith("-")]
    recursive = any(re.fullmatch(r"-\w*[rR]\w*|--recursive", each) for each in options)
    return sentence.format(
        name=_short(command.name),
        program=_short(command.name),
        hosts=_hosts(found),
        host=(words[:1] or ["its name is not known"])[0],
        branch=branch or "commits",
        first=(words[1:2] or ["the remote" if "push" in words else "named"])[0],
        after=_enumerate(words[1:], "what is given"),
        all=_enumerate(words, "what is given"),
        whole=" with everything inside" if recursive else "",
    )


def _enumerate(names: Sequence[str], instead: str) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or instead


class Account(NamedTuple):
    """A description of an action for the user who is asked to approve it."""

    sentence: str
    """The expected effects, and why the user is asked."""
    undo: str
    """The extent to which undo could restore the effects, as a clause."""


def account(action: Action, verdict: Verdict, workspace: Path, reading: Reading | None = None) -> Account:
    """Return the description of an action. `reading` is its parsed command; None for other actions."""
    if reading is not None and isinstance(action, (RunCommand, SendInput)):
        return _of_command(action, verdict, reading)
    sentence, undo = _of_action(action, verdict, workspace)
    return Account(f"{sentence}.", undo)


def _of_command(action: RunCommand | SendInput, verdict: Verdict, reading: Reading) -> Account:
    asked = {part.text: part.reason for part in verdict.parts if part.kind != "allow"}
    known = programs(None)
    effects = [(command, effects_of(command, known)) for command in reading.commands]
    chosen = [each for each in effects if _text(each[0]) in asked] or effects
    if isinstance(action, RunCommand) and action.outside:
        withheld = action.because or "it was refused something inside"
        return Account(f"Runs a command without the sandbox: {withheld}.", UNDO["code"])
    if piped := _piped(effects):
        return Account(f"Runs a program that it downloads from {piped}: nobody has read it.", UNDO["code"])
    if not chosen:
        return Account(f"{_because('Runs a command', verdict)}.", UNDO["code"])
    command, found = max(chosen, key=lambda each: EFFECTS.index(each[1].effect))
    said = _sentence(command, found)
    # A file or a rule is the cause if the effect alone would be allowed.
    causes = [reason for reason in (asked.get(_text(command), ""), *verdict.reasons) if reason]
    if found.effect in ("looks", "edits") and causes and not _case(command):
        said = _because(f"Runs {_short(command.name)}", verdict)
    if isinstance(action, SendInput):
        said = f"Types into a running program. {said}"
    return Account(f"{said}.", _undo(found, asked, _text(command)))


def _undo(found: ProgramEffects, asked: Mapping[str, str], text: str) -> str:
    if found.effect == "history" and text not in asked:
        return UNDO["edits"]
    if found.effect == "looks" and any(each.startswith("> ") for each in asked):
        return "undo does not reach files outside the workspace"
    return UNDO[found.effect]


def _because(what: str, verdict: Verdict) -> str:
    reason = next(iter(verdict.reasons), "this mode asks about every command")
    return f"{what}, which {reason}" if re.match(r"[a-z]+s\b", reason) else f"{what}: {reason}"


def _text(command: Command) -> str:
    return literal(f"{command.word} {' '.join(command.arguments)}".rstrip())


def _piped(effects: Sequence[tuple[Command, ProgramEffects]]) -> str:
    """Return the host from which a download is piped into an interpreter; empty if none is."""
    for (first, found), (then, _) in pairwise(effects):
        program, *words = (then.name, *then.arguments)
        if program in ("sudo", "doas") and words:
            program, *words = words
        script = [each for each in words if each != "-" and not re.match(r"-[sxe]+$", each)]
        if first.name in ("curl", "wget") and program in INTERPRETERS and not script:
            return _hosts(found)
    return ""


def _case(command: Command) -> _Case | None:
    line = literal(" ".join(command.arguments))
    return next(
        (each for each in CASES if command.name in each.programs.split() and re.match(each.words, line)), None
    )


def _sentence(command: Command, found: ProgramEffects) -> str:
    case = _case(command)
    return _fill_in(case.sentence if case else BY_EFFECT[found.effect], command, found)


def _hosts(found: ProgramEffects) -> str:
    return _enumerate([each for each in found.hosts if each != UNKNOWN], "another machine")


def _short(text: str) -> str:
    return shorten(literal(text).replace("\n", " "), LONGEST)


def _of_action(action: Action, verdict: Verdict, workspace: Path) -> tuple[str, str]:
    reason = next(iter(verdict.reasons), "this mode asks about every action")
    path = getattr(action, "path", None)
    inside = path is None or path.is_relative_to(workspace)
    files = UNDO["edits"] if inside else "undo does not reach files outside the workspace"
    match action:
        case WritePath():
            verb = "Creates" if action.creates else "Changes"
            return f"{verb} {_short(action.path.name)}: {reason}", files
        case DeletePath():
            return f"Deletes {_short(action.path.name)}: {reason}", files
        case ReadPath():
            return f"Reads {_short(str(action.path))}: {reason}", UNDO["looks"]
        case ChangeFiles():
            many = plural(len(action.paths) + len(action.removes), "file")
            return f"{action.why[:1].upper()}{action.why[1:]} ({many})", UNDO["edits"]
        case Fetch():
            host = urlsplit(action.url).hostname or "an address"
            pages = f" and up to {plural(action.pages - 1, 'page')} from there" if action.pages > 1 else ""
            return f"Requests a page of {_short(host)}{pages}: the address leaves this machine", UNDO["looks"]
        case RunScript():
            return f"Runs a program that the model wrote: {reason}", UNDO["code"]
        case SendInput() | RunCommand():
            return _because("Types into a running program", verdict), UNDO["code"]
        case ChangeSettings():
            settings = "undo does not cover settings"
            return f"Changes Hermes' own settings ({_short(action.what)}): they protect you", settings
        case ReachHost():
            where = f"{_short(action.host)} (port {action.port})"
            who = f"A command ({_short(action.command)})" if action.command else "A command"
            return f"{who} wants to reach {where}: what it sends leaves this machine", UNDO["network"]
        case SpawnAgent():
            return f"Starts another agent: {reason}", UNDO["code"]
        case _ if action.effect is not None:
            what = _short(action.headline())
            why = action.effect.why
            undo = UNDO["code"] if action.effect.runs_programs else "undo covers files of the workspace only"
            return f"{what[:1].upper()}{what[1:]}: it {why}", UNDO[
                "looks"
            ] if action.effect.is_looking else undo
        case _:
            what = _short(action.headline())
            return f"Does something that Hermes does not know ({what}): {reason}", UNDO["code"]


NetworkImpact = Literal["", "yes", "no", "open", "filtered"]
"""`yes`: it certainly uses the network; `no`: it cannot; `open`: nothing prevents that; `filtered`: unlisted
hosts are asked about separately; empty: unknown.
"""
SandboxImpact = Literal["", "bubblewrap", "landlock", "seatbelt", "none", "outside"]
"""The sandbox it would run in; `outside`: it would leave the sandbox; empty: nothing runs, or elsewhere."""

MOST_TOUCHED = 6
"""The number of paths that are named; further ones are only counted."""
MOST_COUNTED = 1_000
"""The number up to which files in a folder are counted."""

_CHANGERS = DELETERS | OWNERS | WRITERS | words("touch mkdir rmdir tee truncate shred")
_ONTO = words("cp install ln rsync scp")
"""Programs that change only their last operand."""


@dataclass(frozen=True, slots=True)
class ActionEnvironment:
    """The workspace, home folder, sandbox and network that apply to the actions of a session."""

    workspace: Path
    home: Path
    sandbox: SandboxName = "none"
    network: NetworkMode = "on"
    commands_elsewhere: bool = False
    """True if commands run in a container or on another machine, whose files are unknown here."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of one action. `touches` are changed paths, relative to the workspace if they are in it."""

    touches: tuple[str, ...] = ()
    network: NetworkImpact = ""
    sandbox: SandboxImpact = ""


def impact(action: Action, verdict: Verdict, around: ActionEnvironment) -> Impact:
    """Return the impact of `action`. Reads the disk; call it in a thread."""
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
    """Return what `action` will do, why it is asked about, and what undo could restore. Reads no files."""
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
    """Yield marked absolute paths that the command would recognisably write or delete."""
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
    if UNKNOWN not in path and ("/./" in plain or "/.." in plain):
        folder, name = os.path.split(plain)
        # The parent folder of a link's target is not the one named in the path.
        plain = os.path.realpath(plain) if name == ".." else f"{os.path.realpath(folder)}/{name}"
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
    many = plural(count, "file") if count < MOST_COUNTED else f"{MOST_COUNTED:,} files or more"
    return f"{shown.rstrip('/')}/ ({'1 file' if count == 1 else many})"


def _files_in(folder: str) -> int:
    count = 0
    for _, folders, files in os.walk(folder):
        count += len(files)
        if count >= MOST_COUNTED or len(folders) > MOST_COUNTED:
            return MOST_COUNTED
    return count
