"""A server's own folders, seen from outside its sandbox: files named in its answers, and paths denied to it.

Its `/tmp` is not that of the session, so a file that it names there is copied to where the model can read it.
Only regular files are copied, without following links.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from agent.integrations.mcp.launch import ServerLaunch
from agent.safety.sandbox.layout import PRIVATE_TMP
from agent.safety.scope import is_secret

LARGEST_FILE = 20_000_000
"""The maximum size of a file that is copied, in bytes."""
MOST_FILES = 20
"""The maximum number of files copied for one answer."""
_LONGEST = 20_000
"""The number of characters of an answer that are searched for paths."""
_NAMED = re.compile(r"\]\(([^()\s]{1,500})\)|(?<![\w./~-])((?:file://|\.{0,2}/)[^\s'\"`()<>|,;]{2,500})")
_DENIED = re.compile(r"\bEROFS\b|read-only file ?system|unable to open database file", re.IGNORECASE)
_REFUSED = re.compile(
    r"\b(?:EACCES|EPERM|PermissionError)\b|permission denied|operation not permitted", re.IGNORECASE
)
_ABSENT = re.compile(r"\bENOENT\b|no such file or directory", re.IGNORECASE)
_PATH = re.compile(r"""['"`‘]([^'"`‘’\n]{1,500})['"`’]|(?<=\s)(/[^\s'"`‘’:,;)]{1,500})""")
_SHORT = 2_000
"""The length in characters below which an answer without the error flag may still describe an error."""


def with_files(
    result: dict[str, Any], launch: ServerLaunch, save: Callable[[bytes, str], Path]
) -> dict[str, Any]:
    """Return a result in which paths of files in the server's own folders are replaced by paths of copies.

    `save` stores a content with an extension and returns the path. Reads the disk.
    """
    text = result.get("content")
    if launch.confinement is None or not isinstance(text, str):
        return result
    copies: dict[str, Path] = {}
    for named in _named_paths(text[:_LONGEST]):
        if len(copies) < MOST_FILES and (data := _content(named, launch)) is not None:
            copies[named] = save(data, PurePosixPath(named).suffix[:10])
    for named, copy in copies.items():
        text = text.replace(named, str(copy))
    files = [{"named": named, "path": str(copy)} for named, copy in copies.items()]
    return {**result, "content": text, "files": files} if files else result


def _named_paths(text: str) -> Iterator[str]:
    """Yield the texts that may be paths, the longest first, so that none is a part of a later one."""
    found = {match[1] or match[2].rstrip(".:]}") for match in _NAMED.finditer(text)}
    return iter(sorted(found, key=len, reverse=True))


def _content(named: str, launch: ServerLaunch) -> bytes | None:
    """Return the content of a file in the server's `/tmp` or its cache; None if there is none."""
    path = os.path.normpath(os.path.join(launch.cwd or "/", named.removeprefix("file://")))  # noqa: PTH118
    folder = Path(launch.folder)
    places = [(str(each), folder / "tmp") for each in PRIVATE_TMP] + [(str(folder), folder)]
    for inside, outside in () if is_secret(path) else places:
        if path.startswith(f"{inside}/"):
            with suppress(OSError, ValueError):
                return _read(outside, path[len(inside) + 1 :].split("/"))
    return None


def _read(folder: Path, parts: list[str]) -> bytes | None:
    """Return a file's content, opened without following links; None if unsuitable. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folder, flags | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=at)
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(file)
            # A further name may lead to a file that lies elsewhere.
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > LARGEST_FILE:
                return None
            return opened.read(LARGEST_FILE)
    finally:
        os.close(at)


def sandbox_hint(text: str, launch: ServerLaunch, *, failed: bool) -> str:
    """Return what to do about a path that the sandbox denies to the server; empty if none is named.

    Pure except that it looks up folders.
    """
    confinement = launch.confinement
    if confinement is None or not (failed or len(text) < _SHORT):
        return ""
    found = _DENIED.search(text)
    if failed:
        found = found or _REFUSED.search(text) or _ABSENT.search(text)
    if found is None:
        return ""
    line = text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
    match = _PATH.search(line)
    named = (match[1] or match[2]).strip() if match is not None else ""
    if not (_DENIED.search(text) or named.startswith("/")) or "\0" in named:
        return ""
    path = Path(os.path.normpath(Path(launch.cwd or confinement.workspace) / named))
    home = Path(confinement.environ.get("HOME") or Path.home())
    shown = any(path.is_relative_to(each) for each in (confinement.workspace, home))
    own = [Path(launch.folder), *(() if shown else PRIVATE_TMP)]
    writable = [Path(confinement.workspace) / Path(each).expanduser() for each in confinement.writable]
    absent = [each for each in writable if not each.exists() and path.is_relative_to(each)]
    if any(path.is_relative_to(each) for each in (*own, *writable) if each not in absent):
        return ""
    if absent:
        return f"it may change {absent[0]} only if that is there when it starts; make it, then start it again"
    if found.re is _ABSENT:
        if path.exists():
            return (
                f"it runs in the sandbox, which hides {path} from it; `env` can give it what it needs of that"
            )
        if "mkdir" not in line or not shown:
            return ""
        # Node says so of folders that it makes with those above them where nothing can be made.
    # A folder that is missing is made first, since only what is there can be opened for it.
    wanted = path if path.is_dir() or path.parent in (home, Path("/")) else path.parent
    missing = "" if wanted.exists() else f"make {wanted} first; then "
    return (
        f"it runs in the sandbox, which keeps {path} from being changed; {missing}"
        f"`writable: [{wanted}]` under mcp_servers.{launch.name} lets it change that "
        f"(for a new server: `hermes mcp add --writable {wanted}`)"
    )


def with_sandbox_hint(result: dict[str, Any], launch: ServerLaunch) -> dict[str, Any]:
    """Return a result, with a hint on what to do if the sandbox denies a path that it names."""
    key = "error" if "error" in result else "content"
    if not isinstance(text := result.get(key), str):
        return result
    hint = sandbox_hint(text, launch, failed=key == "error")
    return {**result, key: f"{text}\n[{hint[:1].upper()}{hint[1:]}.]"} if hint else result
