"""Hostile frames over sockets that were let in: none does anything, and none hurts the others."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.app.service.hostile_frames import BROKEN, SEMANTIC
from tests.support.service import Head, Service


class Stage(NamedTuple):
    """A session in which a request waits, and sockets of each scope."""

    owner: Head
    session: str
    request: str
    past: str
    sockets: dict[str, ClientConnection]


@pytest.fixture(scope="module")
def stage(service: Service, workspace: Path) -> Iterator[Stage]:
    owner = service.device("approve", "owner")
    session = owner.session(workspace)
    owner.say(session, "ask")
    past = owner.until(session, "approval")[-1]["id"]
    assert owner.post(f"/api/sessions/{session}/requests/{past}", {"answer": "deny"})[0] == 200
    after = owner.until(session, "turn_ended")[-1]["seq"]
    owner.say(session, "ask")
    request = owner.until(session, "approval", after)[-1]["id"]
    url = f"{service.url.replace('http', 'ws')}/api/sessions/{session}/ws?after=999999"
    with ExitStack() as stack:
        sockets = {
            scope: stack.enter_context(
                connect(
                    url,
                    additional_headers={"Authorization": f"Bearer {service.device(scope).token}"},
                    proxy=None,
                )
            )
            for scope in ("look", "talk", "approve")
        }
        yield Stage(owner, session, request, past, sockets)


def told(connection: ClientConnection) -> dict[str, Any]:
    """What is said to a frame, past the events."""
    while True:
        frame = json.loads(connection.recv(timeout=20))
        if frame["type"] in ("ok", "refused"):
            return frame


@pytest.mark.sample(33)
@pytest.mark.parametrize("name", SEMANTIC)
def test_a_hostile_frame_is_refused(name: str, stage: Stage) -> None:
    scope, given, status = SEMANTIC[name]
    if not isinstance(given, str):
        words = {"R": stage.request, "PAST": stage.past, "../R": f"../{stage.request}"}
        given = {
            key: words.get(value, value) if isinstance(value, str) else value for key, value in given.items()
        }
        given = json.dumps(given)
    stage.sockets[scope].send(given)
    answer = told(stage.sockets[scope])
    assert answer["type"] == "refused" and answer["status"] == status, answer
    if status == 409:
        assert "owner" in answer["error"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_frame_closes_its_socket(name: str, stage: Stage) -> None:
    port = stage.owner.service.port
    lines = [
        f"GET /api/sessions/{stage.session}/ws?after=999999 HTTP/1.1",
        *(f"Host: 127.0.0.1:{port}", "Connection: Upgrade", "Upgrade: websocket"),
        *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
        *(f"Authorization: Bearer {stage.owner.token}", "", ""),
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        connection.sendall("\r\n".join(lines).encode())
        found = b""
        while b"\r\n\r\n" not in found:
            found += connection.recv(65_536)
        assert found.startswith(b"HTTP/1.1 101")
        try:
            connection.sendall(BROKEN[name])
            while piece := connection.recv(65_536):
                found += piece
        except ConnectionError:
            pass
    assert b'"ok"' not in found and b"Traceback" not in found


def test_nothing_came_of_all_of_them(stage: Stage) -> None:
    state = stage.owner.get(f"/api/sessions/{stage.session}")[1]
    assert [each["id"] for each in state["requests"]] == [stage.request]
    assert state["queued"] == [] and state["busy"]
    stage.sockets["approve"].send(json.dumps({"type": "answer", "request": stage.request, "answer": "deny"}))
    assert told(stage.sockets["approve"])["type"] == "ok"


@pytest.mark.thorough
def test_frames_without_a_pause_are_held_up(stage: Stage) -> None:
    connection = stage.sockets["look"]
    for _ in range(80):
        connection.send('{"type":"interrupt"}')
    assert {told(connection)["status"] for _ in range(80)} == {403, 429}
