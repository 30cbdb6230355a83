"""Places away from this machine, each played by a client program that runs commands here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.tools.terminal.conftest import Task
from tools.terminal.backends.options import (
    BackendOptions,
    DockerOptions,
    Options,
    SingularityOptions,
    SshOptions,
)
from tools.terminal.terminals import Terminals

CLIENTS = Path(__file__).parents[2] / "support" / "clients"
KINDS = ("docker", "ssh", "singularity")


def environment(root: Path, **more: str) -> dict[str, str]:
    """An environment in which the stand-ins come first, and keep what they note below `root`."""
    return {
        "PATH": f"{CLIENTS}:{os.environ['PATH']}",
        "HOME": str(root),
        "DOCKER_CONFIG": str(root / "docker"),
        "APPTAINER_CACHEDIR": str(root / "apptainer"),
        "TMPDIR": str(root),
        "LANG": "C.UTF-8",
    } | more


def place(
    kind: str, root: Path, own: Options | None = None, environ: Mapping[str, str] | None = None
) -> BackendOptions:
    """Options of a place of `kind`, beginning in the folder `root`/work space."""
    usual: dict[str, Options] = {
        "docker": DockerOptions(image="an/image:1"),
        "ssh": SshOptions(host="build.example.org"),
        "singularity": SingularityOptions(image="/an/image.sif"),
    }
    workspace = root / "work space"
    workspace.mkdir(exist_ok=True)
    return BackendOptions(
        kind=kind,  # pyright: ignore[reportArgumentType]
        options=own or usual[kind],
        workdir=str(workspace),
        environ=environ or environment(root),
    )


def far_task(options: BackendOptions, root: Path, environ: Mapping[str, str] | None = None) -> Task:
    (root / "work space").mkdir(exist_ok=True)
    return Task(root / "work space", Terminals(environ or options.environ, far=options))


def sshd() -> str | None:
    """A real server, where one is installed."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
