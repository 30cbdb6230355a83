"""Paths of secrets on a developer's disk: names below the home folder, and sockets of the session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.safety.reader.tree import words
from agent.safety.scope import is_secret
from tools.secret_places import COMMANDS_ONLY, LIKELY_NAMES, NAMES, STORES, STORES_ANYWHERE, SYSTEM, rows

_STARTUP = """
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
.zlogout .config/fish .config/autostart .config/systemd .config/environment.d .gitconfig .config/git
.inputrc .pam_environment .xprofile .xinitrc .xsessionrc .local/bin bin .local/share/applications .pythonrc
"""
_DEPTH = 2
"""The depth of folders below the workspace that is searched."""
_FOLDERS = 64
"""The number of folders that are searched."""
_UNINTERESTING = words(".git .hg .svn node_modules .venv venv __pycache__ target dist build .tox .mypy_cache")
_SOCKETS = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "TMUX")
_ADDRESSES = ("DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "PULSE_SERVER")
_SYSTEM = ("/var/lib/docker", "/etc/sudoers.d")


def in_home(home: Path) -> tuple[Path, ...]:
    """Return files and folders below `home` that hold secrets, whether they exist or not."""
    named = (each for each in rows(NAMES + LIKELY_NAMES) if "*" not in each and each.startswith("."))
    stores = (*rows(STORES_ANYWHERE + STORES), *named, *rows(COMMANDS_ONLY))
    return tuple(dict.fromkeys(path for each in stores for path in _standing_for(f"{home}/{each}")))


def start_up(home: Path) -> tuple[Path, ...]:
    """Return files and folders below `home` that are run at login or when a shell starts, existing or not."""
    return tuple(home / name for name in _STARTUP.split())


def of_session(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths of sockets that variables of the user's session name."""
    for name in _SOCKETS:
        value = environ.get(name, "").partition(",")[0].partition(":")[0]
        if value.startswith("/"):
            yield Path(value)
    for name in _ADDRESSES:
        _, found, rest = environ.get(name, "").partition("unix:")
        path = rest.removeprefix("path=").partition(",")[0]
        path = "/" + path.lstrip("/") if path.startswith("/") else ""
        if found and path:
            yield Path(path)


def in_workspace(workspace: Path) -> Iterator[Path]:
    """Yield files of a project that hold secrets, such as `.env`, in the folders near its top."""
    folders = [(workspace, 0)]
    for folder, depth in folders:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and entry.name not in _UNINTERESTING and len(folders) < _FOLDERS:
                    folders.append((Path(entry.path), depth + 1))
            elif is_secret(f"/{entry.name}"):
                yield Path(entry.path)


def of_system() -> tuple[Path, ...]:
    """Return system files that root could read and no developer's command needs."""
    return tuple(path for each in (*_SYSTEM, *rows(SYSTEM)) for path in _standing_for(each))


def _standing_for(pattern: str) -> Iterator[Path]:
    """Yield the path that a pattern stands for, existing or not, and its matches if it has a wildcard."""
    if "*" in pattern:
        folder, _, name = pattern.rpartition("/")
        yield from Path(folder).glob(name)
    if not pattern.endswith("/*_key"):
        yield Path(pattern.rstrip("*"))
