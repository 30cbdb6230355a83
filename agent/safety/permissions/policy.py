"""The permissions in force: read from the files, read again when they change, never loosened by a mistake."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from agent.core.config import settings_file, trust
from agent.core.config.problem import SettingProblem
from agent.core.home import Home
from agent.core.modes import Mode, stricter
from agent.safety.permissions.file import PermissionFile, parse_file
from agent.safety.permissions.rules import Origin, PermissionRule, RuleSet
from agent.safety.permissions.subjects import KNOWN_TOOLS, RuleSubject, Setting
from tools.services.actions import Fetch

USER: Origin = "permissions.yaml"
PROJECT: Origin = ".hermes/permissions.yaml"

_SETTLED = 0.1
"""Seconds after which a change of a file surely shows in its times."""

Stamp = tuple[int, ...] | None
Signature = tuple[Stamp, ...]


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """What the files say, for one surface."""

    rules: RuleSet
    mode: Mode | None = None
    """The mode of the person's file; None when it names none."""
    project_mode: Mode | None = None
    """The mode a trusted project asks for; it counts where it is stricter than the person's own."""
    floor: Mode | None = None
    """Set while the person's file has a mistake in it: no mode that lets more pass than this one holds."""
    problems: tuple[SettingProblem, ...] = ()
    project: str = "none"
    """`trusted`, `untrusted` or `none`, as for settings."""

    def opens(self, action: Fetch) -> bool:
        """Whether the person's own file opens a place that requests never reach otherwise."""
        return any(
            rule.verdict == "allow" and rule.origin == USER and rule.subject.opens(action)
            for rule in self.rules.rules
        )

    def mode_from(self, configured: Mode, chosen: Mode | None = None) -> Mode:
        """The mode in force: what the person chose for the session, else the files, else the settings."""
        mode = self.mode or configured
        if self.project_mode is not None:
            mode = stricter(mode, self.project_mode)
        mode = chosen or mode
        return stricter(mode, self.floor) if self.floor is not None else mode


class Permissions:
    """Permissions of one workspace and surface, kept up to date. Safe to use from several threads.

    The files are looked at (not read) each time they are asked for. While one of
    them has a mistake in it, its rules that ask and deny count together with those
    it had before, and nothing it allows counts.
    """

    def __init__(
        self,
        home: Home,
        workspace: Path,
        surface: str = "",
        tools: Iterable[str] = (),
        person: Path | None = None,
        project: Path | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        """`project` is the folder whose own file counts, where `workspace` is a copy of it.

        `allow` are rules that allow beside those of the files. Raises `ValueError` for one that is none.
        """
        self._home = home
        self._surface = surface
        self._workspace = project or workspace
        self._root = trust.project_root(self._workspace)
        self.setting = Setting(workspace, person or Path.home(), KNOWN_TOOLS | frozenset(tools))
        self._given = tuple(
            PermissionRule(text, "allow", RuleSubject(text, self.setting), "the job", 0) for text in allow
        )
        self._strict: dict[Origin, tuple[PermissionRule, ...]] = {}
        """The rules that ask or deny of the last sound state of each file."""
        self._lock = threading.Lock()
        self._signature: Signature | None = None
        self._policy: PermissionPolicy | None = None

    @property
    def stale(self) -> bool:
        """Whether the next `current` reads files."""
        return self._policy is None or self._signature is None or self._signature != self._look()

    @property
    def last(self) -> PermissionPolicy | None:
        """What held when the files were read last; None before that."""
        return self._policy

    def current(self) -> PermissionPolicy:
        """What holds now. Never raises for anything a file holds."""
        policy = self._policy
        if policy is not None and not self.stale:
            return policy
        with self._lock:
            now = time.time_ns()
            signature = self._look()
            self._policy = policy = self._read()
            # A second change within one tick of the file system's clock would not show.
            fresh = any(stamp is not None and now - stamp[0] < _SETTLED * 1e9 for stamp in signature)
            self._signature = None if fresh else signature
            return policy

    def files(self) -> tuple[PermissionFile, PermissionFile]:
        """The person's file and the project's as they are now, whatever of them is in force. Reads both."""
        return self._user_file(), self._project_file()[0]

    def _look(self) -> Signature:
        ours = (self._home.permissions, self._home.trust)
        return tuple(_stamp(path) for path in (*ours, *trust.watched(self._root)))

    def _read(self) -> PermissionPolicy:
        own = self._user_file()
        project, state = self._project_file()
        rules = (*self._in_force(own, USER), *self._in_force(project, PROJECT, widens=state == "trusted"))
        here = [rule for rule in rules if rule.surface in ("", *self._surfaces())] + list(self._given)
        floor: Mode | None = None
        if not own.readable and USER not in self._strict:
            floor = "careful"  # what it denies is not known
        elif not own.sound:
            floor = "normal"
        if self._surface.endswith(".group") and self._surface not in own.modes:
            # Others read along, and may talk it into something.
            floor = "careful"
        problems = (*own.problems, *project.problems)
        mode, wanted = self._mode_of(own), self._mode_of(project) if state == "trusted" else None
        return PermissionPolicy(RuleSet(here, self.setting), mode, wanted, floor, problems, state)

    def _mode_of(self, file: PermissionFile) -> Mode | None:
        for each in self._surfaces():
            if (mode := file.modes.get(each)) is not None:
                return mode
        return file.mode

    def _surfaces(self) -> tuple[str, ...]:
        """The surface and what it is a kind of, narrowest first: `gateway.slack`, `gateway`."""
        parts = self._surface.split(".")
        return tuple(".".join(parts[:end]) for end in range(len(parts), 0, -1))

    def _in_force(
        self, file: PermissionFile, origin: Origin, *, widens: bool = True
    ) -> tuple[PermissionRule, ...]:
        if file.sound:
            rules = file.rules
            self._strict[origin] = tuple(rule for rule in rules if rule.verdict != "allow")
        else:
            rules = (*self._strict.get(origin, ()), *file.rules)
            widens = False
        if widens:
            return tuple(rules)
        strict = (rule for rule in rules if rule.verdict != "allow")
        # A stranger's words do not speak to the person who is asked.
        return tuple(replace(rule, reason="") if origin == PROJECT else rule for rule in strict)

    def _user_file(self) -> PermissionFile:
        try:
            content = settings_file.read_file(self._home.permissions)
        except settings_file.UnreadableSettingsError as error:
            return _unreadable(USER, str(error))
        if content is None and self._home.permissions.is_symlink():
            # The rules that deny may stand where it should lead.
            return _unreadable(USER, "it is a link that leads nowhere")
        return PermissionFile() if content is None else parse_file(content, USER, self.setting)

    def _project_file(self) -> tuple[PermissionFile, str]:
        try:
            project = trust.read_project(self._home, self._workspace)
        except settings_file.UnreadableSettingsError as error:
            return _unreadable(PROJECT, str(error)), "untrusted"
        if project is None or project.permissions is None:
            return PermissionFile(), "none"
        file = parse_file(project.permissions, PROJECT, self.setting)
        return file, "trusted" if trust.is_trusted(self._home, project) else "untrusted"


def _unreadable(origin: Origin, reason: str) -> PermissionFile:
    return PermissionFile(problems=(SettingProblem(origin, f"it is not read: {reason}."),), readable=False)


def _stamp(path: Path) -> Stamp:
    """What changes when a file does: newest time first, in nanoseconds. None when there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
    except OSError:
        return None
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    return newest, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev, status.st_mode
