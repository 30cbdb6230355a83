"""Commands on the page, in a real headless Chromium: carried out or refused, and never sent to the model."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.service.credentials import Credentials
from tests.support import command
from tests.support.chromium import PATIENCE, Browser
from tests.support.service import Head

SCRIPT = r"""
def script(request):
    asked = [each for each in request.messages if each.get("role") == "user"]
    last = str(asked[-1]["content"])
    done = request.messages[-1].get("role") == "tool"
    if "note" in last:
        return say("Written.") if done else call("write_file", path="notes.txt", content="hello\n")
    if "slow" in last:
        return say("Begun. " + "word " * 4000, piece=8, pace=0.05)
    return say("Heard: " + last)
"""
TOLD = "document.querySelector('#told-words').textContent"
IDLE = "document.querySelector('#send').textContent === 'Send'"
SAID = "[...document.querySelectorAll('.item.user .body')].map((each) => each.textContent)"

SAYS = "[...document.querySelectorAll('.item.answer .body')].map((each) => each.textContent.trim())"


def enter(browser: Browser, text: str) -> None:
    browser.run("document.querySelector('#draft').focus(); document.querySelector('#draft').value = ''")
    browser.type(text)
    browser.key("Enter")


def session_of(browser: Browser) -> str:
    """The open session; one is begun where this test runs alone."""
    if browser.run("location.hash") == "":
        enter(browser, "hello")
        browser.until(f"{SAYS}.at(-1) === 'Heard: hello' && {IDLE}")
    browser.until("location.hash.startsWith('#session=')")
    return browser.run("location.hash.slice(9)")


def test_a_command_without_a_session_begins_none(head: Head, browser: Browser) -> None:
    for text, told in (("/help", "/undo"), ("/undo", "No session is open yet"), ("!ls", "without the `!`")):
        enter(browser, text)
        browser.until(f"{TOLD}.includes({told!r})")
    assert head.get("/api/sessions")[1]["sessions"] == []


def test_the_first_message_begins_a_session_where_the_service_runs(head: Head, browser: Browser) -> None:
    enter(browser, "write a note")
    browser.until("document.querySelector('.item.answer')")
    browser.until(IDLE)
    session = session_of(browser)
    folder = Path(head.get(f"/api/sessions/{session}")[1]["workspace"])
    assert folder == head.service.home.parent / "here" and (folder / "notes.txt").read_text() == "hello\n"


def test_undo_and_redo_take_the_file_along_and_say_so(head: Head, browser: Browser) -> None:
    note = head.service.home.parent / "here" / "notes.txt"
    browser.run("document.querySelector('#undo').click()")
    browser.until(f"{TOLD}.startsWith('Undone: write a note. 1 path')")
    browser.until("document.querySelector('.welcome')")
    assert not note.exists() and browser.run("document.querySelector('#draft').value") == "write a note"
    enter(browser, "/redo")
    browser.until(f"{TOLD}.startsWith('Redone: write a note. 1 path')")
    browser.until(f"{SAID}.length === 1")
    assert note.exists()
    browser.key("KeyU", modifiers=1)
    browser.until(f"{TOLD}.startsWith('Undone')")
    browser.key("KeyY", modifiers=1)
    browser.until(f"{TOLD}.startsWith('Redone')")
    enter(browser, "/redo")
    browser.until(f"{TOLD} === 'There is nothing to redo.'")


def test_no_command_goes_to_the_model(head: Head, browser: Browser) -> None:
    session = session_of(browser)
    before = head.events(session)[-1]["seq"]
    told = {
        "/audit now": "no command /audit",
        "/vim": "no command /vim on this page",
        "/export": "no command /export on this page",
        "/undoo": "did you mean /undo?",
        "/UNDO it": "/undo takes nothing after it",
        "  /steer": "/steer needs <text>",
        "/mode yolo": "changed in the terminal",
        "/model": "The model is custom/scripted",
        "/stop": "Nothing is running",
        "/title Notes": "called Notes now",
        "/skin nope": "/skin takes one of",
        "/resume nothing": "",
        "/move nowhere": "nowhere",
        "/context": "tokens of a",
        "! rm x": "without the `!`",
    }
    for text, words in told.items():
        enter(browser, text)
        browser.until(f"{TOLD}.toLowerCase().includes({words.lower()!r})")
        browser.key("Escape")
    assert not {each["type"] for each in head.events(session, before)} & {"user_message", "turn_started"}
    # What only looks like one is a message, and `//` writes a slash.
    for text, said in (("/etc/hosts is odd", "/etc/hosts is odd"), ("//undo means?", "/undo means?")):
        enter(browser, text)
        browser.until(f"{SAID}.includes({said!r})")
        browser.until(IDLE)


def test_what_a_stop_left_in_the_queue_is_seen_by_all_and_sent_on_by_any(
    head: Head, browser: Browser
) -> None:
    session = session_of(browser)
    other = head.service.device("talk", "second")
    enter(browser, "slow")
    browser.until("document.querySelector('#send').textContent === 'Queue'")
    status, told = other.post(f"/api/sessions/{session}/messages", {"text": "from the second"})
    assert (status, told["queued"]) == (202, True)
    other.say(session, "read this now", "steer")
    other.say(session, "and drop this")
    waits = "[...document.querySelectorAll('#queue .text')].map((each) => each.textContent)"
    browser.until(f"{waits}.length === 3")
    browser.key("Escape")
    browser.until(IDLE)
    browser.until(f"{waits}.join() === 'read this now,from the second,and drop this'")
    # The page lists steering messages first, even before the server has put them at the head of the queue.
    deadline = time.monotonic() + PATIENCE
    while (queued := head.get(f"/api/sessions/{session}")[1]["queued"]) != browser.run(waits):
        assert time.monotonic() < deadline, queued
        time.sleep(0.05)
    browser.run("document.querySelectorAll('#queue button')[2].click()")
    browser.until("document.querySelector('#draft').value === 'and drop this'")
    assert other.post(f"/api/sessions/{session}/queue", {"take_back": "and drop this"})[0] == 409
    assert other.post(f"/api/sessions/{session}/queue", {})[0] == 400
    assert other.post(f"/api/sessions/{session}/queue", {"send": True})[0] == 202
    browser.until(f"{SAID}.slice(-2).join() === 'read this now,from the second'")
    browser.until(f"{SAYS}.at(-1) === 'Heard: from the second' && {IDLE}")
    assert not browser.run(f"{waits}.length")
    # And from the page, by return on the empty prompt.
    enter(browser, "slow")
    browser.until("document.querySelector('#send').textContent === 'Queue'")
    enter(browser, "after the stop")
    browser.until(f"{waits}.length === 1")
    browser.key("Escape")
    browser.until(IDLE)
    browser.until("document.querySelector('#hint').textContent.startsWith('⏎ send what waits')")
    browser.key("Enter")
    browser.until(f"{SAID}.at(-1) === 'after the stop'")


def test_a_new_session_begins_with_the_next_message_in_the_same_folder(head: Head, browser: Browser) -> None:
    before = session_of(browser)
    browser.until(IDLE)
    enter(browser, "/clear")
    browser.until("location.hash === ''")
    enter(browser, "hello")
    browser.until("location.hash !== ''")
    assert session_of(browser) != before
    browser.until(f"{SAID}.join() === 'hello'")


def write_three(browser: Browser) -> None:
    """Two messages and a draft, faster than the service answers."""
    browser.run("document.querySelector('#draft').focus()")
    for text in ("one", "two"):
        browser.type(text)
        browser.key("Enter")
    browser.type("still here")
    browser.until(f"{SAID}.filter((each) => ['one', 'two'].includes(each)).length === 2 && {IDLE}")
    assert browser.run("document.querySelector('#draft').value") == "still here"
    browser.run("document.querySelector('#draft').value = ''")


def test_what_is_written_before_the_page_has_its_session_is_for_that_one(
    head: Head, browser: Browser
) -> None:
    session = session_of(browser)
    sessions = len(head.get("/api/sessions")[1]["sessions"])
    slow = browser.delay(300)
    browser.run("location.reload()")
    browser.until(
        "document.querySelector('#folder')?.placeholder.endsWith('here') && !document.querySelector('.item')"
    )
    write_three(browser)
    assert session_of(browser) == session
    # And where the first message begins one: both are for the same.
    enter(browser, "/new")
    browser.until("location.hash === ''")
    write_three(browser)
    assert session_of(browser) != session
    assert len(head.get("/api/sessions")[1]["sessions"]) == sessions + 1
    browser.undelay(slow)


@pytest.mark.thorough
def test_a_message_that_cannot_be_sent_comes_back_before_what_is_written(browser: Browser) -> None:
    enter(browser, "first")  # so that a session is open
    browser.until(f"{SAYS}.at(-1) === 'Heard: first' && {IDLE}")
    browser.run(
        "{ const sent = window.fetch; window.fetch = () => new Promise((_, no) => setTimeout(no, 300)); }"
    )
    enter(browser, "/title Away")
    browser.type("next")
    browser.until("document.querySelector('#draft').value === '/title Away\\n\\nnext'")


def test_where_the_newest_session_is_in_use_elsewhere_the_page_begins_another(
    head: Head, browser: Browser, tmp_path: Path
) -> None:
    other = subprocess.Popen(
        [*command.HERMES, "-p", "slow"], cwd=tmp_path, env=head.service.env, stdout=subprocess.DEVNULL
    )
    try:
        while newest(head).get("workspace") != str(tmp_path):
            time.sleep(0.05)
        browser.run("localStorage.clear(); history.replaceState(null, '', '/'); location.reload()")
        browser.until(f"document.querySelector('.welcome') && {TOLD}.includes('in use')")
        enter(browser, "hello")
        browser.until(f"{SAYS}.at(-1) === 'Heard: hello' && {IDLE}")
        assert Path(newest(head)["workspace"]) == head.service.home.parent / "here"
    finally:
        other.kill()
        other.wait()


def newest(head: Head) -> dict[str, Any]:
    return next(iter(head.get("/api/sessions")[1]["sessions"]), {})


def test_a_revoked_page_shows_nothing_more_until_a_new_link_is_opened_in_it(
    head: Head, browser: Browser
) -> None:
    service = head.service
    credentials = Credentials(service.home / "serve")
    for device in credentials.devices():
        if device.id != head.device:
            credentials.revoke(device.id)
    browser.until("document.querySelector('#code')")
    assert browser.run("document.title + document.querySelector('h1').innerText") == "HermesHermes"
    shown = browser.text()
    assert "This device was revoked." in shown and "No connection" not in shown
    # The same page with another fragment: nothing is loaded unless the page asks for it.
    browser.open(f"{service.url}/#pair={service.code('approve', 'desk')}")
    browser.until("document.querySelector('#list li') && !document.querySelector('.unpaired')")
    assert [each.name for each in credentials.devices() if each.id != head.device] == ["desk"]
