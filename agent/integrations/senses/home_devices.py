"""Home Assistant by its REST interface: looking is free, changing asks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent.integrations.senses.online import Online, ServiceAddress
from tools.results import ToolError
from tools.senses.services import CallDevice, Permit, UseService

TOOL = "homeassistant"
MOST = 200
"""Entities that are listed."""
_ENTITY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")
_DOMAIN = re.compile(r"[a-z0-9_]+")


class HomeDevices:
    """The devices of one home."""

    def __init__(self, url: str, token: str, online: Online) -> None:
        self._service = ServiceAddress(
            name="Home Assistant", base=url, headers={"Authorization": f"Bearer {token}"}
        )
        self._online = online

    async def act(self, arguments: Mapping[str, Any], permit: Permit) -> Mapping[str, Any]:
        """`list`, `state`, `services` or `call`. Raises `ToolError`."""
        action = str(arguments.get("action"))
        domain = _named(str(arguments.get("domain") or ""), _DOMAIN, "domain")
        entity = _named(str(arguments.get("entity") or ""), _ENTITY, "entity")
        if action == "call":
            return await self._call(arguments, entity, permit)
        await permit(UseService(tool=TOOL, kind="home", service=self._service.host))
        if action == "services":
            return self._services(await self._get("/api/services"), domain)
        if action == "state":
            if not entity:
                raise ToolError("The state of which entity? Name one, such as light.kitchen.")
            return _state(await self._get(f"/api/states/{entity}"))
        states = await self._get("/api/states")
        found = (
            [_brief(each) for each in states if isinstance(each, Mapping)] if isinstance(states, list) else []
        )
        found = [each for each in found if not domain or each["entity"].startswith(f"{domain}.")]
        result: dict[str, Any] = {"count": len(found), "entities": found[:MOST]}
        if len(found) > MOST:
            result["note"] = "Name a domain to see fewer."
        return result

    async def _get(self, path: str) -> Any:
        return await self._online.json(self._service, path, method="GET")

    def _services(self, found: Any, domain: str) -> dict[str, Any]:
        services: dict[str, list[str]] = {}
        for each in found if isinstance(found, list) else []:
            name, known = str(each.get("domain", "")), each.get("services")
            if isinstance(known, Mapping) and (not domain or name == domain):
                services[name] = sorted(map(str, known))
        return {"count": sum(map(len, services.values())), "services": services}

    async def _call(self, arguments: Mapping[str, Any], entity: str, permit: Permit) -> Mapping[str, Any]:
        service = _named(str(arguments.get("service") or ""), _ENTITY, "service")
        if not service:
            raise ToolError("Which service is to be called? Name one, such as light.turn_on.")
        given = arguments.get("data") or {}
        if not isinstance(given, Mapping):
            raise ToolError("The data of a call is an object.")
        sent = {**given, **({"entity_id": entity} if entity else {})}
        shown = json.dumps({key: value for key, value in sent.items() if key != "entity_id" or not entity})
        await permit(
            CallDevice(tool=TOOL, service=service, entity=entity, data="" if shown == "{}" else shown)
        )
        changed = await self._online.json(
            self._service, f"/api/services/{service.replace('.', '/', 1)}", sent
        )
        found = (
            [_brief(each) for each in changed if isinstance(each, Mapping)]
            if isinstance(changed, list)
            else []
        )
        return {"called": service, "count": len(found), "changed": found[:MOST]}


def _named(text: str, form: re.Pattern[str], what: str) -> str:
    text = text.strip()
    if text and not form.fullmatch(text):
        raise ToolError(
            f"{text[:60]!r} is no {what}; names are small letters, digits and _, parted by one dot."
        )
    return text


def _brief(state: Mapping[str, Any]) -> dict[str, str]:
    about = state.get("attributes")
    name = str(about.get("friendly_name", "")) if isinstance(about, Mapping) else ""
    return {"entity": str(state.get("entity_id", "")), "state": str(state.get("state", "")), "name": name}


def _state(state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise ToolError("Home Assistant answers something that is no state.")
    return {
        "entity": state.get("entity_id"),
        "state": state.get("state"),
        "attributes": state.get("attributes"),
        "changed": state.get("last_changed"),
    }
