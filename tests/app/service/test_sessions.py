"""Sessions over the service: what a head does and hears, also after the service was killed."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.events import Asked, RequestResolved
from app.service import doors, hosted_session
from app.service.credentials import Credentials
from app.service.hosted_session import EventLog
from app.service.retelling import closing_events
from tests.agent.core.net.test_door_tls import signed
from tests.app.service.conftest import SCRIPT
from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service, raw, status


@pytest.fixture(scope="module")
def owner(service: Service) -> Head:
    return service.device("approve", "owner")


def opened(head: Head, session: str, after: int = 0) -> Any:
    url = head.service.url.replace("http", "ws")
    return connect(
        f"{url}/api/sessions/{session}/ws?after={after}",
        additional_headers={"Authorization": f"Bearer {head.token}"},
        proxy=None,
    )


def frames(socket: Any, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(json.loads(socket.recv(timeout=20)))
    return found


def test_a_message_is_worked_on_and_told_with_numbers_without_a_gap(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    owner.say(session, "greet")
    events = owner.until(session, "turn_ended")
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    assert next(each for each in events if each["type"] == "assistant_message")["text"] == "Hi."
    listed = owner.get("/api/sessions")[1]["sessions"]
    assert {"id": session, "title": "greet"}.items() <= next(e for e in listed if e["id"] == session).items()


def test_a_socket_begins_behind_the_number_it_names(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    owner.say(session, "greet")
    events = owner.until(session, "turn_ended")
    with opened(owner, session, after=events[2]["seq"]) as socket:
        assert frames(socket, "turn_ended") == events[3:]


def test_frames_do_what_requests_do(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    with opened(owner, session) as socket:
        socket.send(json.dumps({"type": "message", "text": "clarify", "ref": 7}))
        asked = frames(socket, "question")
        assert {"type": "ok", "queued": False, "ref": 7} in asked
        for answer, expected in (("green", "refused"), ("blue", "ok")):
            frame = {"type": "answer", "request": asked[-1]["id"], "answer": answer}
            socket.send(json.dumps(frame))
            frames(socket, expected)
        assert frames(socket, "turn_ended")[-1]["text"] == "Thanks."
        for frame in ({"type": "interrupt"}, {"type": "answer", "request": asked[-1]["id"], "answer": "red"}):
            socket.send(json.dumps(frame))
        assert frames(socket, "refused")[-1]["status"] == 409
        socket.send("[1]")
        assert frames(socket, "refused")[-1]["status"] == 400


def test_the_first_answer_counts_and_the_second_hears_who_decided(owner: Head, workspace: Path) -> None:
    other = owner.service.device("approve", "phone")
    session = owner.session(workspace)
    owner.say(session, "ask")
    asked = owner.until(session, "approval")[-1]
    path = f"/api/sessions/{session}/requests/{asked['id']}"
    assert other.post(path, {"answer": "deny", "feedback": "not today"})[0] == 200
    code, told = owner.post(path, {"answer": "once"})
    assert code == 409 and "phone" in told["error"]
    resolved = owner.until(session, "request_resolved")[-1]
    assert resolved["outcome"] == "deny" and "phone" in resolved["by"]
    owner.until(session, "turn_ended")
    audit = "".join(each.read_text() for each in sorted((owner.service.home / "audit").glob("*.jsonl")))
    assert f"phone ({other.device}) at 127.0.0.1" in audit


def test_a_message_can_wait_and_a_turn_can_be_stopped(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    owner.say(session, "ask")
    owner.until(session, "approval")
    owner.say(session, "greet", "queue")
    owner.say(session, "more", "steer")
    state = owner.get(f"/api/sessions/{session}")[1]
    assert state["queued"] == ["greet"] and state["busy"]
    assert owner.post(f"/api/sessions/{session}/interrupt")[0] == 202
    ended = owner.until(session, "turn_ended")[-1]
    assert ended["outcome"] == "interrupted"
    assert owner.get(f"/api/sessions/{session}")[1]["requests"] == []


def test_history_is_given_in_windows(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    for _ in range(2):
        after = owner.events(session)[-1]["seq"]
        owner.say(session, "work")
        if any(e["type"] == "approval" for e in owner.until(session, "turn_ended", after)):
            raise AssertionError("writing a file of the workspace asked")
    told = owner.get(f"/api/sessions/{session}/history")[1]
    kinds = [each["type"] for each in told["events"]]
    assert kinds == ["user_message", "assistant_message", "tool_finished", "assistant_message"] * 2
    assert told["events"][2]["display"]["subject"] == "new.txt" and not told["more"]
    newest = owner.get(f"/api/sessions/{session}/history?limit=2")[1]
    assert newest["more"] and newest["events"][-1] == told["events"][-1]
    older = owner.get(f"/api/sessions/{session}/history?limit=3&before={newest['first']}")[1]
    assert [*older["events"], *newest["events"]] == told["events"][
        -len(older["events"]) - len(newest["events"]) :
    ]


def test_a_stream_of_server_sent_events_has_numbers(owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    owner.say(session, "greet")
    events = owner.until(session, "turn_ended")
    lines = [
        f"GET /api/sessions/{session}/events HTTP/1.1",
        f"Host: 127.0.0.1:{owner.service.port}",
        *(f"Authorization: Bearer {owner.token}", "Accept: text/event-stream", "Last-Event-ID: 2", "", ""),
    ]
    with socket.create_connection(("127.0.0.1", owner.service.port), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        found = b""
        while b"turn_ended" not in found:
            found += connection.recv(65_536)
    assert b"id: 3\ndata: " + json.dumps(events[2], separators=(",", ":")).encode() in found


def test_a_revoked_device_is_out_at_once(service: Service, owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    phone = service.device("talk", "lost")
    with opened(phone, session) as socket:
        frames(socket, "session_opened")
        Credentials(service.home / "serve").revoke("lost")
        assert phone.get("/api/sessions")[0] == 401
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                socket.recv(timeout=20)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401


def test_a_stream_of_a_revoked_device_is_cut_off(service: Service, owner: Head, workspace: Path) -> None:
    session = owner.session(workspace)
    lost = service.device("look", "lost stream")
    lines = [
        f"GET /api/sessions/{session}/events?after=0 HTTP/1.1",
        f"Host: 127.0.0.1:{service.port}",
        *(f"Authorization: Bearer {lost.token}", "Accept: text/event-stream", "", ""),
    ]
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        connection.sendall("\r\n".join(lines).encode())
        found = b""
        while b"session_opened" not in found:
            found += connection.recv(65_536)
        Credentials(service.home / "serve").revoke("lost stream")
        # A stream says at most each 15 s that it is there: its end comes before that.
        while piece := connection.recv(65_536):
            assert b"still here" not in piece


@pytest.mark.parametrize(("frame", "code"), [("x" * 1_000_001, 1009), (b"{}", 1003)], ids=["large", "bytes"])
def test_a_frame_that_is_too_large_or_no_text_ends_the_socket(
    owner: Head, workspace: Path, frame: str | bytes, code: int
) -> None:
    session = owner.session(workspace)
    with opened(owner, session) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.send(frame)
        while True:
            socket.recv(timeout=20)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == code


def test_a_session_that_another_program_holds_is_refused_by_name(
    service: Service, owner: Head, workspace: Path
) -> None:
    async def made() -> str:
        async with await Store.open(service.home / "state.db") as store:
            return (await store.create_session(workspace=str(workspace), model="m")).id

    session = asyncio.run(made())
    with SessionLock(service.home / "run", session):
        code, told = owner.get(f"/api/sessions/{session}")
    assert code == 409 and "in use by process" in told["error"]


@pytest.mark.thorough
def test_two_services_of_a_home_are_not_started(service: Service, tmp_path: Path) -> None:
    done = command.run("serve", "--port", "0", env=service.env, cwd=tmp_path)
    assert done.returncode == 2 and service.url in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "--insecure"),
        (("--tls-cert", "nowhere.pem"), "--tls-key"),
        (("--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"), "nowhere.pem"),
        (("--host", "203.0.113.9", "--insecure"), "--host"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    env = command.environment(tmp_path / "home")
    done = command.run("serve", "--port", "0", *options, env=env, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.thorough
def test_over_tls_the_cookie_is_bound_to_its_host(tmp_path: Path) -> None:
    pem = str(signed("localhost", None).written(tmp_path / "both.pem"))
    options = ("--tls-cert", pem, "--tls-key", pem)
    with Service(tmp_path / "home", "http://127.0.0.1:9/v1", *options) as served:
        context = ssl.create_default_context(cafile=pem)
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", served.port, context=context, timeout=20)
        body = json.dumps({"code": served.code("look"), "cookie": True})
        own = {"Content-Type": "application/json", "Origin": served.url}
        connection.request("POST", "/api/pair", body, own)
        answer = connection.getresponse()
        answer.read()
        cookie = answer.headers["Set-Cookie"]
        assert served.url.startswith("https://") and answer.status == 200
        assert cookie.startswith(f"__Host-hermes_token_{served.port}=hmt_") and "domain" not in cookie.lower()
        assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
        connection.request("GET", "/api/me", headers={"Cookie": cookie.partition(";")[0]})
        assert json.loads(connection.getresponse().read())["scope"] == "look"
        connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Service]:
    with ServerProcess(SCRIPT, tmp_path) as model, Service(tmp_path / "home", model.base_url) as running:
        yield running


@pytest.mark.thorough
def test_a_killed_service_loses_and_doubles_nothing(mortal: Service, folder: Path) -> None:
    head = mortal.device("approve")
    session = head.session(folder)
    head.say(session, "work")
    head.until(session, "turn_ended")
    heard: list[dict[str, Any]] = []

    def listen() -> None:
        with pytest.raises((ConnectionClosed, TimeoutError)), opened(head, session) as socket:
            while True:
                heard.append(json.loads(socket.recv(timeout=20)))

    listener = threading.Thread(target=listen)
    listener.start()
    head.say(session, "ask")
    asked = head.until(session, "approval")[-1]
    head.say(session, "later", "queue")
    port = mortal.port
    mortal.kill()
    listener.join()
    # What was stored and never told: a message committed at the moment of the kill.
    mortal.start(port)
    again = head.events(session)
    assert again[: len(heard)] == heard
    seen = [each["seq"] for each in again]
    assert seen == sorted(set(seen))
    kinds = [each["type"] for each in again[len(heard) :]]
    assert "session_opened" in kinds and kinds.count("turn_ended") == 1
    assert [e["outcome"] for e in again if e["type"] == "request_resolved"] == ["cancelled"]
    assert head.post(f"/api/sessions/{session}/requests/{asked['id']}", {"answer": "once"})[0] == 409
    assert head.get(f"/api/sessions/{session}")[1]["queued"] == ["later"]
    nodes = [each["node"] for each in again if each["type"] in ("user_message", "assistant_message")]
    assert nodes == sorted(set(nodes))
    head.say(session, "greet")
    assert head.until(session, "turn_ended", again[-1]["seq"])[-1]["outcome"] == "done"


@pytest.mark.parametrize("kind", [each.type for each in Asked.__subclasses__()])
def test_every_kind_of_request_of_a_killed_process_is_cancelled(kind: str) -> None:
    sent = [{"type": kind, "agent": "main", "id": "r1"}, {"type": kind, "agent": "a", "id": "r2"}]
    (ended,) = closing_events([*sent, {"type": "request_resolved", "id": "r1"}], "s1")
    assert isinstance(ended, RequestResolved)
    assert (ended.agent, ended.id, ended.outcome) == ("a", "r2", "cancelled")


@pytest.mark.parametrize(
    "first", [b'"user_message"', pytest.param(b'"tool_finished"', marks=pytest.mark.thorough)]
)
def test_what_was_stored_and_never_told_is_told_when_the_service_is_back(
    mortal: Service, folder: Path, first: bytes
) -> None:
    head = mortal.device("approve")
    session = head.session(folder)
    head.say(session, "work")
    events = head.until(session, "turn_ended")
    mortal.kill()
    log = mortal.home / "serve" / "events" / f"{session}.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if first in line)
    # As if the program had ended between the store and the log, in the middle of a line.
    log.write_bytes(b"".join(lines[:cut]) + lines[cut][:20])
    mortal.start()
    again = head.events(session, after=events[cut - 1]["seq"])
    stored = ("user_message", "tool_finished", "assistant_message")
    told = [(each["type"], each["node"]) for each in again if each["type"] in stored]
    assert told == [(e["type"], e["node"]) for e in events[cut:] if e["type"] in stored]
    assert next(e for e in again if e["type"] == "tool_finished")["display"]["subject"] == "new.txt"
    assert min(each["seq"] for each in again) > events[-1]["seq"]
    assert head.get(f"/api/sessions/{session}")[1]["queued"] == []


@pytest.mark.thorough
async def test_a_slow_head_of_a_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (doors.HEAD_SECONDS, doors.HEAD_BYTES) == (10.0, 16 * 1024)
    monkeypatch.setattr(doors, "HEAD_SECONDS", 0.05)

    async def nothing(_scope: object, _receive: object, _send: object) -> None:
        raise AssertionError("a request without an end came in")

    config = uvicorn.Config(nothing, lifespan="off", log_config=None, ws="none")
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: doors.GuardedProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        head = b"GET /api/sessions HTTP/1.1\r\nHost: x"
        assert status(await asyncio.to_thread(raw, port, head)) == 408


async def test_a_large_log_that_two_turns_make_smaller_at_once_keeps_what_came_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_session, "LARGE", 200_000)
    monkeypatch.setattr(hosted_session, "KEPT", 100_000)
    log = await EventLog.open(tmp_path / "events" / "s.jsonl")
    for number in range(1, 5_001):
        log.append({"seq": number, "type": "text", "text": "x" * 40})
    both = asyncio.gather(log.make_smaller(), log.make_smaller())
    await asyncio.sleep(0)
    log.append({"seq": 5_001, "type": "turn_ended"})
    await both
    log.append({"seq": 5_002, "type": "turn_started"})
    kept = log.read(log.gone, 1_000_000)
    assert [number for number, _ in kept] == list(range(log.gone + 1, 5_003))
    log.close()
    again = await EventLog.open(tmp_path / "events" / "s.jsonl")
    assert again.read(log.gone, 1_000_000) == kept
    assert again.first > 3_000
    again.close()
