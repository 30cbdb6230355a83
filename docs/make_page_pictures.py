"""Draws the page of `hermes serve`: a real service, a scripted model, headless Chromium.

    python docs/make_page_pictures.py build/pictures

Writes PNG: phone and desktop, dark and light, pairing, approval, question, canvas. Of these `page.png`,
`page-phone.png` and `page-canvas-plot.png` (as `page-canvas.png`) go into `docs/images`, with 64 colours.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.chromium import Browser
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service

DESKTOP, PHONE = (1280, 800), (360, 740)
PLOT = (
    "<svg viewBox='0 0 420 240' font-family='sans-serif' font-size='12'>"
    + "".join(
        f"<rect x='{40 + at * 60}' y='{200 - value}' width='40' height='{value}' fill='#2a7f9e'/>"
        f"<text x='{60 + at * 60}' y='218' text-anchor='middle'>{name}</text>"
        f"<text x='{60 + at * 60}' y='{192 - value}' text-anchor='middle'>{value} ms</text>"
        for at, (name, value) in enumerate(
            [("parse", 34), ("load", 120), ("plan", 58), ("run", 162), ("draw", 80), ("save", 21)]
        )
    )
    + "<text x='210' y='18' text-anchor='middle' font-size='15'>Where the time goes</text></svg>"
)
SCRIPT = f"""
PLOT = {PLOT!r}
PAGE = "<!doctype html><style>body{{font:16px sans-serif;margin:2rem}}"
PAGE += "td,th{{padding:.3rem 1rem;border-bottom:1px solid #ccc;text-align:right}}</style>"
PAGE += "<h1>Slowest tests</h1><table><tr><th>test<th>before<th>after</tr>"
PAGE += "".join(f"<tr><td>{{name}}<td>{{a}} s<td>{{b}} s</tr>" for name, a, b in (
    ("test_report", 4.1, 0.6), ("test_import", 2.8, 0.9), ("test_cache", 1.9, 0.4)))
PAGE += "</table><p><button onclick=\\"this.textContent='sorted'\\">Sort</button></p>"
SCRIPTS = {{
    "slow": [
        call("todo_write", todos=[
            {{"id": "1", "content": "Find the slow fixture", "status": "completed"}},
            {{"id": "2", "content": "Build it once per module", "status": "in_progress"}},
            {{"id": "3", "content": "Run the suite", "status": "pending"}}]),
        call("read_file", path="tests/conftest.py"),
        call("write_file", path="tests/conftest.py", content=NEW),
        call("read_file", path="tests/fixtures.py"),
        say("The fixture `report` was built **for each test**; now it is built once per module:\\n\\n"
            "| step | before | after |\\n|:--|--:|--:|\\n"
            "| build | 3.5 s | 0.4 s |\\n| tests | 0.6 s | 0.6 s |\\n\\n"
            "```py\\n@pytest.fixture(scope=\\"module\\")\\ndef report():\\n    return build()\\n```\\n\\n"
            "Next I would run the whole suite."),
    ],
    "plot": [
        call("canvas", name="times", title="Where the time goes", alt="Six bars, 162 ms", content=PLOT),
        say("There it is.")],
    "table": [
        call("canvas", name="tests", title="Slowest tests", alt="Before and after", content=PAGE),
        say("A page with the three slowest tests.")],
    "push": [call("terminal", command="git push --force origin main"), say("Not pushed.")],
    "ask": [call("clarify", question="Where is it to go?", choices=["main", "a new branch"]), say("Good.")],
}}

def script(request):
    asked = str([each for each in request.messages if each.get("role") == "user"][-1]["content"])
    steps = 0
    for each in reversed(request.messages):
        if each.get("role") == "user":
            break
        steps += each.get("role") == "assistant"
    found = SCRIPTS[next(word for word in SCRIPTS if word in asked)]
    return found[min(steps, len(found) - 1)]
"""
OLD = (
    "import pytest\n\nfrom shop.report import build\n\n\n@pytest.fixture\ndef report():\n    return build()\n"
)
NEW = OLD.replace("@pytest.fixture\n", '@pytest.fixture(scope="module")\n')


def main() -> int:
    """Draw all of them into the folder of the command line."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/pictures")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hermes-pictures-") as name:
        folder = Path(name)
        work = folder / "projects" / "shop"
        (work / "tests").mkdir(parents=True)
        (work / "tests" / "conftest.py").write_text(OLD)
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        script = f"NEW = {NEW!r}\n{SCRIPT}"
        with (
            ServerProcess(script, folder) as model,
            Service(folder / "home", model.base_url) as service,
            Browser(folder / "browser", *DESKTOP) as browser,
        ):
            _draw(target, service, browser, work)
    return 0


def _draw(target: Path, service: Service, browser: Browser, work: Path) -> None:
    def both(name: str, size: tuple[int, int]) -> None:
        for dark in (True, False):
            browser.size(*size, dark=dark, phone=size == PHONE)
            browser.run("new Promise((yes) => requestAnimationFrame(() => setTimeout(yes, 120)))")
            browser.picture(target / f"{name}{'' if dark else '-light'}.png")

    browser.open(service.url)
    browser.until("document.querySelector('#code')")
    both("page-pairing", DESKTOP)
    both("page-pairing-phone", PHONE)
    head = service.device("approve", "phone")
    session = head.session(work)
    _say(head, session, "Why are the tests slow?")
    browser.open("about:blank")
    browser.open(f"{service.url}/#pair={service.code('approve')}")
    browser.until("document.querySelector('.item.answer table')")
    both("page", DESKTOP)
    both("page-phone", PHONE)
    for button, name in (("menu", "page-sessions-phone"), ("more", "page-side-phone")):
        browser.run(f"document.querySelector('#{button}').click()")
        both(name, PHONE)
        browser.run(f"document.querySelector('#{button}').click()")
    head.say(session, "push it")
    browser.until("document.querySelector('.request .deny')")
    both("page-approval", DESKTOP)
    both("page-approval-phone", PHONE)
    browser.run("document.querySelector('.request .deny').click()")
    browser.until("!document.querySelector('.request') && !document.querySelector('#stop:not([hidden])')")
    head.say(session, "ask me")
    browser.until("document.querySelector('.request input')")
    both("page-question-phone", PHONE)
    head.post(f"/api/sessions/{session}/interrupt")
    browser.until("!document.querySelector('.request') && !document.querySelector('#stop:not([hidden])')")
    for word in ("plot", "table"):
        browser.size(*DESKTOP)
        _say(head, session, f"Show me a {word}")
        browser.until("document.querySelector('#canvas iframe')")
        both(f"page-canvas-{word}", DESKTOP)
    browser.size(*PHONE, phone=True)
    both("page-canvas-phone", PHONE)


def _say(head: Head, session: str, text: str) -> None:
    after = head.events(session)[-1]["seq"]
    head.say(session, text)
    head.until(session, "turn_ended", after)


if __name__ == "__main__":
    sys.exit(main())
