"""The page in a real headless Chromium: what a person sees and can do."""

from __future__ import annotations

import gzip
import json
import re
import time

import pytest

from app.service.routes import POLICY, contents, skins
from tests.support.chromium import Browser
from tests.support.hostile import KINDS
from tests.support.service import Head

SCRIPT = r"""
MD = "Hello **there** `x`\n\n- one\n- two\n\n1. first\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
MD += "```py\ncode <b>\n```\n"
MD += "<img src=x onerror=document.title='taken'> <script>document.title='taken'</script> "
MD += "[x](javascript:document.title='taken') [y](https://example.org/a) https://example.org/b\n"

def script(request):
    asked = [each for each in request.messages if each.get("role") == "user"]
    last = str(asked[-1]["content"])
    done = request.messages[-1].get("role") == "tool"
    if "push" in last:
        return say("Done.") if done else call("terminal", command="git push origin main\u202e")
    if "which" in last:
        return say("Thanks.") if done else call("clarify", question="Which?", choices=["red", "blue"])
    if "slow" in last:
        return say("Begun. " + "word " * 400, piece=8, pace=0.02)
    if "missing" in last:
        return say("Not there.") if done else call("read_file", path="no/such.txt")
    return say(MD)
"""


@pytest.fixture(scope="module")
def session(head: Head, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Begun in the page itself."""
    work = tmp_path_factory.mktemp("work")
    browser.run(f"document.querySelector('#folder').value = {str(work)!r}")
    browser.run("document.querySelector('#begin button').click()")
    browser.until("location.hash.startsWith('#session=')")
    browser.until("document.activeElement.id === 'draft'")
    return browser.run("location.hash.slice(9)")


def test_the_page_is_small_and_names_no_other_address() -> None:
    assert sum(len(gzip.compress(data)) for data in [*contents().values(), skins()]) < 150_000
    for name, data in contents().items():
        found = set(re.findall(r"(?:https?:)?//[\w.]+", data.decode())) - {"http://www.w3.org"}
        assert {each for each in found if "." in each} == set(), name
        assert "innerHTML" not in data.decode() and " style=" not in data.decode(), name
    assert "unsafe" not in POLICY


def test_markdown_is_drawn_and_nothing_of_it_is_html(head: Head, browser: Browser, session: str) -> None:
    browser.run("document.querySelector('#draft').focus()")
    browser.type("hello")
    browser.key("Enter")
    browser.until("document.querySelector('.answer table')")
    browser.until("document.querySelector('#send').textContent === 'Send'")
    assert browser.run("[...document.querySelectorAll('.answer ul, .answer ol')].map((e) => e.tagName)") == [
        "UL",
        "OL",
    ]
    assert browser.run("document.querySelector('.answer pre').textContent") == "code <b>"
    assert browser.run("[...document.querySelectorAll('.answer a')].map((e) => e.href)") == [
        "https://example.org/a",
        "https://example.org/b",
    ]
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert "<img src=x onerror" in browser.text() and browser.run("document.title") != "taken"
    assert browser.run("document.querySelector('#draft').value") == ""


def test_markdown_reads_as_it_was_meant(browser: Browser, session: str) -> None:
    """Source and the HTML that is drawn; what is not markdown stays as it was written."""
    cases = {
        r"\*not\* 2 \* 3": "<p>*not* 2 * 3</p>",
        "_low_ snake_case_name": "<p><em>low</em> snake_case_name</p>",
        "one  \ntwo": "<p>one<br>two</p>",
        "AT&amp;T &lt;b&gt;": "<p>AT&amp;T &lt;b&gt;</p>",
        "Head\n---\ntext": "<h4>Head</h4><p>text</p>",
        "`a\\*b` `` c`d ``": "<p><code>a\\*b</code> <code> c`d </code></p>",
        r"C:\Users\me": r"<p>C:\Users\me</p>",
        "a * b * c": "<p>a * b * c</p>",
    }
    drawn = browser.run(f"""(async () => {{
        const {{ markdown }} = await import("/assets/markdown.js");
        return {json.dumps(list(cases))}.map((text) => {{
            const box = document.createElement("div");
            box.append(...markdown(text));
            return box.innerHTML;
        }});
    }})()""")
    assert dict(zip(cases, drawn, strict=True)) == cases
    cells = browser.run("""(async () => {
        const { markdown } = await import("/assets/markdown.js");
        const [table] = markdown("|a|b|\\n|--:|:-:|\\n|x \\\\| y|2|3|\\n|z|");
        return [...table.querySelectorAll("th, td")].map((each) => [each.textContent, each.className]);
    })()""")
    assert cells == [
        *(["a", "right"], ["b", "middle"], ["x | y", "right"]),
        *(["2", "middle"], ["z", "right"], ["", "middle"]),
    ]


def test_an_approval_is_answered_on_the_page_after_a_moment(
    head: Head, browser: Browser, session: str
) -> None:
    head.say(session, "push")
    browser.until("document.querySelector('.request .deny')")
    # What cannot be seen is spelled out; a tap at once says nothing.
    assert "\\u202e" in browser.run("document.querySelector('.request pre').textContent")
    browser.run("document.querySelector('.request .deny').click()")
    assert browser.run("Boolean(document.querySelector('.request'))")
    time.sleep(0.6)
    browser.run("document.querySelector('.request .deny').click()")
    browser.until("!document.querySelector('.request')")
    resolved = [each for each in head.events(session) if each["type"] == "request_resolved"]
    assert resolved[-1]["outcome"] == "deny" and "Linux" in resolved[-1]["by"]


def test_a_failed_call_shows_its_sentence(head: Head, browser: Browser, session: str) -> None:
    browser.until("document.querySelector('#send').textContent === 'Send'")
    head.say(session, "read what is missing")
    browser.until("document.querySelector('.call.failed pre.words')")
    told = browser.run("document.querySelector('.call.failed pre.words').textContent")
    assert told.startswith("no/such.txt does not exist") and "{" not in told


def test_keys_queue_steer_and_stop_a_turn(head: Head, browser: Browser, session: str) -> None:
    browser.until("document.querySelector('#send').textContent === 'Send'")
    after = head.events(session)[-1]["seq"]
    browser.run("document.querySelector('#draft').focus()")
    for text, modifiers, done in (
        ("slow", 0, "document.querySelector('#send').textContent === 'Queue'"),
        ("hello later", 0, "document.querySelector('#hint').textContent.startsWith('queued 1')"),
        ("hello now", 2, "document.querySelectorAll('#queue li').length === 2"),
    ):
        browser.type(text)
        browser.key("Enter", modifiers=modifiers)
        browser.until(f"{done} && document.querySelector('#draft').value === ''")
    browser.key("Escape")
    ended = head.until(session, "turn_ended", after)
    assert ended[-1]["outcome"] == "interrupted"
    changed = [(e["queued"], e["steering"]) for e in ended if e["type"] == "queue_changed"]
    assert changed[:2] == [(["hello later"], []), (["hello later"], ["hello now"])]
    browser.until("document.querySelector('#send').textContent === 'Send'")
    browser.type("hello")
    browser.key("Enter")
    browser.until("!document.querySelector('#hint').textContent.startsWith('queued')")


def test_a_form_is_filled_in_with_what_a_person_reads(browser: Browser, session: str) -> None:
    """Fields of every kind, as an MCP server asks for them; what is sent are texts by field."""
    told = browser.run("""(async () => {
        const { Requests } = await import("/assets/requests.js");
        const sent = [], place = document.querySelector("#requests");
        const requests = new Requests(async (...each) => { sent.push(each); }, () => true);
        const field = (name, kind, initial, choices = [], required = false) =>
            ({ name, kind, label: name, default: initial, choices, required });
        requests.take({ type: "form", id: "form-1", agent: "main", server: "tracker",
            message: "Which <b>ticket?</b>", fields: [
                field("title", "text", null, [], true), field("count", "integer", 3),
                field("sure", "yes-no", false),
                field("size", "choice", "s", [["s", "Small"], ["l", "Large"]]),
                field("tags", "choices", ["a"], [["a", "One"], ["b", "Two"]])] });
        const shown = [place.innerText, place.querySelectorAll("b").length];
        const labels = [...place.querySelectorAll("label")];
        const fields = labels.map((each) => place.querySelector("#" + each.htmlFor));
        const before = fields.map((each) => each.value);
        fields[0].value = "It <breaks>";
        await new Promise((yes) => setTimeout(yes, 600));
        place.querySelector(".answers button:last-child").click();
        place.querySelector(".answers button").click();
        requests.reset([]);
        return [shown, before, sent];
    })()""")
    (words, elements), before, sent = told
    assert "tracker asks for data" in words and "Which <b>ticket?</b>" in words and elements == 0
    assert before == ["", "3", "no", "Small", "One"]
    assert sent[0][:2] == [
        "form-1",
        {"title": "It <breaks>", "count": "3", "sure": "no", "size": "Small", "tags": "One"},
    ]
    assert sent[1][:2] == ["form-1", None]


def test_a_notification_says_what_waits_while_nobody_looks(
    head: Head, browser: Browser, session: str
) -> None:
    browser.until("document.querySelector('#send').textContent === 'Send'")
    browser.allow("notifications", head.service.url)
    browser.until("navigator.serviceWorker.controller")
    browser.run("document.querySelector('#notify').click()")
    browser.until("localStorage.notify === 'yes'")
    browser.run("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")
    # Asking which ones are shown while one is being shown loses it, so the page tells it itself.
    browser.run("""{ const kind = ServiceWorkerRegistration.prototype, show = kind.showNotification;
        window.told = [];
        kind.showNotification = async function (title, options) {
            await show.call(this, title, options);
            window.told.push(options);
        }; }""")
    after = head.events(session)[-1]["seq"]
    head.say(session, "push")
    asked = head.until(session, "approval", after)[-1]
    waiting = "window.told.find((each) => each.body.startsWith('git push origin main'))"
    browser.until(waiting)
    # It takes the place of one that told quietly of an end, and is heard all the same.
    assert browser.run(f"(({{ silent, renotify }}) => [silent, renotify])({waiting})") == [False, True]
    shown = "navigator.serviceWorker.getRegistration().then((each) => each.getNotifications())"
    assert browser.run(f"{shown}.then((all) => all.map((each) => each.body))")[0].startswith("git push")
    browser.run("delete document.hidden; document.querySelector('#notify').click()")
    assert head.post(f"/api/sessions/{session}/requests/{asked['id']}", {"answer": "deny"})[0] == 200
    browser.until("!document.querySelector('.request')")


@pytest.mark.thorough
def test_a_question_that_somebody_else_answers_goes_away(head: Head, browser: Browser, session: str) -> None:
    browser.until("document.querySelector('#send').textContent === 'Send'")
    head.say(session, "which")
    asked = head.until(session, "question")[-1]
    browser.until("document.querySelectorAll('.request button').length === 4")
    assert head.post(f"/api/sessions/{session}/requests/{asked['id']}", {"answer": "red"})[0] == 200
    browser.until("!document.querySelector('.request')")


@pytest.mark.thorough
def test_after_a_kill_the_page_goes_on_where_it_was(head: Head, browser: Browser, session: str) -> None:
    browser.until("document.querySelector('#send').textContent === 'Send'")
    before = browser.run("document.querySelectorAll('.item.user, .item.answer').length")
    browser.run("document.querySelector('#draft').value = 'a draft'")
    port = head.service.port
    head.service.kill()
    browser.until("!document.querySelector('#link').hidden")
    # Installed, it opens without the service as well, says so, and keeps nothing of the conversation.
    browser.open("about:blank")
    browser.open(f"{head.service.url}/#session={session}")
    browser.until("document.querySelector('#link') && !document.querySelector('#link').hidden")
    assert browser.run("document.querySelectorAll('.item').length") == 0
    head.service.start(port)
    browser.until("document.querySelector('#link').hidden")
    browser.until(f"document.querySelectorAll('.item.user, .item.answer').length === {before}")
    assert browser.run("document.querySelector('#draft').value") == "a draft"
    # What could not be sent stays; once it is in the conversation it is not a draft any more.
    head.service.kill()
    browser.until("!document.querySelector('#link').hidden")
    browser.run("document.querySelector('#draft').focus()")
    browser.key("Enter")
    browser.until("document.querySelector('#alert').textContent")
    assert browser.run("document.querySelector('#draft').value") == "a draft"
    head.service.start(port)
    browser.until("document.querySelector('#link').hidden")
    head.say(session, "a draft")
    browser.until("document.querySelector('#draft').value === ''")
    before += 2
    browser.until(f"document.querySelectorAll('.item.user, .item.answer').length === {before}")
    head.say(session, "hello again")
    browser.until(f"document.querySelectorAll('.item.user, .item.answer').length === {before + 2}")


def test_hostile_text_stands_there_as_it_is(browser: Browser, session: str) -> None:
    """Every kind of hostile text through the markdown of the page: no element but ours comes of it."""
    texts = [each.text for each in KINDS]
    told = browser.run(f"""(async () => {{
        const {{ markdown }} = await import("/assets/markdown.js");
        const box = document.createElement("div");
        for (const text of {json.dumps(texts)}) box.append(...markdown(text));
        const names = [...box.querySelectorAll("*")].map((each) => each.tagName);
        const links = [...box.querySelectorAll("a")].map((each) => each.protocol);
        return [[...new Set(names)], [...new Set(links)]];
    }})()""")
    allowed = {
        *[
            "P",
            "UL",
            "OL",
            "LI",
            "PRE",
            "CODE",
            "STRONG",
            "EM",
            "DEL",
            "A",
            "H3",
            "H4",
            "H5",
            "H6",
            "HR",
            "BLOCKQUOTE",
            "TABLE",
            "THEAD",
            "TBODY",
            "TR",
            "TH",
            "TD",
            "BR",
        ]
    }
    assert set(told[0]) <= allowed and set(told[1]) <= {"http:", "https:"}


def test_everything_has_a_name_and_a_place_for_the_keyboard(browser: Browser, session: str) -> None:
    unnamed = browser.run("""
        [...document.querySelectorAll("button, input, select, textarea, iframe, a")].filter((each) =>
            !(each.textContent.trim() || each.getAttribute("aria-label") || each.title ||
              each.placeholder || (each.labels && each.labels.length))).map((each) => each.outerHTML)
    """)
    assert unnamed == []
    assert browser.run("document.querySelectorAll('main, nav, aside, header').length") == 4
    assert browser.run("document.documentElement.lang") == "en"
    ids = browser.run("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


def test_the_page_can_be_installed(browser: Browser) -> None:
    assert browser.install_faults() == []


def test_a_phone_of_360_points_scrolls_in_one_direction_only(browser: Browser, session: str) -> None:
    browser.size(360, 740, phone=True)
    assert browser.run("document.documentElement.scrollWidth") == 360
    browser.size(1200, 800)


@pytest.mark.thorough
def test_the_page_had_no_fault(browser: Browser) -> None:
    """But for what a service that was killed leaves of connections and answers, and the look for a token."""
    away = ("ERR_CONNECTION", "ERR_CONTENT_LENGTH", "ERR_INCOMPLETE", "ERR_EMPTY", "401", "WebSocket")
    assert [each for each in browser.faults if not any(word in each for word in away)] == []
