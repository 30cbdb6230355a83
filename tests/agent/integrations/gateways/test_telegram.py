"""Telegram against a strict Bot API on loopback, with updates in the forms of core.telegram.org/bots/api."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    GatewayError,
    Outgoing,
    OutgoingFile,
    Place,
    RateLimitedError,
    UndeliverableError,
)
from tests.support.adapter_bench import AdapterBench
from tests.support.chat_platform import OWNER
from tests.support.telegram_server import BOT, TOKEN, TelegramServer

pytestmark = pytest.mark.filterwarnings("ignore:Deprecated since version v22.2")
HERE, GROUP = Place(OWNER), -1001234567890
PERSON = {"id": int(OWNER), "is_bot": False, "first_name": "Test", "language_code": "en"}
ALONE = {"id": int(OWNER), "type": "private", "first_name": "Test"}
TEAM = {"id": GROUP, "type": "supergroup", "title": "Team", "is_forum": True}
FILE = {"file_id": "BQACfile", "file_unique_id": "d", "file_size": 4}
STICKER = {**FILE, "type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
POLL: dict[str, Any] = {
    "id": "1",
    "question": "Which?",
    "options": [],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
}


def said(more: dict[str, Any], chat: dict[str, Any] = ALONE, kind: str = "message") -> dict[str, Any]:
    """An update with a message."""
    return {kind: {"message_id": 1365, "from": PERSON, "chat": chat, "date": 1441645532, **more}}


READ = (
    ("as typed", said({"text": "as typed"})),
    (
        "passed on",
        said(
            {
                "text": "passed on",
                "forward_origin": {"type": "hidden_user", "sender_user_name": "Somebody", "date": 1441645500},
            }
        ),
    ),
    ("with a link", said({"text": "with a link", "link_preview_options": {"is_disabled": True}})),
    (
        "of an album",
        said(
            {"caption": "of an album", "media_group_id": "13", "photo": [{**FILE, "width": 1, "height": 1}]}
        ),
    ),
    (
        "moving",
        said(
            {
                "caption": "moving",
                "animation": {**FILE, "width": 1, "height": 1, "duration": 1},
                "document": FILE,
            }
        ),
    ),
    ("", said({"video_note": {**FILE, "length": 240, "duration": 2}})),
    (
        "@hermes_bot",
        said(
            {
                "text": "see @hermes_bot",
                "entities": [{"type": "mention", "offset": 4, "length": 11}],
                "message_thread_id": 77,
                "is_topic_message": True,
                "reply_to_message": {
                    "message_id": 77,
                    "from": PERSON,
                    "chat": TEAM,
                    "date": 1,
                    "message_thread_id": 77,
                    "is_topic_message": True,
                    "forum_topic_created": {"name": "News", "icon_color": 7322096},
                },
            },
            TEAM,
        ),
    ),
)
"""What is a message to us: a part of its text, and the update."""
NOTHING = (
    said({"sticker": STICKER}),
    said({"poll": POLL}),
    said({"location": {"longitude": 1.0, "latitude": 2.0}}),
    said({"contact": {"phone_number": "11936298", "first_name": "Leandro"}}),
    said({"dice": {"emoji": "🎲", "value": 4}}),
    said({"new_chat_members": [PERSON]}, TEAM),
    said({"pinned_message": said({"text": "x"}, TEAM)["message"]}, TEAM),
    said({"group_chat_created": True}, TEAM),
    said({"text": "of a bot", "from": {**BOT, "id": 5}}, TEAM),
    # An administrator who stays unknown is GroupAnonymousBot.
    said(
        {
            "text": "unknown",
            "from": {"id": 1087968824, "is_bot": True, "first_name": "Group"},
            "sender_chat": TEAM,
        },
        TEAM,
    ),
    {
        "channel_post": {
            "message_id": 1,
            "sender_chat": TEAM,
            "chat": {**TEAM, "type": "channel"},
            "date": 1,
            "text": "post",
        }
    },
    {"poll_answer": {"poll_id": "1", "user": PERSON, "option_ids": [0]}},
    {
        "message_reaction": {
            "chat": TEAM,
            "message_id": 1,
            "user": PERSON,
            "date": 1,
            "old_reaction": [],
            "new_reaction": [],
        }
    },
    {"a_kind_of_the_next_version": {}},
)
REFUSALS = (
    (403, "Forbidden: bot was blocked by the user", {}, UndeliverableError),
    (403, "Forbidden: bot was kicked from the supergroup chat", {}, UndeliverableError),
    (400, "Bad Request: chat not found", {}, UndeliverableError),
    (400, "Bad Request: not enough rights to send text messages to the chat", {}, UndeliverableError),
    (429, "Too Many Requests: retry after 35", {"retry_after": 35}, RateLimitedError),
    (401, "Unauthorized", {}, BadCredentialsError),
    (409, "Conflict: terminated by other getUpdates request", {}, GatewayError),
    (502, "Bad Gateway", {}, GatewayError),
)


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    with TelegramServer() as running:
        yield running
        assert running.refusals == []


@pytest.fixture
async def bench(server: TelegramServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    secrets = {"TELEGRAM_BOT_TOKEN": TOKEN}
    bench = AdapterBench("telegram", tmp_path / "telegram", server.settings(), secrets)
    await bench.start()
    await bench.until(lambda: bench.names)
    yield bench
    # Ends the look for updates at the server.
    server.cut(1)
    await bench.stop()


@pytest.mark.thorough
async def test_what_people_send_is_read_and_all_else_is_passed_over(
    server: TelegramServer, bench: AdapterBench
) -> None:
    for number, (_, update) in enumerate(READ):
        update = {"message": {**update["message"], "message_id": 2_000 + number}}
        server.bring(update)
    for update in NOTHING:
        server.bring(update)
    server.bring(said({"text": "better"}, kind="edited_message"))
    server.bring(said({"text": "the end", "message_id": 3_000}))
    await bench.until(lambda: "the end" in bench.texts())
    *read, edited, _ = bench.stored.values()
    assert len(read) == len(READ)
    for incoming, (words, _) in zip(read, READ, strict=True):
        assert words in incoming.text and incoming.sender.id == OWNER
    assert [len(each.files) for each in read] == [0, 0, 0, 1, 1, 1, 0]
    assert (read[-1].place, read[-1].mentioned) == (Place(str(GROUP), "77"), True)
    assert (edited.kind, edited.id, edited.text) == ("edited", "1365", "better")


async def test_refusals_have_names_of_their_own(server: TelegramServer, bench: AdapterBench) -> None:
    for status, words, parameters, kind in REFUSALS:
        server.refuse = (status, words, parameters)
        with pytest.raises(kind) as raised:
            await bench.adapter.send(HERE, Outgoing(text="x"), "k")
        assert type(raised.value) is kind, words
        assert getattr(raised.value, "wait", 35) == 35
    id = await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    same = "Bad Request: message is not modified: specified new message content and reply markup are exactly"
    server.refuse = (400, f"{same} the same as a current content and reply markup of the message", {})
    await bench.adapter.edit(HERE, id, Outgoing(text="x"))
    server.refuse = (400, "Bad Request: message to edit not found", {})
    with pytest.raises(UndeliverableError):
        await bench.adapter.edit(HERE, id, Outgoing(text="y"))
    server.refuse = (400, "Bad Request: can't parse entities: Unexpected end tag at byte offset 7", {})
    await bench.adapter.send(HERE, Outgoing(text="**bold**"), "k")
    assert server.shown[-1].text == "**bold**"


async def test_a_group_that_becomes_a_supergroup_is_written_to_under_its_new_id(
    server: TelegramServer, bench: AdapterBench, tmp_path: Path
) -> None:
    old = Place("-52")
    (tmp_path / "a.txt").write_text("x")
    moved = (400, "Bad Request: group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": GROUP})
    server.refuse = moved
    await bench.adapter.send(old, Outgoing(text="first"), "k")
    await bench.adapter.send_file(old, OutgoingFile(tmp_path / "a.txt", "a.txt", "file"), "k")
    assert [each.chat for each in server.shown] == [str(GROUP)] * 2
    basic = {"id": -52, "type": "group", "title": "Team"}
    server.bring(said({"migrate_to_chat_id": GROUP}, basic))
    server.bring(said({"migrate_from_chat_id": -52, "message_id": 1}, TEAM))
    await bench.until(lambda: len(bench.stored) == 2)
    assert {(each.kind, each.place, each.moved_to) for each in bench.stored.values()} == {
        ("moved", Place("-52"), str(GROUP))
    }
