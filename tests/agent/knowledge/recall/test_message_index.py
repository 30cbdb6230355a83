"""The index over messages: true to the store, whatever happens while it is built."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent.core.store.nodes import NewNode, Session
from agent.core.store.store import Store
from agent.errors import StoreError
from agent.knowledge.recall import index_tables, message_index, scoring
from agent.knowledge.recall.message_index import MessageIndex
from agent.knowledge.recall.scoring import words_of

Places = list[list[int]]


def places(file: Path) -> Places:
    """The nodes of each line, in order."""
    with closing(sqlite3.connect(file)) as connection:
        lines: dict[int, list[int]] = {}
        for position, node in connection.execute("SELECT position, node FROM places ORDER BY position"):
            lines.setdefault(index_tables.line_of(position), []).append(node)
        return list(lines.values())


async def check(store: Store, file: Path) -> None:
    """Every message that can be searched stands once, with what is before it on its path before it."""
    messages = {}
    after = 0
    while some := await store.database.read(lambda c, after=after: message_index.nodes_after(c, after)):
        messages |= {each.node: each for each in some if each.text}
        after = some[-1].node
    before: dict[int, list[int | None]] = {}
    for line in places(file):
        for at, node in enumerate(line):
            before.setdefault(node, []).append(line[at - 1] if at else None)
    assert before.keys() == messages.keys()
    for node, found in before.items():
        assert messages[node].before in found
        assert set(found) <= {messages[node].before, None}
    with closing(sqlite3.connect(file)) as connection:
        (rows,) = connection.execute("SELECT rows FROM state").fetchone()
        assert rows == sum(map(len, places(file)))
        (indexed,) = connection.execute("SELECT count(*) FROM words WHERE words MATCH 'needle'").fetchone()
        held = [node for line in places(file) for node in line if "needle" in messages[node].text]
        assert indexed == len(held)


async def found(index: MessageIndex, text: str) -> list[int]:
    return [node for node, _ in (await index.find(words_of(text))).hits]


async def talk(store: Store, session: Session, *texts: str, head: str = "main") -> list[int]:
    nodes = await store.append_many(
        session.id,
        [NewNode("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(texts)],
        head=head,
    )
    return [node.id for node in nodes]


@pytest.fixture
async def index(store: Store):  # type: ignore[no-untyped-def]
    index = MessageIndex(store.file.with_name("recall.db"), store)
    yield index
    await index.close()


async def test_an_answer_is_found_by_the_words_of_its_question(
    store: Store, session: Session, index: MessageIndex
) -> None:
    filler = [f"nothing to see in sentence {number}" for number in range(40)]
    nodes = await talk(store, session, *filler, "Where did you bury the treasure?", "Under the oak.", *filler)
    await index.catch_up(seconds=10)
    best = await found(index, "where is the treasure buried")
    assert best[:2] == [nodes[40], nodes[41]]


async def test_branches_have_their_neighbours_and_nothing_of_each_other(
    store: Store, session: Session, index: MessageIndex
) -> None:
    first = await talk(store, session, "one", "two needle", "three", "four")
    await index.catch_up(seconds=10)
    await store.fork(session.id, first[1], "side")
    side = await talk(store, session, "five needle", "six", head="side")
    await store.fork(session.id, first[1], "third")
    third = await talk(store, session, "seven", head="third")
    more = await talk(store, session, "eight", "nine")
    await index.catch_up(seconds=10)
    assert sorted(places(index.path)) == sorted(
        [[*first, *more], [first[0], first[1], *side], [first[0], first[1], *third]]
    )
    await check(store, index.path)


async def test_entries_without_words_are_passed_over(
    store: Store, session: Session, index: MessageIndex
) -> None:
    system = await store.append(session.id, "system", "Be brief.", {"tools": []})
    user = await store.append(session.id, "user", "the needle")
    await store.append(session.id, "compaction", "", {})
    await store.append(session.id, "assistant", "", {"calls": []})
    last = await store.append(session.id, "assistant", "is sharp")
    await index.catch_up(seconds=10)
    assert places(index.path) == [[user.id, last.id]]
    assert system.id < user.id
    await check(store, index.path)


async def test_building_in_steps_with_other_sessions_between_gives_the_same_as_building_at_once(
    store: Store, session: Session, index: MessageIndex, path: Path
) -> None:
    other = await store.create_session(workspace="/w", model="m")
    for number in range(30):
        await talk(store, session, f"question {number} about the needle")
        await talk(store, other, f"something else {number}", "and an answer with a needle")
        if number % 3 == 0:
            await index.catch_up(seconds=10)
        if number % 10 == 5:
            node = (await store.tail(session.id))[-3:][0].id
            await store.fork(session.id, node, f"b{number}")
            await talk(store, session, f"a needle on a branch {number}", head=f"b{number}")
    await index.catch_up(seconds=10)
    await check(store, index.path)
    whole = MessageIndex(path.with_name("whole.db"), store)
    await whole.catch_up(seconds=10)
    await check(store, whole.path)
    now = time.time()
    one = await index.find(words_of("which needle on a branch"), now=now)
    two = await whole.find(words_of("which needle on a branch"), now=now)
    assert [(node, each.score) for node, each in one.hits] == [(node, each.score) for node, each in two.hits]
    await whole.close()


async def test_two_that_build_at_once_add_nothing_twice(store: Store, session: Session, path: Path) -> None:
    other = await store.create_session(workspace="/w", model="m")
    for number in range(60):
        await talk(store, session, *[f"message {number} {at} needle" for at in range(20)])
        await talk(store, other, *[f"other {number} {at}" for at in range(20)])
    file = path.with_name("recall.db")
    async with await Store.open(path) as second:
        builders = [MessageIndex(file, store), MessageIndex(file, second)]
        await asyncio.gather(*(each.catch_up(seconds=60) for each in builders))
        await check(store, file)
        for each in builders:
            await each.close()


async def test_words_of_a_deleted_session_leave_the_file(
    store: Store, session: Session, index: MessageIndex
) -> None:
    other = await store.create_session(workspace="/w", model="m")
    await talk(store, session, *[f"xylophonist number {number} with a needle" for number in range(300)])
    await talk(store, other, "an ordinary needle", "stays here")
    await index.catch_up(seconds=10)
    assert b"xylophonist" in index.path.read_bytes()
    await store.delete(session.id, clearing=index.remove)
    await check(store, index.path)
    assert await found(index, "xylophonist") == []
    assert len(await found(index, "needle")) >= 1
    await index.close()
    assert b"xylophonist" not in index.path.read_bytes()


async def test_a_deletion_that_the_index_did_not_hear_of_is_made_up_for(
    store: Store, session: Session, index: MessageIndex
) -> None:
    other = await store.create_session(workspace="/w", model="m")
    await talk(store, session, "the xylophonist has a needle")
    await talk(store, other, "an ordinary needle")
    await index.catch_up(seconds=10)
    await index.close()
    await store.delete(session.id)
    index = MessageIndex(index.path, store)
    await index.catch_up(seconds=10)
    await check(store, index.path)
    await index.close()
    assert b"xylophonist" not in index.path.read_bytes()


async def damaged(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4_096:] = b"\x5a" * (len(data) - 4_096)
    file.write_bytes(data)


async def torn(file: Path) -> None:
    file.write_bytes(b"no database at all, and long enough to be looked at" * 100)


async def gone(file: Path) -> None:
    file.unlink()


async def emptied(file: Path) -> None:
    file.write_bytes(b"")


async def of_another_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 77")


async def without_a_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE lines")


@pytest.mark.parametrize(
    "harm",
    [damaged, torn, gone, emptied, of_another_version, without_a_table],
    ids=lambda harm: harm.__name__,
)
async def test_an_index_that_cannot_be_used_is_built_again(  # type: ignore[no-untyped-def]
    harm, store: Store, session: Session, index: MessageIndex
) -> None:
    nodes = await talk(store, session, *[f"needle {number}" for number in range(50)])
    await index.catch_up(seconds=10)
    await index.close()
    await harm(index.path)
    index = MessageIndex(index.path, store)
    await index.catch_up(seconds=10)
    assert set(await found(index, "needle")) == set(nodes)
    await check(store, index.path)
    await index.close()
    assert index.path.stat().st_mode & 0o777 == 0o600


async def test_an_index_that_is_closed_while_it_opens_stays_closed(
    store: Store, session: Session, index: MessageIndex
) -> None:
    await talk(store, session, "a needle")
    before = set(threading.enumerate())
    building = asyncio.create_task(index.catch_up(seconds=10))
    while not index.path.exists():
        await asyncio.sleep(0)
    await index.close()
    # Nor is it opened again by a search that has not ended yet.
    for late in (building, index.find(["needle"])):
        with pytest.raises(StoreError, match="was closed"):
            await late
    for thread in set(threading.enumerate()) - before:
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join, 20)
            assert not thread.is_alive()


async def test_an_index_that_is_deleted_while_it_is_open_is_built_again(
    store: Store, session: Session, index: MessageIndex
) -> None:
    await talk(store, session, "a needle")
    await index.catch_up(seconds=10)
    index.path.unlink()
    await talk(store, session, "another needle")
    await index.catch_up(seconds=10)
    await check(store, index.path)


async def test_the_index_of_another_store_is_built_again(store: Store, session: Session, path: Path) -> None:
    await talk(store, session, "a needle", "and thread")
    index = MessageIndex(path.with_name("recall.db"), store)
    await index.catch_up(seconds=10)
    await index.close()
    async with await Store.open(path.with_name("other.db")) as other:
        session = await other.create_session(workspace="/w", model="m")
        await talk(other, session, "quite another needle", "here", "and here")
        index = MessageIndex(path.with_name("recall.db"), other)
        await index.catch_up(seconds=10)
        await check(other, index.path)
        await index.close()


async def test_a_file_of_another_program_is_left_alone(store: Store, index: MessageIndex) -> None:
    with closing(sqlite3.connect(index.path)) as connection:
        connection.execute("PRAGMA application_id = 1234")
        connection.execute("CREATE TABLE precious (x)")
    before = index.path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        await index.catch_up(seconds=10)
    assert index.path.read_bytes() == before


_CHILD = """
import asyncio, sys
from pathlib import Path
from agent.knowledge.recall.message_index import MessageIndex
from agent.core.store.store import Store

async def main():
    async with await Store.open(Path(sys.argv[1])) as store:
        index = MessageIndex(Path(sys.argv[2]), store)
        await index.catch_up(seconds=0)
        print("begun", flush=True)
        await index.catch_up(seconds=60)

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_a_builder_that_is_killed_loses_nothing(store: Store, session: Session, path: Path) -> None:
    for number in range(40):
        await talk(store, session, *[f"needle {number} {at}" for at in range(100)])
    file = path.with_name("recall.db")
    for pause in (0.0, 0.01, 0.03):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CHILD, str(path), str(file), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        await child.stdout.readline()
        await asyncio.sleep(pause)
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
    index = MessageIndex(file, store)
    await index.catch_up(seconds=60)
    await check(store, file)
    await index.close()


async def test_what_is_added_is_found_by_words_that_were_asked_for_before(
    store: Store, session: Session, index: MessageIndex
) -> None:
    nodes = await talk(store, session, *[f"needle {number}" for number in range(300)])
    await index.catch_up(seconds=10)
    await index.find(words_of("needle and thread"))
    (new,) = await talk(store, session, "a needle with a thread")
    await store.fork(session.id, nodes[5], "side")
    (fork,) = await talk(store, session, "needle and thread on a side", head="side")
    await index.catch_up(seconds=10)
    assert set((await found(index, "needle and thread"))[:2]) == {new, fork}
    await store.delete(session.id, clearing=index.remove)
    other = await store.create_session(workspace="/w", model="m")
    (last,) = await talk(store, other, "one needle")
    await index.catch_up(seconds=10)
    assert await found(index, "needle and thread") == [last]


async def test_a_common_word_is_not_passed_over(store: Store, session: Session, index: MessageIndex) -> None:
    other = await store.create_session(workspace="/w", model="m")
    await talk(store, session, *[f"the lantern of part {number}" for number in range(2_000)])
    (both,) = await talk(store, other, "a lantern beside the sextant")
    await talk(store, other, *[f"a sextant on shelf {number}" for number in range(300)])
    await index.catch_up(seconds=30)
    assert (await found(index, "which sextant has a lantern"))[0] == both


async def test_common_words_that_were_read_beforehand_change_no_answer(
    store: Store, session: Session, index: MessageIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        f"the {'rope' if n % 3 else 'sail'} of ship {n} in the harbour {'of Kiel' * (n % 5 == 0)}"
        for n in range(300)
    ]
    await talk(store, session, *texts)
    await index.catch_up(seconds=10)
    now = time.time()
    asked = [words_of(each) for each in ("which ship has a rope", "sail of Kiel", "harbour")]
    before = [(await index.find(each, now=now)).hits for each in asked]
    monkeypatch.setattr(message_index, "_MANY", 100)
    warm = MessageIndex(index.path, store)
    await warm.warm_up()
    assert set(warm._remembered._kept) == {"rope", "ship", "harbour"}
    assert [(await warm.find(each, now=now)).hits for each in asked] == before
    (new,) = await talk(store, session, "a halyard is a rope of a ship")
    await warm.catch_up(seconds=10)
    assert (await found(warm, "which rope of the ship is the halyard"))[0] == new
    await warm.close()


async def test_of_a_word_that_stands_almost_everywhere_the_newest_places_count(
    store: Store, session: Session, index: MessageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = await talk(store, session, *(f"needle {number}" for number in range(40)))
    await index.catch_up(seconds=10)
    monkeypatch.setattr(scoring, "MOST", 10)
    assert max(await found(index, "needle")) == nodes[-1]
    assert set(nodes[-10:]) <= set(await found(index, "needle")) <= set(nodes[-12:])
