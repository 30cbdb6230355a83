"""Text typed into a running program, as shell text that can be judged.

Text typed into a shell is a command. Text typed into an interpreter or a database client is a program in its
language. The rules know such programs from command lines, so it is judged as one. The program that now reads
the input may not be the one that was started. So `follows` contains both readings.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from agent.safety.reader.script import read
from tools.kit.lazy_pattern import lazy_pattern
from tools.services.actions import SendInput

_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"python[\d.]*|pypy[\d.]*"), "python3 -c {}"),
    (lazy_pattern(r"node|nodejs"), "node -e {}"),
    (lazy_pattern(r"ruby|irb"), "ruby -e {}"),
    (lazy_pattern(r"perl"), "perl -e {}"),
    (lazy_pattern(r"php"), "php -r {}"),
    (lazy_pattern(r"psql"), "psql -c {}"),
    (lazy_pattern(r"mysql|mariadb"), "mysql -e {}"),
    (lazy_pattern(r"sqlite3"), "sqlite3 database {}"),
    (lazy_pattern(r"mongosh"), "mongosh --eval {}"),
)
"""Programs that read another language, and the command line that runs a text in it."""

_SHELLS = lazy_pattern(r"(?:ba|da|z|k|mk|a|fi|tc|c)?sh|busybox|ssh|su|script|tmux|screen")


def line_of(action: SendInput) -> str:
    """Return the complete input line: the text typed on it before, followed by the new text."""
    return action.typed + action.data


def as_command(action: SendInput, home: Path) -> str:
    """Return shell text that has the same effect as the input, as far as the program is known."""
    line = line_of(action)
    names = _programs(action.program, home)
    if any(_SHELLS.fullmatch(name) for name in names):
        return line
    form = next((form for name in names for pattern, form in _INLINE if pattern.fullmatch(name)), "")
    return form.format(shlex.quote(line)) if form else line


def follows(action: SendInput, home: Path) -> str:
    """Return both readings of the input as one text: as input of the program, and as shell commands."""
    line, command = line_of(action), as_command(action, home)
    return line if command == line else f"{command}\n{line}"


def _programs(command_line: str, home: Path) -> tuple[str, ...]:
    """Return the programs that a command line starts, the last one first, because it reads the input."""
    if not command_line:
        return ()
    reading = read(command_line, str(home), str(home))
    return tuple(command.name for command in reversed(reading.commands))
