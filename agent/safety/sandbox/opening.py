"""The boundary a session begins with, from the settings and what the machine offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import Home
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.probe import probe
from tools.sandbox import Limits

if TYPE_CHECKING:
    from agent.config.schema import SandboxSettings


def open_boundary(
    settings: SandboxSettings,
    home: Home,
    workspace: Path,
    scratch: Path,
    environ: Mapping[str, str],
    readable: Sequence[Path] = (),
) -> SessionBoundary:
    """Try what the machine offers and wrap it in the session's policy. Blocks; meant for a thread.

    `readable` are folders that can be read where they are, even below a `/tmp` that is private.
    """
    return SessionBoundary(
        probe(settings.mode),
        workspace,
        scratch / "tmp",
        home,
        network=settings.network,
        limits=Limits(data=settings.memory * 1_000_000),
        writable=[Path(path) for path in settings.writable],
        hidden=[Path(path) for path in settings.hidden],
        readable=[scratch, *readable],
        environ=environ,
        reaches_network=_network_reader(workspace, scratch),
    )


def _network_reader(workspace: Path, scratch: Path) -> Callable[[str, Path], bool]:
    def reaches(command: str, cwd: Path) -> bool:
        from agent.safety.commands.assessor import Assessor
        from agent.safety.places import Places

        user = Path.home()
        places = Places(home=str(user), guarded=(), secret=(), other_homes=(str(user.resolve()),))
        return Assessor(places, workspace, scratch).assess(command, cwd).network

    return reaches
