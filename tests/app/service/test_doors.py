"""Hostile requests against a running service, over a raw socket: none gets in."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.service.hostile_requests import CASES, LOOK, get, post, spelled
from tests.app.service.hostile_spellings import SPELLINGS
from tests.support.service import Head, Service, raw, status

REQUESTS = {**CASES, **SPELLINGS}


class Stage(NamedTuple):
    """What attackers have, and what they are after."""

    service: Service
    owner: Head
    words: dict[str, str]
    sessions: int


@pytest.fixture(scope="module")
def stage(service: Service, workspace: Path) -> Iterator[Stage]:
    owner = service.device("approve", "owner")
    look, talk, old = service.device("look"), service.device("talk"), service.device("approve", "old")
    used = service.code("approve")
    owner.service.device("look")
    from app.service.credentials import Credentials

    credentials = Credentials(service.home / "serve")
    credentials.pair(used)
    credentials.revoke(old.device)
    session = owner.session(workspace)
    owner.say(session, "ask")
    asked = owner.until(session, "approval")[-1]
    past = Credentials(service.home / "serve", now=lambda: time.time() - 700)
    words = {
        "HOST": f"127.0.0.1:{service.port}",
        "LOOK": look.token,
        "TALK": talk.token,
        "OWNER": owner.token,
        "OLD": old.token,
        "CODE": used,
        "EXPIRED": past.make_code("approve")[0],
        "S": f"/api/sessions/{session}",
        "R": f"/api/sessions/{session}/requests/{asked['id']}",
    }
    yield Stage(service, owner, words, len(owner.get("/api/sessions")[1]["sessions"]))


def test_the_list_is_long_enough() -> None:
    assert len(REQUESTS) == len(CASES) + len(SPELLINGS) >= 280


@pytest.mark.sample(41)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_hostile_request_does_not_get_in(name: str, stage: Stage) -> None:
    text, expected = REQUESTS[name]
    if 408 in expected:
        text += "\r\n\r\n"
    answer = raw(stage.service.port, spelled(text, stage.words, stage.service.port))
    assert status(answer) in expected, answer[:400]
    assert b"root:" not in answer and b"Traceback" not in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_nothing_came_of_all_of_them(stage: Stage) -> None:
    told = stage.owner.get("/api/sessions")[1]["sessions"]
    session = stage.words["S"].rpartition("/")[2]
    state = stage.owner.get(f"/api/sessions/{session}")[1]
    assert len(told) == stage.sessions
    assert [each["id"] for each in state["requests"]] == [stage.words["R"].rpartition("/")[2]]
    assert state["queued"] == []


def test_a_valid_token_gets_in_whatever_others_got_wrong(stage: Stage) -> None:
    wrong = spelled(
        get("/api/sessions", f"Authorization: Bearer hmt_{stage.owner.device}_wrong"), stage.words, 0
    )
    found = [status(raw(stage.service.port, wrong)) for _ in range(12)]
    assert found[0] == 401 and found[-1] == 429
    assert stage.owner.get("/api/sessions")[0] == 200


def test_a_code_is_void_after_five_wrong_ones_with_its_beginning(stage: Stage) -> None:
    code = stage.service.code("approve")
    wrong = code[:-1] + ("A" if code[-1] != "A" else "B")
    for _ in range(5):
        answer = raw(
            stage.service.port, spelled(post("/api/pair", body=f'{{"code":"{wrong}"}}'), stage.words, 0)
        )
        assert status(answer) == 403
    answer = raw(stage.service.port, spelled(post("/api/pair", body=f'{{"code":"{code}"}}'), stage.words, 0))
    assert status(answer) == 403


@pytest.mark.thorough
def test_many_connections_of_one_token_are_refused(stage: Stage) -> None:
    head = stage.service.device("look", "many")
    words = {**stage.words, "LOOK": head.token}
    request = spelled(get("S/events?after=999999&wait=50", LOOK), words, stage.service.port)
    held = [socket.create_connection(("127.0.0.1", stage.service.port)) for _ in range(100)]
    try:
        for each in held:
            each.sendall(request)
        until = 200
        while (found := head.get("/api/me")[0]) != 429 and until:
            until -= 1
        assert found == 429
    finally:
        for each in held:
            each.close()
