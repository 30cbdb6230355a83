"""Images, speech and messages of a session, and the services that each agent uses for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.core.attachments import AttachmentStore
from agent.integrations.senses.service import AgentSenses, readiness
from agent.model.catalog import ModelInfo
from agent.session.spending.request_log import RequestLog, request_log_of
from agent.session.spending.request_table import MAIN, Payer
from agent.session.wiring.plugin_senses import plugin_services
from tools.senses.services import Senses

if TYPE_CHECKING:
    from agent.integrations.senses.online import Online
    from agent.model.transport.reply import ModelRoute
    from agent.session.subagents.agent_models import Voice
    from agent.session.turns.turn_queue import TurnQueue
    from agent.session.wiring.conversation import Conversation
    from agent.session.wiring.shared_services import SharedServices


def offer_ready(base: SharedServices) -> None:
    """Make the tools for images, speech and messages available that can work here. Reads the disk."""
    target = base.plan.targets[0]
    sees = target.info.images is not False and target.tool_mode == "native"
    brought = {tool: service.name for tool, service in plugin_services(base.plugins).items()}
    for each in readiness(base.settings, base.variables, sees=sees, brought=brought):
        entry = base.tools.get(each.tool)
        if entry is not None and each.works:
            base.tools.replace_entry(replace(entry, check_fn=None))


class SessionSenses:
    """Creates the services for images, speech and messages for each agent of a session."""

    def __init__(
        self, base: SharedServices, talk: Conversation, voice: Callable[[str], Awaitable[Voice]]
    ) -> None:
        self._base = base
        self._talk = talk
        self._voice = voice

    def of_agent(self, routes: Sequence[ModelRoute], turn_queue: TurnQueue) -> Senses:
        """Return the services for an agent that uses `routes` and reads `turn_queue`."""
        # The `WebClient` and its libraries are imported on first use.
        from agent.integrations.gateways.outgoing import OutgoingMessages
        from agent.integrations.senses.messages import Chats
        from agent.integrations.senses.pictures import VisionAccess
        from agent.session.spending.metering import ServiceAccount

        base, metering = self._base, self._talk.metering
        sees = bool(routes) and routes[0].images
        brought = plugin_services(base.plugins)
        names = {tool: service.name for tool, service in brought.items()}
        stands = readiness(base.settings, base.variables, sees=sees, brought=names)
        ready = {each.tool: each for each in stands}
        vision = base.settings.vision

        async def side() -> ModelRoute | None:
            if not vision.model:
                return None
            voice = await self._voice(vision.model)
            return metering.routes(voice.routes[:1])[0]

        eyes = VisionAccess(
            sees=lambda: sees and routes[0].spoken.current.images.taken,
            show=lambda text, image: turn_queue.remember(text, images=(image,)),
            store=AttachmentStore(base.home.attachments),
            side=side,
            meter=base.plan.meter,
            ocr=vision.ocr,
        )

        def log_of(name: str, info: ModelInfo) -> RequestLog:
            payer = Payer(
                session=metering.session, project=str(base.options.workspace), agent=MAIN, model=name
            )
            return request_log_of(metering.spending, payer, info)

        pay = ServiceAccount(metering.account, log_of).paying
        outgoing = OutgoingMessages(base.settings.gateways, base.secrets)
        chats = Chats(outgoing, base.store.database, base.home.gateways, metering.session)
        return AgentSenses(base.settings, base.variables, ready, self._online(), pay, eyes, chats, brought)

    def _online(self) -> Online:
        from agent.core.net.door import WebClient
        from agent.integrations.senses.online import Online

        # A target's address is secret, but must be sent to that target: left out here.
        named = {each.url_env for each in self._base.settings.messages.targets.values() if each.url_env}
        secrets = {name: value for name, value in self._base.secrets.items() if name not in named}
        return Online(WebClient(secrets=secrets, environ=self._base.environ))
