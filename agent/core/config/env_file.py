"""Writing an API key to `~/.hermes/.env`, which only its owner may read."""

from __future__ import annotations

import re

from agent.core.config import settings_file
from agent.core.home import PRIVATE_FILE, Home
from agent.errors import ConfigError
from tools.kit.files import write_atomically

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"[!-~]{1,4096}")
"""A key that fits into an HTTP header: printable ASCII without spaces."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:+=@~-]+")


def keep_key(home: Home, variable: str, key: str) -> None:
    """Write `variable=key` into the file, replacing an earlier line for the variable; other lines are
    unchanged.

    Raises `ConfigError`, whose message never contains the key.
    """
    if not _NAME.fullmatch(variable):
        raise ConfigError(f"{variable!r} cannot be the name of a variable; correct api_key_env.")
    if not _KEY.fullmatch(key):
        raise ConfigError("The key is empty or holds characters that no key has; copy it again.")
    value = key if _PLAIN.fullmatch(key) else "'" + key.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        with settings_file.lock_and_read(home.env) as before:
            data = _with_line(before or b"", variable, f"{variable}={value}".encode())
            write_atomically(home.env, data, PRIVATE_FILE)
    except settings_file.UnreadableSettingsError as error:
        raise ConfigError(f"{home.env} cannot be read ({error}); fix it, or write the key there.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{home.env} cannot be written ({reason}); fix that, or set HERMES_HOME."
        ) from error


def _with_line(before: bytes, variable: str, line: bytes) -> bytes:
    """Return the content of the file with the first line of `variable` replaced and its later ones removed.

    Without such a line, `line` is appended.
    """
    own = re.compile(rb"\s*(?:export\s+)?" + variable.encode() + rb"\s*=")
    lines: list[bytes] = []
    is_kept = False
    for each in before.splitlines(keepends=True):
        if not own.match(each):
            lines.append(each)
        elif not is_kept:
            lines.append(line + b"\n")
            is_kept = True
    if not is_kept:
        if lines and not lines[-1].endswith(b"\n"):
            lines[-1] += b"\n"
        lines.append(line + b"\n")
    return b"".join(lines)
