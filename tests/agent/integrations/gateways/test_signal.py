"""Signal against a strict daemon on loopback, with the forms of github.com/AsamK/signal-cli:
man/signal-cli-jsonrpc.5.adoc and the records of src/main/java/org/asamk/signal/json/.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.sections import SignalSettings
from agent.integrations.gateways.adapter import (
    GatewayError,
    Outgoing,
    Place,
    RateLimitedError,
    UndeliverableError,
    gateway_kind,
)
from agent.integrations.gateways.checking import check_gateway
from tests.support.adapter_bench import AdapterBench
from tests.support.chat_platform import OWNER
from tests.support.signal_server import ACCOUNT, ACI, SignalServer

HERE, GROUP = Place(OWNER), "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI="
DATA: dict[str, Any] = {"timestamp": 1631458508784, "expiresInSeconds": 0, "viewOnce": False}
NOTHING: tuple[dict[str, Any], ...] = (
    {
        "receiptMessage": {
            "when": 1631458508784,
            "isDelivery": True,
            "isRead": False,
            "isViewed": False,
            "timestamps": [1],
        }
    },
    {"typingMessage": {"action": "STARTED", "timestamp": 1631458508784}},
    {"syncMessage": {"sentMessage": {"destination": OWNER, "timestamp": 1693064367769, "message": "j"}}},
    {"callMessage": {"offerMessage": {"id": 1, "type": "AUDIO_CALL", "opaque": ""}}},
    {"storyMessage": {"allowsReplies": True, "textAttachment": {"text": "a story", "style": "DEFAULT"}}},
    {
        "dataMessage": {
            **DATA,
            "message": None,
            "reaction": {"emoji": "👍", "targetAuthor": ACCOUNT, "targetSentTimestamp": 1, "isRemove": False},
        }
    },
    {"dataMessage": {**DATA, "message": None, "sticker": {"packId": "a", "stickerId": 1}}},
    {"dataMessage": {**DATA, "message": None, "remoteDelete": {"timestamp": 1}}},
    {
        "dataMessage": {
            **DATA,
            "message": None,
            "groupInfo": {"groupId": GROUP, "groupName": "Team", "revision": 2, "type": "UPDATE"},
        }
    },
    {"dataMessage": "no message"},
    {"editMessage": {"targetSentTimestamp": 1}},
)
"""What an envelope holds that is not a message to us."""
TO_US: tuple[dict[str, Any], ...] = (
    {"mentions": [{"name": ACCOUNT, "number": ACCOUNT, "uuid": ACI, "start": 0, "length": 1}]},
    {"mentions": [{"name": ACI, "number": None, "uuid": ACI, "start": 0, "length": 1}]},
    {
        "quote": {
            "id": 1,
            "author": ACCOUNT,
            "authorNumber": ACCOUNT,
            "authorUuid": ACI,
            "text": "x",
            "attachments": [],
        }
    },
    {
        "quote": {
            "id": 1,
            "author": ACI,
            "authorNumber": None,
            "authorUuid": ACI,
            "text": "x",
            "attachments": [],
        }
    },
)
NOT_TO_US: tuple[dict[str, Any], ...] = (
    {"mentions": [{"name": OWNER, "number": None, "uuid": OWNER, "start": 0, "length": 1}]},
    {
        "quote": {
            "id": 1,
            "author": OWNER,
            "authorNumber": None,
            "authorUuid": OWNER,
            "text": "x",
            "attachments": [],
        }
    },
    {},
)
FAILURES = (
    ("UNREGISTERED_FAILURE", UndeliverableError),
    ("IDENTITY_FAILURE", UndeliverableError),
    ("NETWORK_FAILURE", GatewayError),
)


@pytest.fixture
async def server() -> AsyncIterator[SignalServer]:
    with SignalServer() as running:
        yield running
        assert running.refusals == []


def made(server: SignalServer, folder: Path) -> AdapterBench:
    return AdapterBench("signal", folder / "signal", server.settings(), {})


async def test_what_people_send_is_read_and_all_else_is_passed_over(
    server: SignalServer, tmp_path: Path
) -> None:
    bench = made(server, tmp_path)
    await bench.start()
    await bench.until(lambda: bench.names == [ACCOUNT])
    for each in NOTHING:
        server.bring(each)
    for more in (*TO_US, *NOT_TO_US):
        server.write("\ufffc do it" if "mentions" in more else "do it", group=GROUP, **more)
    server.write("the end")
    await bench.until(lambda: "the end" in bench.texts())
    *read, end = bench.stored.values()
    assert [each.mentioned for each in read] == [True] * len(TO_US) + [False] * len(NOT_TO_US)
    assert {each.text for each in read[: len(TO_US)]} == {"do it"}
    assert {each.place for each in read} == {Place(f"group:{GROUP}")} and end.place == HERE
    await bench.stop()


async def test_a_daemon_of_one_account_needs_none_to_be_named(server: SignalServer, tmp_path: Path) -> None:
    server.single = True
    settings = SignalSettings.model_validate(server.settings())
    assert await check_gateway(gateway_kind("signal"), settings, {}, tmp_path) == "the account of the daemon"
    bench = made(server, tmp_path)
    await bench.start()
    await bench.until(lambda: bench.names)
    server.write("hello")
    server.write("\ufffc do it", group=GROUP, **TO_US[0])
    await bench.until(lambda: len(bench.stored) == 2)
    assert [(each.text, each.mentioned) for each in bench.stored.values()] == [
        ("hello", True),
        ("do it", True),
    ]
    await bench.adapter.send(HERE, Outgoing(text="hi"), "k")
    assert [each.text for each in server.shown] == ["hi"]
    await bench.stop()


async def test_refusals_have_names_of_their_own(server: SignalServer, tmp_path: Path) -> None:
    bench = made(server, tmp_path)
    await bench.start()
    await bench.until(lambda: bench.names)
    for type_, kind in FAILURES:
        server.failure = type_
        with pytest.raises(kind) as raised:
            await bench.adapter.send(HERE, Outgoing(text="x"), "k")
        assert type(raised.value) is kind
    server.limit(1, 7)
    with pytest.raises(RateLimitedError) as limited:
        await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    assert limited.value.wait == 7
    await bench.stop()
