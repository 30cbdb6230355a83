"""The boundary by bubblewrap: namespaces and mounts, with a filter of system calls by Hermes."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.safety.sandbox import limits
from agent.safety.sandbox.filtered import enter_arguments
from agent.safety.sandbox.landlock import landlock_version, launcher_argv
from agent.safety.sandbox.layout import (
    NOTHING,
    SESSION_VARIABLES,
    MountPlace,
    anchored,
    hidden_files,
    missing,
    places,
    recognisable,
)
from agent.safety.sandbox.limits import closer, memory_file, rlimits, shell_limits
from agent.safety.sandbox.seccomp import program
from agent.workspace.placeholders import ReservedNames, hold, unmounted
from tools.results import ToolError
from tools.services.sandbox import SandboxName, SandboxPolicy, Wrapped

# What root keeps, so that a workspace that belongs to others can be worked in. None of them reaches
# through a mount; without user namespaces these would count on the whole machine.
_KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
_SCOPES_SINCE = 6
_OF_THE_KERNEL = ("/proc/sys", "/proc/acpi", "/proc/fs")
"""What root could write without a capability. Bubblewrap itself covers `sysrq-trigger`, `irq` and `bus`."""
_PATIENCE = 10.0
_CONSOLE = "/dev/console"
"""The path at which bubblewrap mounts the terminal of its output."""


class Bubblewrap:
    """Starts programs through bubblewrap at `path`."""

    name: SandboxName = "bubblewrap"
    has_mounts = True
    lays_read_only = True

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def path(self) -> str:
        """The path of the bubblewrap program."""
        return self._path

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        view = places(policy)
        try:
            anchors = anchored(view) if _binds_descriptors(self._path) else {}
            reserved = _hold(view, anchors)
        except OSError as error:
            raise ToolError(f"The sandbox cannot be drawn around {policy.workspace}: {error}.") from error
        shape, known = (None, ()) if not policy.waits else recognisable(policy, view)
        clear = unmounted(hidden_files(view))
        filter_fd = memory_file(program(internet=True, unix=True), "hermes-filter")
        stage, fds = _stage(policy)
        links, more = _links(policy)
        join, leave = limits.prepare(policy.limits.processes)
        wrapped = [
            *join,
            *enter_arguments(policy.space),
            *links,
            self._path,
            *_namespaces(policy),
            *_mounts(view, anchors),
        ]
        wrapped += ["--seccomp", str(filter_fd), "--", *stage, *argv]

        forget = closer(*known)

        def ended() -> None:
            forget()
            clear()
            reserved.release()
            leave()

        return Wrapped(
            argv=wrapped,
            env={"TMPDIR": "/tmp"},
            unset=SESSION_VARIABLES,
            fds=(filter_fd, *fds, *more, *anchors.values()),
            terminal=_CONSOLE if policy.terminal else "",
            started=closer(filter_fd, *fds, *more, *anchors.values()),
            ended=ended,
            shape=shape,
            reserved=(reserved,),
        )


def _namespaces(policy: SandboxPolicy) -> list[str]:
    chosen = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session"]
    if not policy.network and policy.space is None:
        chosen.append("--unshare-net")
    if policy.dies_with_parent:
        chosen.append("--die-with-parent")
    if os.geteuid() == 0:
        chosen += ["--cap-drop", "ALL"]
        for name in _KEPT_BY_ROOT:
            chosen += ["--cap-add", name]
    return chosen


@functools.cache
def _binds_descriptors(program: str) -> bool:
    """Return whether this bubblewrap can mount open descriptors, as it can since version 0.8.

    Blocks the first time.
    """
    said = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return "--bind-fd" in said.stdout + said.stderr


def _hold(view: list[MountPlace], anchors: Mapping[Path, int]) -> ReservedNames:
    try:
        return hold(missing(view))
    except OSError:
        closer(*anchors.values())()
        raise


def _mounts(view: Sequence[MountPlace], anchors: Mapping[Path, int]) -> list[str]:
    chosen = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for name in _OF_THE_KERNEL if os.geteuid() == 0 else ():
        chosen += ["--ro-bind-try", name, name]
    covers: list[str] = []
    for place in view:
        path, source = str(place.path), str(place.source)
        if place.path in anchors:
            chosen += ["--bind-fd", str(anchors[place.path]), path]
        elif place.kind == "write":
            chosen += ["--bind", source, path]
        elif place.kind == "read":
            chosen += ["--ro-bind", source, path]
        elif place.is_folder:
            chosen += ["--perms", "0755", "--tmpfs", path]
            covers.append(path)
        else:
            chosen += ["--ro-bind", str(NOTHING), path]
    for path in covers:
        # Only once what shows through has found its place in it.
        chosen += ["--remount-ro", path]
    return chosen


def _links(policy: SandboxPolicy) -> tuple[list[str], tuple[int, ...]]:
    """Return arguments before bubblewrap's, and their descriptors, that mount links over files.

    Bubblewrap cannot do that itself.
    """
    if not policy.links:
        return [], ()
    return launcher_argv({"links": [(str(link), str(path)) for link, path in policy.links]})


def _stage(policy: SandboxPolicy) -> tuple[list[str], tuple[int, ...]]:
    """Return arguments just before the command's, and their descriptors.

    They set limits and deny access to abstract sockets of the host.
    """
    scope = policy.network and landlock_version() >= _SCOPES_SINCE
    if scope or policy.terminal:
        # Only who leads a session can make a terminal the controlling one.
        session = bool(policy.terminal)
        return launcher_argv({"scope": scope, "session": session, "limits": rlimits(policy.limits)})
    return ["/bin/sh", "-c", shell_limits(policy.limits) + 'exec "$@"', "sh"], ()
