"""What one agent keeps in its head while it works: task list, files it has seen, large outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.events import Event, TodosChanged
from agent.home import PRIVATE_FILE, private_folder
from tools.context import SeenFile, Todo


class LiveTodos:
    """The task list of one agent; every change is shown."""

    def __init__(self, items: Sequence[Todo], emit: Callable[[Event], None]) -> None:
        self._items = tuple(items)
        self._emit = emit
        self._calls = 0

    def items(self) -> tuple[Todo, ...]:
        return self._items

    def replace(self, items: Sequence[Todo]) -> None:
        self._items = tuple(items)
        self._calls = 0
        self._emit(TodosChanged(items=self._items))

    def calls_since_update(self) -> int:
        return self._calls

    def touch(self) -> None:
        self._calls = 0

    def count_call(self) -> int:
        """Note a finished call; the number of calls since the list was last written or read."""
        self._calls += 1
        return self._calls


class LiveFiles:
    """What the agent last saw of each file."""

    def __init__(self) -> None:
        self._seen: dict[Path, SeenFile] = {}

    def seen(self, path: Path) -> SeenFile | None:
        return self._seen.get(path)

    def remember(self, path: Path, seen: SeenFile) -> None:
        self._seen[path] = seen

    def forget(self, path: Path) -> None:
        self._seen.pop(path, None)

    def clear(self) -> None:
        """The conversation no longer shows what was read: a new read must show it again."""
        self._seen.clear()


class TaskState:
    """All of it, for one task."""

    def __init__(self, task: str, scratch: Path, todos: LiveTodos) -> None:
        self.task = task
        self.todos = todos
        self.files = LiveFiles()
        self._scratch = scratch

    @property
    def scratch(self) -> Path:
        """A private folder for outputs too large for the conversation; made when first needed."""
        return private_folder(self._scratch)

    def spill(self, name: str, text: str) -> Path:
        """Keep a large text as a private file."""
        path = self.scratch / re.sub(r"[^A-Za-z0-9_.-]", "_", name)[-120:]
        path.touch(mode=PRIVATE_FILE)
        path.write_text(text, encoding="utf-8", errors="replace")
        return path
