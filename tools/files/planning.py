"""The plan of a patch, made before anything is written.

Operations act on a simulation of the files they touch, so several of them may follow each other on one file.
The result is a `PatchPlan`: the smallest set of effects on the disk, each with its precondition.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.files.access import Access, explain
from tools.files.diffs import TextDiff, diff_texts
from tools.files.hunk_application import apply_hunks
from tools.files.matching import Strategy
from tools.files.patch_text import AddFile, DeleteFile, Operation, PatchError, UpdateFile, content_of
from tools.files.text_files import EMPTY, SAMPLE_BYTES, TextFile, binary_kind, decode
from tools.kit.files import MAX_WHOLE_BYTES, entry_status, read_bytes
from tools.results import ToolError


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file at the time of planning."""

    status: os.stat_result
    data: bytes | None = None
    """The content of the file, if the plan depends on it."""

    @property
    def mark(self) -> tuple[int, int, int, int]:
        """Return numbers from the status of the file, at least one of which differs after a change."""
        return self.status.st_dev, self.status.st_ino, self.status.st_size, self.status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Write:
    """A write of `data` to `path`. `before` is None for a new file, whose mode is that of `like`, if set."""

    path: Path
    data: bytes
    before: OnDisk | None = None
    like: Path | None = None
    executable: bool | None = None
    """Whether it should be executable; None: unchanged."""


@dataclass(frozen=True, slots=True)
class Rename:
    source: Path
    target: Path
    before: OnDisk


@dataclass(frozen=True, slots=True)
class Delete:
    path: Path
    before: OnDisk


Effect = Write | Rename | Delete


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """Effects in order of execution, and the facts to report about them."""

    effects: tuple[Effect, ...]
    diffs: tuple[TextDiff, ...] = ()
    moved: tuple[tuple[Path, Path], ...] = ()
    strategies: tuple[Strategy, ...] = ()
    replacements: int = 0


def load_text(path: Path, name: str) -> tuple[OnDisk, TextFile]:
    """Load a text file that will be changed; return its state on disk and its text.

    Raises `ToolError` if it cannot be read or is not a text file.
    """
    try:
        data, status = read_bytes(path)
    except FileNotFoundError:
        raise ToolError(f"{name} does not exist; check the path or add the file.") from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ToolError(
                f"{name} is larger than {MAX_WHOLE_BYTES // 1_000_000} MB; change it with a command."
            ) from None
        raise explain(error, f"change {name}") from error
    kind = binary_kind(path.name, data[:SAMPLE_BYTES])
    if kind is not None:
        raise ToolError(f"{name} is a {kind}; only text files can be patched.")
    return OnDisk(status, data), decode(data)


@dataclass(slots=True)
class _File:
    """A file of the simulation. `origin` is the file on disk it comes from, if any."""

    origin: Path | None
    text: TextFile | None = None
    """The text; None while the bytes are those of `origin`."""
    before: TextFile = EMPTY
    """The text it is compared with in the report."""
    executable: bool | None = None
    """Whether it should be executable, if that changes."""

    @property
    def changed(self) -> bool:
        if self.executable is not None:
            return True
        return self.text is not None and (self.origin is None or self.text != self.before)


class Simulation:
    """The files that the operations so far touch, in the state after these operations."""

    def __init__(self, paths: Access) -> None:
        self._paths = paths
        self._state: dict[Path, _File | None] = {}
        self._disk: dict[Path, OnDisk] = {}
        self._leaving: list[Path] = []
        """Names that later operations move away from."""
        self._displaced: dict[Path, _File] = {}
        """Files whose name another one has taken, until they are moved."""
        self._strategies: list[Strategy] = []

    def run(self, operations: Sequence[Operation]) -> PatchPlan:
        """Return the plan of all operations. Raises `ToolError` for the first impossible one."""
        self._leaving = [
            self._paths.entry(operation.path)
            for operation in operations
            if isinstance(operation, UpdateFile) and operation.move_to
        ]
        for operation in operations:
            match operation:
                case AddFile():
                    self._add(operation)
                case DeleteFile():
                    self._delete(operation)
                case UpdateFile():
                    self._update(self._with_existing_name(operation))
        for path in self._displaced:
            raise self._exists_error(path)
        plan = self._plan()
        if not plan.effects:
            raise PatchError("The patch changes nothing: every file already is as it asks.")
        return plan

    def _look(self, path: Path) -> _File | None:
        if path not in self._state:
            try:
                status = entry_status(path)
            except OSError as error:
                raise explain(error, f"look at {self._paths.name(path)}") from error
            self._state[path] = None if status is None else _File(path)
            if status is not None:
                self._disk[path] = OnDisk(status)
        return self._state[path]

    def _existing(self, path: Path) -> _File:
        file = self._look(path)
        if file is None:
            raise PatchError(f"{self._paths.name(path)} does not exist; check the path or use *** Add File.")
        if file.origin is not None and not _is_file_or_link(self._disk[file.origin].status):
            raise PatchError(f"{self._paths.name(path)} is not a file; a patch only changes files.")
        return file

    def _free(self, path: Path) -> None:
        if self._look(path) is not None:
            raise self._exists_error(path)

    def _exists_error(self, path: Path) -> PatchError:
        return PatchError(f"{self._paths.name(path)} exists already; use *** Update File or another name.")

    def _add(self, operation: AddFile) -> None:
        path = self._paths.target(operation.path)
        self._free(path)
        self._state[path] = _File(None, new_text(operation.content), executable=operation.executable or None)

    def _delete(self, operation: DeleteFile) -> None:
        path = self._paths.entry(operation.path)
        file = self._existing(path)
        if operation.hunks:
            name = self._paths.name(path)
            self._change(path, file, UpdateFile(operation.path, operation.hunks))
            if file.text is not None and file.text.text:
                raise PatchError(
                    f"{name} holds more than the lines the diff removes; read it, and use *** Delete File "
                    "if all of it is to go."
                )
        self._state[path] = None

    def _with_existing_name(self, operation: UpdateFile) -> UpdateFile:
        """Return the operation under the name by which its file exists."""
        if operation.other_names and self._look(self._paths.entry(operation.path)) is None:
            for name in operation.other_names:
                if self._look(self._paths.target(name)) is not None:
                    return UpdateFile(name, operation.hunks, executable=operation.executable)
        return operation

    def _update(self, operation: UpdateFile) -> None:
        if operation.move_to is not None:
            self._move(operation)
            return
        path = self._paths.target(operation.path)
        if operation.may_create and self._look(path) is None:
            self._add(AddFile(operation.path, content_of(operation.hunks), operation.executable))
            return
        self._change(path, self._existing(path), operation)

    def _change(self, path: Path, file: _File, operation: UpdateFile) -> None:
        name = self._paths.name(path)
        if operation.executable is not None and self._is_executable(file) != operation.executable:
            file.executable = operation.executable
        if not operation.hunks:
            return
        if file.text is None and file.origin is not None:
            self._disk[file.origin], file.before = load_text(file.origin, name)
            file.text = file.before
        assert file.text is not None, "a file without origin has text"
        patched = apply_hunks(file.text, operation.hunks, name)
        file.text = patched.file
        self._strategies.extend(patched.strategies)

    def _is_executable(self, file: _File) -> bool:
        if file.executable is not None or file.origin is None:
            return bool(file.executable)
        return bool(self._disk[file.origin].status.st_mode & stat.S_IXUSR)

    def _move(self, operation: UpdateFile) -> None:
        assert operation.move_to is not None
        source, target = self._paths.entry(operation.path), self._paths.entry(operation.move_to)
        self._leaving.remove(source)
        displaced = self._displaced.pop(source, None)
        file = displaced or self._existing(source)
        if file.origin is not None and stat.S_ISLNK(self._disk[file.origin].status.st_mode):
            raise PatchError(f"{self._paths.name(source)} is a link; name the file it leads to.")
        self._change(source, file, operation)
        if target == source:
            return
        if target in self._leaving and (there := self._look(target)) is not None:
            self._existing(target)
            self._displaced[target] = there
        else:
            self._free(target)
        self._state[target] = file
        if displaced is None:
            self._state[source] = None

    def _plan(self) -> PatchPlan:
        writes: list[Write] = []
        renames: list[Rename] = []
        diffs: list[TextDiff] = []
        for path, file in self._state.items():
            if file is None or (file.origin == path and not file.changed):
                continue
            if file.origin not in (None, path) and self._can_rename(path, file):
                assert file.origin is not None
                renames.append(Rename(file.origin, path, self._disk[file.origin]))
                continue
            writes.append(self._write(path, file))
            if file.text is not None:
                diffs.append(self._diff(path, file))
        gone = [path for path, file in self._state.items() if file is None and path in self._disk]
        renamed = {rename.source for rename in renames}
        deletes = [Delete(path, self._disk[path]) for path in gone if path not in renamed]
        return PatchPlan(
            effects=(*writes, *renames, *deletes),
            diffs=tuple(diffs),
            moved=tuple(
                (file.origin, path)
                for path, file in self._state.items()
                if file is not None and file.origin not in (None, path) and file.origin is not None
            ),
            strategies=tuple(dict.fromkeys(self._strategies)),
        )

    def _can_rename(self, path: Path, file: _File) -> bool:
        """Return whether a file only needs a new name, and both the old and the new path may change."""
        return (
            not file.changed
            and file.origin is not None
            and self._state.get(file.origin) is None
            and path not in self._disk
        )

    def _write(self, path: Path, file: _File) -> Write:
        like = file.origin if file.origin != path else None
        if file.text is not None:
            data = file.text.encode()
        else:
            assert file.origin is not None, "a file without text comes from the disk"
            try:
                data = read_bytes(file.origin)[0]
            except OSError as error:
                raise explain(error, f"move {self._paths.name(file.origin)}") from error
        return Write(path, data, self._disk.get(path), like, file.executable)

    def _diff(self, path: Path, file: _File) -> TextDiff:
        assert file.text is not None
        old = "/dev/null" if file.origin is None else f"a/{self._paths.name(file.origin)}"
        return diff_texts(file.before.text, file.text.text, old, f"b/{self._paths.name(path)}")


def new_text(content: str) -> TextFile:
    """Return the text of a new file, as UTF-8. Raises `ToolError` for characters UTF-8 lacks."""
    try:
        return decode(content.encode("utf-8"))
    except UnicodeEncodeError as error:
        code = ord(content[error.start])
        raise ToolError(
            f"The content holds U+{code:04X}, half of a character pair; send the whole character."
        ) from None


def _is_file_or_link(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
