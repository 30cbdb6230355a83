"""Messengers: what runs, who may talk, what waits, for surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.store.received import handed_texts as handed_texts
    from agent.integrations.gateways.adapter import CallAnswer as CallAnswer
    from agent.integrations.gateways.adapter import GatewayKind as GatewayKind
    from agent.integrations.gateways.adapter import PlatformCall as PlatformCall
    from agent.integrations.gateways.all_gateways import AllGateways as AllGateways
    from agent.integrations.gateways.book import GatewayBook as GatewayBook
    from agent.integrations.gateways.book import GatewayStatus as GatewayStatus
    from agent.integrations.gateways.checking import lacks as lacks
    from agent.integrations.gateways.checking import missing as missing
    from agent.integrations.gateways.checking import tried as tried
    from agent.integrations.gateways.homes import surface_of as surface_of
    from agent.integrations.gateways.kinds import gateway_kind as gateway_kind
    from agent.integrations.gateways.kinds import gateway_kinds as gateway_kinds
    from agent.integrations.gateways.people import ChatScope as ChatScope
    from agent.integrations.gateways.people import Person as Person
    from agent.integrations.gateways.ports import ChatSession as ChatSession
    from agent.integrations.gateways.ports import How as How
    from agent.integrations.gateways.ports import WordKind as WordKind
    from agent.session.wiring.voice_messages import transcribed as transcribed

__getattr__ = exports(
    __name__,
    {
        "agent.integrations.gateways.adapter": "CallAnswer GatewayKind PlatformCall",
        "agent.integrations.gateways.all_gateways": "AllGateways",
        "agent.integrations.gateways.book": "GatewayBook GatewayStatus",
        "agent.integrations.gateways.checking": "lacks missing tried",
        "agent.integrations.gateways.homes": "surface_of",
        "agent.integrations.gateways.kinds": "gateway_kind gateway_kinds",
        "agent.integrations.gateways.people": "ChatScope Person",
        "agent.integrations.gateways.ports": "ChatSession How WordKind",
        "agent.session.wiring.voice_messages": "transcribed",
        "agent.core.store.received": "handed_texts",
    },
)
