"""The boundary of one session: the machine's sandbox with the policy of this workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agent.home import Home, private_folder
from agent.safety.sandbox import secrets
from agent.safety.sandbox.launch import own_files
from agent.safety.sandbox.layout import PRIVATE_TMP
from agent.safety.sandbox.placeholders import hold
from agent.safety.sandbox.refusals import explain
from agent.safety.sandbox.repository import repository_of
from tools.sandbox import Limits, Need, Policy, Sandbox, SandboxName, Wrapped

NetworkMode = Literal["on", "ask", "off"]


class SessionBoundary:
    """Draws `sandbox` around the commands of one workspace.

    `tmp` is the private temporary folder, made when first needed. `writable` and
    `hidden` are the person's additions, `readable` are folders of ours that commands
    may look into. `reaches_network` tells whether a command wants the network; it is
    consulted only where the network has to be asked for.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        workspace: Path,
        tmp: Path,
        home: Home,
        *,
        network: NetworkMode = "on",
        writable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
        readable: Iterable[Path] = (),
        environ: Mapping[str, str] = os.environ,
        limits: Limits | None = None,
        reaches_network: Callable[[str, Path], bool] = lambda command, cwd: True,
    ) -> None:
        self._sandbox = sandbox
        self._workspace = workspace.resolve()
        self._tmp = tmp
        self._home = home
        self._mode: NetworkMode = network
        self._writable = tuple(_real(path) for path in writable)
        self._hidden = tuple(dict.fromkeys(_real(path) for path in self._secrets(environ, hidden)))
        self._readable = tuple(_real(path) for path in readable)
        self._limits = limits or Limits()
        self._reaches_network = reaches_network

    @property
    def level(self) -> SandboxName:
        return self._sandbox.name

    @property
    def network(self) -> NetworkMode:
        return self._mode

    def policy(self, need: Need) -> Policy:
        """The policy of the next start. Looks at the disk: repositories come and go."""
        private_folder(self._tmp)
        repository = repository_of(self._workspace)
        user = Path.home()
        return Policy(
            workspace=self._workspace,
            tmp=self._tmp.resolve(),
            writable=(*self._writable, *repository.store, *need.write),
            readable=(*self._readable, *need.read, *own_files()),
            hidden=(*self._hidden, *need.hide),
            protected=tuple(
                path for path in (*repository.guarded, *secrets.start_up(user)) if os.path.lexists(path)
            ),
            network=not need.offline and (self._mode == "on" or (self._mode == "ask" and need.network)),
            terminal=need.terminal,
            sockets=need.sockets,
            dies_with_parent=need.dies_with_parent,
            limits=self._limits,
        )

    def wrap(self, argv: Sequence[str], need: Need) -> Wrapped:
        if self._sandbox.name == "none":
            return Wrapped(argv=list(argv), terminal=need.terminal)
        let_go = self._fill_gaps()
        try:
            wrapped = self._sandbox.wrap(argv, self.policy(need))
        except BaseException:
            let_go()
            raise

        def ended() -> None:
            wrapped.ended()
            let_go()

        return replace(wrapped, ended=ended)

    def _fill_gaps(self) -> Callable[[], None]:
        """Put something read-only where a command could make what git runs programs for."""
        if not self._sandbox.own_tmp:
            # Without mounts there is nothing that could keep it from being changed.
            return _nothing
        try:
            return hold(*repository_of(self._workspace).gaps())
        except OSError:
            # What cannot be made here cannot be made by a command either.
            return _nothing

    def private(self) -> tuple[Path, ...]:
        return () if self.level == "none" else tuple(secrets.in_workspace(self._workspace))

    def locate(self, path: str) -> str:
        folder = next((root for root in PRIVATE_TMP if Path(path).is_relative_to(root)), None)
        if not self._sandbox.own_tmp or folder is None:
            return path
        plain = Path(os.path.normpath(path))
        shown = (self._workspace, *self._writable, *self._readable, *self._hidden)
        if not plain.is_relative_to(folder) or any(plain.is_relative_to(each) for each in shown):
            return path
        own = self._tmp / plain.relative_to(folder)
        return path if os.path.lexists(path) and not os.path.lexists(own) else str(own)

    def called(self, path: Path) -> Path:
        own = self._tmp.resolve()
        if not self._sandbox.own_tmp or not path.is_relative_to(own):
            return path
        return PRIVATE_TMP[0] / path.relative_to(own)

    def asks_for_network(self, command: str, cwd: Path) -> bool:
        return self._mode == "ask" and self.level != "none" and self._reaches_network(command, cwd)

    def refusal(self, output: str, *, network: bool) -> str:
        if self.level == "none":
            return ""
        writable = (self._workspace, *self._writable, Path("/tmp"), Path("/var/tmp"), Path("/dev"))
        is_open = self._mode == "on" or (self._mode == "ask" and network)
        return explain(output, writable, self._hidden, is_open)

    def _secrets(self, environ: Mapping[str, str], more: Iterable[Path]) -> Iterable[Path]:
        yield self._home.root
        for user in dict.fromkeys((Path.home(), Path(environ.get("HOME") or Path.home()))):
            yield from secrets.in_home(user)
        yield from secrets.of_session(environ)
        yield from secrets.of_system()
        yield from more


def _nothing() -> None:
    pass


def _real(path: Path) -> Path:
    return path.expanduser().resolve()
