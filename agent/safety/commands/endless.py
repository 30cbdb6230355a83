"""Output that never ends, on its way into a file: it fills the disk, and no undo empties it in time.

A source that never ends is followed through the filters behind it. A program that stops
reading (`head`, `grep -m`) ends the source as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.safety.shell.marks import words

FILLS_DISK = "writes until the disk is full"

SOURCES = re.compile(r"/dev/(?:zero|u?random|full)")
"""Devices that can be read without end."""

_FILTERS = words(
    "cat tac tr base64 base32 gzip pigz bzip2 xz zstd lz4 xxd od hexdump openssl tee pv dd fold sed awk "
    "gawk mawk grep egrep fgrep rg strings nl rev uniq cut paste iconv stdbuf unbuffer buffer mbuffer sponge "
    "split csplit column fmt expand unexpand gunzip zcat perl"
)
_SINKS = words("tee dd split csplit sponge")
_SOURCES = words("yes seq")
_NULL = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-")
_STOPS = re.compile(r"-[a-zA-Z]*m\d*|--max-count.*|count=\d+.*|-n?\d+q|\d+q|-q|--quiet|--silent")
_ENDLESS_COUNT = re.compile(r"inf(?:inity)?", re.IGNORECASE)

_LOOP = re.compile(
    r"\bwhile\s+(?:true|:|\[\[?\s*1\s*\]?\]|\(\(\s*1\s*\)\))\s*[;\n]|\buntil\s+false\s*[;\n]"
    r"|\bfor\s*\(\(\s*\w*\s*;\s*;"
)
_LOOP_ENDS = re.compile(
    r"\b(?:sleep|break|exit|return|read|wait|kill|inotifywait|usleep|timeout|select|done\s*<)\b"
)
_LOOP_ACTS = re.compile(r">(?!\s*(?:/dev/null|&))|(?<![&>])&(?![&>\d])|\b(?:mkdir|touch|tee|cp|mktemp|ln)\b")


class Stream:
    """Follows what flows through the commands of one text, in the order they are shown."""

    def __init__(self) -> None:
        self._flows = False

    def command(self, name: str, arguments: Sequence[str], inputs: Sequence[str]) -> bool:
        """Take a command into account; whether it would itself write a file without end."""
        if not self._flows and name not in _SOURCES and not _reads_device(arguments, inputs):
            return False  # as nearly always
        operands = [argument for argument in arguments if not argument.startswith("-")]
        read = any(map(SOURCES.fullmatch, (*inputs, *(word.removeprefix("if=") for word in operands))))
        begins = name == "yes" or (name == "seq" and any(map(_ENDLESS_COUNT.fullmatch, operands)))
        goes_on = self._flows and name in _FILTERS and not (name == "cat" and operands)
        stops = any(map(_STOPS.fullmatch, arguments))
        self._flows = begins or (name in _FILTERS and not stops and (read or goes_on))
        if not self._flows or name not in _SINKS:
            return False
        if name == "dd":
            return any(word.startswith("of=") and not is_nowhere(word[3:]) for word in operands)
        return name in ("split", "csplit") or any(not is_nowhere(word) for word in operands)

    def written(self, path: str) -> bool:
        """Whether what flows would go into this file, which the shell opens for the last command."""
        return self._flows and not is_nowhere(path)


def _reads_device(arguments: Sequence[str], inputs: Sequence[str]) -> bool:
    """Whether any word may name a device."""
    return "/dev/" in "".join(inputs) or "/dev/" in "".join(arguments)


def is_nowhere(path: str) -> bool:
    """Whether writing to a path takes no room."""
    return path in _NULL or path.startswith("/dev/fd/")


def loops_forever(text: str) -> bool:
    """Whether a shell text has a loop without end or pause that writes files or starts processes."""
    return _LOOP.search(text) is not None and not _LOOP_ENDS.search(text) and bool(_LOOP_ACTS.search(text))
