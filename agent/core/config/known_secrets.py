"""The secret values of this home folder, masked by exact comparison in all text that leaves the session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from agent.core.home import Home
from agent.errors import HermesError
from tools.text.redact import is_secret_name, secret_values

SHORTEST = 8
"""The shortest key that is masked, in characters; a shorter one would be found in ordinary text."""


def known_secrets(
    environ: Mapping[str, str],
    keys: Mapping[str, str] | None = None,
    headers: Iterable[Mapping[str, str]] = (),
) -> dict[str, str]:
    """Return the values to mask, by name: secret-looking variables, provider keys, and secret headers.

    `environ` holds the variables of the process and of `~/.hermes/.env`. `keys` count as secret whatever the
    names of their variables. Keys and header values below 8 characters are left out.
    """
    found = secret_values(environ)
    found |= {name: key for name, key in (keys or {}).items() if len(key) >= SHORTEST}
    for header in headers:
        for name, value in header.items():
            value = value.rpartition(" ")[2]
            if is_secret_name(name) and len(value) >= SHORTEST:
                found[name] = value
    return found


def secrets_of_home(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the values to mask when no session is open, from `environ` and the file `~/.hermes/.env`."""
    from agent.core.config.environment import environment

    try:
        return known_secrets(environment(Home.locate(dict(environ)), environ))
    except HermesError:
        return known_secrets(environ)
