from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.core.store import search as finding
from agent.core.store.nodes import NewNode, Session
from agent.core.store.query_line import MAX_TERMS, parse
from agent.core.store.search import MAX_HITS, Filters
from agent.core.store.store import Store
from agent.errors import StoreError

STORED = {
    "address": "write to user@example.com today",
    "percent": "coverage is 100% now",
    "path": "see /etc/nginx/nginx.conf for details",
    "apostrophe": "foo' is what it says",
    "quoted": 'he said "quoted text" twice',
    "joined": "the flag a-b_c is set",
    "and": "salt AND pepper",
    "star": "glob * matches",
    "emoji": "done 🎉 finally",
    "family": "the 👨‍👩‍👧 emoji",
    "chinese": "数据库连接失败",
    "japanese": "設定ファイルを読む",
    "korean": "한국어로 씁니다",
    "accents": "une crème brûlée à Besançon",
    "camel": "def onClickHandler(self): pass",
    "arrow": "x -> y → z",
    "nul": "before\0behind",
    "apples": "one hundred apples 100",
    "cyrillic": "Ошибка соединения",
    "underscore": "call session_search here",
    "brackets": "match foo(bar[0]) {baz}",
    "caret": "a ^ b : c + d",
    "smart": "it’s a “smart” text",
}


@pytest.fixture
async def filled(store: Store, session: Session) -> dict[int, str]:
    nodes = await store.append_many(session.id, [NewNode("user", text) for text in STORED.values()])
    return {node.id: name for node, name in zip(nodes, STORED, strict=True)}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("user@example.com", "address"),
        ("USER@EXAMPLE", "address"),
        ("100%", "percent"),
        ("onClick*", "camel"),
        ("peppe* sal*", "and"),
        ("Ошиб*", "cyrillic"),
        ("gl* *", "star"),
        ("/etc/nginx/nginx.conf", "path"),
        ("nginx.co", "path"),
        ("foo'", "apostrophe"),
        ('"quoted', "quoted"),
        ('"quoted text"', "quoted"),
        ('quoted text"', "quoted"),
        ("a-b_c", "joined"),
        ("AND", "and"),
        ("salt AND pepper", "and"),
        ("pepper salt", "and"),
        ("*", "star"),
        ("glob *", "star"),
        ("🎉", "emoji"),
        ("👩", "family"),
        ("👨‍👩‍👧", "family"),
        ("数据", "chinese"),
        ("失败", "chinese"),
        ("败", "chinese"),
        ("连接失败", "chinese"),
        ("設定", "japanese"),
        ("ファイル", "japanese"),
        ("한국", "korean"),
        ("creme brulee", "accents"),
        ("crème", "accents"),
        ("Besanc", "accents"),
        ("Handler", "camel"),
        ("onclick", "camel"),
        ("->", "arrow"),
        ("→", "arrow"),
        ("behind", "nul"),
        ("before\0behind", "nul"),
        ("appl", "apples"),
        ("ошибка", "cyrillic"),
        ("соедин", "cyrillic"),
        ("session_search", "underscore"),
        ("session_sea", "underscore"),
        ("search", "underscore"),
        ("foo(bar[0])", "brackets"),
        ("{baz}", "brackets"),
        ("^", "caret"),
        (":", "caret"),
        ("+ d", "caret"),
        ("it's", "smart"),
        ('"smart"', "smart"),
    ],
)
async def test_what_was_typed_is_found(store: Store, filled: dict[int, str], query: str, name: str) -> None:
    found = await store.search(query)
    assert name in [filled[hit.node] for hit in found.hits]
    assert found.total == len(found.hits)
    assert found.complete


NOTHING = [
    "",
    " ",
    "\0",
    "\n\t",
    "\ud800",
    '"',
    '""',
    "'",
    "()",
    "NEAR(a b)",
    "OR",
    "NOT",
    "- -",
    "a AND",
    "body:x",
]


@pytest.mark.sample(7)
@pytest.mark.parametrize("query", [*NOTHING, "x" * 5_000, "(" * 5_000, "word " * 1_000, "🎉" * 500])
async def test_no_query_is_an_error(store: Store, filled: dict[int, str], query: str) -> None:
    assert (await store.search(query)).total <= len(filled)


@pytest.mark.thorough
@given(st.text(st.characters(codec=None, categories=None), max_size=20))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
async def test_any_text_is_a_query(
    store: Store, session: Session, filled: dict[int, str], query: str
) -> None:
    await store.search(query, filters=Filters(roles=(query,), session=query, tool=query))


@given(st.text("ab-_%\"'*. 你🎉é", min_size=1, max_size=12).filter(lambda text: text.strip()))
@example('" "')
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
async def test_a_stored_text_is_found_by_itself(store: Store, session: Session, text: str) -> None:
    node = await store.append(session.id, "user", text)
    hits = await store.search(text, order="newest", patience=5)
    assert hits.hits[0].node == node.id


async def test_symbols_count_unless_nothing_holds_them(store: Store, filled: dict[int, str]) -> None:
    exact = await store.search("100%")
    assert [filled[hit.node] for hit in exact.hits] == ["percent"]
    loose = await store.search("100!")
    assert {filled[hit.node] for hit in loose.hits} == {"percent", "apples"}


async def test_whole_words_and_people_come_first_but_newest_order_is_kept(
    store: Store, session: Session
) -> None:
    person = await store.append(session.id, "user", "the config is here")
    tool = await store.append(session.id, "tool", '{"output": "config"}', {"tool": "terminal"})
    part = await store.append(session.id, "assistant", "reconfiguring")
    ranked = await store.search("config")
    assert [hit.node for hit in ranked.hits] == [person.id, tool.id, part.id]
    newest = await store.search("config", order="newest")
    assert [hit.node for hit in newest.hits] == [part.id, tool.id, person.id]


async def test_filters_narrow_the_hits(store: Store, session: Session) -> None:
    other = await store.create_session(workspace="/w", model="m", title="Other")
    old = await store.append(session.id, "user", "needle one")
    tool = await store.append(session.id, "tool", "needle two", {"tool": "terminal"})
    new = await store.append(other.id, "assistant", "needle three")

    async def found(**values: object) -> set[int]:
        hits = await store.search("needle", filters=Filters(**values))  # type: ignore[arg-type]
        return {hit.node for hit in hits.hits}

    assert await found() == {old.id, tool.id, new.id}
    assert await found(roles=("user", "assistant")) == {old.id, new.id}
    assert await found(session=other.id) == {new.id}
    assert await found(session="nope") == set()
    assert await found(tool="terminal") == {tool.id}
    assert await found(since=new.created) == {new.id}
    assert await found(until=old.created) == {old.id}
    assert await found(since=time.time() + 60) == set()
    (hit,) = (await store.search("three")).hits
    assert (hit.title, hit.kind, hit.session) == ("Other", "assistant", other.id)


async def test_hits_are_counted_to_a_limit_and_come_in_pages(store: Store, session: Session) -> None:
    await store.append_many(session.id, [NewNode("user", f"common {n}") for n in range(MAX_HITS + 40)])
    first = await store.search("common", limit=10)
    second = await store.search("common", limit=10, offset=10)
    assert first.total == second.total == MAX_HITS
    assert not {hit.node for hit in first.hits} & {hit.node for hit in second.hits}
    assert (await store.search("common", limit=10, offset=MAX_HITS)).hits == ()
    assert (await store.search("common", limit=10**30, offset=-1)).total == MAX_HITS
    newest = await store.search("common", limit=MAX_HITS, order="newest")
    ids = [hit.node for hit in newest.hits]
    assert ids == sorted(ids, reverse=True)


async def test_windows_cover_every_message(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_FIRST_WINDOW", 7)
    monkeypatch.setattr(finding, "_FIRST_SCAN", 7)
    monkeypatch.setattr(finding, "_QUICK", 0.0)
    texts = [f"needle{n} xy" if n % 50 == 0 else "hay" for n in range(300)]
    await store.append_many(session.id, [NewNode("user", text) for text in texts])
    for query in ("needle", "needle250", "xy", "x"):
        hits = await store.search(query, patience=60)
        assert hits.total == (1 if query == "needle250" else 6)
        assert hits.complete
    hasty = await store.search("needle0", patience=0)
    assert hasty.total == 0
    assert not hasty.complete


async def test_snippets_show_the_match_on_one_clean_line(store: Store, session: Session) -> None:
    text = "start " * 100 + "\nthe \x1b[31mNeedle\x1b[0m is\there\r\n" + "end " * 100
    await store.append(session.id, "user", text)
    (hit,) = (await store.search("needle")).hits
    assert "the Needle is here" in hit.snippet
    assert "\x1b" not in hit.snippet
    assert "\n" not in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 200


async def test_snippets_find_what_only_folding_finds(store: Store, session: Session) -> None:
    await store.append(session.id, "user", "filler " * 60 + "\nla crème brûlée\n" + "filler " * 60)
    (hit,) = (await store.search("creme")).hits
    assert "crème brûlée" in hit.snippet


async def test_around_a_hit_are_the_messages_of_its_path(store: Store, session: Session) -> None:
    await store.append(session.id, "system", "prompt")
    nodes = await store.append_many(session.id, [NewNode("user", str(number)) for number in range(6)])
    await store.append(session.id, "notice", "changed on disk")
    last = await store.append(session.id, "assistant", "6")
    await store.fork(session.id, nodes[3].id, "side")
    side = await store.append(session.id, "user", "aside", head="side")
    assert await store.around(nodes[2].id, 2) == [*nodes[0:4], side]
    assert await store.around(nodes[5].id, 2) == [*nodes[3:6], last]
    assert await store.around(nodes[0].id, 1) == nodes[:2]
    assert await store.around(nodes[4].id, 0) == [nodes[4]]
    assert await store.around(10**12, 3) == []


def test_a_query_keeps_quoted_words_together_and_is_bounded() -> None:
    assert parse('say "two words" twice say').raw == ("say", "two words", "twice")
    assert len(parse(" ".join(map(str, range(1_000)))).terms) == MAX_TERMS
    assert parse("ab cde").short == ("ab",)
    assert parse("a%b").short == ()
    assert parse("%").short == ("%",)


async def test_a_search_in_a_closed_store_says_so(path: Path) -> None:
    store = await Store.open(path)
    await store.close()
    with pytest.raises(StoreError, match="was closed"):
        await store.search("x")
