"""The web for a person at the command line: what they type there needs no second yes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.core.config.known_secrets import known_secrets
from agent.core.config.loader import load
from agent.core.home import Home
from agent.integrations.web.gate import CallGate
from agent.integrations.web.services import WebServices, open_web
from agent.safety.permissions.policy import Permissions
from tools.services.actions import Action, Fetch


@dataclass(frozen=True, slots=True)
class PersonsWeb:
    """What a command works with."""

    services: WebServices
    permissions: Permissions

    def gate(self, tool: str) -> CallGate:
        """A gate that asks nobody; the person's rules still open what they open."""
        return CallGate(tool=tool, ask=_yes, agreed=_yes, opens=self._opens)

    def _opens(self, action: Fetch) -> bool:
        return self.permissions.current().opens(action)


async def _yes(_action: Action) -> None:
    return None


@asynccontextmanager
async def persons_web(home: Home, folder: Path) -> AsyncIterator[PersonsWeb]:
    """The web with the settings and rules of `home` in `folder`. Raises `HermesError`."""
    environ = dict(os.environ)
    loaded = load(home, environ, folder)
    web = open_web(
        home,
        loaded.settings.web,
        environ=environ,
        variables=loaded.environ,
        secrets=known_secrets(loaded.environ),
    )
    try:
        yield PersonsWeb(web, Permissions(home, folder, "oneshot"))
    finally:
        await web.close()
