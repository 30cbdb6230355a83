"""Tools for which the package would refuse a whole list: taken out one by one, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp import Client
from mcp_types import methods
from pydantic import ValidationError

from agent.mcp.tool_definition import FAULT

LAST_WITH_HANDSHAKE = "2025-11-25"
_METHOD = "tools/list"


class ListingFilter:
    """Stands before the package's own check of lists. `refused` are the tools taken out of the last ones."""

    def __init__(self) -> None:
        self.refused: list[dict[str, Any]] = []

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
            return self._without_faulty(raw, client.protocol_version) if method == _METHOD else raw

        dispatcher.send_raw_request = filtered  # pyright: ignore[reportAttributeAccessIssue]

    def _without_faulty(self, raw: dict[str, Any], version: str) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list) or not _why(raw, tools, version):
            return raw
        kept = []
        for tool in tools:
            if reason := _why(raw, [tool], version):
                name = tool.get("name") if isinstance(tool, Mapping) else ""
                self.refused.append({"name": name, FAULT: reason})
            else:
                kept.append(tool)
        return {**raw, "tools": kept}


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
