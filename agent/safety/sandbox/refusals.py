"""Detection of signs in a command's output that the boundary refused something."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.core.home import from_home
from tools.kit.lazy_pattern import lazy_pattern

_TAIL = 20_000
"""Characters read at the end of the output."""
_LONGEST = 200
_READ_ONLY = lazy_pattern(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = lazy_pattern(
    r"permission denied|operation not permitted|\b(?:EACCES|EPERM)\b|PermissionError", re.IGNORECASE
)
_BUSY = lazy_pattern(r"device or resource busy|\bEBUSY\b", re.IGNORECASE)
_OFFLINE = lazy_pattern(
    r"network is unreachable|could ?n[o']t resolve host|name or service not known|"
    r"temporary failure in name resolution|ENETUNREACH|EAI_AGAIN|no address associated with hostname|"
    r"failed to resolve|address family not supported|unable to resolve host|nodename nor servname",
    re.IGNORECASE,
)
_FILTERED = (
    "The network is filtered: names are resolved by the proxy that the variables http_proxy and https_proxy "
    "name, and only programs that use it reach a host."
)
_MISSING = lazy_pattern(
    r"no such file|not found|does not exist|\bENOENT\b|FileNotFound|is empty|unexpected end|invalid format"
    r"|(?:cannot|can't|could ?n[o']t|unable to|failed to) (?:open|read|access|find|load)|error in libcrypto",
    re.IGNORECASE,
)
_NOT_MADE = lazy_pattern(
    r"(?=.*(?:\bENOENT\b|no such file)).*(?:\bmkdir\b|cannot (?:create|make|touch)|could ?n[o']t create)",
    re.IGNORECASE,
)
_WRITES = lazy_pattern(
    r"(?:cannot|can't|could ?n[o']t) (?:create|make|touch|remove|move|write)", re.IGNORECASE
)
_WAY_OUT = " If it has to be, run the command again by the terminal with outside=true; a person is asked."
_HIDDEN = lazy_pattern(r"(\S+) is there, but hidden from commands")
_CLOSED = lazy_pattern(r"(\S+) is read-only to commands")
_PATH = lazy_pattern(r"(?<![\w.~/-])~?/[^\s'\"‘’:;,)\]]+")


def explain(
    output: str,
    writable: Sequence[Path],
    hidden: Sequence[Path],
    network: bool,
    *,
    filtered: bool = False,
    command: str = "",
    failed: bool = True,
) -> str:
    """Return a note about what the boundary refused and how to continue; empty if there is no sign of it.

    `network` tells whether the command had the network, `filtered` whether it had a proxy, and `failed`
    whether its exit code was not 0. If it did not fail, only lines that name a path count. Reads the disk.
    """
    lines = output[-_TAIL:].splitlines()
    for line in reversed(lines):
        named = _paths_in(line)
        if place := _shut(line, named, hidden):
            return _hidden_sentence(line, place)
        if _READ_ONLY.search(line) or (_NOT_MADE.search(line) and _closed_to(named, writable)):
            if failed or _closed_to(named, writable):
                return _read_only_sentence(line, named, writable)
        elif (failed or _WRITES.search(line)) and _DENIED.search(line) and _is_beyond(line, writable, hidden):
            return _sentence(line, "Only the workspace and /tmp can be written, and secrets cannot be read.")
        if failed and not network and _OFFLINE.search(line):
            return _sentence(line, _FILTERED if filtered else "The network is off.")
    text = "\n".join(lines)
    for said, place in _signs(hidden, command):
        if found := said.search(text):
            start = text.rfind("\n", 0, found.end()) + 1
            return _hidden_sentence(text[start:].partition("\n")[0], place)
    if failed or not output.strip():
        for path in _paths_in(command):
            if (place := _within(path, hidden)) and os.path.lexists(path):
                return _hidden_sentence("", place)
    return ""


def _paths_in(line: str) -> list[Path]:
    found = (
        Path(match).expanduser()
        for match in _PATH.findall(line.replace("$HOME/", "~/").replace("file://", " "))
    )
    return [path for path in found if path != Path("/")]


def _within(path: Path, places: Sequence[Path]) -> Path | None:
    return next((place for place in places if path.is_relative_to(place)), None)


def _shut(line: str, named: Sequence[Path], hidden: Sequence[Path]) -> Path | None:
    """Return the hidden path that a line of output reports as missing or denied, if it exists outside the
    sandbox.
    """
    if not (_MISSING.search(line) or _DENIED.search(line)):
        return None
    found = (place for path in named if os.path.lexists(path) and (place := _within(path, hidden)))
    return next(found, None)


def _closed_to(named: Sequence[Path], writable: Sequence[Path]) -> bool:
    return any(_within(path, writable) is None and path.parts[1:2] != ("proc",) for path in named)


def _signs(hidden: Sequence[Path], command: str) -> Iterator[tuple[re.Pattern[str], Path]]:
    """Yield patterns for error messages that a hidden file causes, each with that file's path.

    Only files that exist outside of the sandbox are included.
    """
    for said, names, run in _rows():
        for name in names if run.search(command) else ():
            suffix = f"/{name.lstrip('/')}"
            place = next((each for each in hidden if str(each).endswith(suffix)), None)
            if name.startswith("/"):
                place = Path(name)
            if place is not None and place.exists():
                yield said, place
                break


@functools.cache
def _rows() -> tuple[tuple[re.Pattern[str], tuple[str, ...], re.Pattern[str]], ...]:
    from tools.kit.yaml_text import load_table

    rows = load_table(Path(__file__).with_name("hidden_signs.yaml"))["signs"]
    return tuple(
        (
            re.compile(str(row["said"]).replace(" |", "|"), re.IGNORECASE),
            tuple(row["places"].split()),
            re.compile(row.get("run", "")),
        )
        for row in rows
    )


def kept_back(note: str) -> str:
    """Return the restriction that blocked the command, as a clause for a question.

    `note` is the result of `explain`.
    """
    for said, clause in ((_HIDDEN, "{} is hidden inside"), (_CLOSED, "{} is read-only inside")):
        if found := said.search(note):
            return clause.format(found[1])
    return "the network is off inside" if "The network is off." in note else ""


def explain_guarded(output: str, guarded: Sequence[Path], workspace: Path) -> str:
    """Return a sentence about a guarded path that a program could not change; empty if there is none.

    It also says how to continue.
    """
    names = {_place_text(path, workspace): path.name for path in guarded}
    for line in reversed(output[-_TAIL:].splitlines()):
        if any(said.search(line) for said in (_READ_ONLY, _BUSY, _DENIED)):
            told = [shown for shown in names if shown in line] or [
                shown for shown, name in names.items() if name in line
            ]
            if told:
                return (
                    f"{max(told, key=len)} runs something later, so programs cannot change it. "
                    "If it has to be changed, use write_file or patch; a person is asked."
                )
    return ""


def _place_text(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def _is_beyond(line: str, writable: Sequence[Path], hidden: Sequence[Path]) -> bool:
    """Return whether a line of output names a path blocked by the boundary.

    Without any path it must say "operation not permitted".
    """
    named = [Path(match).expanduser() for match in _PATH.findall(line)]
    named = [path for path in named if path != Path("/") and not path.is_relative_to("/bin")]
    if not named:
        return "operation not permitted" in line.lower()
    return any(
        any(path.is_relative_to(secret) for secret in hidden)
        or not any(path.is_relative_to(folder) for folder in writable)
        for path in named
    )


def _hidden_sentence(line: str, place: Path) -> str:
    about = f"The sandbox did not allow this: {_short(line)!r}. " if line else ""
    return (
        f"{about}{from_home(place)} is there, but hidden from commands, as keys and logins are: do not work "
        f"around it by switching something off.{_WAY_OUT}"
    )


def _read_only_sentence(line: str, named: Sequence[Path], writable: Sequence[Path]) -> str:
    closed = [path for path in named if _within(path, writable) is None]
    if not closed:
        return _sentence(line, "Only the workspace and /tmp can be written, and secrets cannot be read.")
    return _sentence(
        line,
        f"{from_home(closed[-1])} is read-only to commands: only the workspace, its caches and /tmp can be "
        "written, and what the person adds to `sandbox.writable` in the settings.",
    )


def _sentence(line: str, what: str) -> str:
    return f"The sandbox did not allow this: {_short(line)!r}. {what}{_WAY_OUT}"


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line[:_LONGEST] + "…" if len(line) > _LONGEST else line
