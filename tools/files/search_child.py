"""A search in files for patterns that only Python supports, run by `searching` and killed if it takes long.

Reads a JSON request and the paths of the files from standard input, separated by NUL bytes, and answers in
ripgrep's JSON lines. Imports nothing else of the program: it is started by path, with `-I`. Python's regular
expressions may run without end, so this is a separate process.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAX_BYTES = 50_000_000

Record = tuple[str, dict[str, Any]]
"""Type and data of a line of output."""


def hits(path: Path, pattern: re.Pattern[str], context: int, *, multiline: bool) -> Iterator[Record]:
    """Yield matching lines of one file with the lines around them. Binary and large files have none."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
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
    first, *paths = sys.stdin.buffer.read().split(b"\0")
    request, out = json.loads(first), sys.stdout.buffer
    multiline = request["multiline"]
    try:
        pattern = re.compile(request["pattern"], re.MULTILINE if multiline else 0)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for encoded in paths:
        name = {"path": _value(encoded)}
        _write(out, "begin", name)
        for kind, data in hits(Path(os.fsdecode(encoded)), pattern, request["context"], multiline=multiline):
            _write(out, kind, {**data, **name})
        _write(out, "end", {**name, "binary_offset": None})
        out.flush()
    return 0


def _write(out: BinaryIO, kind: str, data: dict[str, Any]) -> None:
    out.write(json.dumps({"type": kind, "data": data}).encode("ascii") + b"\n")


if __name__ == "__main__":
    raise SystemExit(main())
