"""WhatsApp against a strict Graph API on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    Button,
    CallAnswer,
    GatewayError,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformCall,
    RateLimitedError,
    UndeliverableError,
)
from tests.support.adapter_bench import AdapterBench
from tests.support.whatsapp_server import OWNER, PHONE, SECRET, TOKEN, WORD, WhatsAppServer

HERE = Place(OWNER)


@pytest.fixture
async def server() -> AsyncIterator[WhatsAppServer]:
    async with WhatsAppServer() as running:
        yield running
        assert running.refusals == []


@pytest.fixture
async def bench(server: WhatsAppServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    secrets = {"WHATSAPP_TOKEN": TOKEN, "WHATSAPP_APP_SECRET": SECRET, "WHATSAPP_VERIFY_TOKEN": WORD}
    given = {"api_url": server.url, "phone_id": PHONE}
    bench = AdapterBench("whatsapp", tmp_path / "whatsapp", given, secrets)
    await bench.start()
    await bench.until(lambda: bench.names)
    yield bench
    await bench.stop()


async def hook(bench: AdapterBench, call: PlatformCall) -> CallAnswer:
    adapter: Any = bench.adapter
    return await adapter.hook(call, bench.take)


async def test_only_signed_calls_for_our_number_count(server: WhatsAppServer, bench: AdapterBench) -> None:
    assert bench.names == ["+1 555-078-3881"]
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": WORD}
    asked = PlatformCall("GET", "", {}, query, b"")
    assert await hook(bench, asked) == CallAnswer(200, b"1158201444")
    assert (await hook(bench, replace(asked, query={**query, "hub.verify_token": "x"}))).status == 403
    good = server.call(server.said("Does it come in another color?"))
    for bad in (
        replace(good, headers={}),
        replace(good, body=good.body + b" "),
        server.call(server.said("x"), secret="other"),
    ):
        assert (await hook(bench, bad)).status == 401
    assert (await hook(bench, server.call(server.said("x"), phone="1"))).status == 200
    assert (await hook(bench, server.call())).status == 200
    assert (await hook(bench, server.call({"type": "text"}))).status == 200
    assert bench.taken == []
    # The platform sends it again until it hears 200.
    assert [(await hook(bench, good)).status for _ in range(3)] == [200, 200, 200]
    (incoming,) = bench.stored.values()
    assert (incoming.text, incoming.sender.id, incoming.sender.name) == (
        "Does it come in another color?",
        OWNER,
        "Sheena Nelson",
    )
    bench.refuse = 1
    with pytest.raises(OSError, match="no space"):
        await hook(bench, server.call(server.said("not stored")))


async def test_what_is_no_message_hides_none_beside_it(server: WhatsAppServer, bench: AdapterBench) -> None:
    # developers.facebook.com/docs/whatsapp/cloud-api/webhooks/payload-examples; some have no type
    bare = {"from": OWNER, "timestamp": "1749416383"}
    unknown = {"code": 131051, "details": "Message type is not currently supported", "title": "Unsupported"}
    product = {"product_retailer_id": "P", "quantity": "1", "item_price": "1", "currency": "EUR"}
    others = (
        {**bare, "id": "1", "location": {"latitude": 1.0, "longitude": 2.0, "name": "N", "address": "A"}},
        {**bare, "id": "2", "contacts": [{"name": {"formatted_name": "N"}, "phones": [{"wa_id": "1"}]}]},
        {**bare, "id": "3", "type": "unknown", "errors": [unknown]},
        server.message("reaction", reaction={"message_id": "wamid.x", "emoji": "👍"}),
        server.message("system", system={"body": "changed", "wa_id": "1", "type": "user_changed_number"}),
        server.message("order", order={"catalog_id": "C", "product_items": [product], "text": "T"}),
        server.message("text"),
        server.message("interactive", interactive={"type": "button_reply"}),
    )
    sticker = {"mime_type": "image/webp", "sha256": "HASH", "id": "9", "animated": False}
    button = server.message("button", button={"text": "No", "payload": "No-Button-Payload"})
    call = server.call(*others, server.said("beside"), button, server.message("sticker", sticker=sticker))
    assert (await hook(bench, call)).status == 200
    assert (await hook(bench, server.call(server.said("unnamed"), contact={"wa_id": OWNER}))).status == 200
    assert (await hook(bench, server.call(server.said("hidden"), contact={"user_id": "US.1"}))).status == 200
    beside, pressed, shown, *rest = bench.stored.values()
    assert (beside.text, pressed.text, shown.files[0].kind) == ("beside", "No", "image")
    assert [(each.text, each.sender.id, each.sender.name) for each in rest] == [
        ("unnamed", OWNER, ""),
        ("hidden", OWNER, ""),
    ]


async def test_a_message_of_a_group_stays_in_the_group(server: WhatsAppServer, bench: AdapterBench) -> None:
    # developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/group
    group = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"
    await hook(bench, server.call(server.said("What do you all think about this?", group_id=group)))
    await hook(bench, server.call(server.said("/status", group_id=group)))
    asked, command = bench.stored.values()
    assert asked.place == command.place == Place(group) and asked.sender.id == OWNER
    assert (asked.group, asked.mentioned, command.mentioned) == (True, False, True)


async def test_buttons_and_files(server: WhatsAppServer, bench: AdapterBench, tmp_path: Path) -> None:
    ask = Outgoing(text="Push **now**? " + "x" * 1_200, buttons=(Button("Yes", "a:1"), Button("No", "a:0")))
    id = await bench.adapter.send(HERE, ask, "k")
    assert [each["type"] for each in server.sent.values()] == ["text", "interactive"]
    assert next(iter(server.sent.values()))["text"]["body"].startswith("Push *now*?")
    await hook(bench, server.call(server.pressed(id, "a:0")))
    pressed = list(bench.stored.values())[-1]
    assert (pressed.kind, pressed.button, pressed.message) == ("button", "a:0", id)
    server.media["1"] = ("image/jpeg", b"\xff\xd8" + b"1" * 20)
    image = {
        "caption": "look",
        "mime_type": "image/jpeg",
        "sha256": "SfInY0gGKTsJlUWbwxC1k+FAD0FZHvzwfpvO0zX0GUI=",
        "id": "1",
    }
    voice = {"mime_type": "audio/ogg; codecs=opus", "id": "2", "voice": True}
    await hook(bench, server.call(server.message("image", image=image), server.message("audio", audio=voice)))
    shown, heard = list(bench.stored.values())[-2:]
    assert (shown.text, shown.files[0].kind, heard.files[0].kind) == ("look", "image", "voice")
    assert await bench.adapter.fetch(shown.files[0], 1_000) == server.media["1"][1]
    server.elsewhere = True
    with pytest.raises(UndeliverableError, match="not stored"):
        await bench.adapter.fetch(shown.files[0], 1_000)
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    await bench.adapter.send_file(HERE, OutgoingFile(tmp_path / "a.pdf", "a.pdf", "file", "read"), "k")
    sent = list(server.sent.values())[-1]
    assert sent["document"]["caption"] == "read" and server.media[sent["document"]["id"]][1] == b"%PDF"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ((429, 80007), RateLimitedError),
        ((400, 131056), RateLimitedError),
        ((401, 190), BadCredentialsError),
        ((400, 131026), UndeliverableError),
        ((500, 131000), GatewayError),
        # developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes
        ((400, 131016), GatewayError),
        ((400, 130429), RateLimitedError),
        ((400, 131047), UndeliverableError),
    ],
)
async def test_faults_have_names_of_their_own(
    server: WhatsAppServer, bench: AdapterBench, fault: tuple[int, int], kind: type[Exception]
) -> None:
    server.fault = fault
    with pytest.raises(kind) as raised:
        await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    assert type(raised.value) is kind


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.thorough)])
async def test_restarts_lose_nothing(server: WhatsAppServer, bench: AdapterBench, times: int) -> None:
    """What was not answered with 200 is sent again, also what was."""
    chance, wanted, open_calls = random.Random(7), [], []
    for number in range(times):
        wanted.append(str(number))
        open_calls.append(server.call(server.said(wanted[-1])))
        bench.refuse = chance.randrange(2)
        for call in list(open_calls):
            try:
                if (await hook(bench, call)).status == 200 and chance.random() < 0.7:
                    open_calls.remove(call)
            except OSError:
                pass
        await bench.restart()
    bench.refuse = 0
    for call in open_calls:
        await hook(bench, call)
    assert sorted(bench.texts()) == sorted(wanted)
