"""The boundary around the process of a plugin: what it declared, and nothing else of the person's.

Unlike a command of the agent, a plugin does not see the whole disk: of the top of the file system only
what programs are made of is shown, and no home, no workspace, no folder of Hermes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import Home
from agent.integrations.plugins.capabilities import DeclaredCapabilities
from agent.integrations.plugins.problem import SkippedPart
from agent.safety.sandbox import secrets
from agent.safety.sandbox.landlock import own_files
from agent.safety.sandbox.layout import GuardedFinder, found_in
from agent.safety.sandbox.repository import repository_of
from agent.workspace.placeholders import hold
from tools.services.sandbox import NetworkSpace, SandboxLimits, SandboxPolicy
from tools.text.words import brief

PROGRAM = Path(__file__).resolve().parent / "child"
"""The folder that holds the program of the child."""
MEMORY = 512_000_000
"""Bytes of private memory of one process of a plugin."""
LIMITS = SandboxLimits(processes=128, files=512, data=MEMORY)

_OF_PROGRAMS = frozenset(
    {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "nix", "gnu", "dev", "proc", "sys"}
    | {"run", "tmp", "var"}
)
"""What a program may need of the top of the file system; its folders of the person's are hidden below."""
_HIDDEN_BELOW = tuple(
    Path(name) for name in ("/var/lib", "/var/log", "/var/mail", "/var/spool", "/var/backups", "/var/www")
)


@dataclass(frozen=True, slots=True)
class GrantedPaths:
    """What of the disk a plugin gets, without links."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    refused: tuple[SkippedPart, ...] = ()


def granted_paths(
    declared: DeclaredCapabilities, workspace: Path, user: Path, home: Home, environ: Mapping[str, str]
) -> GrantedPaths:
    """The declared paths as they lie. Places of secrets, and the home of Hermes, are never granted."""
    closed = [Path(os.path.realpath(path)) for path in _closed(user, home, environ)]
    refused: list[SkippedPart] = []

    def lying(kind: str, given: Iterable[str]) -> tuple[Path, ...]:
        found: list[Path] = []
        for text in given:
            path, wrong = _located(text, workspace, user)
            if not wrong and any(path.is_relative_to(each) for each in closed):
                wrong = "it lies where secrets are kept, which no plugin is shown"
            if wrong:
                refused.append(SkippedPart(f"capabilities.paths.{kind}: {brief(text)}", wrong))
            else:
                found.append(path)
        return tuple(found)

    read, write = lying("read", declared.read), lying("write", declared.write)
    return GrantedPaths(read, write, tuple(refused))


def plugin_policy(
    *,
    root: Path,
    data: Path,
    tmp: Path,
    paths: GrantedPaths,
    workspace: Path,
    user: Path,
    home: Home,
    environ: Mapping[str, str],
    space: NetworkSpace | None,
) -> SandboxPolicy:
    """What the process of a plugin may touch. `space` is its network; None means it has none."""
    return SandboxPolicy(
        workspace=data,
        tmp=tmp,
        writable=paths.write,
        readable=(root, PROGRAM, *own_files(), *paths.read),
        hidden=(
            *_undeclared(user, workspace, paths),
            *dict.fromkeys(Path(os.path.realpath(each)) for each in _closed(user, home, environ)),
        ),
        protected=(root, *_guarded(workspace, paths), *_start_up(user, paths)),
        space=space,
        dies_with_parent=True,
        limits=LIMITS,
    )


def gaps(workspace: Path, paths: GrantedPaths) -> Callable[[], None]:
    """Keep a plugin that may change the workspace from making what git runs programs for, until called."""
    if not _changes(workspace, paths):
        return lambda: None
    try:
        return hold(*repository_of(workspace).gaps())
    except OSError:
        # What cannot be made here cannot be made by the plugin either.
        return lambda: None


def _guarded(workspace: Path, paths: GrantedPaths) -> Iterable[Path]:
    """What of the workspace runs programs, which a plugin that may change it does not change."""
    if _changes(workspace, paths):
        places = (*repository_of(workspace).guarded, *found_in([GuardedFinder(workspace)]).read_only)
        yield from filter(os.path.lexists, places)


def _start_up(user: Path, paths: GrantedPaths) -> Iterable[Path]:
    """What runs when the person logs in, as far as the plugin may change what is around it."""
    for path in secrets.start_up(user):
        if os.path.lexists(path) and any(path.is_relative_to(each) for each in paths.write):
            yield path


def _changes(workspace: Path, paths: GrantedPaths) -> bool:
    return any(each.is_relative_to(workspace) or workspace.is_relative_to(each) for each in paths.write)


def _closed(user: Path, home: Home, environ: Mapping[str, str]) -> Iterable[Path]:
    """What no plugin is shown, whatever it declares."""
    yield home.root
    for each in dict.fromkeys((user, Path(environ.get("HOME") or user))):
        yield from secrets.in_home(each)
    yield from secrets.of_session(environ)
    yield from secrets.of_system()


def _undeclared(user: Path, workspace: Path, paths: GrantedPaths) -> list[Path]:
    """What is the person's, but for places that are granted or lie in one that is."""
    own = (*_beside_programs(), *filter(Path.is_dir, _HIDDEN_BELOW), user, workspace)
    granted = (*paths.read, *paths.write)
    real = dict.fromkeys(Path(os.path.realpath(each)) for each in own)
    return [each for each in real if not any(each.is_relative_to(path) for path in granted)]


def _beside_programs() -> list[Path]:
    """Everything at the top of the file system that programs are not made of."""
    try:
        with os.scandir("/") as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name not in _OF_PROGRAMS and not entry.is_symlink()
            ]
    except OSError:
        return []


def _located(text: str, workspace: Path, user: Path) -> tuple[Path, str]:
    """Where a declared path leads, and what is wrong with it, as a clause."""
    if text == "~" or text.startswith("~/"):
        return Path(os.path.realpath(user / text[2:])), ""
    if text.startswith("~"):
        return user, "only one's own home can be named"
    if text.startswith("/"):
        return Path(os.path.realpath(text)), ""
    base = Path(os.path.realpath(workspace))
    path = Path(os.path.realpath(base / text))
    return path, "" if path.is_relative_to(base) else "it leads out of the workspace"
