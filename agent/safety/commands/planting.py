"""What a command writes into files that it builds, tests or runs afterwards.

`sed -i` may put a line into `package.json`, and `npm test` behind it runs that line; neither of the two
shows it alone. So what changed files is kept, and looked at when something runs what lies there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agent.safety.commands.call import Call
from agent.safety.commands.doubts import DEFINITION, PLANTS, builds_doubtful, writes_doubtful
from agent.safety.commands.recipes import command_lines
from agent.safety.shell.marks import UNKNOWN, literal, words

LARGEST = 200_000
"""Bytes of a file that is read to see what it brings."""

_CODE = re.compile(
    r".*\.(?:py|[cm]?[jt]sx?|rs|go|c|cc|cpp|cxx|h|hpp|java|kts?|scala|rb|php|pl|lua|swift|sh|bash|zsh|ex|exs"
    r"|cs|dart|zig|nim|vue|svelte)",
    re.IGNORECASE,
)
_NAMES = re.compile(r"[\w.@+-]+")
_BRINGS = words("cp mv ln install rsync cat")
"""What takes the contents of files elsewhere; its arguments say nothing about them."""
_TELLS = words("gh glab hg svn curl wget docker kubectl")
"""What is told texts that it does not write into files of the project."""


class _Written(NamedTuple):
    """The shell wrote to a file."""

    path: str
    texts: Sequence[str] | None
    """What that file may hold; None when it is not known."""


class Planting:
    """What one shell text has written so far.

    `asks` says whether a shell text would ask for more than not being known, run in a folder.
    """

    def __init__(self, asks: Callable[[str, str], bool]) -> None:
        self._asks = asks
        self._deeds: list[Call | _Written] = []
        """What changed files, or printed what went into one."""
        self._tainted: set[str] = set()
        self._said = self._said_to_run = False
        self._brought: Sequence[str] = ()
        self._planted = False

    def command(self, call: Call) -> None:
        """A program was started."""
        self._deeds.append(call)

    def written(self, path: str, texts: Sequence[str] | None) -> None:
        """The shell wrote to a file."""
        self._deeds.append(_Written(path, texts))

    def speaks_against_running(self, cwd: str) -> bool:
        """Whether what was written may make a build, a test or a program do what nobody looks at.

        `cwd` is where that is started.
        """
        for deed in self._deeds:
            if isinstance(deed, Call):
                self._started(deed)
            elif deed.texts is not None:
                self._planted |= any(self._plants(_name(deed.path), each, cwd) for each in deed.texts)
            else:
                self._changed({_name(deed.path)}, self._brought)
        self._deeds.clear()
        return self._planted

    def _plants(self, name: str, text: str, cwd: str) -> bool:
        content = literal(text)
        lines = None if UNKNOWN in text else command_lines(name, content)
        if lines is not None and any(self._asks(line, cwd) for line in lines):
            return True
        if DEFINITION.fullmatch(name):
            return lines is None and builds_doubtful(content)
        return _CODE.fullmatch(name) is not None and PLANTS.search(content) is not None

    def _started(self, call: Call) -> None:
        applies = call.name == "git" and call.arguments[:1] in (("apply",), ("am",))
        self._brought = ()
        if call.name in _TELLS or (call.name == "git" and not applies):
            return
        text = literal("\n".join((*call.arguments, *(call.stdin or ()))))
        names = set(_NAMES.findall(text))
        if call.name in _BRINGS:
            paths = [call.path(each) for each in call.operands()]
            self._brought = [path for path in paths if path not in call.held]
            if call.name != "cat":
                self._bring(call, names, paths)
            return
        if applies or call.name == "patch":
            held = "\n".join(_held(call.path(each)) for each in (*call.operands(), *call.inputs))
            names |= set(_NAMES.findall(held))
            text = f"{text}\n{held}"
        self._said |= writes_doubtful(text)
        self._said_to_run |= PLANTS.search(text) is not None
        self._changed(names, ())

    def _bring(self, call: Call, names: set[str], paths: Sequence[str]) -> None:
        """Files were copied or moved. What lies in the workspace is read, what comes from elsewhere not."""
        self._changed(names, ())
        target = paths[-1] if paths else ""
        runs = DEFINITION.fullmatch(_name(target)) or _CODE.fullmatch(_name(target))
        for source in paths[:-1]:
            if runs or DEFINITION.fullmatch(_name(source)):
                outside = not (call.ground.inside(source) or call.ground.private(source))
                self._planted |= outside or PLANTS.search(_held(source)) is not None

    def _changed(self, names: set[str], sources: Iterable[str]) -> None:
        """Files may hold what was said before, or what the sources hold."""
        runs = [name for name in names if DEFINITION.fullmatch(name)]
        if self._said or names & self._tainted:
            self._tainted |= names
            self._planted |= bool(runs)
        code = any(map(_CODE.fullmatch, names))
        if code and self._said_to_run:
            self._planted = True
        if (runs or code) and any(map(_brings_unseen, sources)):
            self._planted = True


def _brings_unseen(path: str) -> bool:
    """Whether a file that is printed into another cannot be read, or holds what would be shown."""
    held = _held(path)
    return not held or PLANTS.search(held) is not None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _held(path: str) -> str:
    """The text of a file; empty when there is none that can be read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except (OSError, ValueError):
        return ""
