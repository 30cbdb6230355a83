"""The programs of `peers.yaml`: their data, their installation, their homes.

Each gets a folder below the cache with its program (`program/`, kept) and, for each measurement, an empty
home and a small repository to work in (thrown away).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).with_name("peers.yaml")
ROOT = Path(__file__).resolve().parents[2]
OURS = "hermes"
NODE = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}"
TOKENIZER = "gpt-tokenizer@4.0.0"
UV = "uv==0.9.5"
INSTALL_LIMIT = 900.0
MARK = "BENCH_PEERS"
"""The variable that marks every process of a measurement."""


class Missing(Exception):  # noqa: N818 - named by what it says
    """A program that cannot be had or run here; its text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program as `peers.yaml` describes it; the comments there say what each part is."""

    name: str
    version: str
    shell: Mapping[str, Any]
    command: tuple[str, ...]
    npm: str = ""
    pip: str = ""
    python: tuple[int, int] = (3, 11)
    override: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    note: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])


def read_peers(path: Path = DATA) -> list[Peer]:
    """Every program, ours first. Raises `TypeError` for a name that no field has."""
    peers: list[Peer] = []
    for name, told in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        lists = {
            each: tuple(told[each])
            for each in ("command", "once", "resume", "clear", "undo", "override", "python")
            if each in told
        }
        peers.append(Peer(name=name, **{**told, **lists}))
    return peers


def choose(names: str, peers: Sequence[Peer]) -> list[Peer]:
    """The programs of a list with commas (empty: all but ours). Raises `ValueError` for an unknown one."""
    others = [peer for peer in peers if peer.name != OURS]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {peer.name: peer for peer in others}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no peer is called {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(wanted)] or others


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder with everything that is installed, and the port of the server."""

    folder: Path
    port: int = 0

    @property
    def node(self) -> Path:
        return self.folder / "node" / "node_modules" / NODE / "bin" / "node"

    def install(self, peer: Peer) -> None:
        """Puts a program in its folder, unless this version is there. Raises `Missing`."""
        program = self.folder / peer.name / "program"
        ready = program / ".ready"
        wanted = f"{peer.npm or peer.pip} {peer.version}"
        if peer.name == OURS or (ready.exists() and ready.read_text() == wanted):
            return
        shutil.rmtree(program, ignore_errors=True)
        program.mkdir(parents=True)
        if peer.npm:
            self.need_npm("node", f"{NODE}@24")
            run([*NPM, f"{peer.npm}@{peer.version}"], program)
        else:
            run([find_python(peer.python), "-m", "venv", "."], program)
            run(["bin/python", "-m", "pip", "install", "-q", UV], program)
            overrides = program / "overrides.txt"
            overrides.write_text("\n".join(peer.override))
            uv = ["bin/uv", "pip", "install", "-q", "--python", "bin/python", "--override", "overrides.txt"]
            run([*uv, f"{peer.pip}=={peer.version}"], program)
        ready.write_text(wanted)

    def need_npm(self, name: str, package: str) -> Path:
        """A folder of the cache with one npm package in it. Raises `Missing`."""
        folder = self.folder / name
        if not (folder / ".ready").exists():
            folder.mkdir(parents=True, exist_ok=True)
            run([*NPM, package], folder)
            (folder / ".ready").touch()
        return folder

    @contextmanager
    def home(self, peer: Peer) -> Iterator[Home]:
        """An empty home with the program's settings and a repository beside it, while they are used."""
        with tempfile.TemporaryDirectory(
            prefix=f"{peer.name}-", dir=self.folder, ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            home = Home(self, peer, folder / "home", folder / "work")
            home.fill()
            yield home


@dataclass(frozen=True, slots=True)
class Home:
    """Where one measurement of one program takes place."""

    shelf: Shelf
    peer: Peer
    folder: Path
    work: Path

    @property
    def token(self) -> str:
        return self.folder.parent.name

    def fill(self) -> None:
        """Writes the settings, and a repository with three files, one of them ignored."""
        self.folder.mkdir(mode=0o700)
        for name, text in self.peer.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(self.words(text), encoding="utf-8")
        self.work.mkdir()
        for name, text in FILES.items():
            (self.work / name).write_text(text)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
            subprocess.run([*git, *arguments], cwd=self.work, check=True, env=self.env())

    def words(self, text: str) -> str:
        """A text of `peers.yaml` with the places filled in."""
        program = self.shelf.folder / self.peer.name / "program"
        url = f"http://127.0.0.1:{self.shelf.port}/{self.peer.name}"
        places = {
            "URL": url,
            "HOME": str(self.folder),
            "WORK": str(self.work),
            "PROGRAM": str(program),
            "ROOT": str(ROOT),
            "PYTHON": sys.executable,
        }
        for name, value in places.items():
            text = text.replace(f"@{name}@", value)
        return text

    def env(self) -> dict[str, str]:
        """Nothing of the person who measures; every way to another machine leads nowhere."""
        program = self.shelf.folder / self.peer.name / "program"
        path = [program / "node_modules/.bin", program / "bin", self.shelf.node.parent]
        nowhere = dict.fromkeys(
            ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
        )
        near = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return {
            "PATH": ":".join([*map(str, path), os.defpath, "/usr/local/bin"]),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "SHELL": "/bin/bash",
            MARK: self.token,
            "DO_NOT_TRACK": "1",
            **nowhere,
            **near,
            **{name: self.words(value) for name, value in self.peer.env.items()},
        }

    def resume(self) -> tuple[str, ...]:
        """The arguments that continue the newest session. Raises `Missing` if there are none."""
        if self.peer.name != OURS and not self.peer.resume:
            raise Missing("no option continues the newest session")
        return self.peer.resume

    def command(self, *more: str) -> list[str]:
        """The arguments of the program, its own path in front."""
        first, *rest = [self.words(each) for each in (*self.peer.command, *more)]
        if (found := shutil.which(first, path=self.env()["PATH"])) is None:
            raise Missing(f"`{first}` is not in its folder")
        return [found, *rest]


FILES = {"kept.txt": "first\n", "gone.txt": "still here\n", "ignored.log": "line\n", ".gitignore": "*.log\n"}
NPM = ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", ".")


def run(command: Sequence[str], folder: Path) -> None:
    """A step of an installation. Raises `Missing` with the last line of what it said."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"not installed: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Missing(f"not installed: {lines[-1]}")


def find_python(least: tuple[int, int]) -> str:
    """A Python of at least this version. Raises `Missing`."""
    if sys.version_info[:2] >= least:
        return sys.executable
    check = f"import sys; sys.exit(sys.version_info[:2] < {least})"
    for minor in range(least[1], least[1] + 4):
        for found in (
            shutil.which(f"python3.{minor}"),
            *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"),
        ):
            if (
                found
                and subprocess.run([str(found), "-c", check], capture_output=True, check=False).returncode
                == 0
            ):
                return str(found)
    raise Missing(f"needs Python {least[0]}.{least[1]} or later")
