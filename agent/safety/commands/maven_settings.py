"""`mvn -s FILE`: settings that were read, and that neither send Maven elsewhere nor start anything."""

from __future__ import annotations

import re
from pathlib import Path

from agent.safety.commands.call import Call
from agent.safety.commands.hosts import is_documentation
from agent.safety.shell.marks import UNKNOWN

LARGEST = 50_000
"""Bytes of settings that are read."""

_OPTIONS = re.compile(r"-s|-gs|-t|-gt|--(?:settings|global-settings|toolchains|global-toolchains)")
_GLUED = re.compile(r"(?:-s|-gs|--(?:settings|global-settings))=?(?=[./~\w$])(.+)")
_ADDRESS = re.compile(r"\w+://[^\s<\"']*")
_NAMESPACE = re.compile(r"https?://(?:maven\.apache\.org|www\.w3\.org)/[\w./-]*")
_DOUBTFUL = re.compile(
    r"<(?:properties|server|proxy|pluginGroup|password|passphrase|privateKey)\b|\$\{env|<!(?:DOCTYPE|ENTITY)|&#",
    re.IGNORECASE,
)


def speaks_against(call: Call) -> bool:
    """Whether a call of Maven takes settings that were not read, or that change what it does."""
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        glued = _GLUED.fullmatch(argument)
        if not (_OPTIONS.fullmatch(argument) or glued):
            continue
        file = glued[1] if glued else arguments.pop(0) if arguments else UNKNOWN
        if not _is_plain(call, file):
            return True
    return False


def _is_plain(call: Call, file: str) -> bool:
    path = call.path(file)
    if UNKNOWN in path or not path.isascii() or not call.ground.inside(path):
        return False
    if file.rpartition("/")[2] in call.named:
        return False
    try:
        held = Path(path).read_bytes()[: LARGEST + 1].decode()
    except (OSError, ValueError):
        return False
    if len(held) > LARGEST or _DOUBTFUL.search(held):
        return False
    return all(_NAMESPACE.fullmatch(found) or is_documentation(found) for found in _ADDRESS.findall(held))
