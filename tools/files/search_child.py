"""A file search for systems without ripgrep, run by `searching` and killed if it takes too long.

Reads one JSON request from standard input and answers in ripgrep's notation: JSON lines for hits,
NUL-separated paths for a list of files. Imports nothing else of the program: it is started by path, with
`-I`. Python's regular expressions may run without end, so this is a separate process.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pathspec

MAX_BYTES = 50_000_000
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
"""In order of precedence: any of the first beats all of the second."""

Record = tuple[str, dict[str, Any]]
"""Type and data of a line of output."""


class Ignored:
    """The ignore rules of all folders, read on first use.

    Rules above `root` that exclude `root` do not count: a search in an ignored folder is meant to look
    inside.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[Path, tuple[Any, ...]] = {}
        self._is_repository: dict[Path, bool] = {}

    def covers(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether `path` (absolute) is excluded."""
        for kind, name in enumerate(IGNORE_FILES):
            for folder in path.parents:
                spec = self._rules_of(folder)[kind]
                if spec is not None:
                    relative = str(path.relative_to(folder)) + "/" * is_folder
                    verdict = spec.check_file(relative).include
                    if verdict is not None:
                        return verdict
                if name == ".gitignore" and self._is_repository[folder]:
                    break
        return False

    def _rules_of(self, folder: Path) -> tuple[Any, ...]:
        if folder not in self._rules:
            self._is_repository[folder] = is_repository = os.path.lexists(folder / ".git")
            lines = [_lines(folder / name) for name in IGNORE_FILES]
            if is_repository:
                lines[-1] = _lines(folder / ".git" / "info" / "exclude") + lines[-1]
            self._rules[folder] = tuple(_spec(self._applying(rules, folder)) for rules in lines)
        return self._rules[folder]

    def _applying(self, lines: list[str], folder: Path) -> list[str]:
        if folder == self._root or folder not in self._root.parents:
            return lines
        named = str(self._root.relative_to(folder)) + "/"
        return [line for line in lines if not ((spec := _spec([line])) and spec.match_file(named))]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def _spec(lines: list[str]) -> pathspec.GitIgnoreSpec | None:
    if not lines:
        return None
    try:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return _spec([line for line in lines if _is_valid(line)])


def _is_valid(line: str) -> bool:
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def files(root: Path, rules: list[str], skipped: list[str]) -> Iterator[Path]:
    """Yield all files below `root` that no rule excludes, sorted by name."""
    ignored = Ignored(root)
    wanted = _spec(rules)
    stack = [_entries(root)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or entry.path in skipped or not (is_folder or _is_plain(entry)):
            continue
        path = Path(entry.path)
        if ignored.covers(path, is_folder=is_folder):
            continue
        if is_folder:
            stack.append(_entries(path))
        elif wanted is None or not wanted.match_file(str(path.relative_to(root))):
            yield path


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        return iter(sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name)))
    except OSError:
        return iter(())


def hits(path: Path, pattern: re.Pattern[str], context: int, *, multiline: bool) -> Iterator[Record]:
    """Yield matching lines of one file with the lines around them. Binary files have none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        data = path.read_bytes()
    except OSError:
        return
    text = _text(data)
    if text is None:
        return
    if multiline:
        yield from _hits_over_lines(text, pattern)
        return
    before: deque[tuple[int, str]] = deque(maxlen=context)
    after = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        match = pattern.search(line.removesuffix("\r"))
        if match:
            yield from (_record("context", *earlier) for earlier in before)
            before.clear()
            yield _record("match", number, line, len(_bytes(line[: match.start()])))
            after = context
        elif after:
            yield _record("context", number, line)
            after -= 1
        else:
            before.append((number, line))


def _hits_over_lines(text: str, pattern: re.Pattern[str]) -> Iterator[Record]:
    number, done = 1, 0
    for match in pattern.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if start < done:
            continue
        stop = text.find("\n", max(match.end() - 1, match.start()))
        stop = len(text) if stop < 0 else stop
        number += text.count("\n", done, start)
        yield _record("match", number, text[start:stop], len(_bytes(text[start : match.start()])))
        number += text.count("\n", start, stop + 1)
        done = stop + 1


def _text(data: bytes) -> str | None:
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(encoding, "replace")
    if b"\0" in data:
        return None
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _record(kind: str, number: int, line: str, start: int | None = None) -> Record:
    submatches = [] if start is None else [{"start": start}]
    return kind, {"lines": _value(_bytes(line)), "line_number": number, "submatches": submatches}


def _value(data: bytes) -> dict[str, str]:
    """Return text, or bytes in base64 if they are not UTF-8."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode("ascii")}


def main() -> int:
    request = json.load(sys.stdin)
    root = Path.cwd()
    only = request["file"]
    found = [root / only] if only else files(root, request["rules"], request["skipped"])
    out = sys.stdout.buffer
    if request["pattern"] is None:
        for path in found:
            out.write(bytes(path.relative_to(root)) + b"\0")
        return 0
    multiline = request["multiline"]
    try:
        pattern = re.compile(request["pattern"], re.MULTILINE if multiline else 0)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for path in found:
        name = {"path": _value(bytes(path.relative_to(root)))}
        _write(out, "begin", name)
        for kind, data in hits(path, pattern, request["context"], multiline=multiline):
            _write(out, kind, {**data, **name})
        _write(out, "end", {**name, "binary_offset": None})
        out.flush()
    return 0


def _write(out: BinaryIO, kind: str, data: dict[str, Any]) -> None:
    out.write(json.dumps({"type": kind, "data": data}).encode("ascii") + b"\n")


if __name__ == "__main__":
    raise SystemExit(main())
