"""A site on loopback that is reached by its public name, and the web around it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.integrations.web.call_web import CallWeb
from agent.integrations.web.services import WebServices, open_web
from tests.agent.core.net.doors import PUBLIC, TestNetwork, respond, web
from tools.results import DeniedError
from tools.services.actions import Action, Fetch

Pages = Mapping[str, bytes | str | dict[str, Any]]
NAMES = {"example.org": (str(PUBLIC),), "other.example": (str(PUBLIC),), "near.example": ("127.0.0.1",)}


class Site:
    """What was asked of the site, and what the gate was asked."""

    def __init__(self, network: TestNetwork, services: WebServices, folder: Path) -> None:
        self.network = network
        self.services = services
        self.folder = folder
        self.asked: list[Action] = []
        self.agreed: list[Action] = []
        self.told: list[str] = []
        self.paths: list[str] = []
        self.denies: tuple[str, ...] = ()

    def call(self, opens: str = "") -> CallWeb:
        """The web as one call has it; the gate denies what holds one of `denies`."""

        async def ask(action: Action) -> None:
            self.asked.append(action)
            self._judge(action)

        async def agreed(action: Action) -> None:
            self.agreed.append(action)
            self._judge(action)

        def opened(action: Fetch) -> bool:
            return bool(opens) and action.url.startswith(opens)

        def scratch() -> Path:
            return self.folder / "scratch"

        return CallWeb(
            services=self.services,
            ask=ask,
            agreed=agreed,
            opens=opened,
            scratch=scratch,
            progress=self.told.append,
        )

    def _judge(self, action: Action) -> None:
        if any(each in action.headline() for each in self.denies):
            raise DeniedError("Denied: a rule.", status="blocked")


@contextmanager
def site(
    folder: Path, pages: Pages, settings: Mapping[str, Any] | None = None, **variables: str
) -> Iterator[Site]:
    """Serve `pages` by path (query left out): text is HTML, a dictionary JSON, bytes a whole answer."""
    paths: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> bytes:
        paths.append(path)
        found = pages.get(path) or pages.get(path.partition("?")[0])
        if isinstance(found, bytes):
            return found
        if isinstance(found, str):
            kind = "text/plain" if path.endswith((".txt", ".xml")) else "text/html; charset=utf-8"
            return respond(found.encode(), Content_Type=kind)
        if found is None:
            return respond(b"nothing", "404 Not Found")
        return respond(json.dumps(found).encode(), Content_Type="application/json")

    with web(answer, NAMES) as network:
        services = open_web(
            Home(folder / "home"),
            Settings.model_validate({"web": settings or {}}).web,
            environ={},
            variables=variables,
            secrets={"SOME_KEY": "s3cr3t-value-0042"},
            network=network,
        )
        made = Site(network, services, folder)
        made.paths = paths
        yield made
