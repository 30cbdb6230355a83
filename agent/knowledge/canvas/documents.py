"""Storage of canvas documents in private files, by hash, and the limits on what they may do. Blocking.

A document is written by a model, perhaps on the orders of a web page. It may draw and run its own scripts. It
cannot reach the network, another document or the user's data.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from agent.core.home import PRIVATE_FILE, private_folder
from agent.events import Event
from tools.kit.files import write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.services.canvases import Canvas, CanvasBoard, CanvasKind, CanvasVersion, changed_canvases

_HASH = lazy_pattern(r"[0-9a-f]{64}")
_SVG = re.compile(rb"(<svg)(?=[\s/>])[^>]*>", re.I)
_STILL = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "media-src data: blob:; form-action 'none'; base-uri 'none'; frame-src 'none'"
)
FENCES = {
    "Content-Security-Policy": (
        f"sandbox allow-scripts; {_STILL}; script-src 'unsafe-inline'; connect-src 'none'; "
        "worker-src 'none'; object-src 'none'; frame-ancestors 'self'"
    ),
    # What the policy leaves open: opening connections ahead of time, and those from browser to browser.
    "Connection-Allowlist": "()",
    "X-DNS-Prefetch-Control": "off",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), fullscreen=()",
}
"""The HTTP headers for serving a document: they give it an origin of its own and no network access."""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>{more}<style>
html,body{{margin:0;height:100%;background:#fff}}
img{{display:block;max-width:100%;max-height:100%;margin:auto}}
iframe{{border:0;width:100%;height:100%}}
</style></head><body>{body}</body></html>
"""


class CanvasDocuments:
    """The store of the canvas documents of all sessions in one Hermes home folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, session: str, kind: CanvasKind, content: bytes) -> str:
        """Store the content of a canvas; return the SHA-256 of its kind and content. Raises `OSError`."""
        digest = hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()
        folder = private_folder(private_folder(self._folder) / session)
        path = folder / digest
        if not path.exists():
            write_atomically(path, kind.encode() + b"\0" + content, PRIVATE_FILE, replace_any=True)
        return digest

    def read(self, session: str, digest: str) -> tuple[str, bytes] | None:
        """Return the kind and content of a document; None if it does not exist or was changed on disk."""
        if not _HASH.fullmatch(digest) or Path(session).name != session or session.startswith("."):
            return None
        try:
            data = (self._folder / session / digest).read_bytes()
        except (OSError, ValueError):
            return None
        if hashlib.sha256(data).hexdigest() != digest:
            return None
        kind, _, content = data.partition(b"\0")
        return kind.decode("ascii", "replace"), content

    def exported(self, session: str, digest: str, title: str) -> Path | None:
        """Write the document to disk as an isolated page and return its path, which a browser can open.

        Returns None if the document does not exist.
        """
        found = self.read(session, digest)
        if found is None:
            return None
        path = self._folder / session / f"{digest}.html"
        if not path.exists():
            page = enclosed(render_page(*found, title), title)
            write_atomically(path, page.encode(), PRIVATE_FILE, replace_any=True, durable=False)
        return path

    def discard(self, sessions: Sequence[str]) -> None:
        """Remove the documents of deleted sessions."""
        for session in sessions:
            shutil.rmtree(self._folder / session, ignore_errors=True)


def render_page(kind: str, content: bytes, words: str) -> str:
    """Return a page for a browser that shows the document, with `words` as its title. Pure.

    HTML is returned unchanged. Anything else is embedded as an image, in which no script runs.
    """
    if kind == "html":
        return content.decode("utf-8", "replace")
    if kind == "svg":
        content = _declare_namespaces(content)
    media = "image/svg+xml" if kind == "svg" else _media(content)
    source = f"data:{media};base64,{base64.b64encode(content).decode('ascii')}"
    picture = f'<img src="{source}" alt="{html.escape(words, quote=True)}">'
    return _PAGE.format(title=html.escape(words), more="", body=picture)


def enclosed(document: str, title: str) -> str:
    """Return a page that holds the document in a frame without scripts. Pure.

    No script may run, because a page opened from a file has no headers that keep scripts off the network.
    """
    from lxml_html_clean import Cleaner

    still = Cleaner(style=False, meta=True, page_structure=False, forms=False, safe_attrs_only=False)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_STILL, quote=True)}">'
    frame = f'<iframe sandbox srcdoc="{html.escape(still.clean_html(document), quote=True)}"></iframe>'
    return _PAGE.format(title=html.escape(title), more=policy, body=frame)


def _declare_namespaces(drawing: bytes) -> bytes:
    """Return the SVG with the namespaces that it must declare as a separate image, though not inside HTML.

    Pure.
    """
    found = _SVG.search(drawing)
    if found is None:
        return drawing
    names = b""
    if not re.search(rb"\sxmlns\s*=", found[0]):
        names += b' xmlns="http://www.w3.org/2000/svg"'
    if b"xlink:" in drawing and b"xmlns:xlink" not in found[0]:
        names += b' xmlns:xlink="http://www.w3.org/1999/xlink"'
    at = found.end(1)
    return drawing[:at] + names + drawing[at:]


def _media(content: bytes) -> str:
    if content.startswith(b"\x89PNG"):
        return "image/png"
    if content.startswith(b"\xff\xd8"):
        return "image/jpeg"
    return "image/gif" if content.startswith(b"GIF8") else "image/webp"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanvasChanged(Event):
    """The event that a canvas has a new version, returned to an earlier one, or was closed (then it has no
    versions).
    """

    type: ClassVar[str] = "canvas"
    name: str
    versions: tuple[CanvasVersion, ...]


MOST = 20
"""The maximum number of canvases shown at a time."""
KEPT = 100
"""The maximum number of stored versions of one canvas."""


class LiveCanvases(CanvasBoard):
    """The canvases that are shown now. Their documents are stored in the home, their versions in the
    conversation.
    """

    def __init__(
        self,
        documents: CanvasDocuments,
        session: str,
        canvases: Sequence[Canvas],
        emit: Callable[[Event], None],
    ) -> None:
        self._documents = documents
        self._session = session
        self._canvases = tuple(canvases)
        self._emit = emit

    def canvases(self) -> tuple[Canvas, ...]:
        return self._canvases

    def replace(self, canvases: Sequence[Canvas]) -> None:
        """Replace the shown canvases by these, after the conversation moved to another message."""
        before, self._canvases = self._canvases, tuple(canvases)
        for each in changed_canvases(before, self._canvases):
            self._tell(each)

    async def show(self, name: str, title: str, kind: CanvasKind, content: bytes, words: str) -> Canvas:
        if len(self._canvases) >= MOST and all(each.name != name for each in self._canvases):
            raise ToolError(f"{MOST} canvases are shown already; close one, or update one by its name.")
        try:
            digest = await asyncio.to_thread(self._documents.keep, self._session, kind, content)
        except OSError as error:
            raise ToolError(f"The canvas cannot be kept: {error.strerror or error}.") from error
        known = next((each.versions for each in self._canvases if each.name == name), ())
        number = known[-1].version + 1 if known else 1
        version = CanvasVersion(number, title, kind, digest, len(content), words)
        return self._store_canvas(Canvas(name, (*known, version)[-KEPT:]))

    async def read(self, version: CanvasVersion) -> bytes:
        found = await asyncio.to_thread(self._documents.read, self._session, version.sha256)
        if found is None:
            raise ToolError("What this canvas shows is no longer there; show it again.")
        return found[1]

    def undo(self, name: str) -> Canvas:
        return self._store_canvas(Canvas(name, self._canvas(name).versions[:-1]))

    def close(self, name: str) -> None:
        self._store_canvas(Canvas(self._canvas(name).name, ()))

    def _canvas(self, name: str) -> Canvas:
        found = next((each for each in self._canvases if each.name == name), None)
        if found is None:
            raise ToolError(f"There is no canvas {name}.")
        return found

    def _store_canvas(self, canvas: Canvas) -> Canvas:
        others = tuple(each for each in self._canvases if each.name != canvas.name)
        self._canvases = (*others, canvas) if canvas.versions else others
        self._tell(canvas)
        return canvas

    def _tell(self, canvas: Canvas) -> None:
        self._emit(CanvasChanged(name=canvas.name, versions=canvas.versions))
