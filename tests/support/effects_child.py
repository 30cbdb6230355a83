"""Plays commands for real and tells what came of each; runs inside the container of `tests.support.effects`.

stdin: a JSON list of commands; first argument: `closed` (behind Hermes' own boundary) or `none`. stdout:
a JSON list with one object for each: `verdict`, and where it was played `outside` (paths that changed outside
of the workspace), `lost` (objects of git that are gone) and `hosts` (that it wanted to reach).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from agent.core.home import Home
from agent.safety.gate import Gate
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage, BoundaryFolders, SessionBoundary
from agent.safety.sandbox.opening import probe
from tools.services.actions import RunCommand
from tools.services.sandbox import Need

PERSON = Path("/home/ada")
WORK = PERSON / "project"
TEMPLATE = Path("/home/template")
PROXY = 3128
SECONDS = 4.0
FILES = {
    "project/src/app.py": "print('hello')\n",
    "project/tests/test_app.py": "def test_app():\n    assert True\n",
    "project/README.md": "# Project\n",
    "project/Makefile": "test:\n\techo ok\nbuild:\n\techo built > out.txt\n",
    "project/package.json": '{"name": "p", "scripts": {"test": "echo ok"}}\n',
    "project/.gitignore": "data.db\n.env\n",
    "project/data.db": "kept by nobody\n",
    "project/.env": "SECRET=hunter22\n",
    ".ssh/id_rsa": "PRIVATE\n",
    ".bashrc": "# mine\n",
    ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.com\n",
    "other/keep.txt": "precious\n",
    ".hermes/config.yaml": "{}\n",
}


class Recorder:
    """A proxy that lets nothing through and notes who was wanted."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", PROXY))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listening.accept()
            with client:
                client.settimeout(1)
                try:
                    words = client.recv(4_096).split(b"\r\n")[0].decode("latin-1").split()
                    self.hosts.append(words[1] if len(words) > 1 else "?")
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                except OSError:
                    self.hosts.append("?")


def furnish(root: Path) -> None:
    """Make the home of a person with a project under git, a branch, a stash, and things that must stay."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    work = root / "project"
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=a@b", "-C", str(work)]
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-qm", "Begin"],
        ["branch", "feature"],
        ["commit", "-q", "--allow-empty", "-m", "Second"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (work / "src" / "app.py").write_text("print('stashed')\n")
    subprocess.run([*git, "stash", "-q"], check=True, capture_output=True)


def reset() -> None:
    """Put everything back to how it was."""
    subprocess.run(["chmod", "-R", "u+rwX", str(PERSON)], check=False, capture_output=True)
    for path in PERSON.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(TEMPLATE, PERSON, symlinks=True, dirs_exist_ok=True)


def state() -> dict[str, str]:
    """Everything outside of the workspace, with a digest."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(PERSON):
        if Path(folder) == PERSON:
            folders.remove("project")
        for name in files:
            path = Path(folder, name)
            found[str(path)] = (
                hashlib.sha256(path.read_bytes()).hexdigest() if not path.is_symlink() else "link"
            )
    return found


def objects() -> set[str]:
    """Every object of git."""
    listed = subprocess.run(
        [
            "git",
            "-C",
            str(TEMPLATE / "project"),
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objectname)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(listed.stdout.split())


def gone(known: set[str]) -> list[str]:
    """Objects that are not there any more; all of them without a repository."""
    if not (WORK / ".git" / "objects").is_dir():
        return sorted(known)
    asked = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(WORK), "cat-file", "--batch-check"],
        input="\n".join(sorted(known)),
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.split()[0] for line in asked.stdout.splitlines() if line.endswith("missing")]


def play(argv: list[str]) -> None:
    """Run a command line with the environment of the person, and end everything it started."""
    environ = {
        "HOME": str(PERSON),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        **dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY"), f"http://127.0.0.1:{PROXY}"
        ),
    }
    child = subprocess.Popen(
        argv,
        cwd=WORK,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        child.wait(SECONDS)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def main() -> None:
    closed = sys.argv[1] == "closed"
    commands: list[str] = json.load(sys.stdin)
    furnish(TEMPLATE)
    known = objects()
    recorder = Recorder()
    home = Home(PERSON / ".hermes")
    sandbox = probe("auto" if closed else "off")
    coverage = NO_COVERAGE
    if closed:
        assert sandbox.name == "bubblewrap", sandbox.name
        coverage = BoundaryCoverage(level="bubblewrap", network="closed", guards_places=True)
    told: list[dict[str, object]] = []
    for command in commands:
        reset()
        gate = Gate.for_home(home, WORK, coverage=coverage)
        kind = gate.decide(RunCommand(tool="terminal", command=command, cwd=WORK)).kind
        if kind != "allow" and "ungated" not in sys.argv:
            told.append({"verdict": kind})
            continue
        before, wanted = state(), len(recorder.hosts)
        argv = ["bash", "-c", command]
        if closed:
            boundary = SessionBoundary(
                sandbox,
                BoundaryFolders(WORK, Path("/tmp/scratch/tmp"), home),
                network="off",
                environ={"HOME": str(PERSON)},
            )
            wrapped = boundary.wrap(argv, Need(dies_with_parent=True))
            play(wrapped.argv)
            wrapped.ended()
        else:
            play(argv)
        subprocess.run(["chmod", "-R", "u+rwX", str(PERSON)], check=False, capture_output=True)
        after = state()
        changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        told.append(
            {
                "verdict": kind,
                "outside": sorted(
                    path for path in changed if "/.hermes/" not in path or path.endswith("config.yaml")
                ),
                "lost": gone(known),
                "hosts": recorder.hosts[wanted:],
            }
        )
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
