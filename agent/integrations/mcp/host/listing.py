"""Answers that the package would refuse whole: tools of a list are taken out, parts of a result are read.

A tool that is wrong is taken out with the reason; its schema is read as far as that goes. A result of a
call without `content`, or with parts that the protocol does not know, is turned into one with the same words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import Client
from mcp_types import methods
from pydantic import ValidationError

from agent.integrations.mcp.tool_definition import FAULT, SCALARS
from agent.model.tool_schemas import sound

LAST_WITH_HANDSHAKE = "2025-11-25"
_METHOD = "tools/list"
_CALL = "tools/call"
_LONGEST_PART = 20_000
"""Characters shown of a part of a kind that is not known."""
_MOST_PARTS = 1_000


class ListingFilter:
    """Stands before the package's own check of lists. `refused` are the tools taken out of the last ones,
    `schemas` those of the others by their names, as the server listed them."""

    def __init__(self) -> None:
        self.refused: list[dict[str, Any]] = []
        self.schemas: dict[str, Any] = {}

    def begin(self) -> None:
        """Forget the last list."""
        self.refused.clear()
        self.schemas.clear()

    def put_before(self, client: Client) -> None:
        """Look at lists of this client from now on."""
        # The package has no place for that; what it hands on is the plain answer of the server.
        dispatcher = client.session._dispatcher
        send = dispatcher.send_raw_request

        async def filtered(method: str, *arguments: Any, **named: Any) -> dict[str, Any]:
            raw = await send(method, *arguments, **named)
            if client.protocol_version > LAST_WITH_HANDSHAKE:
                # A result that does not say what it is counts as complete, by the protocol.
                raw = {"resultType": "complete", **raw}
            match method:
                case "tools/list":
                    return self._without_faulty(raw, client.protocol_version)
                case "tools/call":
                    return readable_result(raw, client.protocol_version)
            return raw

        dispatcher.send_raw_request = filtered  # pyright: ignore[reportAttributeAccessIssue]

    def _without_faulty(self, raw: dict[str, Any], version: str) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list):
            return raw
        kept = []
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(schema := tool.get("inputSchema", {}), Mapping):
                self.schemas.setdefault(str(tool.get("name")), schema)
                tool = {**tool, "inputSchema": _readable_schema(schema)}
            if reason := _why(raw, [tool], version):
                name = tool.get("name") if isinstance(tool, Mapping) else ""
                self.refused.append({"name": name, FAULT: reason})
            else:
                kept.append(tool)
        return {**raw, "tools": kept}


def _readable_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema as the package takes it; one that is for no object stays, and is refused."""
    try:
        return schema if schema.get("type") in SCALARS else sound(schema)
    except RecursionError:
        return schema


def _why(raw: Mapping[str, Any], tools: Sequence[Any], version: str) -> str:
    """Why a list with these tools is refused, as a clause; empty if it is not."""
    try:
        methods.validate_server_result(_METHOD, version, {**raw, "tools": tools})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][2:]) or "description"
        return f"its {where} is wrong ({first['msg'][:120]})"
    except KeyError:
        return ""
    return ""


def readable_result(raw: dict[str, Any], version: str) -> dict[str, Any]:
    """A result of a call as the package takes it; as it came where it is right, or no result at all. Pure."""
    if _is_result(raw, version) or "task" in raw:
        return raw
    content = raw.get("content", raw.get("toolResult"))
    if content is not None and not isinstance(content, str | Mapping | list):
        return raw
    parts = content if isinstance(content, list) else [] if content is None else [content]
    data = raw.get("structuredContent")
    if data is not None and not isinstance(data, Mapping):
        data = {"result": data}
    return {
        **({"resultType": raw["resultType"]} if "resultType" in raw else {}),
        "content": [_readable_part(part, version) for part in parts[:_MOST_PARTS]],
        **({"structuredContent": data} if data is not None else {}),
        "isError": raw.get("isError") is True,
    }


def _readable_part(part: Any, version: str) -> Any:
    """One part of a result as the package takes it."""
    if _is_result({"content": [part]}, version):
        return part
    if isinstance(part, Mapping):
        kind, data = part.get("type"), part.get("data")
        if kind in ("image", "audio") and isinstance(data, str):
            media = part.get("mimeType")
            kept = {"type": kind, "data": data, "mimeType": media if isinstance(media, str) else f"{kind}/*"}
            if _is_result({"content": [kept]}, version):
                return kept
        if isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]}
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
    if len(text) > _LONGEST_PART:
        text = f"{text[:_LONGEST_PART]} [… {len(text) - _LONGEST_PART:,} characters left out]"
    return {"type": "text", "text": text}


def _is_result(raw: Mapping[str, Any], version: str) -> bool:
    try:
        methods.validate_server_result(_CALL, version, {"resultType": "complete", **raw})
    except ValidationError:
        return False
    except KeyError:
        return True
    return True
