"""A small world for escape attempts: a home with secrets, a workspace, another session, and a way in."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from agent.home import Home
from agent.safety.sandbox.boundary import NetworkMode, SessionBoundary
from tools.sandbox import Limits, Need, Sandbox

PYTHON = os.path.realpath(sys.executable)


@dataclass(frozen=True)
class Ended:
    """How an attempt ended."""

    code: int
    output: str


class Cell:
    """One sandboxed workspace. The folders lie where no private `/tmp` covers them."""

    def __init__(self, sandbox: Sandbox, root: Path, monkeypatch, network: NetworkMode = "off") -> None:
        self.sandbox = sandbox
        self.root = root
        self.user = root / "user"
        self.workspace = self.user / "project"
        self.outside = root / "outside"
        for folder in (self.workspace, self.outside, self.user / ".ssh", self.user / ".hermes"):
            folder.mkdir(parents=True)
        (self.user / ".ssh" / "id_ed25519").write_text("PRIVATE KEY")
        (self.user / ".netrc").write_text("machine secret")
        (self.user / ".bashrc").write_text("# start\n")
        (self.user / ".hermes" / "config.yaml").write_text("approvals: {}\n")
        (self.user / ".hermes" / "state.db").write_text("STORED WORDS")
        (self.outside / "file").write_text("untouched")
        monkeypatch.setenv("HOME", str(self.user))
        self.private = self.user / ".hermes" / "scratch" / "tmp"
        self.boundary = SessionBoundary(
            sandbox,
            self.workspace,
            self.private,
            Home(self.user / ".hermes"),
            network=network,
            environ={"HOME": str(self.user), "SSH_AUTH_SOCK": str(self.outside / "agent.sock")},
            limits=Limits(processes=60),
        )

    def run(self, argv: list[str], *, need: Need | None = None, timeout: float = 20) -> Ended:
        """Start `argv` in the workspace and wait for it."""
        wrapped = self.boundary.wrap(argv, need or Need(dies_with_parent=True))
        env = {name: value for name, value in os.environ.items() if name not in wrapped.unset}
        try:
            done = subprocess.run(
                wrapped.argv,
                cwd=self.workspace,
                env=env | dict(wrapped.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=wrapped.fds,
                timeout=timeout,
                start_new_session=True,
                check=False,
            )
        finally:
            wrapped.started()
            wrapped.ended()
        return Ended(done.returncode, done.stdout.decode(errors="replace"))

    def shell(self, script: str, **more: object) -> Ended:
        return self.run(["/bin/bash", "-c", script], **more)  # type: ignore[arg-type]

    def python(self, code: str) -> Ended:
        return self.run([PYTHON, "-I", "-c", code])
