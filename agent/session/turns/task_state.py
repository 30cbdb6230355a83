"""The state of one agent's task: task list, canvases, files read, large outputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from tools.context import FileMemory, SeenFile, TodoList
from tools.services.canvases import CanvasBoard


class LiveFiles:
    """The file contents known to one agent, and the lines that its model has read."""

    def __init__(self) -> None:
        self._seen: dict[Path, SeenFile] = {}
        self._pending: dict[str, dict[Path, SeenFile]] = {}
        """Lines in results that are not yet in the conversation, by call."""

    def of_call(self, call: str) -> CallFiles:
        """Return the file memory for a call of the model."""
        return CallFiles(self._seen, self._pending.setdefault(call, {}))

    def of_script(self) -> ScriptFiles:
        """Return the file memory for the calls of one script."""
        return ScriptFiles(self._seen)

    def deliver(self, call: str, *, whole: bool) -> dict[Path, SeenFile]:
        """Record that the result of a call is in the conversation; return the lines that count as read.

        Lines count as read only with `whole`, that is, if the result was not shortened.
        """
        shown = self._pending.pop(call, {})
        for path, seen in shown.items():
            self._seen[path] = seen if whole else SeenFile(seen.digest)
        return shown if whole else {}

    def withdraw(self, call: str) -> None:
        """Forget the lines of a call whose result was not added to the conversation."""
        self._pending.pop(call, None)

    def clear(self) -> None:
        """Forget which lines were read, because the conversation was replaced.

        A new read shows them again.
        """
        self._seen.clear()
        self._pending.clear()

    def limit_lines(self, shown: Collection[tuple[str, str, int, int]]) -> None:
        """Keep only these lines as read. Each tuple is path, digest, first line, and number of lines.

        The contents of all files remain known, so that changes by other programs are noticed.
        """
        for path, seen in self._seen.items():
            if seen.offset and (str(path), seen.digest, seen.offset, seen.limit) not in shown:
                self._seen[path] = SeenFile(seen.digest)

    def restore(self, shown: Iterable[tuple[str, str, int, int]]) -> None:
        """Add the lines shown in the conversation of a resumed session, given from oldest to newest."""
        for path, digest, first, limit in shown:
            self._seen[Path(path)] = SeenFile(digest, first, limit)


class CallFiles(FileMemory):
    """The file memory of an agent for one call of its model."""

    def __init__(self, seen: dict[Path, SeenFile], pending: dict[Path, SeenFile]) -> None:
        self._seen = seen
        self._pending = pending

    def seen_file(self, path: Path) -> SeenFile | None:
        return self._seen.get(path)

    def remember(self, path: Path, seen: SeenFile) -> None:
        self._seen[path] = seen

    def show(self, path: Path, seen: SeenFile) -> None:
        self._pending[path] = seen

    def forget(self, path: Path) -> None:
        self._seen.pop(path, None)


class ScriptFiles(FileMemory):
    """The file memory of an agent for the calls of a script. Nothing counts as shown to the model.

    What the script writes counts as known to the agent. What it only reads is known to the script alone.
    """

    def __init__(self, seen: dict[Path, SeenFile]) -> None:
        self._seen = seen
        self._read: dict[Path, str] = {}

    def seen_file(self, path: Path) -> SeenFile | None:
        digest = self._read.get(path)
        if digest is not None:
            return SeenFile(digest)
        known = self._seen.get(path)
        return None if known is None else SeenFile(known.digest)

    def remember(self, path: Path, seen: SeenFile) -> None:
        self._read.pop(path, None)
        self._seen[path] = SeenFile(seen.digest)

    def show(self, path: Path, seen: SeenFile) -> None:
        self._read[path] = seen.digest

    def forget(self, path: Path) -> None:
        self._read.pop(path, None)
        self._seen.pop(path, None)


class TaskState:
    """The state of one task: task list, canvases, files read, and a folder for large outputs."""

    def __init__(
        self, task: str, scratch: Path, todos: TodoList, canvases: CanvasBoard, secrets: Mapping[str, str]
    ) -> None:
        """Create the state. `secrets` maps names to values that are masked when calls are shown or stored."""
        self.secrets = secrets
        self.task = task
        self.todos = todos
        self.canvases = canvases
        self.files = LiveFiles()
        self._scratch = scratch

    @property
    def scratch(self) -> Path:
        """A private folder for outputs too large for the conversation, created on first use."""
        return private_folder(self._scratch)

    def spill(self, name: str, text: str) -> Path:
        """Save a large text in a private file, replacing one of the same name; return its path."""
        path = self.scratch / re.sub(r"[^A-Za-z0-9_.-]", "_", name)[-120:]
        path.touch(mode=PRIVATE_FILE)
        path.write_text(text, encoding="utf-8", errors="replace")
        return path
