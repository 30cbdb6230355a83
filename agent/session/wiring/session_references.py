"""References of a person's messages with `@`: files, changes, resources of servers, pages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.session.turns.attaching import TOOL, ReferencedPage, ReferenceReader
from agent.session.turns.room import UNKNOWN_WINDOW
from agent.session.wiring.session_servers import resource_reader
from tools.results import ToolError
from tools.text.outside_text import fenced

if TYPE_CHECKING:
    from agent.integrations.mcp.service import McpService
    from agent.integrations.web.services import WebServices
    from agent.safety.gate import Gate
    from agent.session.wiring.agent_workspace import AgentWorkspace
    from agent.session.wiring.shared_services import SharedServices
    from tools.services.actions import Action


def session_references(
    base: SharedServices, place: AgentWorkspace, servers: McpService, web: WebServices | None
) -> ReferenceReader:
    """What reads the references of the person's messages."""
    meter, share = base.plan.meter, base.settings.context.references_share

    def room() -> int:
        return meter.characters(int((meter.window or UNKNOWN_WINDOW) * share))

    gate = place.reach.gate
    reader = ReferenceReader(
        base.options.workspace, gate, base.tool_options(), base.secrets, room, resource_reader(servers)
    )
    if web is not None:
        reader.pages = partial(_page, web, gate)
    return reader


async def _page(web: WebServices, gate: Gate, url: str) -> ReferencedPage:
    """A page as text, by the gate and the door like a page that the model asks for. Raises `ToolError`."""
    from agent.integrations.web.extracting import fetch_page
    from agent.integrations.web.services import CallGate

    async def ask(action: Action) -> None:
        await gate.permit(action)

    async def agreed(action: Action) -> None:
        await gate.agreed().permit(action)

    try:
        found = await fetch_page(web, CallGate(tool=TOOL, ask=ask, agreed=agreed, opens=gate.opens), url)
    except HermesError as error:
        raise ToolError(str(error)) from error
    page = found.page
    if not page.content.strip():
        raise ToolError("There is no text on it.")
    head = f"# {page.title}\n\n" if page.title and not page.content.lstrip().startswith("# ") else ""
    hidden = f", {page.hidden} hidden pieces left out" if page.hidden else ""
    return ReferencedPage(
        partial(fenced, source=found.answer.url), head + page.content, f"the text of a page{hidden}"
    )
