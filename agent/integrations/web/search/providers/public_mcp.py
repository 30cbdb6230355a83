"""A public search endpoint with the MCP protocol, used by Hermes's MCP client through a proxy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.core.net.door import Permit, WebClient, client_proxy
from agent.errors import HermesError
from agent.integrations.web.search.service import SearchError, WebHit, hits
from tools.kit.private_folders import PrivateFolder

if TYPE_CHECKING:
    from agent.integrations.mcp.server import Server

_FILE = Path(__file__).parents[1] / "public_endpoints.yaml"
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH")
_BLOCK = re.compile(
    r"^(?:\W*)(title|url|link|published(?: date)?|date|text|highlights|summary|author)\s*:\s*(.*)$", re.I
)
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\((https?://[^)\s]+)\)")


class PublicEndpoint:
    """One endpoint. The connection is opened by the first search and kept until the session ends."""

    def __init__(
        self,
        name: str,
        address: str,
        tool: str,
        arguments: Mapping[str, Any],
        client: WebClient,
        *,
        own: bool,
        seconds: float,
    ) -> None:
        """Set up the endpoint. `own` means that the user's settings name the URL, so any host is allowed."""
        self.name = name
        self.address = address
        self._tool = tool
        self._arguments = arguments
        self._client = client
        self._own = own
        self._seconds = seconds
        self._open: AsyncExitStack | None = None
        self._server: Server | None = None

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        await permit(self.address, "")
        if not self._own:
            self._client.check(self.address)
        server = await self._connect()
        call = {"name": self._tool, "arguments": _fill_arguments(self._arguments, query, limit)}
        try:
            await server.request("list", {})
            found = await server.request("call_tool", call)
        except HermesError as error:
            await self.close()
            raise SearchError(f"failed ({str(error).rstrip('.')[:200]})") from error
        if found.get("error"):
            raise SearchError(f"refused ({str(found['error'])[:200]})")
        return read_results(found)[:limit]

    async def close(self) -> None:
        stack, self._open, self._server = self._open, None, None
        if stack is not None:
            await stack.aclose()

    async def _connect(self) -> Server:
        if self._server is not None:
            return self._server
        from agent.integrations.mcp.launch import ServerLaunch
        from agent.integrations.mcp.server import RefusedError, Server

        async def answer(kind: str, params: Any) -> Any:
            raise RefusedError("a search is asked nothing back")

        stack = AsyncExitStack()
        try:
            folder = stack.enter_context(PrivateFolder("search"))
            environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
            if self._own:
                environ["NO_PROXY"] = "*"
            else:
                host = urlsplit(self.address).hostname
                proxy = await stack.enter_async_context(client_proxy(self._client, lambda name: name == host))
                environ |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy)
            launch = ServerLaunch(
                name=self.name,
                transport="http",
                folder=str(folder),
                tokens=str(folder / "tokens.json"),
                files=str(folder),
                url=self.address,
                timeout=self._seconds,
                connect_timeout=self._seconds,
            )
            server = Server(self.name, lambda: launch, environ, answer)
            stack.push_async_callback(server.close)
            await server.connect()
        except HermesError as error:
            await stack.aclose()
            raise SearchError(f"failed ({str(error).rstrip('.')[:200]})") from error
        except BaseException:
            await stack.aclose()
            raise
        self._open, self._server = stack, server
        return server


@cache
def endpoints() -> Mapping[str, Mapping[str, Any]]:
    """Return the data of the public endpoints by name. The file is read once."""
    from tools.kit.yaml_text import load_table

    return load_table(_FILE)


def read_results(found: Mapping[str, Any]) -> list[WebHit]:
    """Return the results in a tool's answer, which may be objects, blocks of fields, or links."""
    for candidate in (found.get("structured"), found.get("structuredContent"), found.get("content")):
        data = candidate
        if isinstance(candidate, str):
            try:
                data = json.loads(candidate)
            except (ValueError, RecursionError):
                continue
        if listed := _find_hits(data):
            return listed
    text = found.get("content")
    text = text if isinstance(text, str) else ""
    return _blocks(text) or [WebHit(title, url) for title, url in dict.fromkeys(_LINK.findall(text))]


def _find_hits(data: Any) -> list[WebHit]:
    """Return the first list of objects with URLs, at most three levels deep; empty if there is none."""
    level = [data]
    for _ in range(4):
        below: list[Any] = []
        for each in level:
            if isinstance(each, list) and (results := _objects(each)):
                return results
            below += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        level = below[:1_000]
    return []


def _objects(listed: list[Any]) -> list[WebHit]:
    fields = {name for each in listed if isinstance(each, dict) for name in each}
    described = next((name for name in _DESCRIBED if name in fields), "")
    dated = next((name for name in _DATED if name in fields), "")
    return hits(listed, url="url" if "url" in fields else "link", description=described, date=dated)


_DESCRIBED = ("description", "snippet", "excerpts", "highlights", "summary", "content", "text")
_DATED = ("publishedDate", "published_date", "publish_date", "date", "published")


def _blocks(text: str) -> list[WebHit]:
    """Return the results in a text with lines of `Title:`, `URL:` and so on."""
    found: list[dict[str, str]] = []
    field = ""
    for line in text.splitlines():
        match = _BLOCK.match(line)
        if match:
            field = match[1].lower()
            if field == "title" or (field in ("url", "link") and found and "url" in found[-1]) or not found:
                found.append({})
            field = {"link": "url", "published date": "date", "published": "date"}.get(field, field)
            found[-1].setdefault(field, match[2].strip())
        elif found and field in ("text", "highlights", "summary") and len(found[-1].get(field, "")) < 500:
            found[-1][field] = f"{found[-1].get(field, '')} {line.strip()}".strip()
    results = []
    for each in found:
        if each.get("url", "").startswith(("http://", "https://")):
            about = each.get("text") or each.get("highlights") or each.get("summary") or ""
            date = "" if each.get("date", "") == "N/A" else each.get("date", "")
            results.append(WebHit(each.get("title") or each["url"], each["url"], about[:600], date))
    return results


def _fill_arguments(value: Any, query: str, limit: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _fill_arguments(each, query, limit) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill_arguments(each, query, limit) for each in value]
    return {"QUERY": query, "LIMIT": limit}.get(value, value) if isinstance(value, str) else value
