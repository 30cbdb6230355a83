"""Opening a backend from its options, without connecting yet."""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kit.private_folders import PrivateFolder
from tools.results import ToolError
from tools.terminal.backends.channel import (
    Client,
    ClientChannel,
    Connector,
    expanded,
    last_words,
    mount_parts,
)
from tools.terminal.backends.options import (
    BackendOptions,
    DockerOptions,
    ModalOptions,
    SingularityOptions,
    SshOptions,
)
from tools.terminal.backends.remote_backend import RemoteBackend
from tools.terminal.backends.scripts import quoted

_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]][A-Za-z0-9_.:%\[\]-]*")
_USER = re.compile(r"[A-Za-z0-9_.@\\][A-Za-z0-9_.@\\$+-]*")
_FIXED = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ForwardX11=no",
    "ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "EscapeChar=none",
    "LogLevel=ERROR", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ControlPersist=no",
)  # fmt: skip
_SSH_FAILURES = (
    (
        r"remote host identification has changed|host key for .* has changed",
        "The key of {host} has changed since it was last seen, so nothing was sent; find out why before you "
        "remove the old one with `ssh-keygen -R`.",
    ),
    (
        r"host key verification failed|no .* host key is known",
        "The key of {host} is not known; connect once by hand with ssh and check the fingerprint.",
    ),
    (
        r"identity file .* not accessible|load key |unprotected private key|bad permissions",
        "The key file of terminal.ssh.key cannot be used; check that it is a private key only you can read.",
    ),
    (
        r"permission denied|too many authentication failures|no supported authentication methods",
        "{host} refused the key; set terminal.ssh.user and terminal.ssh.key, or add the key to your agent.",
    ),
    (
        r"could not resolve hostname|name or service not known|nodename nor servname",
        "The host {host} is not known; check terminal.ssh.host.",
    ),
    (
        r"timed out|no route to host|network is unreachable|connection refused|connection reset"
        r"|connection closed by|kex_exchange_identification",
        "{host} cannot be reached{words}; check terminal.ssh.host and terminal.ssh.port, and whether it is "
        "up.",
    ),
    (r"\bhead: |\bsh: .*not found", "{host} lacks a program that commands need{words}."),
)


class SshConnector:
    """A connector to one host. All channels share the connection of the first, the anchor."""

    def __init__(self, options: SshOptions, environ: Mapping[str, str]) -> None:
        if not _HOST.fullmatch(options.host):
            raise ToolError(f"{options.host!r} is not a name of a host; set terminal.ssh.host.")
        if options.user and not _USER.fullmatch(options.user):
            raise ToolError(f"{options.user!r} is not a name of a user; set terminal.ssh.user.")
        self._options = options
        self._client = Client(options.program, environ, ("SSH_AUTH_SOCK",))
        self._folder: PrivateFolder | None = None

    @property
    def place(self) -> str:
        return self._options.host

    def anchor(self, command: Sequence[str]) -> ClientChannel:
        self.release()
        key = self._options.key
        if key and not expanded(key).is_file():
            raise ToolError(f"There is no key file {key}; change terminal.ssh.key.")
        # Made for us alone: who can open the socket is logged in.
        self._folder = PrivateFolder("ssh")
        return self._client.channel(self._arguments("ControlMaster=yes", "-T", command))

    def call(self, command: Sequence[str], *, pty: bool) -> ClientChannel:
        return self._client.channel(
            self._arguments("ControlMaster=no", "-tt" if pty else "-T", command), pty=pty
        )

    def explain(self, words: str) -> str:
        for pattern, sentence in _SSH_FAILURES:
            if re.search(pattern, words, re.IGNORECASE):
                return sentence.format(host=self._options.host, words=last_words(words))
        return f"ssh could not start a shell on {self._options.host}{last_words(words)}."

    def release(self) -> None:
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _arguments(self, master: str, terminal: str, command: Sequence[str]) -> list[str]:
        options = self._options
        settings = [*_FIXED, master, f"ConnectTimeout={options.connect_timeout}"]
        if self._folder is not None:
            settings.append(f"ControlPath={_escaped(self._folder.path / 'link')}")
        if options.known_hosts:
            settings.append(f"UserKnownHostsFile={_escaped(expanded(options.known_hosts))}")
        arguments = [terminal, *(f"-o{setting}" for setting in settings)]
        if options.port:
            arguments += ["-p", str(options.port)]
        if options.user:
            arguments += ["-l", options.user]
        if options.key:
            arguments += ["-oIdentitiesOnly=yes", "-i", str(expanded(options.key)).replace("%", "%%")]
        return [*arguments, "--", options.host, " ".join(["exec", *map(quoted, command)])]


def _escaped(path: Path) -> str:
    """Escape a path for an option of ssh, in which blanks separate and percent signs have a meaning."""
    return '"' + str(path).replace("%", "%%") + '"'


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
    """A connector to one container, in which `workspace` has the same path."""

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
        """Remove containers whose Hermes process has ended. Raises `ToolError`."""
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
    """Return an identifier of this boot of this machine; process ids are only valid within it."""
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


_START = 600.0
"""Seconds for an instance to start; an image from a registry is fetched and converted first."""
_NAME = re.compile(r"\bhermes-(\d+)-[0-9a-f]{8}\b")
_APPTAINER_OWN = (
    "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_CONFIGDIR",
    "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR", "SINGULARITY_CONFIGDIR",
)  # fmt: skip
_APPTAINER_FAILURES = (
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
    """A connector to one instance, in which `workspace` has the same path."""

    def __init__(self, options: SingularityOptions, workspace: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._workspace = workspace
        path = environ.get("PATH")
        found = next(
            (name for name in ("apptainer", "singularity") if shutil.which(name, path=path)), "apptainer"
        )
        self._client = Client(options.program or found, environ, _APPTAINER_OWN)
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
        for pattern, sentence in _APPTAINER_FAILURES:
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
        """Return the image.

        The path of a file is made absolute, because the client runs in another folder.
        """
        image = self._options.image
        return image if "://" in image else str(expanded(image))

    def _sweep(self) -> None:
        """Stop instances whose Hermes process has ended. Hosts of a cluster only list their own instances."""
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


def open_backend(options: BackendOptions, workspace: Path) -> RemoteBackend:
    """Return the backend for tasks in `workspace`. Raises `ToolError` for invalid options."""
    return RemoteBackend(_reach(options, workspace))


def _reach(options: BackendOptions, workspace: Path) -> Connector:
    own = options.options
    if isinstance(own, DockerOptions):
        return DockerConnector(own, workspace, options.environ)
    if isinstance(own, SingularityOptions):
        return SingularityConnector(own, workspace, options.environ)
    if isinstance(own, SshOptions):
        return SshConnector(own, options.environ)
    if isinstance(own, ModalOptions):
        from tools.terminal.backends.cloud import ModalConnector

        return ModalConnector(own)
    from tools.terminal.backends.cloud import DaytonaConnector

    return DaytonaConnector(own)
