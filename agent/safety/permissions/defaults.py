"""The verdict of a mode if no rule applies: one policy for each effect, whichever tool causes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from agent.core.messages import Mode
from agent.safety import verdict
from agent.safety.assessor import Assessor
from agent.safety.effects import deed
from agent.safety.guarded import guard, guarded_reason
from agent.safety.permissions.subjects import Setting
from agent.safety.places import Places, absolute, joined
from agent.safety.programs.table import programs
from agent.safety.reader.state import Command, Reading
from agent.safety.reader.tree import UNKNOWN, literal, pattern, words
from agent.safety.rules import ProgramCall
from agent.safety.scope import Scope
from agent.safety.secrets import is_secret
from agent.safety.typed_input import as_command, follows
from agent.safety.verdict import DELETERS, OWNERS, WRITERS, Verdict
from agent.workspace.checkpoints.git_index import known_commands, may_go, passes
from tools.services.actions import (
    Action,
    ChangeFiles,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    RunScript,
    SearchWeb,
    SendInput,
    SpawnAgent,
    WritePath,
)

PLAN = "plan mode only reads; leave it with /mode to make changes"
OFF = "actions that need approval are switched off"
STAYS = "no request leaves this machine in this mode"
_EDITS = ("changes files of the workspace, which undo brings back",)


class Defaults:
    """The verdicts of all modes without rules, for one workspace. `assessor` judges commands, `scope` files.

    `guarded` tells whether guarded files are protected from scripts in the sandbox.
    """

    def __init__(
        self, setting: Setting, scratch: Path | None, assessor: Assessor, scope: Scope, *, guarded: bool
    ) -> None:
        self._setting = setting
        self._scratch = scratch
        self._assessor = assessor
        self._scope = scope
        self._guarded = guarded

    def verdict(self, mode: Mode, action: Action) -> Verdict:
        """Return the mode's verdict.

        `deny` asks about every effect; the decider turns asking into denying.
        """
        if isinstance(action, ReadPath) and self._is_open(action.path) and not is_secret(str(action.path)):
            return Verdict("allow", ("reading inside the workspace",))
        if isinstance(action, RunCommand):
            return self._command(mode, action)
        if isinstance(action, (Fetch, SearchWeb)) and mode in ("plan", "deny"):
            return Verdict("deny", (PLAN if mode == "plan" else OFF, STAYS))
        if mode == "yolo" and not isinstance(action, ChangeSettings):
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",))
        declared = action.effect
        looks = isinstance(action, (ReadPath, SpawnAgent)) or (declared and declared.is_looking)
        if mode == "plan" and not looks:
            return Verdict("deny", (PLAN,))
        found = self._by_effect(action)
        if mode != "normal" and found.kind == "allow":
            return Verdict("ask", self._why(action), found.parts)
        return found

    def _command(self, mode: Mode, action: RunCommand) -> Verdict:
        assessment = self._assessor.assess(action.command, action.cwd)
        verdict = assessment.verdict
        if verdict.kind == "hardline":
            return verdict
        if mode == "yolo":
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",), verdict.parts)
        if verdict.kind == "allow" and assessment.only_looks:
            return verdict
        if mode == "plan":
            return Verdict("deny", (PLAN, *(verdict.reasons if verdict.kind == "ask" else ())), verdict.parts)
        if mode != "normal" and verdict.kind == "allow":
            return Verdict("ask", self._why(action), verdict.parts)
        return verdict if verdict.reasons or verdict.kind == "allow" else Verdict("ask", self._why(action))

    def _by_effect(self, action: Action) -> Verdict:
        """Return the verdict of mode `normal` on any action but a command."""
        if action.effect is not None:
            return Verdict(action.effect.default, (action.effect.why,))
        match action:
            case WritePath():
                reason = self._scope.write(str(action.path))
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case DeletePath():
                reason = self._scope.delete(str(action.path), recursive=True)
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case SpawnAgent():
                return Verdict("allow", ("what another agent does is asked for by itself",))
            case RunScript() if action.sandboxed and not self._guarded:
                return Verdict("ask", ("could change what runs something later, and nothing would undo it",))
            case RunScript() if action.sandboxed:
                return Verdict("allow", ("it runs in the sandbox; its calls are asked for by themselves",))
            case Fetch() if _is_listed(action.url):
                return Verdict("allow", ("reads from a host on the list",))
            case SendInput():
                return self._typed(action)
            case _:
                return Verdict("ask", self._why(action))

    def _typed(self, action: SendInput) -> Verdict:
        """Judge typed input, which always needs permission because the program's state is unknown."""
        typed = self._assessor.assess(as_command(action, self._setting.home), self._setting.workspace).verdict
        if typed.kind == "hardline":
            return typed
        reasons = typed.reasons if typed.kind == "ask" else ()
        return Verdict("ask", ("types into a running program", *reasons), typed.parts)

    def _why(self, action: Action) -> tuple[str, ...]:
        """Return reasons why the action needs permission, for the user."""
        outside = "" if self._inside(action) else ", outside the workspace"
        if action.effect is not None:
            return (action.effect.why,)
        match action:
            case RunCommand():
                return (f"runs a command{outside}",)
            case ReadPath():
                if is_secret(str(action.path)):
                    return (f"reads secrets{outside}",)
                return (f"reads a file or folder{outside}",)
            case WritePath():
                return (f"{'creates' if action.creates else 'changes'} a file{outside}",)
            case DeletePath():
                return (f"deletes a file{outside}",)
            case Fetch():
                return ("reaches the network",)
            case ChangeSettings():
                return ("changes Hermes' own settings",)
            case SpawnAgent():
                return ("starts another agent",)
            case SendInput():
                return ("types into a running program",)
            case RunScript():
                return (
                    "runs a program outside of the sandbox" if not action.sandboxed else "runs a program",
                )
            case _:
                return (f"is an action of {action.tool} the gate does not know",)

    def _is_open(self, path: Path) -> bool:
        """Return whether reading this path needs no permission."""
        folders = (self._setting.workspace, self._scratch)
        return any(folder is not None and path.is_relative_to(folder) for folder in folders)

    def _inside(self, action: Action) -> bool:
        path = getattr(action, "path", None) or getattr(action, "cwd", None)
        return path is None or path.is_relative_to(self._setting.workspace)


def _is_listed(address: str) -> bool:
    """Return whether an address uses an encrypted connection to a listed host."""
    try:
        parts = urlsplit(address)
        return (
            parts.scheme == "https" and verdict.is_known(parts.hostname or "") and parts.port in (None, 443)
        )
    except ValueError:
        return False


_WRITERS = (
    WRITERS
    | DELETERS
    | OWNERS
    | words("touch mkdir rmdir dd curl wget tar unzip patch ed ex vi vim nano shred")
)
_WHOLE = DELETERS | words("mv rsync rmdir")
"""Programs that affect everything inside a folder."""
_NOWHERE = Places("/")
_PLACERS = words("cp mv ln install rsync scp")
"""Programs that put a file into a folder under its own name."""
_GIT_ASKS = words("--get --get-all --get-regexp --list -l --show-origin get list")


_GIT_BRINGS = words(
    "checkout switch restore reset pull merge rebase cherry-pick revert stash am apply submodule worktree "
    "sparse-checkout bisect read-tree checkout-index"
)


def brings_files(reading: Reading) -> bool:
    """Return whether a command makes git write other versions of files into the work tree.

    Git would stop half-way if it could not write one of them. So it may write guarded ones, which are checked
    afterwards.
    """
    return any(
        command.name == "git" and not _GIT_BRINGS.isdisjoint(command.arguments)
        for command in reading.commands
    )


def deletes_folders(reading: Reading) -> Callable[[Path], bool]:
    """Return a test whether the command deletes a given folder with its content, by name or glob."""
    found = [(each.cwds, deed(each, programs())) for each in reading.commands if each.name in DELETERS]
    named = [absolute(joined(cwd, path)) for cwds, does in found for path in does.deletes for cwd in cwds]
    places = [tuple(map(pattern, path.split("/")[1:])) for path in named if UNKNOWN not in path]

    def deletes(folder: Path) -> bool:
        names = folder.parts[1:]
        return any(
            len(each) == len(names)
            and all(one.fullmatch(name) for one, name in zip(each, names, strict=True))
            for each in places
        )

    return deletes


class Protection:
    """The guarded files and folders of one workspace. `own` is the home of Hermes."""

    def __init__(self, setting: Setting, own: Path | None) -> None:
        self._setting = setting
        self._own = own

    def reason(self, action: Action) -> str | None:
        """Return why the action needs permission in every mode, as a clause for the user; None if not."""
        setting = self._setting
        if isinstance(action, (RunCommand, SendInput)):
            return next((reason for reason, _ in self._command(action)), None)
        return guarded_reason(action, setting.workspace, setting.home, own=self._own)

    def guarded_paths(self, action: Action) -> tuple[Path, ...]:
        """Return the known guarded paths that the action changes. Permission for the action covers them."""
        if isinstance(action, (RunCommand, SendInput)):
            return tuple(Path(literal(path)) for _, path in self._command(action))
        writes = action.writes() if isinstance(action, ChangeFiles) else (action,)
        paths = (
            each.path for each in writes if isinstance(each, (WritePath, DeletePath)) and self.reason(each)
        )
        return tuple(paths)

    def _command(self, action: RunCommand | SendInput) -> Iterator[tuple[str, str]]:
        """Yield a reason and the marked path for each guarded place that a command changes."""
        setting = self._setting
        text = action.command if isinstance(action, RunCommand) else follows(action, setting.home)
        cwd = action.cwd if isinstance(action, RunCommand) else setting.workspace
        reading = setting.reading(text, cwd)
        guarded = guard(setting.workspace, setting.home, self._own)
        for command in reading.commands:
            if command.name == "git" and _sets(command):
                yield from (
                    ("changes settings of Git, which can run programs", f"{each}/.git")
                    for each in (*command.cwds, setting.workspace)
                )
            if keys := _known_settings(command):
                named = ", ".join(f"git-config({key})" for key in keys)
                yield from ((f"sets {named}, and hooks", f"{each}/.git") for each in command.cwds)
        touched = ((path, cwds, False) for path, cwds in reading.writes)
        for word, cwds, whole in chain(touched, _writes(reading.commands)):
            for folder in cwds:
                path = joined(folder, word)
                # Of a place that is not known, the names that are known count.
                path = path if path.startswith("/") else f"/{path}"
                if place := guarded.leads_to(path, whole=whole):
                    yield f"changes {place}", path


Written = tuple[str, tuple[str, ...], bool]
"""A path as written, its possible current folders, and whether everything inside is affected."""


def _writes(commands: tuple[Command, ...]) -> Iterator[Written]:
    for command in commands:
        if command.name in _WRITERS and not (command.name in ("sed", "perl") and not _in_place(command)):
            whole = command.name in _WHOLE
            for word in command.arguments:
                if not word.startswith("-"):
                    yield word, command.cwds, whole
                if "=" in word and (rest := word.partition("=")[2]):
                    yield rest, command.cwds, whole
        if command.name in _PLACERS:
            for path in _landings(command):
                yield path, command.cwds, True


def _landings(command: Command) -> Iterator[str]:
    """Yield the paths that copies would have if the target is a folder."""
    line = ProgramCall(command.name, command.arguments, "/", _NOWHERE)
    operands = line.operands("tS")
    target = line.value("t", "target-directory")
    for option, following in pairwise(command.arguments):
        if re.fullmatch(r"-[A-Za-su-z]+t", option):
            target = following
    if target is None and len(operands) > 1:
        target = operands.pop()
    folder = f"{target.rstrip('/')}/" if target else ""
    for source in operands if target else ():
        name = source.rstrip("/").rpartition("/")[2]
        if name not in ("", ".", ".."):
            yield folder + name


def _known_settings(command: Command) -> tuple[str, ...]:
    """Return settings that a known command makes without naming them, such as `git lfs install --local`."""
    if not command.name.startswith("git"):
        return ()
    words = (*command.name.split("-", 1), *command.arguments)
    said = [word for word in words if not word.startswith("-")]
    for known, keys in known_commands().items():
        options = {word for word in known if word.startswith("-")}
        if said[: len(known) - len(options)] == [*known[: len(known) - len(options)]] and options <= {*words}:
            return keys
    return ()


def _in_place(command: Command) -> bool:
    return any(
        word.startswith(("-i", "--in-place")) or (word[:1] == "-" and "i" in word)
        for word in command.arguments
    )


def _sets(command: Command) -> bool:
    """Return whether a `git config` command changes a setting."""
    arguments = [word for word in command.arguments if word]
    if "config" not in arguments:
        return False
    rest = arguments[arguments.index("config") + 1 :]
    rest = rest[1:] if rest[:1] == ["--local"] else rest
    operands = [word for word in rest if not word.startswith("-")]
    gone = {"--unset", "--unset-all", "unset"}
    if gone & set(rest) and len(keys := [word for word in operands if word != "unset"]) == 1:
        return not may_go(keys[0])
    if len(operands) == 2 and not set(rest) - {*operands, "--add", "--replace-all"} and passes(*operands):
        return False
    writes = {
        "--unset",
        "--unset-all",
        "--add",
        "--edit",
        "-e",
        "--replace-all",
        "--remove-section",
        "set",
        "unset",
    }
    return bool(writes & set(rest)) or (len(operands) >= 2 and not _GIT_ASKS & set(rest))
