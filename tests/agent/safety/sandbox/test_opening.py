"""What the boundary of a session takes from the places of its workspace and home."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.opening import open_boundary
from tests.agent.safety.sandbox.kinds import WITH_NAMESPACES
from tools.services.sandbox import Need

pytestmark = pytest.mark.skipif(not WITH_NAMESPACES, reason="only boundaries with mounts have a private /tmp")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="hermes-beside-", dir="/tmp")).resolve()
    for name in ("work", "user", "other"):
        (root / name).mkdir()
    (root / "other" / "note").write_text("mine\n")
    monkeypatch.setenv("HOME", str(root / "user"))
    yield root
    shutil.rmtree(root)


def _run(boundary: SessionBoundary, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    wrapped = boundary.wrap(["/bin/sh", "-c", script], Need(dies_with_parent=True))
    try:
        return subprocess.run(
            wrapped.argv,
            cwd=folder,
            env=os.environ | wrapped.env,
            pass_fds=wrapped.fds,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        wrapped.ended()


def test_the_whole_system_as_a_workspace_has_devices_and_only_its_own_processes(root: Path) -> None:
    settings = Settings().sandbox.model_copy(update={"network": "off"})
    home = Home(root / "user" / ".hermes")
    boundary = open_boundary(settings, home, Path("/"), home.root / "scratch", os.environ)
    try:
        done = _run(boundary, "echo x >/dev/null && ls -d /proc/[0-9]* | wc -l", Path("/"))
        assert done.stderr == ""
        assert int(done.stdout) < 10
    finally:
        boundary.close()


def test_what_is_beside_a_workspace_in_a_temporary_folder_is_the_machines(root: Path) -> None:
    settings = Settings().sandbox.model_copy(update={"network": "off"})
    home = Home(root / "user" / ".hermes")
    boundary = open_boundary(settings, home, root / "work", home.root / "scratch", os.environ)
    try:
        assert boundary.locate(f"{root}/other/new") == f"{root}/other/new"
        assert boundary.locate("/tmp/hermes-nobody/new") == f"{home.root}/scratch/tmp/hermes-nobody/new"
        script = f"cat {root}/other/note; echo x > {root}/other/note || echo x > here; echo x > /tmp/own"
        done = _run(boundary, script, root / "work")
        assert done.stdout == "mine\n", done.stderr
        assert (root / "other" / "note").read_text() == "mine\n"
        assert (root / "work" / "here").read_text() == "x\n"
        assert (home.root / "scratch" / "tmp" / "own").read_text() == "x\n"
    finally:
        boundary.close()


def test_a_workspace_that_is_itself_a_temporary_folder_stays_writable(root: Path) -> None:
    settings = Settings().sandbox.model_copy(update={"network": "off"})
    boundary = open_boundary(settings, Home(root / "user" / ".hermes"), root, root / "scratch", os.environ)
    try:
        policy = boundary.policy(Need())
        assert policy.workspace == root and root not in policy.readable
    finally:
        boundary.close()
