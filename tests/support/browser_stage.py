"""A browser and a small site on loopback: one Chromium for the tests of a file, driven by the tools."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.config.schema import BrowserSettings
from agent.core.home import Home
from agent.core.net.exchange import ProxyRefusal
from agent.integrations.browser.service import SessionBrowsers
from agent.safety.gate import Gate
from agent.safety.permissions.policy import Permissions
from tests.support.loop_thread import LoopThread
from tests.support.tool_context import FakeContext
from tools.browser import host, tool
from tools.browser.session import Browsers
from tools.registry import registry

MISSING = "" if host.has_browser() else "no Chromium is installed (or no bubblewrap, as root)"
"""Why tests in a real browser are skipped, or empty."""
assert tool is not None


@dataclass(slots=True)
class Reply:
    """What the site answers with."""

    body: bytes | str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "text/html; charset=utf-8"
    slow: float = 0.0
    """Seconds before it is sent."""


@dataclass(slots=True)
class Asked:
    """One request that reached the site."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[Asked], "Reply | None"]


class Site:
    """Pages by path, on a free port of loopback; `asked` holds every request that came."""

    def __init__(self, pages: Mapping[str, str | Reply | Answer] | None = None) -> None:
        self.pages: dict[str, str | Reply | Answer] = dict(pages or {})
        self.asked: list[Asked] = []
        self._stopping = threading.Event()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                asked = Asked(
                    self.command,
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(size),
                )
                site.asked.append(asked)
                reply = site.answer(asked)
                if reply is None:
                    self.close_connection = True
                    return
                if reply.slow:
                    site._stopping.wait(reply.slow)
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                for name, value in {"content-type": reply.kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name the server looks for

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def answer(self, asked: Asked) -> Reply | None:
        path = asked.path.partition("?")[0]
        found = self.pages.get(path)
        if found is None:
            return Reply(f"<h1>No page {path}</h1>", 404)
        if callable(found):
            return found(asked)
        return found if isinstance(found, Reply) else Reply(found)

    def close(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Heard(SessionBrowsers):
    """What opens the browser, with every refusal of its proxy kept."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard: list[ProxyRefusal] = []

    def _note_refusal(self, refusal: ProxyRefusal) -> None:
        self.heard.append(refusal)
        super()._note_refusal(refusal)


class BrowserStage:
    """A loop of its own in a thread, in which the browser lives for all tests of a file."""

    def __init__(
        self, root: Path, *, idle: float = 600, profile: str = "", rules: str = "", cdp_url: str = ""
    ) -> None:
        self.site = Site()
        self.home = Home(root / "home")
        self.home.root.mkdir(mode=0o700)
        self.workspace = root / "work"
        self.workspace.mkdir()
        opened = "".join(
            f"  fetch({self.site.url('/**', host)}): allow\n" for host in ("127.0.0.1", "localhost")
        )
        self.home.permissions.write_text(f"rules:\n{opened}{rules}")
        self.gate = Gate.for_home(
            self.home, self.workspace, "normal", permissions=Permissions(self.home, self.workspace)
        )
        settings = BrowserSettings.model_validate({"profile": profile, "cdp_url": cdp_url})
        self.secrets = {"API_TOKEN": "sk-very-secret-token-1"}
        self.host = _Heard(settings, self.gate, self.home, self.workspace, root / "scratch", {}, self.secrets)
        self._thread = LoopThread()
        self.browsers = self.run(self._made(idle))
        self.context = self.fresh()

    async def _made(self, idle: float) -> Browsers:
        return Browsers(self.host, idle=idle)

    def fresh(self, **given: Any) -> FakeContext:
        """A context with a record of its own of what passed the gate."""
        self.context = FakeContext(self.workspace, **given)
        self.context.browsers = self.browsers
        return self.context

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the loop of the browser."""
        return self._thread.run(work)

    def begin(self, name: str, **arguments: Any) -> Future[dict[str, Any]]:
        """Begin a call of `browser_NAME`."""
        context: Any = self.context
        return self._thread.begin(registry.dispatch(f"browser_{name}", arguments, context))

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call `browser_NAME`; its result."""
        return self.begin(name, **arguments).result(120)

    def open(self, path: str, page: Any = None, host: str = "127.0.0.1") -> str:
        """Serve `page` at `path` if given, open it, and return what is shown."""
        if page is not None:
            self.site.pages[path.partition("?")[0]] = page
        result = self.call("navigate", url=self.site.url(path, host))
        assert "error" not in result, result
        return result["page"]

    def ref(self, words: str, page: str | None = None) -> str:
        """The reference in the line of the page that holds `words`."""
        shown = page if page is not None else self.call("snapshot", full=True)["page"]
        for line in shown.splitlines():
            if words in line and "[ref=" in line:
                return line.partition("[ref=")[2].partition("]")[0]
        raise AssertionError(f"no line with {words!r} and a ref in:\n{shown}")

    def click(self, words: str) -> dict[str, Any]:
        return self.call("click", ref=self.ref(words))

    def close(self) -> None:
        self.run(self.browsers.aclose())
        self._thread.close()
        self.site.close()
