"""The person's home of Hermes and the secrets it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.config.known_secrets import secrets_of_home as secrets_of_home
    from agent.home import PRIVATE_FILE as PRIVATE_FILE
    from agent.home import Home as Home
    from agent.home import from_home as from_home
    from agent.home import private_folder as private_folder

__getattr__ = exports(
    __name__,
    {
        "agent.home": "Home PRIVATE_FILE from_home private_folder",
        "agent.config.known_secrets": "secrets_of_home",
    },
)
