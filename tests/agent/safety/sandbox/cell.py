"""A small world for escape attempts: a home with secrets, a workspace, another session, and a way in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import Home, private_folder
from agent.safety.sandbox.boundary import BoundaryFolders, NetworkMode, SessionBoundary
from tools.services.sandbox import Need, Sandbox, SandboxLimits, Wrapped

PYTHON = os.path.realpath(sys.executable)


@dataclass(frozen=True)
class Ended:
    """How an attempt ended."""

    code: int
    output: str


@contextmanager
def room() -> Iterator[Path]:
    """A folder for a test world that is not below `/tmp`, which sandboxes replace."""
    for folder in (Path.home(), Path("/var/lib")):
        if folder.is_dir() and os.access(folder, os.W_OK):
            made = Path(tempfile.mkdtemp(prefix=".hermes-cell-", dir=folder)).resolve()
            break
    else:
        raise RuntimeError("no folder outside /tmp can be written")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


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
        private_folder(self.private)
        self.boundary = SessionBoundary(
            sandbox,
            BoundaryFolders(self.workspace, self.private, Home(self.user / ".hermes")),
            network=network,
            environ={"HOME": str(self.user), "SSH_AUTH_SOCK": str(self.outside / "agent.sock")},
            limits=SandboxLimits(processes=60),
        )

    def run(self, argv: list[str], *, need: Need | None = None, timeout: float = 200) -> Ended:
        """Start `argv` in the workspace and wait for it."""
        wrapped = self.boundary.wrap(argv, need or Need(dies_with_parent=True))
        try:
            done = subprocess.run(
                wrapped.argv,
                cwd=self.workspace,
                env=self._env(wrapped),
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

    @contextmanager
    def prisoner(self) -> Iterator[Callable[[str, str], Ended]]:
        """One child inside that makes an attempt each time it is told a language and a text."""
        program = Path(__file__).with_name("prisoner.py").read_text()
        wrapped = self.boundary.wrap([PYTHON, "-I", "-c", program], Need(dies_with_parent=True))
        child = subprocess.Popen(
            wrapped.argv,
            cwd=self.workspace,
            env=self._env(wrapped),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=wrapped.fds,
            start_new_session=True,
            text=True,
        )
        wrapped.started()
        assert child.stdin is not None and child.stdout is not None
        given, said = child.stdin, child.stdout

        def attempt(language: str, code: str) -> Ended:
            print(json.dumps([language, code]), file=given, flush=True)
            return Ended(*json.loads(said.readline()))

        with child:
            yield attempt
            given.close()
            child.wait(20)
        wrapped.ended()

    def _env(self, wrapped: Wrapped) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in wrapped.unset}
        return kept | dict(wrapped.env)

    def shell(self, script: str, **more: object) -> Ended:
        return self.run(["/bin/bash", "-c", script], **more)  # type: ignore[arg-type]

    def python(self, code: str) -> Ended:
        return self.run([PYTHON, "-I", "-c", code])


def picture(cell: Cell) -> dict[str, tuple[str, int]]:
    """All files and folders outside the workspace with their content and mode."""
    return {
        str(path): (path.read_text(errors="replace") if path.is_file() else "", path.stat().st_mode)
        for path in sorted(cell.root.rglob("*"))
        if not path.is_socket()
        and not path.is_relative_to(cell.workspace)
        and not path.is_relative_to(cell.private)
    }
