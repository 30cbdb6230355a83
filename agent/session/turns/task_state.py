"""The state of one agent's task: task list, files it has seen, large outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.events import Event, TodosChanged
from tools.context import SeenFile, Todo
from tools.services.canvases import CanvasBoard


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
    """What one agent knows of each file, and which lines its model was shown."""

    def __init__(self) -> None:
        self._seen: dict[Path, SeenFile] = {}
        self._pending: dict[str, dict[Path, SeenFile]] = {}
        """Lines in results that are not yet in the conversation, by call."""

    def of_call(self, call: str) -> CallFiles:
        """The memory as a call of the model uses it."""
        return CallFiles(self._seen, self._pending.setdefault(call, {}))

    def of_script(self) -> ScriptFiles:
        """The memory as the calls of one script use it."""
        return ScriptFiles(self._seen)

    def deliver(self, call: str, *, whole: bool) -> dict[Path, SeenFile]:
        """The result of a call is in the conversation; unless `whole`, its lines are not.

        Returns the lines that are.
        """
        shown = self._pending.pop(call, {})
        for path, seen in shown.items():
            self._seen[path] = seen if whole else SeenFile(seen.digest)
        return shown if whole else {}

    def withdraw(self, call: str) -> None:
        """The result of a call never came into the conversation."""
        self._pending.pop(call, None)

    def clear(self) -> None:
        """The conversation is another one: a new read must show what it reads."""
        self._seen.clear()
        self._pending.clear()

    def limit_lines(self, shown: Collection[tuple[str, str, int, int]]) -> None:
        """The conversation shows only these lines any more: path, digest, first line, lines asked for.

        What the contents of the others were is still known, so that a change by somebody else is noticed.
        """
        for path, seen in self._seen.items():
            if seen.offset and (str(path), seen.digest, seen.offset, seen.limit) not in shown:
                self._seen[path] = SeenFile(seen.digest)

    def restore(self, shown: Iterable[tuple[str, str, int, int]]) -> None:
        """Take in the lines that the conversation of a resumed session shows, the newest last."""
        for path, digest, first, limit in shown:
            self._seen[Path(path)] = SeenFile(digest, first, limit)


class CallFiles:
    """The file memory of an agent as one call of its model uses it."""

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


class ScriptFiles:
    """The file memory of an agent as a script uses it: nothing the script reads was shown to the model.

    What the script writes the agent knows; what it only reads, the script alone knows.
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
    """All of it, for one task."""

    def __init__(self, task: str, scratch: Path, todos: LiveTodos, canvases: CanvasBoard) -> None:
        self.task = task
        self.todos = todos
        self.canvases = canvases
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
