"""Commands on another host over ssh, all through one connection.

The client is OpenSSH's, so that its configuration, agent and jump hosts work. What must not depend on
configuration is set here: host keys are checked, nothing is forwarded, and ssh asks no questions.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.results import ToolError
from tools.terminal.backends.channel import Client, ClientChannel, expanded, last_words
from tools.terminal.backends.options import SshOptions
from tools.terminal.backends.scripts import quoted

_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]][A-Za-z0-9_.:%\[\]-]*")
_USER = re.compile(r"[A-Za-z0-9_.@\\][A-Za-z0-9_.@\\$+-]*")
_FIXED = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ForwardX11=no",
    "ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "EscapeChar=none",
    "LogLevel=ERROR", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ControlPersist=no",
)  # fmt: skip
_FAILURES = (
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
    """One host. All other connections share that of the anchor."""

    def __init__(self, options: SshOptions, environ: Mapping[str, str]) -> None:
        if not _HOST.fullmatch(options.host):
            raise ToolError(f"{options.host!r} is not a name of a host; set terminal.ssh.host.")
        if options.user and not _USER.fullmatch(options.user):
            raise ToolError(f"{options.user!r} is not a name of a user; set terminal.ssh.user.")
        self._options = options
        self._client = Client(options.program, environ, ("SSH_AUTH_SOCK",))
        self._folder: Path | None = None

    @property
    def place(self) -> str:
        return self._options.host

    def anchor(self, command: Sequence[str]) -> ClientChannel:
        self.release()
        key = self._options.key
        if key and not expanded(key).is_file():
            raise ToolError(f"There is no key file {key}; change terminal.ssh.key.")
        # Made for us alone: who can open the socket is logged in.
        self._folder = Path(tempfile.mkdtemp(prefix="hermes-ssh-"))
        return self._client.channel(self._arguments("ControlMaster=yes", "-T", command))

    def call(self, command: Sequence[str], *, pty: bool) -> ClientChannel:
        return self._client.channel(
            self._arguments("ControlMaster=no", "-tt" if pty else "-T", command), pty=pty
        )

    def explain(self, words: str) -> str:
        for pattern, sentence in _FAILURES:
            if re.search(pattern, words, re.IGNORECASE):
                return sentence.format(host=self._options.host, words=last_words(words))
        return f"ssh could not start a shell on {self._options.host}{last_words(words)}."

    def release(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _arguments(self, master: str, terminal: str, command: Sequence[str]) -> list[str]:
        options = self._options
        settings = [*_FIXED, master, f"ConnectTimeout={options.connect_timeout}"]
        if self._folder is not None:
            settings.append(f"ControlPath={_escaped(self._folder / 'link')}")
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
