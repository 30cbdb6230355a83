"""Reverts unapproved changes by programs at guarded paths, and applies them again after an approval.

Guarded paths are files that run programs later, such as git hooks. Changes that git brought from commits of
others are kept. If git brought other commits, or the agent committed what it overwrote, the whole step is
reverted: otherwise HEAD, index and work tree would disagree.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.events import Event, Noticed
from agent.safety.assessor import file_names_programs, hooks_of_mercurial
from agent.safety.guarded import known_name, led_to
from agent.safety.reader.tree import words
from agent.workspace.checkpoints.entries import PathKind, is_outside
from agent.workspace.checkpoints.git_settings import (
    Settings,
    all_settings,
    is_plain,
    keys_to_ask,
    passes,
    take_over,
)
from tools.context import ToolContext
from tools.kit.files import create_file, read_bytes
from tools.results import DeniedError
from tools.services.actions import Action, KeepChanges, RunCommand, RunScript, SendInput, SetGitSettings
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.safety.sandbox.repository import SettingsCopies, SettingsFileChange
    from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.git_origins import GitOrigins
    from tools.terminal.terminals import Terminals


T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds to wait for another program's lock on the git settings."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class _Judged:
    """A git settings file that a call wrote: its values before and after, and the keys that need approval."""

    change: SettingsFileChange
    before: Settings
    after: Settings
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettledSettings:
    """The result of handling the git settings that a call wrote."""

    written: tuple[Path, ...] = ()
    note: str = ""
    refused: bool = False
    """True if a part of the changes was not applied."""


class SettingsChanges:
    """Handles the git settings that the calls of one agent write to copies.

    `had` returns the addresses of remotes, by name, that a git folder had before the session.
    """

    def __init__(self, copies: SettingsCopies, had: Callable[[Path], Mapping[str, str]]) -> None:
        self._copies = copies
        self._had = had

    async def settle(self, tool: str, context: ToolContext) -> SettledSettings:
        """Apply the changes, after asking the user about those that need approval; return the result."""
        changes = await asyncio.to_thread(self._copies.changes) if self._copies.has_copies else []
        if not changes:
            return SettledSettings()
        judged: list[_Judged] = []
        notes: list[str] = []
        for change in changes:
            try:
                judged.append(await asyncio.to_thread(self._judge, change))
            except (OSError, ValueError):
                notes.append(f"{_short_path(change.path)} was not changed: git cannot read what was written.")
        keys = tuple(dict.fromkeys(key for each in judged for key in each.asked))
        refused = bool(notes)
        try:
            if keys:
                await context.permit(SetGitSettings(tool=tool, keys=keys))
        except DeniedError as denied:
            refused = True
            named = ", ".join(f"git-config({key})" for key in keys[:_SHOWN])
            notes.append(
                f"{named}: this may run a program or send elsewhere, so it was not taken over into git's "
                f"settings, whatever the output says; the rest was. {denied}"
            )
            judged = [_without(each) for each in judged]
        written: list[Path] = []
        for each in judged:
            try:
                if await asyncio.to_thread(self._write, each):
                    written.append(each.change.path)
            except (OSError, ValueError) as error:
                refused = True
                notes.append(f"{_short_path(each.change.path)} was not changed: {error}.")
        await asyncio.to_thread(self._copies.reset)
        return SettledSettings(tuple(written), " ".join(notes), refused)

    def _judge(self, change: SettingsFileChange) -> _Judged:
        before, after = _parse_settings(change.before), _parse_settings(change.after)
        had = self._had(change.path.parent)
        return _Judged(change, before, after, tuple(keys_to_ask(before, after, had)))

    def _write(self, judged: _Judged) -> bool:
        """Write the changed values to the settings file; return whether that changed it. Raises `OSError`."""
        path, change = judged.change.path, judged.change
        keys = [
            key
            for key in dict.fromkeys((*judged.before, *judged.after))
            if judged.before.get(key) != judged.after.get(key)
        ]
        lock = path.with_name(f"{path.name}.lock")
        descriptor = _open_lock(lock)
        try:
            now = path.read_bytes() if path.exists() else b""
            is_same = now == change.before and judged.after == _parse_settings(change.after)
            if is_same and is_plain(change.after, change.before):
                text = change.after
            else:
                text = _merge_settings(now, [(key, judged.after.get(key, ())) for key in keys])
            if text == now:
                return False
            os.write(descriptor, text)
            os.fchmod(descriptor, path.stat().st_mode & 0o777 if path.exists() else 0o644)
            if self._copies.is_in_use:
                # Overlays seen by a running program would disappear with it.
                with path.open("r+b") as file:
                    file.write(text)
                    file.truncate()
            else:
                lock.replace(path)
            return True
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                lock.unlink()


def _without(judged: _Judged) -> _Judged:
    """Return the changes, with the keys that need approval set back to their old values."""
    after = {key: values for key, values in judged.after.items() if key not in judged.asked}
    after |= {key: judged.before[key] for key in judged.asked if key in judged.before}
    return _Judged(judged.change, judged.before, after, ())


def _parse_settings(text: bytes) -> Settings:
    return _in_file(text, all_settings)


def _merge_settings(text: bytes, values: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    def change(file: Path) -> bytes:
        for key, new in values:
            take_over(file, key, all_settings(file).get(key, ()), new)
        return file.read_bytes()

    return _in_file(text, change)


def _in_file(text: bytes, work: Callable[[Path], T]) -> T:
    """Write the text to a private temporary file, and return the result of `work` on it."""
    from tools.kit.private_folders import PrivateFolder

    with PrivateFolder("git") as folder:
        file = folder / "config"
        file.write_bytes(text)
        return work(file)


def _open_lock(lock: Path) -> int:
    """Create the lock file that git also uses; return its file descriptor. Raises `OSError`."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return create_file(lock, 0o644)
        except FileExistsError:
            if time.monotonic() > until:
                raise OSError(f"{lock.name} is there, so another program is writing it") from None
            time.sleep(0.02)


def _short_path(path: Path) -> str:
    return "/".join(path.parts[-2:])


SHOWN = 5
"""The maximum number of paths that are named; the rest is counted."""
_SHORT = 4_096
_DEPENDENCIES = words(
    "node_modules bower_components site-packages dist-packages .venv venv .tox .nox __pycache__ vendor target"
)
"""Folders that package managers fill, and whose programs any program can change anyway."""
_FILLED = frozenset({(".yarn", "cache"), (".yarn", "unplugged"), (".husky", "_")})
_STATE = frozenset({(".yarn", "install-state.gz"), (".yarn", "build-state.yml")})


@dataclass(frozen=True, slots=True)
class GuardedChanges:
    """The changes at guarded paths that a program made in one step. Paths are relative to the workspace."""

    changes: tuple[PathChange, ...] = ()
    brought: tuple[str, ...] = ()
    """Paths in a repository that was fetched as a whole into a new folder: only reported."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths to be reverted."""
        return _paths(self.changes)

    def without(self, known: frozenset[str]) -> GuardedChanges:
        """Return the changes without those to `known` paths, which git brought from commits of others."""
        above = {folder for path in known for folder in _above(path)}
        rest = tuple(change for change in self.changes if change.path not in known | above)
        return replace(self, changes=rest if any(not _is_folder(change) for change in rest) else ())


def guarded_changes(step: Step, allowed: Collection[Path] = ()) -> GuardedChanges:
    """Return the changes at guarded paths that a program made in this step. Reads new git settings.

    `allowed` are paths that the user approved in the same call; a folder includes everything below it.
    """
    if step.kind not in ("command", "outside"):
        return GuardedChanges()
    root = Path(step.root)
    fetched = tuple(_new_repositories(step.changes, root))
    removed = {each.path for each in step.changes if each.after is None and _is_folder(each)}
    led = tuple(f"{real}/" for real in led_to(root))
    made: list[PathChange] = []
    brought: list[PathChange] = []
    for change in step.changes:
        if (
            is_outside(change.path)
            or not (_is_guarded(change, root) or f"{root}/{change.path}/".startswith(led))
            or (change.after is None and _went_along(change.path, removed))
            or _is_allowed(root / change.path, allowed)
        ):
            continue
        came_along = change.path.startswith(fetched) and ".git" not in change.path.split("/")
        (brought if came_along else made).append(change)
    return GuardedChanges(tuple(made), _paths(brought))


def _paths(changes: Sequence[PathChange]) -> tuple[str, ...]:
    """Return the paths of the changes. A folder is included only if paths in it changed."""
    used = {folder for change in changes if not _is_folder(change) for folder in _above(change.path)}
    return tuple(change.path for change in changes if not _is_folder(change) or change.path in used)


def _is_folder(change: PathChange) -> bool:
    return PathKind.FOLDER in (
        each.kind if each is not None else None for each in (change.before, change.after)
    )


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _new_repositories(changes: Sequence[PathChange], root: Path) -> Iterator[str]:
    """Yield the folders, each with a final slash, that became repositories in this step."""
    new = {change.path for change in changes if change.before is None}
    for path in new:
        folder, _, name = path.rpartition("/")
        if name == ".git" and folder and (folder in new or _had_nothing(folder, new, root)):
            yield f"{folder}/"


def _had_nothing(folder: str, new: Collection[str], root: Path) -> bool:
    try:
        return all(f"{folder}/{each.name}" in new for each in (root / folder).iterdir())
    except OSError:
        return False


def _is_guarded(change: PathChange, root: Path) -> bool:
    names = tuple(change.path.split("/"))
    if not _DEPENDENCIES.isdisjoint(names):
        return False
    if ".git" in names:
        return _runs_programs(names[names.index(".git") + 1 :], change, root)
    pairs = set(pairwise(names))
    if pairs & _FILLED or names[-2:] in _STATE:
        return False
    if names[-1] == ".gitmodules" and change.after is not None and change.after.kind is PathKind.FILE:
        return not _runs_nothing(root / change.path)
    if names[-2:] == (".hg", "hgrc") and change.after is not None and change.after.kind is PathKind.FILE:
        return hooks_of_mercurial(root / change.path)
    # A link in place of a folder makes all the folder's contents available at its target.
    return known_name(change.path, whole=is_link(change.after)) is not None


def is_link(entry: PathEntry | None) -> bool:
    """Return whether the entry is a symbolic link."""
    return entry is not None and entry.kind is PathKind.LINK


def _runs_nothing(modules: Path) -> bool:
    """Return whether a `.gitmodules` file only sets harmless values, such as paths and addresses."""
    try:
        return all(passes(key, value) for key, values in all_settings(modules).items() for value in values)
    except OSError:
        return False


def _runs_programs(inside: tuple[str, ...], change: PathChange, root: Path) -> bool:
    """Return whether a change in a `.git` folder can run programs: a hook, or settings that name one."""
    if change.after is None or change.after.kind is PathKind.FOLDER:
        return False
    if "hooks" in inside[:-1]:
        return not inside[-1].endswith(".sample")
    if inside[-1:] == ("commondir",):
        # The link of a linked work tree leads to its repository, any other one elsewhere.
        return inside[-3:-2] != ("worktrees",) or _text(root / change.path) != "../.."
    return inside[-1:] in (("config",), ("config.worktree",)) and file_names_programs(root / change.path)


def _text(path: Path) -> str:
    try:
        return os.fsdecode(read_bytes(path, _SHORT)[0]).strip()
    except OSError:
        return ""


def _went_along(path: str, removed: Collection[str]) -> bool:
    """Return whether the path was deleted together with an unguarded folder that contained it."""
    return any(each in removed and known_name(each, whole=True) is None for each in _above(path))


def _is_allowed(path: Path, allowed: Collection[Path]) -> bool:
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in allowed)


def name_paths(paths: Sequence[str]) -> str:
    """Return the first paths as text for a sentence, with the number of the others."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"


@dataclass(frozen=True, slots=True)
class _Taken:
    """The changes of a call that were reverted."""

    step: Step
    guarded: tuple[str, ...]
    whole: bool
    """True if all changes of the call were reverted, not only those at guarded paths."""

    @property
    def words(self) -> str:
        return "the whole command was taken back" if self.whole else "it was taken back"

    @property
    def model_text(self) -> str:
        """A report for the model on the reverted changes."""
        shown = name_paths(self.guarded)
        if not self.whole:
            return f"{shown}: this runs something later, so what the program did there was taken back."
        return (
            f"{shown}: this runs something later, and it comes from commits of this session or from ones of "
            "unknown origin. So the whole command was taken back: HEAD, index and files are as they were "
            "before it, whatever its output and exit code say."
        )

    @property
    def advice(self) -> str:
        if self.whole:
            return "It does not help to run it again; tell the person which commits bring these files."
        return "To change it, use write_file or patch; a person is asked."


class UnaskedChanges:
    """Handles changes at guarded paths in the steps of one agent's calls."""

    def __init__(
        self,
        steps: StepRecorder | None,
        emit: Callable[[Event], None],
        origins: GitOrigins | None = None,
        copies: SettingsCopies | None = None,
    ) -> None:
        self._steps = steps
        self._emit = emit
        self._origins = origins
        had = origins.remotes if origins is not None else lambda _: {}
        self._settings = SettingsChanges(copies, had) if copies is not None else None
        self._allowed: dict[str, list[Path]] = {}
        self._taken: dict[str, _Taken] = {}
        """The reverted changes of each call."""

    def allow(self, call: str, places: Sequence[Path]) -> None:
        """Record that the user approved changes at these paths in a call, or in a call of its script."""
        if places:
            self._allowed.setdefault(call, []).extend(places)

    async def settle_settings(self, call: str, tool: str, context: ToolContext, result: str) -> str:
        """Apply the changes of a call to git settings, if permitted; return its result with a note."""
        if self._settings is None:
            return result
        settled = await self._settings.settle(tool, context)
        self.allow(call, settled.written)
        if settled.refused:
            result = _mark_failed(result)
        return _with_note(result, settled.note) if settled.note else result

    async def take_back(self, step: Step, call: str) -> None:
        """Revert the unapproved changes at guarded paths in a call's step. A notice reports failures."""
        allowed = [
            place
            for each in list(self._allowed)
            if each == call or each.startswith(f"{call}.")
            for place in self._allowed.pop(each)
        ]
        if step.kind != "command" or self._steps is None:
            return
        found = await asyncio.to_thread(guarded_changes, step, allowed)
        if found.brought:
            text = "What was fetched runs something later where it is opened; look at it first: "
            self._emit(Noticed(kind="warning", text=clean(text + name_paths(found.brought))))
        whole = False
        if found.paths and self._origins is not None:
            origins = await self._origins.of(found.changes)
            found, whole = found.without(origins.known), bool(origins.by_git)
        made = found.paths
        if not made:
            return
        paths = [change.path for change in step.changes] if whole else made
        taken = await self._steps.move_to(step.number - 1, paths, f"took back {name_paths(made)}")
        if taken is None:
            text = "A program changed what runs something later, and it could not be taken back; look at it: "
            self._emit(Noticed(kind="warning", text=clean(text + name_paths(made))))
        else:
            self._taken[call] = _Taken(taken, made, whole)

    async def settle(self, call: str, tool: str, context: ToolContext, result: str) -> str:
        """Ask whether to apply the reverted changes of a call again; return its result with a note."""
        taken = self._taken.pop(call, None)
        if taken is None or self._steps is None:
            return result
        step, shown = taken.step, name_paths(taken.guarded)
        root = Path(step.root)
        guarded = [change for change in step.changes if change.path in taken.guarded]
        action = KeepChanges(
            tool=tool,
            paths=tuple(root / change.path for change in guarded if change.before is not None),
            removes=tuple(root / change.path for change in guarded if change.before is None),
            links=tuple(root / each.path for each in guarded if is_link(each.before)),
        )
        try:
            await context.permit(action)
        except DeniedError as denied:
            text = f"A program changed what runs something later; {taken.words}: {shown}."
            self._emit(
                Noticed(kind="warning", text=clean(f"{text} What it wrote is kept: /rewind shows it."))
            )
            return _with_note(result, f"{taken.model_text} {denied} {taken.advice}")
        paths = [change.path for change in step.changes]
        if await self._steps.move_to(step.number - 1, paths, f"kept {shown}") is None:
            return _with_note(result, f"{shown}: a person allowed this change, but it could not be put back.")
        return _with_note(
            result, f"{shown}: this runs something later; a person was asked and kept the change."
        )

    async def forgo(self, call: str) -> None:
        """Forget the reverted changes of a call that was interrupted; a notice reports them."""
        self._allowed.pop(call, None)
        if taken := self._taken.pop(call, None):
            text = "A program changed what runs something later; it was taken back: "
            self._emit(Noticed(kind="warning", text=clean(text + name_paths(taken.guarded))))


def _mark_failed(result: str) -> str:
    """Return the result of a call with exit code 0 replaced by 1."""
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        return result
    if not isinstance(data, dict) or data.get("exit_code") != 0:
        return result
    return json.dumps({**data, "exit_code": 1}, ensure_ascii=False)


def _with_note(result: str, note: str) -> str:
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        data = {"result": result}
    if not isinstance(data, dict):
        data = {"result": data}
    data["note"] = " ".join(filter(None, (str(data.get("note") or ""), clean(note))))
    return json.dumps(data, ensure_ascii=False)


_PROGRAMS = (RunCommand, RunScript, SendInput)
_WHO = "While a program ran in the background, it or somebody else changed what runs something later"


class BackgroundChanges:
    """Handles changes at guarded paths by background processes of the agents of one workspace.

    `closed` returns the paths that are read-only to programs now. It returns None if paths cannot be made
    read-only; then changes are only reported. `tell` receives a sentence for the user and the model.
    """

    def __init__(
        self,
        steps: StepRecorder,
        terminals: Terminals,
        closed: Callable[[], Sequence[Path] | None],
        tell: Callable[[str], None],
    ) -> None:
        self._steps = steps
        self._line = steps.store.line(steps.line)
        self._terminals = terminals
        self._closed = closed
        self._tell = tell
        self._judged = 0
        self._looking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        terminals.background_ended = self._start_look

    async def acting(self, call: str, action: Action) -> None:
        """Check the changes of background programs before an action runs a program."""
        if isinstance(action, _PROGRAMS):
            await self.look()

    async def look(self) -> None:
        """Revert, or report, the changes at guarded paths by background programs since the last check."""
        async with self._looking:
            run = self._terminals.unchecked_run()
            # While a call's program runs, all changes are attributed to that call.
            if run is None or not await self._steps.catch_up():
                return
            steps = await asyncio.to_thread(self._line.steps)
            fresh = [each for each in steps if each.created > run.since]
            for number, paths in (await asyncio.to_thread(self._suspects, fresh)).items():
                await self._take_back(number, paths)
            self._judged = self._steps.position
            self._terminals.mark_checked(run)

    async def aclose(self) -> None:
        """Check one last time, after all processes have ended and while steps are still recorded."""
        self._terminals.background_ended = lambda: None
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.look()

    def _suspects(self, steps: Sequence[Step]) -> dict[int, list[str]]:
        """Return the paths to be reverted, grouped by the number of the first step that changed them."""
        root, closed = self._steps.root, self._closed()
        made = {change.path for step in steps for change in step.changes if change.before is None}
        kept = [each for each in closed or () if not _lies_in(each, root, made)]
        found: dict[str, int] = {}
        for step in steps:
            if step.kind == "outside" and step.number > self._judged:
                for path in guarded_changes(step).paths:
                    if not any((root / path).is_relative_to(each) for each in kept):
                        found.setdefault(path, step.number)
        return {number: [path for path in found if found[path] == number] for number in found.values()}

    async def _take_back(self, number: int, paths: Sequence[str]) -> None:
        shown = name_paths(paths)
        if self._closed() is None:
            self._tell(clean(f"{_WHO}; look at it: {shown}."))
        elif await self._steps.move_to(number - 1, paths, f"took back {shown}") is None:
            self._tell(clean(f"{_WHO}, and it could not be taken back; look at it: {shown}."))
        else:
            kept = "What was written is kept: /rewind shows it."
            self._tell(clean(f"{_WHO}; it was taken back: {shown}. {kept}"))

    def _start_look(self) -> None:
        task = asyncio.ensure_future(self.look())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _lies_in(place: Path, root: Path, made: set[str]) -> bool:
    """Return whether a path, or a folder that contains it, was created after the programs started.

    Then these programs were able to write to it.
    """
    if not place.is_relative_to(root):
        return False
    parts = place.relative_to(root).parts
    return any("/".join(parts[:count]) in made for count in range(1, len(parts) + 1))
