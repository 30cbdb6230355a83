"""The search over everything that can be recalled."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.store.nodes import Kind, NewNode, Session
from agent.core.store.search import Filters
from agent.core.store.store import Store
from agent.knowledge.memory.files import MemoryOperation, Origin
from agent.knowledge.memory.service import MemoryFiles
from agent.knowledge.recall import sources
from agent.knowledge.recall.recall import Recall, ToolSearch
from agent.knowledge.recall.scoring import date_words, words_of
from agent.knowledge.recall.sources import MemoryNotes, Passage
from tools.context import FoundNote, FoundSession, SessionSearch

TALK: tuple[tuple[Kind, str], ...] = (
    ("user", "How do we deploy the billing service?"),
    ("assistant", "With the script in ops, after the tests are green."),
    ("user", "And who signs the invoices?"),
    ("assistant", "Dana does, every Friday."),
    ("tool", '{"output": "deploying billing to staging"}'),
)


class Shelf:
    """A source with fixed passages."""

    name = "shelf"

    def __init__(self, *passages: Passage) -> None:
        self._passages = passages

    async def passages(self) -> Sequence[Passage]:
        return self._passages


@pytest.fixture
async def recall(store: Store) -> AsyncIterator[Recall]:
    recall = Recall(store)
    yield recall
    await recall.close()


@pytest.fixture
async def nodes(store: Store, session: Session) -> list[int]:
    made = await store.append_many(
        session.id,
        [NewNode(kind, text, {"tool": "terminal"} if kind == "tool" else {}) for kind, text in TALK],
    )
    return [node.id for node in made]


async def test_a_question_is_answered_though_no_message_holds_all_its_words(
    recall: Recall, nodes: list[int]
) -> None:
    hits = await recall.search("who was it again that signs our invoices each week?")
    assert [hit.node for hit in hits.hits[:2]] == [nodes[2], nodes[3]]
    assert hits.hits[0].ways == ("some words",)
    assert hits.hits[1].ways == ("nearby",)


async def test_few_words_mean_themselves_and_come_first(recall: Recall, nodes: list[int]) -> None:
    hits = await recall.search("billing")
    assert {hit.node for hit in hits.hits} == {nodes[0], nodes[4]}
    assert all(hit.ways == ("exact",) for hit in hits.hits)
    deployed = await recall.search("deployed billing")
    assert [hit.ways for hit in deployed.hits][:2] == [("words",), ("words",)]
    assert all("nearby" in hit.ways for hit in deployed.hits[2:])


async def test_parts_of_words_and_symbols_are_found_as_ever(
    recall: Recall, store: Store, session: Session
) -> None:
    node = await store.append(session.id, "user", "def onClickHandler(self): # C++")
    for text in ("ClickHand", "C++", '"def onClickHandler(self)"'):
        assert [hit.node for hit in (await recall.search(text)).hits] == [node.id]


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(roles=("assistant",)), [3]),
        (Filters(roles=("user",)), [2, 0]),
        (Filters(tool="terminal"), [4]),
        (Filters(without=("invoices",)), [3, 1]),
        (Filters(session="nope"), []),
        (Filters(project="project"), [2]),
        (Filters(project="elsewhere"), []),
        (Filters(branch="mai"), [2]),
        (Filters(branch="other"), []),
        (Filters(until=1.0), []),
        (Filters(since=1.0), [2]),
        (Filters(since=4e9), []),
    ],
    ids=str,
)
async def test_filters_narrow_what_is_ranked(
    recall: Recall, nodes: list[int], filters: Filters, expected: list[int]
) -> None:
    hits = await recall.search("please tell me who signs the invoices on which day", filters=filters)
    got = [nodes.index(hit.node) for hit in hits.hits]
    assert got[: len(expected)] == expected
    assert bool(got) is bool(expected)


@pytest.mark.thorough
async def test_a_filter_finds_its_message_among_thousands_that_match_better(
    recall: Recall, store: Store, session: Session
) -> None:
    (wanted,) = await store.append_many(session.id, [NewNode("notice", "a needle once")])
    other = await store.create_session(workspace="/w", model="m")
    for _ in range(10):
        await store.append_many(
            other.id, [NewNode("user", f"needle and thread and eye {n}") for n in range(400)]
        )
    await recall.index.catch_up(seconds=30)
    text = "which needle has the thread in its eye"
    hits = await recall.search(text, filters=Filters(roles=("notice",)))
    assert [hit.node for hit in hits.hits] == [wanted.id]
    hits = await recall.search(text, filters=Filters(session=session.id))
    assert [hit.node for hit in hits.hits] == [wanted.id]


async def test_one_hit_of_a_session_where_that_is_asked_for(
    recall: Recall, store: Store, nodes: list[int]
) -> None:
    other = await store.create_session(workspace="/w", model="m")
    (far,) = await store.append_many(other.id, [NewNode("user", "billing again")])
    hits = await recall.search("how is billing deployed by the script", by_session=True)
    assert sorted(hit.node for hit in hits.hits) == [nodes[0], far.id]


async def test_what_was_said_lately_comes_before_the_same_said_long_ago(
    recall: Recall, store: Store, session: Session
) -> None:
    from agent.core.store.importing import parse_sessions

    old = (
        '{"id": 1, "session": "old", "kind": "user", "created": 1000000000, '
        '"content": "the harbour code is blue"}'
    )
    await store.import_sessions(parse_sessions([old]))
    (new,) = await store.append_many(session.id, [NewNode("user", "the harbour code is green")])
    hits = await recall.search("what is the harbour code then please")
    assert [hit.session for hit in hits.hits] == [session.id, "old"]
    assert hits.hits[0].node == new.id


async def test_the_day_is_a_word_of_the_message(recall: Recall, store: Store) -> None:
    from agent.core.store.importing import parse_sessions

    lines = [
        f'{{"id": {at}, "session": "s{at}", "kind": "user", "created": {1_650_000_000 + at * 86_400 * 40}, '
        f'"content": "we went to the market"}}'
        for at in range(1, 6)
    ]
    await store.import_sessions(parse_sessions(lines))
    day = date_words(1_650_000_000 + 3 * 86_400 * 40).split()
    hits = await recall.search(f"were we at the market on {day[2]} {day[1]} {day[0]} perhaps?")
    assert hits.hits[0].session == "s3"
    assert "date" in hits.hits[0].ways


async def test_notes_of_memory_are_ranked_among_messages(store: Store, nodes: list[int], path) -> None:  # type: ignore[no-untyped-def]
    files = MemoryFiles(path.with_name("memories"), path.parent)
    await files.write(
        "memory",
        [
            MemoryOperation("add", "Invoices are signed by Dana's deputy in August"),
            MemoryOperation("add", "x y"),
        ],
        Origin(1_700_000_000.0),
    )
    recall = Recall(store, sources=[MemoryNotes(files)])
    text = "who signs the invoices in August then?"
    hits = await recall.search(text)
    assert (hits.hits[0].source, hits.hits[0].title) == ("memory", "MEMORY.md")
    assert nodes[2] in [hit.node for hit in hits.hits if hit.source == "messages"]
    assert all(hit.source == "memory" for hit in (await recall.search(text, sources=["memory"])).hits)
    assert all(hit.source == "messages" for hit in (await recall.search(text, sources=["messages"])).hits)
    narrowed = await recall.search(text, filters=Filters(roles=("user",)))
    assert all(hit.source == "messages" for hit in narrowed.hits)
    await recall.close()


async def test_a_source_of_its_own_takes_one_small_class(store: Store, nodes: list[int]) -> None:
    recall = Recall(store, sources=[Shelf(Passage("Deploying", "the billing service takes ten minutes"))])
    hits = await recall.search("how many minutes does billing take to deploy")
    assert hits.hits[0].source == "shelf"
    assert recall.source_names == ("messages", "shelf")
    await recall.close()


async def test_tools_get_one_hit_of_each_session_with_its_surroundings(
    store: Store, session: Session, nodes: list[int]
) -> None:
    recall = Recall(store, sources=[Shelf(Passage("note", "invoices invoices"))])
    service: SessionSearch = ToolSearch(recall, store)
    total, found = await service.search("who signs the invoices in the end?", window=1)
    assert total == len(found) == 2
    message = next(each for each in found if isinstance(each, FoundSession))
    assert message.match == nodes[2]
    assert [each.id for each in message.messages] == nodes[1:4]
    assert [each.source for each in found if isinstance(each, FoundNote)] == ["shelf"]
    assert (await service.search("invoices", session=session.id))[0] == 1
    assert await service.search("absent") == (0, [])
    await recall.close()


async def test_without_a_usable_index_exact_matches_are_still_found(recall: Recall, nodes: list[int]) -> None:
    with closing(sqlite3.connect(recall.index.path)) as connection:
        connection.execute("PRAGMA application_id = 1234")
        connection.execute("CREATE TABLE precious (x)")
    assert {hit.node for hit in (await recall.search("billing")).hits} == {nodes[0], nodes[4]}
    assert (await recall.search("how does one deploy the billing service here")).hits == ()


async def test_pages_follow_each_other(recall: Recall, store: Store, session: Session) -> None:
    await store.append_many(
        session.id, [NewNode("user", f"lantern story part {n} of them") for n in range(30)]
    )
    text = "tell me the story of that old lantern"
    whole = await recall.search(text, limit=30)
    pages = [(await recall.search(text, limit=7, offset=start)).hits for start in range(0, 30, 7)]
    assert [hit.node for page in pages for hit in page] == [hit.node for hit in whole.hits]
    assert whole.total == 30


@pytest.mark.thorough
@given(st.text(st.characters(codec=None, categories=None), max_size=40))
@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
async def test_any_text_is_a_question(recall: Recall, nodes: list[int], text: str) -> None:
    await recall.search(text)
    await recall.search(f"{text} and some more words of {text}", filters=Filters(project=text))


def test_words_are_what_a_question_is_about() -> None:
    assert words_of("What did Caroline's group do in the Café?") == ("caroline", "group", "cafe")
    assert words_of("who are you") == ("who", "are", "you")
    assert words_of("session_search, C++ & #12") == ("session", "search", "c", "12")
    assert words_of("") == ()
    assert len(words_of(" ".join(map(str, range(1_000))))) == 24


async def test_a_search_that_is_given_up_or_ends_late_leaves_no_index_of_notes() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Title(str):
        def __format__(self, _spec: str) -> str:
            begun.set()
            go_on.wait(20)
            return str(self)

    shelf = sources.PassageIndex()
    notes = [Passage(Title("Deploying"), "the billing service takes ten minutes")]
    given_up = asyncio.create_task(shelf.best(["billing"], notes, {}))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    given_up.cancel()
    late = asyncio.create_task(shelf.best(["billing"], notes, {}))
    await asyncio.sleep(0)
    # Its thread still fills the index, which nobody else may touch until then.
    assert not given_up.done()
    closing = asyncio.create_task(shelf.close())
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await late == []
    await closing
    gc.collect()  # A connection that is left says so when it goes.


async def test_notes_are_found_after_a_search_among_them_was_given_up() -> None:
    shelf = sources.PassageIndex()
    notes = [Passage("Deploying", "the billing service takes ten minutes")]
    given_up = asyncio.create_task(shelf.best(["billing"], notes, {}))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert [each for each, _ in await shelf.best(["billing"], notes, {})] == notes
    await shelf.close()
