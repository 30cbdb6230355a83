"""The boundary a session begins with, from the settings and what the machine offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.net.hosts import own_networks, services
from agent.core.net.upstream import way_out
from agent.safety.sandbox.boundary import NetworkWish, Opened, SessionBoundary
from agent.safety.sandbox.bubblewrap import Bubblewrap
from agent.safety.sandbox.caches import WorkspaceCaches
from agent.safety.sandbox.filtered import FilteredNetwork
from agent.safety.sandbox.network_space import entering, open_space
from agent.safety.sandbox.probe import SandboxMode, probe
from tools.results import ToolError
from tools.services.actions import RunCommand
from tools.services.sandbox import Sandbox, SandboxLimits

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings


def open_boundary(
    settings: SandboxSettings,
    home: Home,
    workspace: Path,
    scratch: Path,
    environ: Mapping[str, str],
    readable: Sequence[Path] = (),
    secrets: Mapping[str, str] | None = None,
) -> SessionBoundary:
    """Try what the machine offers and wrap it in the session's policy. Blocks; meant for a thread.

    `readable` are folders that can be read where they are, even below a `/tmp` that is private. `secrets`
    are values, by name, that do not leave through a filtered network.
    """
    sandbox = probe(settings.mode)
    filtered = None
    if settings.network == "filtered" and isinstance(sandbox, Bubblewrap) and not unfiltered(sandbox):
        filtered = FilteredNetwork(
            sandbox.path,
            secrets=secrets,
            network=way_out(environ),
            services=services(settings.hosts),
            is_own=own_networks(settings.hosts).lists,
        )
    writable = [Path(path).expanduser() for path in settings.writable]
    boundary = SessionBoundary(
        sandbox,
        workspace,
        scratch / "tmp",
        home,
        network=settings.network,
        limits=SandboxLimits(data=settings.memory * 1_000_000),
        writable=writable,
        hidden=[Path(path) for path in settings.hidden],
        readable=[scratch, *readable],
        environ=environ,
        read=_reader(workspace, scratch),
        filtered=filtered,
        opens=_place_reader(workspace, home.root),
        changes_settings=_settings_reader(workspace),
        caches=WorkspaceCaches(
            home.sandbox_caches,
            workspace.resolve(),
            environ,
            Path.home(),
            lambda path: any(path.is_relative_to(each) for each in (workspace, *writable)),
        ),
    )
    boundary.clear_up()
    return boundary


def unfiltered(sandbox: Sandbox) -> str:
    """Why the network of commands cannot be filtered in `sandbox`, as a clause; empty if it can."""
    if not isinstance(sandbox, Bubblewrap):
        return "only bubblewrap can do that"
    return "" if entering() is not None else "nsenter (of util-linux) is not installed"


def try_filter(mode: SandboxMode) -> str:
    """The same for the sandbox of this machine, whose network is opened once. Blocks."""
    sandbox = probe(mode)
    if not isinstance(sandbox, Bubblewrap) or unfiltered(sandbox):
        return unfiltered(sandbox)
    try:
        opened = open_space(sandbox.path)
    except ToolError as error:
        return str(error)
    opened.close()
    return ""


def _place_reader(workspace: Path, own: Path) -> Callable[[str, Path], Opened]:
    def opens(command: str, cwd: Path) -> Opened:
        from agent.safety.permissions.protection import Protection, brings_files, deletes_folders
        from agent.safety.permissions.subjects import Setting

        setting = Setting(workspace, Path.home())
        named = Protection(setting, own).named(RunCommand(tool="terminal", command=command, cwd=cwd))
        reading = setting.reading(command, cwd)
        return Opened(named, brings_files(reading), deletes_folders(reading))

    return opens


def _settings_reader(workspace: Path) -> Callable[[str, Path], bool]:
    """Tells whether a command may change settings of git: by what git does, and all that runs other code."""

    def changes(command: str, cwd: Path) -> bool:
        from agent.safety.effects import deed
        from agent.safety.permissions.subjects import Setting
        from agent.safety.programs.table import programs

        reading = Setting(workspace, Path.home()).reading(command, cwd)
        found = [(each.name, deed(each, programs()).effect) for each in reading.commands]
        harmless = all(effect == "looks" or (effect == "edits" and name != "git") for name, effect in found)
        return not harmless or bool(reading.doubts)

    return changes


def _reader(workspace: Path, scratch: Path) -> Callable[[str, Path], NetworkWish]:
    def wish(command: str, cwd: Path) -> NetworkWish:
        from agent.safety.assessor import Assessor
        from agent.safety.places import Places

        user = Path.home()
        places = Places(home=str(user), guarded=(), secret=(), other_homes=(str(user.resolve()),))
        found = Assessor(places, workspace, scratch).assess(command, cwd)
        return NetworkWish(found.verdict.network, found.hosts)

    return wish
