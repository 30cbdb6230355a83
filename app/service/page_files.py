"""The page: its files, the skins as style sheets, and the headers that keep anything else out of it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from themes.loader import builtin_names, load_skin

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_DARK, _LIGHT = "night", "paper"
"""What `auto` wears, as the system has it."""


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may do: run and fetch its own files, and nothing else."""


class PageFiles:
    """Routes of the page. It holds no secret: without a token it shows how to pair."""

    def routes(self) -> list[Route]:
        """For the application."""
        return [
            Route("/", self._page),
            Route("/sw.js", self._asset),
            Route("/manifest.webmanifest", self._asset),
            Route("/skins.css", self._skins),
            Route("/page.json", self._facts),
            Route("/assets/{name}", self._asset),
        ]

    async def _page(self, request: Request) -> Response:
        return self._answer(request, contents()["index.html"], ".html")

    async def _asset(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        data = contents().get(name)
        if data is None or name == "index.html":
            return Response('{"error": "There is nothing here."}', 404, media_type="application/json")
        return self._answer(request, data, name[name.rindex(".") :])

    async def _skins(self, request: Request) -> Response:
        return self._answer(request, skins(), ".css")

    async def _facts(self, _request: Request) -> Response:
        found = {"skins": [name for name in builtin_names() if name not in _TERMINAL]}
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(json.dumps(found), media_type="application/json", headers=headers)

    def _answer(self, request: Request, data: bytes, ending: str) -> Response:
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        headers = {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "ETag": tag,
        }
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            data = _packed(data)
        return Response(data, media_type=_TYPES[ending], headers=headers)


_TERMINAL = frozenset({"ansi"})
"""Skins of the terminal's own colours, which a page does not know."""


@lru_cache(1)
def contents() -> Mapping[str, bytes]:
    """The files of the page, by name."""
    folder = files("app.service") / "page"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))}


@lru_cache(32)
def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


@lru_cache(1)
def skins() -> bytes:
    """The skins of the terminal as variables of style sheets."""
    found = {name: load_skin(name).skin.colors for name in builtin_names() if name not in _TERMINAL}
    return "\n".join(_rules(found)).encode()


def _rules(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield f":root{{{_variables(found[_DARK])}}}"
    yield f"@media (prefers-color-scheme:light){{:root{{{_variables(found[_LIGHT])}}}}}"
    for name, colors in found.items():
        yield f':root[data-skin="{name}"]{{{_variables(colors)}}}'


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in sorted(colors.items()) if color.startswith("#"))
