"""Files of the workspace into chats: byte for byte, once, as they were when it was agreed to; refusals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.core.config.sections import MessengerSettings
from agent.core.store.store import Store
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import GatewayContext, Place, gateway_kind, make_adapter
from agent.integrations.gateways.outgoing import OutgoingMessages, drop_unclaimed, keep_copy
from agent.integrations.gateways.running_gateway import RunningGateway
from agent.integrations.senses import messages
from agent.integrations.senses.messages import Chats, Messenger
from tests.support.images import png
from tests.support.loop_platforms import MailPlatform, MatrixPlatform, SlackPlatform
from tests.support.signal_server import SignalServer
from tests.support.telegram_server import TelegramServer
from tests.support.tool_context import FakeContext
from tools.results import ToolError
from tools.senses.message_tool import send_message
from tools.senses.services import SendMessage

SERVERS = (TelegramServer, SlackPlatform, MatrixPlatform, SignalServer, MailPlatform)
SESSION = "session-of-the-chat"
TEXT = "Zahlen für Ana\r\n\n.\n".encode() * 40
PICTURE = png(30, 20)
SECRET = {"SOME_KEY": "correct-horse-battery"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


def context_of(folder: Path, store: Store, settings: Any) -> Any:
    """What the tool works in, in a session that a chat talks to."""
    (folder / "work").mkdir()
    context: Any = FakeContext((folder / "work").resolve())
    chats = Chats(OutgoingMessages(settings, SECRET), store.database, folder / "gateways", SESSION)
    targets: Any = {"phone": SimpleNamespace(kind="ntfy", url="http://x/y", url_env="", token_env="")}
    online: Any = None
    senses: Any = Messenger(targets, {}, online, chats)
    context.senses = senses
    return context


@asynccontextmanager
async def running(folder: Path, store: Store, platform: Any, settings: Any) -> AsyncIterator[None]:
    """The messenger of a service that runs."""
    own = getattr(settings, platform.name)
    kept = folder / "gateways" / platform.name
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    context = GatewayContext(platform.name, own, platform.secrets(), kept)
    adapter = await asyncio.to_thread(make_adapter, gateway_kind(platform.name), context)
    host: Any = SimpleNamespace(database=store.database)
    house: Any = SimpleNamespace()
    gateway = RunningGateway(platform.name, adapter, own, host, 1.0, str(folder), house)
    task = asyncio.create_task(gateway.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # The loop closes the sockets a moment after the client.
        await asyncio.sleep(0.05)


async def settled(store: Store) -> list[tuple[str, str]]:
    """State and problem of all that was put down, once nothing waits."""
    async with asyncio.timeout(60):
        while True:
            rows = await store.database.read(
                lambda c: c.execute("SELECT state, problem FROM deliveries").fetchall()
            )
            if all(state != "waiting" for state, _ in rows):
                return rows
            await asyncio.sleep(0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("server", SERVERS, ids=lambda each: each.name)
async def test_files_arrive_once_as_they_were_when_they_were_put_down(
    server: Any, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "RECEIPT", 0.0)
    with server() as platform:
        settings = MessengerSettings.model_validate({platform.name: platform.settings()})
        place = Place(platform.chat(platform.owner))
        await store.database.write(lambda c: book.bind(c, platform.name, place, SESSION, 0, False, 1.0))
        context = context_of(tmp_path, store, settings)
        report, chart = context.workspace / "report.txt", context.workspace / "chart.png"
        report.write_bytes(TEXT)
        chart.write_bytes(PICTURE)

        # No service runs: as after a kill between putting down and sending.
        told = await send_message(
            {"target": "here", "text": "Both", "files": ["report.txt", "chart.png"]}, context
        )
        assert told["kept"] and not told["sent"]
        asked = [each for each in context.actions if isinstance(each, SendMessage)]
        assert [each.headline() for each in asked] == [
            f"send report.txt ({len(TEXT)} B), chart.png ({len(PICTURE)} B) to {platform.name}:{place}: Both"
        ]
        copies = list(tmp_path.glob("gateways/*/outgoing/*"))
        assert len(copies) == 2 and {each.stat().st_mode & 0o777 for each in copies} == {0o600}
        assert copies[0].parent.stat().st_mode & 0o777 == 0o700
        report.write_bytes(b"something else")
        chart.unlink()

        for _ in range(2):
            async with running(tmp_path, store, platform, settings):
                assert set(await settled(store)) == {("sent", "")}
        assert [each.file for each in platform.shown if each.file] == [TEXT, PICTURE]
        assert platform.refusals == []
        assert not list(tmp_path.glob("gateways/*/outgoing/*"))
        if platform.name == "telegram":
            assert [
                name for each in platform.shown for name in ("document", "photo") if name in each.form
            ] == [
                "document",
                "photo",
            ]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("target", "files", "why"),
    [
        ("discord", ["../outside.txt"], "../outside.txt does not lie in the workspace; copy it there first."),
        ("discord", ["link.txt"], "link.txt does not lie in the workspace"),
        ("discord", ["folder/outside.txt"], "does not lie in the workspace"),
        ("discord", ["missing.txt"], "missing.txt is not there; check the path."),
        ("discord", ["folder-of-ours"], "folder"),
        ("discord", ["large.bin"], "large.bin has 10.0 MB, more than the 10.0 MB that discord takes"),
        ("discord", ["huge.bin"], "more than the 25 MB"),
        ("discord", ["large.bin", "other.bin", "third.bin"], "more than 25 MB in all; send fewer at once."),
        ("discord", [".ssh/id_rsa"], "id_rsa"),
        ("discord", ["key.txt"], "key.txt holds a secret, such as a token or a key; it is not sent."),
        ("discord", ["key.bin"], "key.bin holds a secret"),
        ("discord", ["empty.txt"], "empty.txt is empty"),
        ("phone", ["small.txt"], "phone takes no files; only chats of messengers do."),
        ("nobody", ["small.txt"], "There is no target 'nobody'"),
        ("here", ["small.txt"], "No chat talks to this session; name a messenger instead"),
        ("discord", [], "A message has 1 to 4,000 characters."),
    ],
)
async def test_what_cannot_be_sent_is_refused_in_one_sentence(
    target: str, files: list[str], why: str, tmp_path: Path, store: Store
) -> None:
    settings = MessengerSettings.model_validate({"discord": {"enabled": True, "home": "42"}})
    context = context_of(tmp_path, store, settings)
    work = context.workspace
    (tmp_path / "outside.txt").write_text("outside")
    os.symlink(tmp_path / "outside.txt", work / "link.txt")
    os.symlink(tmp_path, work / "folder")
    (work / "folder-of-ours").mkdir()
    (work / ".ssh").mkdir()
    (work / ".ssh" / "id_rsa").write_text("key")
    (work / "small.txt").write_text("small")
    (work / "empty.txt").write_bytes(b"")
    (work / "key.txt").write_text("a\nthe key is correct-horse-battery\n")
    (work / "key.bin").write_bytes(b"\xff\x00" * 40_000 + b"correct-horse-battery")
    for name, size in (
        ("large", 10_000_001),
        ("other", 9_000_000),
        ("third", 9_000_000),
        ("huge", 30_000_000),
    ):
        with (work / f"{name}.bin").open("wb") as file:
            file.truncate(size)

    with pytest.raises(ToolError) as refused:
        await send_message({"target": target, "text": "", "files": files}, context)
    assert why in str(refused.value) and "\n" not in str(refused.value)
    assert not any(isinstance(each, SendMessage) for each in context.actions)
    assert await settled(store) == [] and not list(tmp_path.glob("gateways/*/outgoing/*"))


async def test_a_no_keeps_no_copy(tmp_path: Path, store: Store) -> None:
    settings = MessengerSettings.model_validate({"discord": {"enabled": True, "home": "42"}})
    context = context_of(tmp_path, store, settings)
    context.verdict = lambda action: not isinstance(action, SendMessage)
    (context.workspace / "small.txt").write_text("small")
    with pytest.raises(ToolError, match=r"Not allowed: send small\.txt"):
        await send_message({"target": "discord", "text": "x", "files": ["small.txt"]}, context)
    assert await settled(store) == [] and not list(tmp_path.glob("gateways/*/outgoing/*"))


async def test_copies_that_no_message_names_are_removed_after_an_hour(tmp_path: Path) -> None:
    held, left, new = (str(keep_copy(tmp_path, "a.txt", b"x")["path"]) for _ in range(3))
    before = time.time() - 4_000
    for each in (held, left):
        os.utime(each, (before, before))
    drop_unclaimed(tmp_path, [held])
    assert sorted(map(str, (tmp_path / "outgoing").iterdir())) == sorted([held, new])


async def test_a_file_that_the_platform_refuses_is_given_up_with_its_copy(
    tmp_path: Path, store: Store
) -> None:
    with SignalServer() as platform:
        settings = MessengerSettings.model_validate({"signal": platform.settings()})
        body = keep_copy(tmp_path / "gateways" / "signal", "a.txt", b"x")
        gone = {**body, "path": f"{body['path']}.gone"}
        await store.database.write(
            lambda c: book.queue_delivery(c, "signal", Place(platform.owner), "file", gone, 0.0)
        )
        async with running(tmp_path, store, platform, settings):
            assert await settled(store) == [("failed", "The file is gone.")]
        assert platform.shown == []
