"""The boundary around a server: it reads what commands may read, and changes only its own folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from agent.core.home import Home, private_folder
from agent.integrations.mcp.launch import Confinement
from agent.safety.sandbox import secrets
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.layout import PRIVATE_TMP
from agent.safety.sandbox.opening import SandboxMode, probe
from tools.services.sandbox import Need, SandboxLimits, Wrapped


def wrapped(argv: Sequence[str], confinement: Confinement | None, folder: Path) -> Wrapped:
    """How to start a server. Looks at the disk. Raises `ToolError` when the boundary cannot be drawn."""
    if confinement is None:
        return Wrapped(argv=list(argv))
    workspace = Path(confinement.workspace)
    writable = [(workspace / Path(path).expanduser()).resolve() for path in confinement.writable]
    boundary = SessionBoundary(
        probe(cast("SandboxMode", confinement.mode)),
        folder,
        folder / "tmp",
        Home(Path(confinement.home)),
        network="on" if confinement.network else "off",
        writable=writable,
        hidden=[Path(path) for path in confinement.hidden],
        readable=[
            *(Path(path) for path in confinement.readable),
            *([] if workspace.resolve() in writable else [workspace]),
            *_in_temporary_folders(argv, (confinement.home, *confinement.hidden)),
        ],
        environ=confinement.environ,
        limits=SandboxLimits(data=confinement.memory),
    )
    private_folder(folder / "tmp")
    return boundary.wrap(argv, Need(hide=tuple(secrets.in_workspace(workspace)), dies_with_parent=True))


def _in_temporary_folders(argv: Sequence[str], secret: Sequence[str]) -> list[Path]:
    """Where program and scripts lie in folders of which a server has its own: they are shown read-only."""
    private = [*PRIVATE_TMP, *(folder.resolve() for folder in PRIVATE_TMP)]
    kept_away = [Path(each).expanduser().resolve() for each in secret]
    found = []
    for number, word in enumerate(argv):
        path = Path(word)
        if not path.is_absolute() or not path.exists():
            continue
        for each in (path, path.resolve()):
            folder = each if each.is_dir() else each.parent
            if number == 0 and folder.name == "bin":
                folder = folder.parent
            shown = each if folder in private else folder
            inside = any(shown.is_relative_to(root) for root in private) and shown not in private
            if inside and not any(shown.resolve().is_relative_to(root) for root in kept_away):
                found.append(shown)
    return list(dict.fromkeys(found))


def own_places(folder: Path) -> dict[str, str]:
    """Variables that lead a server's caches into its own folder, which is made."""
    cache = folder / "cache"
    private_folder(folder)
    private_folder(cache)
    return {
        "XDG_CACHE_HOME": str(cache),
        "npm_config_cache": str(cache / "npm"),
        "UV_CACHE_DIR": str(cache / "uv"),
        "PIP_CACHE_DIR": str(cache / "pip"),
    }
