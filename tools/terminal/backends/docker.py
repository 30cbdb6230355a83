"""Commands in a container of docker or podman.

The container's first process is the anchor itself, on a client that holds its input open: when Hermes
ends, in whatever way, the input ends, the container with it, and `--rm` removes it. What a crash of
the daemon may leave is labelled, and swept up at the next start.
"""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.results import ToolError
from tools.terminal.backends.channel import Client, ClientChannel, last_words, mount_parts
from tools.terminal.backends.options import DockerOptions

_LABEL = "hermes.agent"
_OWN = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH",
    "CONTAINER_HOST", "SSH_AUTH_SOCK",
)  # fmt: skip
_FAILURES = (
    (
        r"cannot connect to (?:the docker daemon|podman)|is the docker daemon running|error during connect",
        "{program} does not reach its daemon; start it (`systemctl start docker`) or set terminal.backend to "
        "local.",
    ),
    (
        r"permission denied.*(?:docker daemon|docker\.sock)",
        "You may not use the daemon of {program}; join the group `docker`, or use podman without root.",
    ),
    (
        r"no such image|unable to find image|manifest unknown|pull access denied|repository does not exist"
        r"|invalid reference format|image not known|not found: manifest",
        "There is no image {image} here or in its registry; pull or build it, or change "
        "terminal.docker.image.",
    ),
    (
        r"executable file not found|no such file or directory: unknown",
        "The image {image} has no shell `sh`, which commands need; choose one that has.",
    ),
    (
        r"no such container|is not running",
        "The container of {image} has ended; run the command again for a new one.",
    ),
)


class DockerConnector:
    """One container, which sees `workspace` under its own path."""

    def __init__(self, options: DockerOptions, workspace: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._workspace = workspace
        self._client = Client(options.program, environ, _OWN)
        self._name = ""

    @property
    def place(self) -> str:
        return f"the container of {self._options.image}"

    def anchor(self, command: Sequence[str]) -> ClientChannel:
        self._sweep()
        self._name = f"hermes-{os.getpid()}-{secrets.token_hex(4)}"
        return self._client.channel(["run", *self._run_options(), "--entrypoint", command[0],
                                     "--", self._options.image, *command[1:]])  # fmt: skip

    def call(self, command: Sequence[str], *, pty: bool) -> ClientChannel:
        flags = ["-it"] if pty else ["-i"]
        return self._client.channel(["exec", *flags, self._name, *command], pty=pty)

    def explain(self, words: str) -> str:
        for pattern, sentence in _FAILURES:
            if re.search(pattern, words, re.IGNORECASE | re.DOTALL):
                return sentence.format(program=self._options.program, image=self._options.image)
        image = self._options.image
        return f"{self._options.program} could not start the container of {image}{last_words(words)}."

    def release(self) -> None:
        if self._name:
            name, self._name = self._name, ""
            self._remove([name])

    def _run_options(self) -> list[str]:
        options = self._options
        user = options.user or f"{os.getuid()}:{os.getgid()}"
        arguments = [
            "--rm", "-i", "--init", f"--name={self._name}", f"--pull={options.pull}",
            f"--label={_LABEL}={os.getpid()}", f"--label={_LABEL}.machine={_machine()}",
            "--cap-drop=ALL", "--security-opt=no-new-privileges",
            f"--user={user}", "--env=HOME=/tmp",
            f"--workdir={self._workspace}", _mount(self._workspace, str(self._workspace), False),
        ]  # fmt: skip
        if not options.network:
            arguments.append("--network=none")
        if options.cpus:
            arguments.append(f"--cpus={options.cpus:g}")
        if options.memory:
            arguments.append(f"--memory={options.memory}")
        if options.processes:
            arguments.append(f"--pids-limit={options.processes}")
        return arguments + [_mount(*mount_parts(mount)) for mount in options.mounts]

    def _sweep(self) -> None:
        """Remove containers whose Hermes is gone."""
        code, listed = self._client.run(
            [
                "ps",
                "-a",
                f"--filter=label={_LABEL}.machine={_machine()}",
                f'--format={{{{.ID}}}} {{{{.Label "{_LABEL}"}}}}',
            ]
        )
        if code != 0:
            raise ToolError(self.explain(listed))
        lines = (line.split() for line in listed.splitlines())
        orphans = [
            parts[0]
            for parts in lines
            if len(parts) == 2 and parts[1].isdigit() and not _lives(int(parts[1]))
        ]
        if orphans:
            self._remove(orphans)

    def _remove(self, names: Sequence[str]) -> None:
        try:
            self._client.run(["rm", "-f", "-v", *names])
        except ToolError:
            # A daemon that does not answer; the label finds them the next time.
            pass


def _mount(source: Path, target: str, read_only: bool) -> str:
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if read_only else [])]
    # The argument is one line of CSV, which is how a comma in a path gets through.
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return f"--mount={line.getvalue()}"


def _machine() -> str:
    """This start of this machine: process ids mean something only within it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return os.uname().nodename


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
