"""Reading in a command's output that the boundary refused something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_TAIL = 20_000
"""Characters at the end of the output that are looked at."""
_LONGEST = 200
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = re.compile(
    r"permission denied|operation not permitted|\b(?:EACCES|EPERM)\b|PermissionError", re.IGNORECASE
)
_BUSY = re.compile(r"device or resource busy|\bEBUSY\b", re.IGNORECASE)
_OFFLINE = re.compile(
    r"network is unreachable|could ?n[o']t resolve host|name or service not known|"
    r"temporary failure in name resolution|ENETUNREACH|EAI_AGAIN|no address associated with hostname|"
    r"failed to resolve|address family not supported|unable to resolve host|nodename nor servname",
    re.IGNORECASE,
)
_FILTERED = (
    "The network is filtered: names are resolved by the proxy that the variables http_proxy and https_proxy "
    "name, and only programs that use it reach a host."
)
_PATH = re.compile(r"(?<![\w.~/-])~?/[^\s'\"‘’:;,)\]]+")


def explain(
    output: str, writable: Sequence[Path], hidden: Sequence[Path], network: bool, *, filtered: bool = False
) -> str:
    """One sentence on what was refused, and how to go on; empty when nothing looks like it.

    `network` tells whether the command had the network, `filtered` whether it had a proxy.
    """
    for line in reversed(output[-_TAIL:].splitlines()):
        if _READ_ONLY.search(line) or (_DENIED.search(line) and _is_beyond(line, writable, hidden)):
            return _sentence(line, "Only the workspace and /tmp can be written, and secrets cannot be read.")
        if not network and _OFFLINE.search(line):
            return _sentence(line, _FILTERED if filtered else "The network is off.")
    return ""


def explain_guarded(output: str, guarded: Sequence[Path], workspace: Path) -> str:
    """One sentence on a guarded place that a program could not change, and how to go on; else empty."""
    names = {_shown(path, workspace): path.name for path in guarded}
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


def _shown(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def _is_beyond(line: str, writable: Sequence[Path], hidden: Sequence[Path]) -> bool:
    """Whether the line names a place the boundary is in the way of, or none at all."""
    named = [Path(match).expanduser() for match in _PATH.findall(line)]
    named = [path for path in named if path != Path("/") and not path.is_relative_to("/bin")]
    if not named:
        return "operation not permitted" in line.lower()
    return any(
        any(path.is_relative_to(secret) for secret in hidden)
        or not any(path.is_relative_to(folder) for folder in writable)
        for path in named
    )


def _sentence(line: str, what: str) -> str:
    line = " ".join(line.split())
    shown = line[:_LONGEST] + "…" if len(line) > _LONGEST else line
    return (
        f"The sandbox did not allow this: {shown!r}. {what} If it has to be, "
        "run the command again with outside=true; a person is asked."
    )
