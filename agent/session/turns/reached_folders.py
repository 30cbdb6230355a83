"""Folders that calls reach, and the project instructions that are added to the first result from each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.core.store.nodes import Node
from agent.events import Event, Noticed
from agent.knowledge.context.context_files import CursorRule, folders_between, repository_root, rules_of
from agent.knowledge.context.context_table import KEY, in_view
from agent.knowledge.context.folder_files import FolderFiles, FolderRoom, read_folders, ways_to
from agent.knowledge.context.quarantine import kept_back_notices
from tools.services.actions import Action, DeletePath, ReadPath, RunCommand, WritePath
from tools.text.safe_text import clean


class ReachedFolders:
    """The folders that one agent's calls have reached. Files in its system prompt are never added again."""

    def __init__(
        self,
        workspace: Path,
        room: FolderRoom,
        path: Callable[[], Sequence[Node]],
        emit: Callable[[Event], None],
        *,
        follows_shell: bool = True,
    ) -> None:
        """Find the root of the repository. `path` returns the nodes of the conversation.

        `follows_shell` is true if the folders of the shell are folders of this machine.
        """
        self._root = repository_root(workspace)
        self._prompt = frozenset(folders_between(self._root, workspace))
        self._room = room
        self._path = path
        self._emit = emit
        self._follows_shell = follows_shell
        self._reached: dict[str, dict[Path, bool]] = {}
        """The paths that each call has reached, and whether it wrote there."""
        self._pending: dict[str, FolderFiles] = {}
        """Files added to results that are not committed yet, by call."""
        self._known: set[Path] = set()
        """Folders that need not be read, and paths of rules already in the conversation."""
        self._rules: list[CursorRule] = []
        self._reading = asyncio.Lock()
        """A lock held while rules are read: parallel calls wait for them."""
        self._looked: set[Path] = set()
        """Folders whose rules were read."""
        self.renew()

    def renew(self) -> None:
        """Read the conversation again: files that it lost are added when a call reaches their folder."""
        self._known = {*self._prompt, *in_view(self._path())}

    async def acting(self, call: str, action: Action) -> None:
        """Record the path of an allowed action of a call."""
        match action:
            case ReadPath():
                self._note(call, action.path)
            case WritePath() | DeletePath():
                self._note(call, action.path, wrote=True)
            case RunCommand():
                self._note(call, action.cwd)
            case _:
                pass

    async def add_rules(self, call: str, result: Mapping[str, Any], text: str) -> str:
        """Return `text`, the result of a call as a JSON object, with files of newly reached folders added."""
        places = self._take_places(call)
        if self._follows_shell and isinstance(cwd := result.get("cwd"), str):
            places.setdefault(Path(cwd), False)
        new = [each for each in ways_to(self._root, places) if each not in self._known]
        if not text.startswith("{") or not (places or new):
            return text
        # Before the first wait: a parallel call may have reached the same folder.
        self._known.update(new)
        rules = await self._fitting(places, new)
        if not new and not rules:
            return text
        try:
            written = frozenset(place for place, wrote in places.items() if wrote)
            files = await asyncio.to_thread(read_folders, new, self._root, self._room, written, rules)
        except BaseException:
            self._known.difference_update(new)
            self._known.difference_update(rule.path for rule in rules)
            raise
        if not files.parts:
            return text
        self._pending[call] = files
        return f"{text[:-1]}, {json.dumps(KEY)}: {json.dumps(files.text, ensure_ascii=False)}}}"

    async def _fitting(self, places: Mapping[Path, bool], new: Sequence[Path]) -> Sequence[CursorRule]:
        """Return the rules for any of these paths that are not in the conversation yet."""
        async with self._reading:
            unread = [each for each in (*self._prompt, *new) if each not in self._looked]
            if unread:
                self._rules += await asyncio.to_thread(rules_of, sorted(unread), self._root)
                self._looked.update(unread)
        fitting = [
            rule
            for rule in self._rules
            if not rule.always and rule.path not in self._known and any(map(rule.fits, places))
        ]
        self._known.update(rule.path for rule in fitting)
        return fitting

    def deliver(self, call: str) -> Mapping[str, Any]:
        """Return the data on added files for the result's node, and notify the user; empty without files."""
        files = self._pending.pop(call, None)
        if files is None:
            return {}
        for part in files.parts:
            name = Path(part.source).relative_to(self._root)
            left = f" {len(part.left_out)} passages are left out for want of room." if part.left_out else ""
            reached = f"a file of the rule {name.name}" if name.suffix == ".mdc" else str(name.parent)
            text = f"Work reached {reached}: {name.name} goes to the agent with the result.{left}"
            self._emit(Noticed(kind="info", text=clean(text), detail=part.text))
        for sentence in kept_back_notices([each for part in files.parts for each in part.passages]):
            self._emit(Noticed(kind="warning", text=sentence))
        return {KEY: files.data()}

    def withdraw(self, call: str) -> None:
        """Forget the files added to the result of a call that was interrupted, as it is not stored."""
        self._take_places(call)
        if (files := self._pending.pop(call, None)) is not None:
            self._known.difference_update(files.folders)

    def _note(self, call: str, place: Path, *, wrote: bool = False) -> None:
        places = self._reached.setdefault(call, {})
        places[place] = wrote or places.get(place, False)

    def _take_places(self, call: str) -> dict[Path, bool]:
        """Remove and return the paths that a call, and the calls of its script, have reached."""
        taken: dict[Path, bool] = {}
        for each in [name for name in self._reached if name == call or name.startswith(f"{call}.")]:
            taken |= self._reached.pop(each)
        return taken
