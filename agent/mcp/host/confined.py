"""The boundary around a server: it reads what commands may read, and changes only its own folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from agent.home import Home, private_folder
from agent.mcp.launch import Confinement
from agent.safety.sandbox import secrets
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.probe import SandboxMode, probe
from tools.sandbox import Need, SandboxLimits, Wrapped


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
        ],
        environ=confinement.environ,
        limits=SandboxLimits(data=confinement.memory),
    )
    private_folder(folder / "tmp")
    return boundary.wrap(argv, Need(hide=tuple(secrets.in_workspace(workspace)), dies_with_parent=True))


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
