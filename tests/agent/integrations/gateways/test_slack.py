"""Slack against a strict server of its wire protocol."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    Button,
    GatewayError,
    Outgoing,
    OutgoingFile,
    Place,
    RateLimitedError,
    UndeliverableError,
)
from tests.support.adapter_bench import AdapterBench
from tests.support.slack_server import APP, BOT, CHANNEL, DIRECT, ME, OWNER, SlackServer

HERE = Place(DIRECT)


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server
        assert server.refusals == []


def made(slack: SlackServer, folder: Path) -> AdapterBench:
    secrets = {"SLACK_BOT_TOKEN": BOT, "SLACK_APP_TOKEN": APP}
    return AdapterBench("slack", folder / "slack", {"api_url": slack.url}, secrets)


@pytest.fixture
async def bench(slack: SlackServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    bench = made(slack, tmp_path)
    await bench.start()
    await bench.until(lambda: bench.names and slack.sockets)
    yield bench
    await bench.stop()


async def test_messages_come_in_with_who_and_where(slack: SlackServer, bench: AdapterBench) -> None:
    assert bench.names == ["@bot"]
    first = await slack.write("a &lt;b&gt; &amp; <https://example.org|site> <@U222>")
    await slack.write("not for us", CHANNEL)
    asked = await slack.write(f"<@{ME}> do it", CHANNEL)
    await slack.write("in a thread", CHANNEL, thread_ts=asked, parent_user_id=ME)
    await slack.write("me", user=ME)
    await slack.write("another bot", bot_id="B1")
    await slack.write("", subtype="channel_join")
    await bench.until(lambda: len(bench.stored) == 4 and not slack.unacknowledged)
    said = list(bench.stored.values())
    assert said[0].text == "a <b> & site (https://example.org) @U222"
    assert (said[0].id, said[0].sender.id, said[0].place, said[0].group) == (first, OWNER, HERE, False)
    assert [each.mentioned for each in said] == [True, False, True, True]
    assert said[2].text == "do it" and said[2].place == said[3].place == Place(CHANNEL, asked)


async def test_a_slash_command_of_the_app_is_a_command(slack: SlackServer, bench: AdapterBench) -> None:
    # github.com/slackapi/python-slack-sdk, tests/slack_sdk/socket_mode/mock_socket_mode_server.py
    payload = {
        "token": "verification-token",
        "team_id": "T111",
        "team_domain": "xxx",
        "channel_id": "C111",
        "channel_name": "random",
        "user_id": "U111",
        "user_name": "testxyz",
        "command": "/hello-socket-mode",
        "text": "",
        "api_app_id": "A111",
        "response_url": "https://hooks.slack.com/commands/T111/111/xxx",
        "trigger_id": "111.222.xxx",
    }
    await slack.envelope("slash_commands", payload)
    ours = {"command": "/hermes", "text": "model gpt", "channel_id": "D111", "trigger_id": "111.223.xxx"}
    await slack.envelope("slash_commands", {**payload, **ours})
    await bench.until(lambda: len(bench.stored) == 2 and not slack.unacknowledged)
    theirs, model = bench.stored.values()
    assert (theirs.text, theirs.place, theirs.group) == ("/hello-socket-mode", Place("C111"), True)
    assert (model.text, model.place, model.group, model.sender.id) == (
        "/model gpt",
        Place("D111"),
        False,
        "U111",
    )


async def test_a_mention_that_comes_as_two_events_is_one_message(
    slack: SlackServer, bench: AdapterBench
) -> None:
    # github.com/slackapi/python-slack-sdk, tests/slack_sdk/socket_mode/mock_socket_mode_server.py
    event = {
        "client_msg_id": "f0582a78-72db-4feb-b2f3-1e47d66365c8",
        "type": "app_mention",
        "text": f"<@{ME}> Hi here!",
        "user": "U222",
        "ts": "1610241741.000200",
        "team": "T111",
        "channel": "C111",
        "event_ts": "1610241741.000200",
    }
    await slack.event(event)
    await slack.event({**event, "type": "message", "channel_type": "channel"})
    await bench.until(lambda: len(bench.taken) == 2 and not slack.unacknowledged)
    assert [each.text for each in bench.stored.values()] == ["Hi here!"]
    assert bench.taken[0] == bench.taken[1]


async def test_images_and_voice_come_in_and_go_out(
    slack: SlackServer, bench: AdapterBench, tmp_path: Path
) -> None:
    slack.files["a.png"] = b"\x89PNG" + b"1" * 50
    host = slack.url.removesuffix("/api")
    files = [
        {"name": "a.png", "mimetype": "image/png", "size": 54, "url_private": f"{host}/files/a.png"},
        {"name": "v.m4a", "mimetype": "audio/mp4", "size": 9, "url_private": "https://evil.example/v.m4a"},
    ]
    await slack.write("look", subtype="file_share", files=files)
    await bench.until(lambda: bench.stored)
    image, voice = next(iter(bench.stored.values())).files
    assert (image.kind, voice.kind) == ("image", "voice")
    assert await bench.adapter.fetch(image, 1_000) == slack.files["a.png"]
    with pytest.raises(UndeliverableError, match="larger"):
        await bench.adapter.fetch(image, 10)
    # The token is shown to nobody else.
    with pytest.raises(UndeliverableError, match="not stored"):
        await bench.adapter.fetch(voice, 1_000)
    (tmp_path / "out.ogg").write_bytes(b"OggS")
    await bench.adapter.send_file(HERE, OutgoingFile(tmp_path / "out.ogg", "out.ogg", "voice", "hear"), "k")
    assert slack.uploads[0]["channel_id"] == DIRECT and slack.uploads[0]["initial_comment"] == "hear"
    assert b"OggS" in slack.files[slack.uploads[0]["files"][0]["id"]]


async def test_buttons_edits_and_threads(slack: SlackServer, bench: AdapterBench) -> None:
    ask = Outgoing(text="Push **now** <all>?", buttons=(Button("Yes", "a:once"), Button("No", "a:deny")))
    ts = await bench.adapter.send(Place(DIRECT, "1355517500.000001"), ask, "k1")
    assert slack.posts[ts]["text"] == "Push *now* &lt;all&gt;?"
    assert slack.posts[ts]["thread_ts"] == "1355517500.000001"
    await slack.press(ts, "a:deny")
    pressed = await bench.until(lambda: next((e for e in bench.stored.values() if e.kind == "button"), None))
    assert (pressed.button, pressed.message, pressed.sender.id) == ("a:deny", ts, OWNER)
    await bench.adapter.edit(HERE, ts, Outgoing(text="Denied."))
    assert slack.posts[ts]["versions"][-1] == "Denied." and slack.posts[ts]["blocks"] == []
    said = {"type": "message", "user": OWNER, "ts": "1355517523.000900"}
    await slack.event(
        {
            "type": "message",
            "subtype": "message_changed",
            "channel": DIRECT,
            "channel_type": "im",
            "ts": "1355517524.000001",
            "message": {**said, "text": "changed", "edited": {"user": OWNER, "ts": "1355517524.000000"}},
            "previous_message": {**said, "text": "before"},
        }
    )
    edited = await bench.until(lambda: next((e for e in bench.stored.values() if e.kind == "edited"), None))
    assert (edited.id, edited.text) == ("1355517523.000900", "changed")


async def test_limits_and_refusals_have_names_of_their_own(slack: SlackServer, bench: AdapterBench) -> None:
    slack.limited = 1
    with pytest.raises(RateLimitedError) as limited:
        await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    assert limited.value.wait == 30
    with pytest.raises(UndeliverableError, match="channel_not_found"):
        await bench.adapter.send(Place("nowhere"), Outgoing(text="x"), "k")
    slack.refusals.clear()
    slack.bad_token = True
    with pytest.raises(BadCredentialsError):
        await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    await bench.restart()
    with pytest.raises(BadCredentialsError):
        await bench.until(lambda: False)


async def test_what_was_not_stored_comes_again(slack: SlackServer, bench: AdapterBench) -> None:
    bench.refuse = 1
    await slack.write("once")
    await bench.until(lambda: bench.taken)
    assert slack.unacknowledged == 1 and bench.stored == {}
    await slack.again()
    await bench.until(lambda: not slack.unacknowledged)
    await slack.again()
    assert bench.texts() == ["once"]


async def test_a_broken_connection_is_made_anew(slack: SlackServer, bench: AdapterBench) -> None:
    await slack.cut()
    await slack.write("meanwhile")
    await bench.until(lambda: bench.texts() == ["meanwhile"])
    assert slack.connections == 2


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_connection_that_slack_ends_is_made_anew(
    slack: SlackServer, bench: AdapterBench, reason: str
) -> None:
    """docs.slack.dev/apis/events-api/using-socket-mode: connections are renewed every few hours."""
    bench.refuse = 1
    await slack.write("not stored at first")
    await bench.until(lambda: bench.taken)
    await slack.leave(reason)
    await bench.until(lambda: slack.connections == 2 and not slack.unacknowledged)
    await slack.write("behind it")
    await bench.until(lambda: bench.texts() == ["not stored at first", "behind it"])


async def test_an_app_token_that_is_refused_ends_the_messenger(slack: SlackServer, tmp_path: Path) -> None:
    slack.bad_app_token = True
    bench = made(slack, tmp_path)
    await bench.start()
    with pytest.raises(BadCredentialsError, match="invalid_auth"):
        await bench.until(lambda: False)
    await bench.stop()
    assert bench.names == []


async def test_a_connection_that_stays_away_is_told_to_the_core(
    slack: SlackServer, bench: AdapterBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.integrations.gateways.platforms.slack.LOOK", 0.05)
    monkeypatch.setattr("agent.integrations.gateways.platforms.slack.LOST", 0.1)
    await bench.restart()
    await bench.until(lambda: len(bench.names) == 2 and slack.sockets)
    slack.bad_app_token = True
    await slack.cut()
    with pytest.raises(GatewayError, match="no connection"):
        await bench.until(lambda: False)


@pytest.mark.thorough
async def test_what_is_no_message_is_acknowledged_and_passed_over(
    slack: SlackServer, bench: AdapterBench
) -> None:
    # docs.slack.dev/reference/events and github.com/slackapi/python-slack-sdk,
    # tests/slack_sdk/socket_mode/mock_socket_mode_server.py
    said = {"type": "message", "channel": DIRECT, "channel_type": "im", "ts": "1355517523.000005"}
    for event in (
        {"type": "reaction_added", "user": OWNER, "reaction": "thumbsup", "item": {"type": "message"}},
        {"type": "app_home_opened", "user": OWNER, "channel": DIRECT, "tab": "messages"},
        {**said, "subtype": "message_deleted", "deleted_ts": "1355517523.000001", "previous_message": {}},
        {**said, "subtype": "bot_message", "text": "of a bot", "bot_id": "BB12033"},
        {**said, "subtype": "message_changed", "message": {**said, "user": OWNER, "text": "a"}},
        {**said, "user": OWNER, "text": "", "files": [{"id": "F0S43P1CZ", "mode": "tombstone"}]},
        {
            **said,
            "user": OWNER,
            "text": "",
            "subtype": "file_share",
            "files": [{"id": "F0S43P1CZ", "created": 1}],
        },
        {**said, "user": OWNER, "text": None, "blocks": []},
    ):
        event.setdefault("event_ts", "1355517523.000005")
        await slack.event(event)
    shortcut = {"type": "shortcut", "token": "verification-token", "action_ts": "1610198080.300836"}
    await slack.envelope("interactive", {**shortcut, "user": {"id": OWNER}, "callback_id": "do-something"})
    view = {"type": "block_actions", "container": {"type": "view", "view_id": "V1234567890"}, "actions": [{}]}
    await slack.envelope("interactive", {**view, "user": {"id": OWNER}})
    await slack.write("the end")
    await bench.until(lambda: "the end" in bench.texts() and not slack.unacknowledged)
    assert [each.text for each in bench.stored.values() if each.kind == "message"] == ["the end"]


async def restarted(slack: SlackServer, bench: AdapterBench, times: int) -> None:
    """Restarts at moments of chance: each message is stored, none twice."""
    chance, wanted = random.Random(7), []
    for number in range(times):
        for part in range(chance.randrange(3)):
            wanted.append(f"{number}.{part}")
            await slack.write(wanted[-1])
        await bench.restart()
        if chance.random() < 0.5:
            await bench.until(lambda: slack.sockets)
        if chance.random() < 0.3:
            await slack.again()
    await bench.until(lambda: not slack.unacknowledged)
    assert sorted(bench.texts()) == sorted(wanted)


@pytest.mark.thorough
async def test_restarts_lose_nothing(slack: SlackServer, bench: AdapterBench) -> None:
    await restarted(slack, bench, 4)


@pytest.mark.thorough
async def test_a_hundred_restarts_lose_nothing(slack: SlackServer, bench: AdapterBench) -> None:
    await restarted(slack, bench, 100)
