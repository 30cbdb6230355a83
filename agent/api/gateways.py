"""Messengers: what runs, who may talk, what waits, for surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.assembly.voice_messages import transcribed as transcribed
    from agent.gateways.adapter import CallAnswer as CallAnswer
    from agent.gateways.adapter import GatewayKind as GatewayKind
    from agent.gateways.adapter import PlatformCall as PlatformCall
    from agent.gateways.all_gateways import AllGateways as AllGateways
    from agent.gateways.book import GatewayBook as GatewayBook
    from agent.gateways.book import GatewayStatus as GatewayStatus
    from agent.gateways.checking import lacks as lacks
    from agent.gateways.checking import missing as missing
    from agent.gateways.checking import tried as tried
    from agent.gateways.homes import surface_of as surface_of
    from agent.gateways.kinds import gateway_kind as gateway_kind
    from agent.gateways.kinds import gateway_kinds as gateway_kinds
    from agent.gateways.people import ChatScope as ChatScope
    from agent.gateways.people import Person as Person
    from agent.gateways.ports import ChatSession as ChatSession
    from agent.gateways.ports import How as How
    from agent.gateways.ports import WordKind as WordKind
    from agent.store.received import handed_texts as handed_texts

__getattr__ = exports(
    __name__,
    {
        "agent.gateways.adapter": "CallAnswer GatewayKind PlatformCall",
        "agent.gateways.all_gateways": "AllGateways",
        "agent.gateways.book": "GatewayBook GatewayStatus",
        "agent.gateways.checking": "lacks missing tried",
        "agent.gateways.homes": "surface_of",
        "agent.gateways.kinds": "gateway_kind gateway_kinds",
        "agent.gateways.people": "ChatScope Person",
        "agent.gateways.ports": "ChatSession How WordKind",
        "agent.assembly.voice_messages": "transcribed",
        "agent.store.received": "handed_texts",
    },
)
