"""Programs whose output is known from their input: file names, and decoded or copied text."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Sequence

from agent.safety.reader.expansion import ShellReader
from agent.safety.reader.tree import ANY, UNKNOWN, unmarked, value

MADE_BY_MKTEMP = "/tmp/.made-by-mktemp"
"""A placeholder for the new file or folder that `mktemp` names."""


def _cat(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return stdin if not [word for word in arguments if word != "-"] else None


def _pwd(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return f"{script.state.cwds[0]}\n" if len(script.state.cwds) == 1 else None


def which(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    names = [word for word in arguments if not word.startswith("-")]
    return f"{names[0]}\n" if len(names) == 1 else None


def _mktemp(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    plain = all(
        re.fullmatch(r"-[dqut]+|--(?:directory|quiet|suffix=.*)|[\w.-]*X{3,}[\w.-]*", a) for a in arguments
    )
    return f"{MADE_BY_MKTEMP}\n" if plain else None


def _names(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    """Return the output of a program that prints names of files below its operands or the current folder."""
    operands = [word for word in arguments if not word.startswith("-")]
    if any(UNKNOWN in word for word in operands):
        return None
    return "".join(f"{word.rstrip('/')}/{ANY}\n" for word in operands or ["."])


def _base64(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    if stdin is None or not re.search(r"(?:^| )(?:-\w*[dD]|--decode)", " ".join(arguments)):
        return None
    try:
        return unmarked(b64decode(value(stdin), validate=False).decode("utf-8", "replace"))
    except (ValueError, TypeError):
        return None


def _xxd(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    if stdin is None or "-r" not in arguments or "-p" not in arguments:
        return None
    try:
        return unmarked(bytes.fromhex(value(stdin)).decode("utf-8", "replace"))
    except ValueError:
        return None


def _rev(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return None if stdin is None or arguments else "\n".join(line[::-1] for line in value(stdin).split("\n"))


def _tee(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return stdin


def _dirname(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return f"{value(arguments[0]).rpartition('/')[0] or '/'}\n" if len(arguments) == 1 else None


def _realpath(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    operands = [word for word in arguments if not word.startswith("-")]
    return f"{value(operands[0])}\n" if len(operands) == 1 else None


def _grep(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    lists = any(re.fullmatch(r"-[a-zA-Z]*[lL][a-zA-Z]*|--files.*", word) for word in arguments)
    return _names(script, arguments[1:], stdin) if lists else None


Handler = Callable[[ShellReader, Sequence[str], "str | None"], "str | None"]
KNOWN_OUTPUT: dict[str, Handler] = {
    "cat": _cat,
    "pwd": _pwd,
    "which": which,
    "mktemp": _mktemp,
    "ls": _names,
    "fd": _names,
    "grep": _grep,
    "rg": _grep,
    "base64": _base64,
    "xxd": _xxd,
    "rev": _rev,
    "tee": _tee,
    "dirname": _dirname,
    "realpath": _realpath,
    "readlink": _realpath,
}
