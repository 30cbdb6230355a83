"""Commands in an instance of apptainer or singularity, as on machines where nobody has a daemon."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.results import ToolError
from tools.terminal.backends.channel import Client, ClientChannel, expanded, last_words, mount_parts
from tools.terminal.backends.options import SingularityOptions

_START = 600.0
"""Seconds for an instance to start; an image from a registry is fetched and converted first."""
_NAME = re.compile(r"\bhermes-(\d+)-[0-9a-f]{8}\b")
_OWN = (
    "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_CONFIGDIR",
    "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR", "SINGULARITY_CONFIGDIR",
)  # fmt: skip
_FAILURES = (
    (
        r"could not open image|failed to resolve|no such file or directory|manifest unknown"
        r"|failed to get checksum|unable to (?:pull|build|handle)|while (?:fetching|making image)",
        "The image {image} cannot be opened{words}; build or pull it, or change terminal.singularity.image.",
    ),
    (
        r"user namespace|setuid|operation not permitted|fuse",
        "{program} may not make containers here{words}; ask who looks after this machine.",
    ),
    (
        r"no instance found|instance .* (?:not found|does not exist)",
        "The instance of {image} has ended; run the command again for a new one.",
    ),
)


class SingularityConnector:
    """One instance, which sees `workspace` under its own path."""

    def __init__(self, options: SingularityOptions, workspace: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._workspace = workspace
        path = environ.get("PATH")
        found = next(
            (name for name in ("apptainer", "singularity") if shutil.which(name, path=path)), "apptainer"
        )
        self._client = Client(options.program or found, environ, _OWN)
        self._name = ""

    @property
    def place(self) -> str:
        return f"the container of {self._options.image}"

    def anchor(self, command: Sequence[str]) -> ClientChannel:
        self._sweep()
        self.release()
        name = f"hermes-{os.getpid()}-{secrets.token_hex(4)}"
        arguments = ["instance", "start", *self._start_options(), self._image(), name]
        code, words = self._client.run(arguments, patience=_START)
        if code != 0:
            raise ToolError(self.explain(words))
        self._name = name
        return self.call(command, pty=False)

    def call(self, command: Sequence[str], *, pty: bool) -> ClientChannel:
        arguments = [
            "-q",
            "exec",
            "--cleanenv",
            "--no-home",
            "--pwd",
            "/",
            f"instance://{self._name}",
            *command,
        ]
        return self._client.channel(arguments, pty=pty)

    def explain(self, words: str) -> str:
        for pattern, sentence in _FAILURES:
            if re.search(pattern, words, re.IGNORECASE):
                return sentence.format(
                    program=self._client.program, image=self._options.image, words=last_words(words)
                )
        image = self._options.image
        return f"{self._client.program} could not start the container of {image}{last_words(words)}."

    def release(self) -> None:
        if self._name:
            name, self._name = self._name, ""
            self._stop(name)

    def _start_options(self) -> list[str]:
        options = self._options
        arguments = ["--containall", "--cleanenv", "--no-home", "--writable-tmpfs"]
        arguments += ["--bind", _bind(self._workspace, str(self._workspace), False)]
        for mount in options.mounts:
            arguments += ["--bind", _bind(*mount_parts(mount))]
        if not options.network:
            arguments += ["--net", "--network", "none"]
        if options.gpu:
            arguments.append("--nv")
        return arguments

    def _image(self) -> str:
        """The image, a file as a whole path: the client runs in no folder of the user's."""
        image = self._options.image
        return image if "://" in image else str(expanded(image))

    def _sweep(self) -> None:
        """Stop instances whose Hermes is gone. Hosts of a cluster list their own instances only."""
        code, listed = self._client.run(["instance", "list"])
        if code != 0:
            return
        for found in _NAME.finditer(listed):
            if not Path(f"/proc/{found[1]}").exists() and Path("/proc/self").exists():
                self._stop(found[0])

    def _stop(self, name: str) -> None:
        try:
            self._client.run(["instance", "stop", name])
        except ToolError:
            # It is found by its name the next time.
            pass


def _bind(source: Path, target: str, read_only: bool) -> str:
    for path in (str(source), target):
        if re.search(r"[,:\\]", path):
            raise ToolError(
                f"The folder {path} cannot be mounted, because its name holds a comma, colon or backslash."
            )
    return f"{source}:{target}:{'ro' if read_only else 'rw'}"
