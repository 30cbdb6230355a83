"""The MCP servers of an engine: finding them, offering their tools, answering their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import private_folder
from agent.errors import HermesError
from agent.events import Noticed
from agent.integrations.mcp.server import RefusedError
from agent.integrations.mcp.server_config import LaunchEnvironment, declared_servers, given_servers
from agent.integrations.mcp.server_requests import FormAsker, Sampling, ask_person
from agent.integrations.mcp.service import McpService
from agent.integrations.mcp.tools import FILES, register_servers
from agent.integrations.server_events import ServerLogged
from agent.session.turns.attaching import TOOL, ReferencedPage, ReferenceReader, ResourceReader
from agent.session.turns.room import UNKNOWN_WINDOW
from agent.session.wiring.plugin_servers import plugin_servers
from agent.session.wiring.shared_services import SharedServices
from tools.results import ToolError
from tools.text.outside_text import fenced
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.integrations.web.services import WebServices
    from agent.safety.gate import Gate
    from agent.session.wiring.agent_workspace import AgentWorkspace
    from agent.session.wiring.conversation import Conversation
    from tools.services.actions import Action


FIRST_LOOK = 5.0
"""Seconds that the opening of a session waits for the tools of servers passed in with it."""
FIRST_TURN = 10.0
"""Seconds that the first message waits for those servers that are still starting."""


class SessionAnswers:
    """Answers requests from MCP servers in a session. Until `begin` is called, all are refused."""

    def __init__(self) -> None:
        self.asker: FormAsker | None = None
        self.sampling: Sampling | None = None

    async def elicit(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.asker is None:
            return {"action": "decline"}
        return await ask_person(self.asker, server, params)

    async def sample(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.sampling is None:
            raise RefusedError("the session is not open yet")
        return await self.sampling.ask(server, params)

    def begin(self, base: SharedServices, talk: Conversation, gate: Gate, asker: FormAsker) -> None:
        """Let the user (`asker`) and a model answer requests from now on."""
        self.asker = asker
        routes = talk.metering.routes([talk.summary_route or talk.routes[0]])
        self.sampling = Sampling(routes[0], base.plan.meter, gate, lambda: _is_bounded(base))


class ServerArrivals:
    """A supplement of messages: lets the first one wait for servers that were passed in with the session, and
    tells the model which are still missing and which came later.
    """

    def __init__(self, service: McpService, names: Sequence[str], learning: asyncio.Task[None]) -> None:
        self._service = service
        self._missing = service.unknown(names)
        self._learning = learning
        self._is_first = True

    async def __call__(self, _text: str) -> str:
        if not self._missing:
            return ""
        is_first, self._is_first = self._is_first, False
        if is_first:
            await asyncio.wait({self._learning}, timeout=FIRST_TURN)
        before, self._missing = self._missing, self._service.unknown(self._missing)
        said = []
        if came := [name for name in before if name not in self._missing]:
            said.append(
                f"[MCP servers that are there now: {', '.join(came)}. tool_search finds their tools.]"
            )
        missing = ", ".join(self._missing)
        if missing and self._learning.done():
            said.append(f"[MCP servers that could not be started: {missing}.]")
            self._missing = []
        elif missing and is_first:
            self._service.say(
                "warning", f"MCP servers that are not there yet: {missing}. Their tools come later."
            )
            said.append(
                f"[MCP servers that are not there yet: {missing}. tool_search finds their tools later.]"
            )
        return "\n".join(said)


async def open_servers(
    base: SharedServices,
) -> tuple[McpService, SessionAnswers, list[str], ServerArrivals | None]:
    """Return the servers of the session, whose tools are registered, the object that answers them, notices,
    and the arrivals of servers passed in that have not started, or None.

    Only servers whose tools are unknown are started: in an unattended session at once, as they have no later
    chance, otherwise in the background.
    """
    options, home = base.options, base.home
    declared = await asyncio.to_thread(declared_servers, base.settings, home.servers, options.workspace)
    names = {each.config.name for each in declared.servers}
    brought, problems = plugin_servers(base.plugins.servers(), names)
    given, wrong = given_servers(options.servers, names | {each.config.name for each in brought})
    problems += wrong
    servers = (*declared.servers, *brought, *given)
    for each in base.plugins.servers():
        await asyncio.to_thread(private_folder, each.data)
    around = LaunchEnvironment(
        home=home,
        workspace=options.workspace,
        files=home.scratch / FILES,
        sandbox=base.settings.sandbox,
        variables=base.variables,
        probes=options.attended,
    )
    answers = SessionAnswers()
    service = McpService(
        servers,
        around,
        answers,
        lambda kind, text: _say(base, kind, text),
        lambda server, level, text: base.emit(ServerLogged(server=server, level=level, text=text)),
    )
    base.closers.append(service.close)
    if servers:
        await asyncio.to_thread(service.load)
    told = [*declared.problems, *problems, *service.notices()]
    arrivals = None
    if service.has_unknown():
        if options.attended:
            learning = service.list_unknown_in_background()
            # A caller that passes in servers wants to use them at once.
            await asyncio.wait({learning}, timeout=FIRST_LOOK if given else 0)
            arrivals = ServerArrivals(service, [each.config.name for each in given], learning)
        else:
            await service.list_unknown()
    register_servers(service, base.tools)
    return service, answers, told, arrivals


def resource_reader(service: McpService, scratch: Path) -> ResourceReader:
    """Return a reader of resources to which a message refers. `scratch` is the agent's scratch folder.

    It returns None for a server that the session does not have, and an empty text for an empty address.
    """

    async def read(server: str, uri: str) -> str | None:
        if server not in {state.name for state in await service.states()}:
            return None
        if not uri:
            return ""
        try:
            result = await service.read(server, uri, files=str(private_folder(scratch) / FILES))
        except HermesError as error:
            raise ToolError(str(error)) from error
        files = [str(each.get("path") or each.get("problem")) for each in result.get("resources", [])]
        return "\n".join([str(result.get("content", "")), *files]).strip()

    return read


def _is_bounded(base: SharedServices) -> bool:
    """Return whether the session is attended, or a ceiling limits what requests of servers may cost."""
    budget = base.settings.budget.session
    return base.options.attended or budget.tokens is not None or budget.money is not None


def _say(base: SharedServices, kind: str, text: str) -> None:
    base.emit(Noticed(kind="info" if kind == "info" else "warning", text=text))


def session_references(
    base: SharedServices, place: AgentWorkspace, servers: McpService, web: WebServices | None
) -> ReferenceReader:
    """Return the reader of `@` references in user messages."""
    meter, share = base.plan.meter, base.settings.context.references_share

    def room() -> int:
        return meter.characters(int((meter.window or UNKNOWN_WINDOW) * share))

    gate = place.reach.gate
    reader = ReferenceReader(
        base.options.workspace,
        gate,
        base.tool_options(),
        base.secrets,
        room,
        resource_reader(servers, place.reach.scratch),
    )
    if web is not None:
        reader.pages = partial(_page, web, gate)
    return reader


async def _page(web: WebServices, gate: Gate, url: str) -> ReferencedPage:
    """Return a page as text, fetched through the gate as for the model. Raises `ToolError`."""
    from agent.integrations.web.extracting import fetch_page
    from agent.integrations.web.services import CallGate

    async def ask(action: Action) -> None:
        await gate.permit(action)

    async def permit(action: Action) -> None:
        await gate.for_agreed().permit(action)

    try:
        found = await fetch_page(web, CallGate(tool=TOOL, ask=ask, agreed=permit, opens=gate.opens), url)
    except HermesError as error:
        raise ToolError(str(error)) from error
    page = found.page
    if not page.content.strip():
        raise ToolError("There is no text on it.")
    head = f"# {page.title}\n\n" if page.title and not page.content.lstrip().startswith("# ") else ""
    hidden = f", {plural(page.hidden, 'hidden piece')} left out" if page.hidden else ""
    return ReferencedPage(
        partial(fenced, source=found.answer.url), head + page.content, f"the text of a page{hidden}"
    )
