"""A server of the Model Context Protocol over HTTP on loopback, and the authorization server it may ask for.

Knobs are fields: sessions can be forgotten, clients too, tokens end, and each step can be made to fail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class WebServer:
    """What is served, what goes wrong, and what was asked."""

    url: str = ""
    asks_sign_in: bool = False
    broken: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Status and body by step: `resource`, `metadata`, `register`, `authorize`, `token`, `refresh`, `mcp`."""
    ends_in: int = 3600
    """Seconds for which tokens are said to last."""
    refresh_takes: float = 0.0
    asked: list[str] = field(default_factory=list)
    """The steps in order; calls of the protocol as `mcp:METHOD`."""
    clients: dict[str, list[str]] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    """Access tokens that are taken."""
    refreshes: set[str] = field(default_factory=set)
    """Refresh tokens that are taken; each once."""
    codes: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0

    def count(self, step: str) -> int:
        return self.asked.count(step)

    def forget(self) -> None:
        """No session is known any more."""
        self.sessions.clear()

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        with self._lock:
            match method, parts.path:
                case "POST", "/mcp":
                    return self._mcp(headers, json.loads(body))
                case "GET", path if path.startswith("/.well-known/oauth-protected-resource"):
                    return self._step(
                        "resource", {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
                    )
                case "GET", path if path.startswith("/.well-known/oauth-authorization-server"):
                    return self._step("metadata", self._metadata())
                case "POST", "/register":
                    return self._registered(json.loads(body))
                case "GET", "/authorize":
                    return self._authorized(query)
                case "POST", "/token":
                    return self._token(headers, dict(parse_qsl(body.decode())))
                case _:
                    return 405 if parts.path == "/mcp" else 404, {}, b""

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def _step(self, name: str, answer: Any, status: int = 200) -> Answer:
        self.asked.append(name)
        if name in self.broken:
            status, answer = self.broken[name]
        return status, {"content-type": "application/json"}, json.dumps(answer).encode()

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def _registered(self, given: dict[str, Any]) -> Answer:
        client = self._new("client")
        if "register" not in self.broken:
            self.clients[client] = given["redirect_uris"]
        return self._step(
            "register", {**given, "client_id": client, "token_endpoint_auth_method": "none"}, 201
        )

    def _authorized(self, query: dict[str, str]) -> Answer:
        self.asked.append("authorize")
        if "authorize" in self.broken:
            found = dict(self.broken["authorize"][1])
        elif query["client_id"] not in self.clients:
            return 400, {}, b"unknown client"
        else:
            code = self._new("code")
            self.codes[code] = query["code_challenge"]
            found = {"code": code}
        return (
            302,
            {"location": f"{query['redirect_uri']}?{urlencode({**found, 'state': query['state']})}"},
            b"",
        )

    def _token(self, headers: dict[str, str], form: dict[str, str]) -> Answer:
        client = form.get("client_id") or _basic(headers)
        kind = "refresh" if form["grant_type"] == "refresh_token" else "token"
        if client not in self.clients and kind not in self.broken:
            return self._step(kind, {"error": "invalid_client"}, 401)
        if kind == "refresh":
            time.sleep(self.refresh_takes)
            if form["refresh_token"] not in self.refreshes:
                return self._step(kind, {"error": "invalid_grant", "error_description": "used before"}, 400)
            self.refreshes.discard(form["refresh_token"])
        else:
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != self.codes.pop(form["code"], ""):
                return self._step(kind, {"error": "invalid_grant"}, 400)
        access, refresh = self._new("access"), self._new("refresh")
        if kind not in self.broken:
            self.tokens.add(access)
            self.refreshes.add(refresh)
        given = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
        return self._step(kind, {**given, "expires_in": self.ends_in})

    def _mcp(self, headers: dict[str, str], message: dict[str, Any]) -> Answer:
        method, number = message.get("method", ""), message.get("id")
        self.asked.append(f"mcp:{method}")
        if "mcp" in self.broken:
            status, answer = self.broken["mcp"]
            return status, {"content-type": "application/json"}, json.dumps(answer).encode()
        if self.asks_sign_in and headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource"'
            return 401, {"www-authenticate": where}, b""
        if method == "server/discover":
            return 400, {}, b""
        session = headers.get("mcp-session-id", "")
        if method == "initialize":
            session = self._new("session")
            self.sessions.add(session)
        elif session not in self.sessions:
            return 404, {}, b""
        if number is None:
            return 202, {}, b""
        reply = {"jsonrpc": "2.0", "id": number, "result": _result(method, message.get("params") or {})}
        found = {"content-type": "application/json", "mcp-session-id": session}
        return 200, found, json.dumps(reply).encode()


def _basic(headers: dict[str, str]) -> str:
    value = headers.get("authorization", "").removeprefix("Basic ")
    return unquote(base64.b64decode(value).decode().partition(":")[0]) if value else ""


def _result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1.0"},
            }
        case "tools/list":
            return {"tools": [{"name": "echo", "description": "Says it again.", "inputSchema": schema}]}
        case "tools/call":
            said = str((params.get("arguments") or {}).get("text", ""))
            return {"content": [{"type": "text", "text": said}]}
        case _:
            return {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has had enough."""


@contextmanager
def web_server(**fields: Any) -> Iterator[WebServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, found, content = web.respond(self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in {**found, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    web = WebServer(url=f"http://127.0.0.1:{server.server_address[1]}", **fields)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
