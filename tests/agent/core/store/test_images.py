"""Images of deleted sessions: gone with the last message that refers to them."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from agent.core.attachments import LEFT_FOR, AttachmentStore, records
from agent.core.home import Home
from agent.core.messages import Attachment
from agent.core.store import images
from agent.core.store.store import Store
from tests.support.images import png, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def take(home: Home, name: str = "chart.png", data: bytes | None = None) -> Attachment:
    home.root.mkdir(exist_ok=True)
    kept = AttachmentStore(home.attachments)
    return kept.take(
        write(home.root.parent / name, data if data is not None else name.encode().join([png()] * 2))
    )


def files(home: Home) -> set[str]:
    return {path.name for path in home.attachments.iterdir()} if home.attachments.is_dir() else set()


async def send(store: Store, *attached: Attachment, parent: str | None = None) -> str:
    """A session with one message that has these images."""
    session = await store.create_session(workspace="/w", model="m", parent=parent)
    await store.append(session.id, "user", "look", {"origin": "prompt", "attachments": records(attached)})
    return session.id


async def test_the_images_of_a_deleted_session_are_deleted(home: Home) -> None:
    image = take(home)
    async with await Store.open(home.database) as store:
        session = await send(store, image)
        assert files(home) == {image.sha256}
        await store.delete(session)
    assert files(home) == set()


async def test_the_large_outputs_of_a_deleted_session_are_deleted(home: Home) -> None:
    async with await Store.open(home.database) as store:
        gone, kept = await send(store), await send(store)
        for session in (gone, kept):
            (home.scratch / session / "web").mkdir(parents=True)
            (home.scratch / session / "web" / "page.txt").write_text("all of it")
        await store.delete(gone)
    assert [each.name for each in home.scratch.iterdir()] == [kept]


async def test_an_image_stays_as_long_as_a_message_of_any_session_refers_to_it(home: Home) -> None:
    both, alone = take(home, "both.png"), take(home, "alone.png")
    async with await Store.open(home.database) as store:
        first, second = await send(store, both, alone), await send(store, both)
        await store.delete(first)
        assert files(home) == {both.sha256}
        await store.delete(second)
    assert files(home) == set()


async def test_a_branch_that_was_left_still_refers_to_its_image(home: Home) -> None:
    image = take(home)
    async with await Store.open(home.database) as store:
        session = await store.create_session(workspace="/w", model="m")
        start = await store.append(session.id, "user", "begin", {"origin": "prompt"})
        await store.append(session.id, "user", "look", {"attachments": records([image])})
        await store.fork(session.id, start.id, "other")
        await store.delete(await send(store, image))
    assert files(home) == {image.sha256}


async def test_the_images_of_its_subagents_go_with_a_session(home: Home) -> None:
    image = take(home)
    async with await Store.open(home.database) as store:
        session = await send(store)
        await send(store, image, parent=session)
        await store.delete(session)
    assert files(home) == set()


async def test_an_image_taken_again_after_it_was_sent_waits_for_its_message(home: Home) -> None:
    image = take(home)
    async with await Store.open(home.database) as store:
        session = await send(store, image)
        await asyncio.sleep(0.02)
        assert take(home) == image
        await store.delete(session)
        assert files(home) == {image.sha256}
        await store.delete(await send(store, image))
    assert files(home) == set()


async def test_what_nothing_refers_to_goes_after_a_day(home: Home) -> None:
    old, new, used = (take(home, f"{name}.png") for name in ("old", "new", "used"))
    cut_off = home.attachments / f".{old.sha256}.0123abcd"
    cut_off.write_bytes(b"half")
    strange = home.attachments / "notes.txt"
    strange.write_text("not ours")
    before = time.time() - LEFT_FOR - 60
    for path in (home.attachments / old.sha256, home.attachments / used.sha256, cut_off, strange):
        os.utime(path, (before, before))
    async with await Store.open(home.database) as store:
        await send(store, used)
        await store.delete(await send(store))
    assert files(home) == {new.sha256, used.sha256, "notes.txt"}


async def test_messages_are_looked_through_to_the_last_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_BATCH", 2)
    late, gone = take(home, "late.png"), take(home, "gone.png")
    async with await Store.open(home.database) as store:
        for _ in range(5):
            await send(store)
        deleted = await send(store, gone, late)
        await send(store, late)
        await store.delete(deleted)
    assert files(home) == {late.sha256}


async def test_a_link_in_the_place_of_an_image_goes_and_not_what_it_leads_to(home: Home) -> None:
    image = take(home)
    precious = home.root / "precious"
    precious.write_text("stay")
    (home.attachments / image.sha256).unlink()
    (home.attachments / image.sha256).symlink_to(precious)
    async with await Store.open(home.database) as store:
        await store.delete(await send(store, image))
    assert files(home) == set() and precious.read_text() == "stay"


async def test_without_images_a_session_is_deleted_as_before(home: Home) -> None:
    home.root.mkdir()
    async with await Store.open(home.database) as store:
        session = await send(store)
        assert await store.delete(session) == [session]
    assert not home.attachments.exists()
