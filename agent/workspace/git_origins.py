"""The origin of files that git wrote: whether they come from commits that the agent did not make.

Known commits are those that a repository had before the first program of a session ran, and those that a
remote set by the user claims to have. All others count as the agent's: it can make commits in any repository,
take them from bundles and patches, and give them any name.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.fingerprints import VerifiedObjects, object_name
from agent.workspace.git import GitError, common_folder, git_folder, merge_texts, run_git, top_folder
from tools.kit.files import PRIVATE_FILE, read_bytes, write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.services.actions import Action, RunCommand, RunScript, SendInput

AskRemote = Callable[[str], Awaitable[Sequence[str]]]
"""A function that returns the commits which a remote repository claims to have; empty if unavailable."""

_ID = re.compile(rb"\b(?:[0-9a-f]{40}|[0-9a-f]{64})\b")
_SENDS = lazy_pattern(r"\bgit\b[^\n]{0,200}?\bpush\b|\b(?:send-pack|dcommit|gh|glab|hub|tea)\b")
_MOST_REPOSITORIES = 32
_MOST_TIPS = 100_000
_MOST_CANDIDATES = 200
_MOST_STEPS_BACK = 500
_LOG_BYTES, _FILE_BYTES = 4_000_000, 4_000_000
_UNINTERESTING = frozenset({"node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build"})
_MARKER = re.compile(rb"^(<{7}|>{7}|\|{7}).*$", re.MULTILINE)

State = tuple[str, frozenset[str]] | None
"""The state of a path: its git mode and its possible objects; None if the path does not exist."""


@dataclass(slots=True)
class _Known:
    """The state of one repository before the first program ran."""

    tips: list[str]
    remotes: dict[str, str]
    """Addresses set by the user, by name."""
    fetched: list[str] = field(default_factory=list)
    """Commits that one of these remotes claims to have."""


@dataclass(frozen=True, slots=True)
class FileOrigins:
    """The origins of the guarded files that a step changed."""

    known: frozenset[str] = frozenset()
    """Paths that git wrote from commits not made by the agent. They are kept."""
    by_git: frozenset[str] = frozenset()
    """Other paths that git wrote or added to a commit or the index. They are undone with the whole step."""


class GitOrigins:
    """The commits that the repositories of one workspace had before the session's first step.

    `file` stores them for a resumed session. `steps` returns the steps of the session so far. `ask` queries a
    remote repository; if it is None, none is queried.
    """

    def __init__(
        self, workspace: Path, file: Path, steps: Callable[[], Sequence[Step]], ask: AskRemote | None = None
    ) -> None:
        self._root = workspace.resolve()
        self._file = file
        self._steps = steps
        self._ask = ask
        self._known: dict[str, _Known] | None = None
        self._has_sent = False
        self._noting = asyncio.Lock()

    async def acting(self, call: str, action: Action) -> None:
        """Record the existing commits before the first program of the session runs."""
        if not isinstance(action, (RunCommand, RunScript, SendInput)):
            return
        async with self._noting:
            if self._known is None:
                await self._load()
            text = (
                getattr(action, "command", "") or getattr(action, "code", "") or getattr(action, "data", "")
            )
            if not self._has_sent and _SENDS.search(str(text)):
                self._has_sent = True
                await asyncio.to_thread(self._save)

    def remotes(self, folder: Path) -> Mapping[str, str]:
        """Return the remotes that a git folder had before the first program ran: addresses by name."""
        known = (self._known or {}).get(str(folder))
        return known.remotes if known is not None else {}

    async def of(self, changes: Sequence[PathChange]) -> FileOrigins:
        """Return the origins of changed files (paths relative to the workspace). Never raises."""
        earlier = await asyncio.to_thread(self._earlier, {change.path for change in changes})
        by_repository: dict[Path, list[PathChange]] = {}
        for change in changes:
            if PathKind.FOLDER in (change.before and change.before.kind, change.after and change.after.kind):
                continue
            if (top := top_folder((self._root / change.path).parent)) is not None:
                by_repository.setdefault(top, []).append(change)
        known: set[str] = set()
        by_git: set[str] = set()
        for top, some in by_repository.items():
            look = _Look(top, self._root, self._of(top), self._ask_all)
            for change in some:
                with suppress(GitError, OSError, ValueError):
                    if change.after is not None and any(map(change.after.same, earlier[change.path])):
                        known.add(change.path)
                    elif await look.took(change):
                        by_git.add(change.path)
                        known.update([change.path] if await look.is_known(change) else [])
        return FileOrigins(frozenset(known), frozenset(by_git - known))

    def _earlier(self, paths: Collection[str]) -> dict[str, list[PathEntry | None]]:
        """Return the states of paths before each program of the session that changed them.

        The user has not objected to these states.
        """
        found: dict[str, list[PathEntry | None]] = {path: [] for path in paths}
        with suppress(StoreError, OSError):
            for step in self._steps():
                for change in step.changes if step.kind == "command" else ():
                    if change.path in found:
                        found[change.path].append(change.before)
        return found

    def _of(self, top: Path) -> _Known:
        git = git_folder(top)
        key = str(common_folder(git).resolve()) if git is not None else ""
        return (self._known or {}).get(key) or _Known([], {})

    async def _ask_all(self, known: _Known) -> list[str]:
        """Return the commits that the user's remotes have; empty if the session may have pushed commits."""
        if self._ask is None or self._has_sent:
            return []
        for address in list(known.remotes.values())[:3]:
            with suppress(GitError, OSError):
                known.fetched += await self._ask(address)
        await asyncio.to_thread(self._save)
        return known.fetched

    # Storage

    async def _load(self) -> None:
        try:
            data = json.loads(await asyncio.to_thread(self._file.read_bytes))
            self._known = {name: _Known(**each) for name, each in data["repositories"].items()}
            self._has_sent = bool(data["sent"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._known = {}
            for top in await asyncio.to_thread(_repositories, self._root):
                with suppress(GitError, OSError):
                    git = git_folder(top)
                    if git is not None:
                        self._known[str(common_folder(git).resolve())] = await _now(top, git)
            await asyncio.to_thread(self._save)

    def _save(self) -> None:
        data: dict[str, Any] = {
            "sent": self._has_sent,
            "repositories": {
                name: {"tips": each.tips, "remotes": each.remotes, "fetched": each.fetched}
                for name, each in (self._known or {}).items()
            },
        }
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(
                self._file, json.dumps(data).encode(), PRIVATE_FILE, replace_any=True, durable=False
            )


def _repositories(root: Path) -> list[Path]:
    """Return the top folders of the repository that contains a folder and of those up to two levels below."""
    above = top_folder(root)
    found = [above] if above is not None else []
    queue = [(root, 0)]
    for folder, depth in queue:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _UNINTERESTING or entry.is_symlink():
                    continue
                if entry.is_dir():
                    inner = Path(entry.path)
                    if os.path.lexists(inner / ".git"):
                        found.append(inner)
                    if depth < 1 and len(queue) < _MOST_REPOSITORIES * 4:
                        queue.append((inner, depth + 1))
    return found[:_MOST_REPOSITORIES]


async def _now(top: Path, git: Path) -> _Known:
    refs = await run_git(top, "for-each-ref", "--format=%(objectname) %(*objectname)")
    head = await run_git(top, "rev-parse", "--verify", "-q", "HEAD")
    files = await asyncio.to_thread(_logged, git, common_folder(git))
    tips = [each.decode() for each in _ID.findall(head.output + b"\n" + refs.output + b"\n" + files)]
    settings = await asyncio.to_thread(read_bytes, common_folder(git).resolve() / "config", _FILE_BYTES)
    remotes = {name: _absolute(address, top) for name, address in remote_addresses(settings[0]).items()}
    return _Known(list(dict.fromkeys(tips))[:_MOST_TIPS], remotes)


def _absolute(address: str, top: Path) -> str:
    """Return an address; a path relative to the work tree becomes absolute."""
    is_path = ":" not in address.partition("/")[0]
    return str((top / address).resolve()) if is_path else address


def _logged(git: Path, common: Path) -> bytes:
    """Return the reflogs and the commits saved by unfinished git commands, as one text."""
    logs = [common / "logs" / "refs" / "stash", common / "logs" / "HEAD", git / "logs" / "HEAD"]
    logs += [*(common / "logs" / "refs" / "heads").rglob("*")][:1_000]
    logs += [git / f"{name}_HEAD" for name in ("ORIG", "MERGE", "FETCH", "CHERRY_PICK", "REVERT", "REBASE")]
    found: list[bytes] = []
    for path in dict.fromkeys(logs):
        with suppress(OSError):
            found.append(read_bytes(path, _LOG_BYTES)[0])
    return b"\n".join(found)


_HEADER = lazy_pattern(r'\s*\[\s*remote\s+"([^"\\\n]+)"\s*\]\s*$', re.IGNORECASE)
_URL = lazy_pattern(r"\s*url\s*=\s*([^\s\"\\;#]+)\s*$", re.IGNORECASE)


def remote_addresses(settings: bytes) -> dict[str, str]:
    """Return the addresses of remotes by name, from git settings, without remotes with unusual settings."""
    found: dict[str, str] = {}
    name = None
    for line in settings.decode("utf-8", "replace").split("\n"):
        if line.lstrip().startswith("["):
            header = _HEADER.match(line)
            name = header[1] if header is not None else None
        elif name is not None and (match := _URL.match(line)) is not None:
            found.setdefault(name, match[1])
    return found


class _Look:
    """The examination of a step's files in the repository at `top`."""

    def __init__(
        self, top: Path, root: Path, known: _Known, ask: Callable[[_Known], Awaitable[list[str]]]
    ) -> None:
        self._top, self._root, self._known, self._ask = top, root, known, ask
        self._objects = VerifiedObjects(top)
        self._head: str | None = None
        self._listed: dict[str, list[tuple[str, str, str]]] = {}
        self._has_asked = False

    async def took(self, change: PathChange) -> bool:
        """Return whether git wrote or added the path, so that index and work tree have the same content
        there.
        """
        path, state = self._relative(change), await self._state(change)
        entries = await self._entries(path)
        if state is None:
            return not entries
        staged = [(mode, name) for mode, name, stage in entries if stage == "0"]
        if not entries or staged:
            is_new = change.before is None and bool(staged)
            return is_new or any(mode == state[0] and name in state[1] for mode, name in staged)
        return await self._is_conflict(change, entries)

    async def is_known(self, change: PathChange) -> bool:
        """Return whether a known commit contains the new state of the path."""
        if await self._is_of(change, self._tips):
            return True
        if not self._has_asked:
            self._has_asked = True
            self._known.fetched = list(dict.fromkeys(await self._ask(self._known)))
        return bool(self._known.fetched) and await self._is_of(change, self._tips)

    @property
    def _tips(self) -> list[str]:
        return [*self._known.tips, *self._known.fetched]

    async def _is_of(self, change: PathChange, tips: Sequence[str]) -> bool:
        path, state = self._relative(change), await self._state(change)
        if state is None:
            return await self._is_gone(path, tips)
        if entries := [entry for entry in await self._entries(path) if entry[2] != "0"]:
            return all([await self._has((mode, frozenset({name})), path, tips) for mode, name, _ in entries])
        return await self._has(state, path, tips) or await self._is_merged(state, path, tips)

    async def _has(self, state: State, path: str, tips: Sequence[str]) -> bool:
        """Return whether a known commit contains this state of the path."""
        head = await self._head_commit()
        first = [head] if head in tips else []
        for commit in [*first, *await self._touching(path, tips)]:
            with suppress(GitError):
                if _matches(await self._objects.entry(commit, path), state):
                    return await self._objects.is_before(commit, tips)
        return False

    async def _touching(self, path: str, tips: Sequence[str], *more: str) -> list[str]:
        """Return commits that changed the path, newest first. They may be unknown."""
        if not tips:
            return []
        limit = f"--max-count={_MOST_CANDIDATES}"
        options = ("--format=%H", "--no-patch", "--full-history", "--ignore-missing", limit, *more)
        found = await run_git(
            self._top, "log", *options, "--stdin", "--", path, seconds=20.0, input="\n".join(tips).encode()
        )
        return found.output.decode("ascii", "replace").split() if not found.code else []

    async def _is_gone(self, path: str, tips: Sequence[str]) -> bool:
        """Return whether the path is missing because of a known commit."""
        head = await self._head_commit()
        if head is None or await self._objects.entry(head, path) is not None:
            return False
        if not await self._touching(path, tips):
            return await self._is_stashed(path)
        if await self._touching(path, tips, "--diff-filter=D"):
            return True
        # Go back through the agent's commits, as long as none of them removed the path.
        queue, seen = [head], {head}
        for commit in queue:
            if len(seen) > _MOST_STEPS_BACK:
                return False
            if await self._objects.is_before(commit, tips):
                return True
            for parent in await self._objects.parents(commit):
                if parent not in seen and await self._objects.entry(parent, path) is None:
                    seen.add(parent)
                    queue.append(parent)
        return False

    async def _is_stashed(self, path: str) -> bool:
        """Return whether the newest stash contains the file."""
        found = await run_git(self._top, "rev-parse", "--verify", "-q", "refs/stash")
        stash = found.output.decode("ascii", "replace").strip()
        parents = await self._objects.parents(stash) if stash else []
        return len(parents) == 3 and await self._objects.entry(parents[2], path) is not None

    async def _is_merged(self, state: State, path: str, tips: Sequence[str]) -> bool:
        """Return whether the state is the merge of the versions of two known commits."""
        head = await self._head_commit()
        parents = await self._objects.parents(head) if head is not None else []
        if head is not None and len(parents) != 2:
            extra = await run_git(self._top, "rev-parse", "--verify", "-q", "MERGE_HEAD")
            parents = [head, *extra.output.decode("ascii", "replace").split()]
        if len(parents) != 2 or state is None:
            return False
        if not all([await self._objects.is_before(each, tips) for each in parents]):
            return False
        common = await run_git(self._top, "merge-base", *parents)
        sides = [await self._objects.entry(each, path) for each in parents]
        base = common.output.decode("ascii", "replace").split()[:1]
        old = await self._objects.entry(base[0], path) if base else None
        if not all(side is not None and side[0] == state[0] for side in (*sides, old)):
            return False
        ours, theirs, before = [await self._objects.text(each[1]) for each in (*sides, old) if each]
        merged = await merge_texts(ours, before, theirs)
        return object_name("blob", merged, parents[0]) in state[1]

    async def _is_conflict(self, change: PathChange, entries: Sequence[tuple[str, str, str]]) -> bool:
        """Return whether the file is git's merge of the conflicting versions in the index."""
        stages = {stage: await self._objects.text(name) for _, name, stage in entries}
        data = await asyncio.to_thread(read_bytes, self._root / change.path, _FILE_BYTES)
        if data[0] in (stages.get("2"), stages.get("3")):
            return True
        if not {"2", "3"} <= stages.keys():
            return False
        merged = await merge_texts(stages["2"], stages.get("1", b""), stages["3"])
        return _MARKER.sub(rb"\1", merged) == _MARKER.sub(rb"\1", data[0])

    # The current state

    def _relative(self, change: PathChange) -> str:
        return (self._root / change.path).relative_to(self._top).as_posix()

    async def _head_commit(self) -> str | None:
        if self._head is None:
            found = await run_git(self._top, "rev-parse", "--verify", "-q", "HEAD")
            self._head = found.output.decode("ascii", "replace").strip()
        return self._head or None

    async def _entries(self, path: str) -> list[tuple[str, str, str]]:
        """Return mode, object name and stage of the index entries at a path."""
        if path not in self._listed:
            found = await run_git(self._top, "ls-files", "-s", "-z", "--", path)
            lines = os.fsdecode(found.output).split("\0")
            self._listed[path] = [
                (words[0], words[1], words[2])
                for head, _, name in (line.partition("\t") for line in lines)
                if name == path and len(words := head.split(" ")) == 3
            ]
        return self._listed[path]

    async def _state(self, change: PathChange) -> State:
        after = change.after
        if after is None:
            return None
        like = await self._head_commit() or ""
        if after.kind is PathKind.LINK:
            return "120000", frozenset({object_name("blob", os.fsencode(after.target), like)})
        data, status = await asyncio.to_thread(read_bytes, self._root / change.path, _FILE_BYTES)
        forms = {data, data.replace(b"\r\n", b"\n")}
        mode = "100755" if status.st_mode & 0o100 else "100644"
        return mode, frozenset(object_name("blob", each, like) for each in forms)


def _matches(entry: tuple[str, str] | None, state: State) -> bool:
    if entry is None or state is None:
        return False
    return entry[0] == state[0] and entry[1] in state[1]
