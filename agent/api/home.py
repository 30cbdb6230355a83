"""The person's home of Hermes and the secrets it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.config.known_secrets import secrets_of_home as secrets_of_home
    from agent.core.home import PRIVATE_FILE as PRIVATE_FILE
    from agent.core.home import Home as Home
    from agent.core.home import from_home as from_home
    from agent.core.home import private_folder as private_folder

__getattr__ = exports(
    __name__,
    {
        "agent.core.home": "Home PRIVATE_FILE from_home private_folder",
        "agent.core.config.known_secrets": "secrets_of_home",
    },
)
