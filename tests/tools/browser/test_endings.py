"""How browsers and pages end: crashes in an action, idleness, a browser of the person, lasting profiles."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.integrations.browser.local import LocalBrowser
from agent.integrations.browser.service import open_browserbase
from tests.support.browser_stage import MISSING, Asked, BrowserStage, Reply, Site
from tests.support.waiting import PATIENCE
from tools.browser.actions import KeepProfile
from tools.browser.host import find_browser
from tools.browser.session import BrowserSession
from tools.results import ToolError

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")

BUSY = "<button onclick=\"fetch('/pressed');const end=Date.now()+20000;while(Date.now()<end);\">Work</button>"
"""A page whose button keeps it busy for longer than the test lasts, and says when that begins."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserStage]:
    made = BrowserStage(tmp_path_factory.mktemp("browser"))
    made.site.pages["/pressed"] = Reply("ok")
    yield made
    made.close()


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.02)


def saw(stage: BrowserStage) -> bool:
    return any(each.path == "/pressed" for each in stage.site.asked)


def running(stage: BrowserStage) -> BrowserSession:
    session = stage.browsers.running()
    assert session is not None
    return session


def process_of(session: BrowserSession) -> int:
    browser = getattr(session.opened.close, "__self__", None)
    assert isinstance(browser, LocalBrowser) and browser._process is not None
    return browser._process.pid


def test_a_page_that_crashes_in_the_middle_of_a_click_is_said_so(stage: BrowserStage) -> None:
    stage.site.asked.clear()
    ref = stage.ref("Work", stage.open("/busy", BUSY))
    clicking = stage.begin("click", ref=ref)
    tab = running(stage).tab()

    async def crash() -> None:
        tab.cdp.send("Page.crash", {}, tab.session)

    until(lambda: saw(stage), "the press of the button")
    stage.run(crash())
    assert "page crashed" in clicking.result(PATIENCE)["error"]
    assert 'button "Work"' in stage.open("/busy")


def test_a_browser_that_is_killed_in_the_middle_of_a_click_is_replaced(stage: BrowserStage) -> None:
    stage.site.asked.clear()
    ref = stage.ref("Work", stage.open("/busy", BUSY))
    folder = running(stage).opened.folder
    clicking = stage.begin("click", ref=ref)
    until(lambda: saw(stage), "the press of the button")
    os.killpg(process_of(running(stage)), signal.SIGKILL)
    assert "browser crashed" in clicking.result(PATIENCE)["error"]
    result = stage.call("navigate", url=stage.site.url("/busy"))
    assert "this is a new one" in str(result["notes"])
    assert 'button "Work"' in result["page"]
    assert folder is not None and not folder.exists()


def test_a_page_that_never_keeps_still_is_acted_on_all_the_same(stage: BrowserStage) -> None:
    stage.site.pages["/poll"] = Reply("x", slow=0.5)
    page = stage.open(
        "/restless",
        "<p id=p></p><button onclick=\"this.textContent='pressed'\">Press</button><script>"
        "setInterval(()=>p.textContent=Math.random(),3);let f=()=>fetch('/poll').then(f);f()</script>",
    )
    assert 'button "pressed"' in stage.call("click", ref=stage.ref("Press", page))["changed"]


@pytest.mark.thorough
def test_a_browser_that_nobody_uses_is_closed_and_leaves_nothing(tmp_path: Path) -> None:
    stage = BrowserStage(tmp_path, idle=0.3)
    try:
        stage.open("/", "<p>Hello</p>")
        session = running(stage)
        process, folder = process_of(session), session.opened.folder
        until(lambda: stage.browsers.running() is None, "closing")
        until(lambda: not Path(f"/proc/{process}").exists(), "the end of its process")
        until(lambda: folder is not None and not folder.exists(), "removing its profile")
        assert "Hello" in stage.open("/")
    finally:
        stage.close()


@pytest.fixture
def persons_browser(tmp_path: Path) -> Iterator[str]:
    """A browser that the person started with a debugging port, one tab open; its address."""
    folder = tmp_path / "theirs"
    command = [find_browser(), "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    with subprocess.Popen(
        [*command, "--disable-gpu", "--no-first-run", "data:text/html,<title>Mine</title>"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        told = folder / "DevToolsActivePort"
        until(told.exists, "the port of the browser")
        until(lambda: told.read_text().strip(), "its number")
        yield f"http://127.0.0.1:{told.read_text().split()[0]}"
        process.terminate()


@pytest.mark.thorough
def test_a_running_browser_of_the_person_is_used_and_left_as_it_was(
    tmp_path: Path, persons_browser: str
) -> None:
    def tabs() -> list[str]:
        with urllib.request.urlopen(f"{persons_browser}/json/list") as answer:
            return [each["title"] for each in json.load(answer) if each["type"] == "page"]

    (tmp_path / "ours").mkdir()
    stage = BrowserStage(tmp_path / "ours", cdp_url=persons_browser)
    try:
        page = stage.open(
            "/", "<title>Ours</title><button onclick=\"this.textContent='pressed'\">Go</button>"
        )
        assert 'button "pressed"' in stage.call("click", ref=stage.ref("Go", page))["changed"]
        assert sorted(tabs()) == ["Mine", "Ours"]
        assert len(stage.call("tabs")["tabs"]) == 1
        (stage.workspace / "a.txt").write_text("x")
        assert "another machine" in stage.call("upload", paths=["a.txt"])["error"]
    finally:
        stage.close()
    until(lambda: tabs() == ["Mine"], "closing the tab that was opened")


@pytest.mark.thorough
def test_a_rented_browser_is_given_back(tmp_path: Path, persons_browser: str) -> None:
    with urllib.request.urlopen(f"{persons_browser}/json/version") as answer:
        connect = json.load(answer)["webSocketDebuggerUrl"]
    told: list[tuple[str, str | None, object]] = []

    def renting(asked: Asked) -> Reply:
        told.append((asked.path, asked.headers.get("x-bb-api-key"), json.loads(asked.body)))
        if asked.headers.get("x-bb-api-key") != "bb-key":
            return Reply('{"message": "Unauthorized"}', 401, kind="application/json")
        body = {"id": "s-1", "connectUrl": connect}
        return Reply(json.dumps(body), 201, kind="application/json")

    service = Site({"/v1/sessions": renting, "/v1/sessions/s-1": renting})
    base = service.url("").rstrip("/")
    environ = {"BROWSERBASE_API_KEY": "bb-key", "BROWSERBASE_PROJECT_ID": "p-1"}

    async def rent() -> str:
        opened = await open_browserbase(environ, base)
        opened.transport.send(b'{"id": 1, "method": "Browser.getVersion"}')
        version = json.loads(await opened.transport.receive())["result"]["product"]
        await opened.close()
        return version

    async def refused() -> None:
        await open_browserbase({**environ, "BROWSERBASE_API_KEY": "wrong"}, base)

    try:
        assert "Chrome" in asyncio.run(rent())
        release = {"status": "REQUEST_RELEASE", "projectId": "p-1"}
        assert told == [
            ("/v1/sessions", "bb-key", {"projectId": "p-1"}),
            ("/v1/sessions/s-1", "bb-key", release),
        ]
        with pytest.raises(ToolError, match="refused \\(401\\)"):
            asyncio.run(refused())
    finally:
        service.close()


@pytest.mark.thorough
def test_a_profile_that_lasts_wants_a_yes_once_and_keeps_logins(tmp_path: Path) -> None:
    asked: list[str] = []

    def say(answer: bool):
        def verdict(action: object) -> bool:
            if isinstance(action, KeepProfile):
                asked.append(action.headline())
                return answer
            return True

        return verdict

    stage = BrowserStage(tmp_path, profile="work")
    try:
        stage.site.pages["/"] = lambda asked: Reply(
            f"<p>cookie: {asked.headers.get('cookie')}</p>", headers={"set-cookie": "who=ann; Max-Age=9999"}
        )
        url = stage.site.url("/")
        stage.fresh(verdict=say(False))
        assert "Not allowed" in stage.call("navigate", url=url)["error"]
        assert stage.browsers.running() is None
        stage.fresh(verdict=say(True))
        assert "cookie: None" in stage.call("navigate", url=url)["page"]
        stage.call("close")
        assert "cookie: who=ann" in stage.call("navigate", url=url)["page"]
        assert asked == ["use the lasting browser profile work"] * 2
        assert stage.home.browser_profiles.stat().st_mode & 0o777 == 0o600
    finally:
        stage.close()


def test_without_a_person_a_profile_that_lasts_is_refused_unless_a_rule_allows_it(tmp_path: Path) -> None:
    stage = BrowserStage(tmp_path, profile="work", rules="  browser_profile(home): allow\n")
    try:
        assert stage.host.unagreed_profile() == "work"
        assert stage.gate.decide(KeepProfile(tool="browser_navigate", profile="work")).kind == "ask"
        assert stage.gate.decide(KeepProfile(tool="browser_navigate", profile="home")).kind == "allow"
        stage.host.agree_to_profile("home")
        assert not stage.home.browser_profiles.exists(), "a rule is not a yes of a person"
    finally:
        stage.close()
