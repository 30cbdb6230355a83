"""Filters of a search over a store with projects, tools and branches."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.store import query_line as filtering
from agent.core.store import search as finding
from agent.core.store.nodes import NewNode
from agent.core.store.query_line import Filters
from agent.core.store.store import Store


@pytest.fixture
async def names(store: Store) -> dict[int, str]:
    """Two projects; the first session forks after `asked` into `main` and `fix-rounding`."""
    shop = await store.create_session(workspace="/home/anna/shop-api", model="m", title="Shop")
    other = await store.create_session(workspace="/home/anna/shop-api/docs_site", model="m", title="Docs")
    found: dict[int, str] = {}

    async def add(session: str, name: str, kind: str, text: str, head: str = "main", **data: object) -> int:
        node = await store.append(session, kind, text, data, head=head)  # type: ignore[arg-type]
        found[node.id] = name
        return node.id

    asked = await add(shop.id, "asked", "user", "needle: why is it off?")
    await store.fork(shop.id, asked, "fix-rounding")
    call = {"id": "1", "name": "terminal", "arguments": '{"command": "grep needle"}'}
    await add(shop.id, "called", "assistant", "", calls=[call])
    await add(shop.id, "result", "tool", '{"output": "needle in money.py"}', tool="terminal")
    await add(shop.id, "read", "tool", '{"content": "needle wrong"}', tool="read_file")
    await add(shop.id, "fixed", "assistant", "needle fixed, Größe Ж", head="fix-rounding")
    await add(other.id, "docs", "user", "needle in the docs ЖУК")
    return found


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), {"asked", "called", "result", "read", "fixed", "docs"}),
        (Filters(project="shop"), {"asked", "called", "result", "read", "fixed"}),
        (Filters(project="SHOP-"), {"asked", "called", "result", "read", "fixed"}),
        (Filters(project="anna"), set()),
        (Filters(project="/anna/"), {"asked", "called", "result", "read", "fixed", "docs"}),
        (Filters(project="docs_s"), {"docs"}),
        (Filters(project="docsxs"), set()),
        (Filters(branch="fix"), {"asked", "fixed"}),
        (Filters(branch="main"), {"asked", "called", "result", "read", "docs"}),
        (Filters(branch="main", project="shop"), {"asked", "called", "result", "read"}),
        (Filters(branch="ix"), set()),
        (Filters(tool_begins="term"), {"called", "result"}),
        (Filters(tool_begins="read_"), {"read"}),
        (Filters(tool_begins="%"), set()),
        (Filters(tool="terminal"), {"result"}),
        (Filters(roles=("assistant",)), {"called", "fixed"}),
        (Filters(without=("wrong", "docs")), {"asked", "called", "result", "fixed"}),
        (Filters(without=("grosse",)), {"asked", "called", "result", "read", "docs"}),
        (Filters(without=("größe",)), {"asked", "called", "result", "read", "docs"}),
        (Filters(without=("жук",)), {"asked", "called", "result", "read", "fixed"}),
    ],
)
async def test_filters_narrow_with_words_and_without(
    store: Store, names: dict[int, str], filters: Filters, expected: set[str]
) -> None:
    for query in ("needle", "needl", "n", ""):
        hits = await store.search(query, filters=filters, patience=5)
        if query or filters:
            assert {names[hit.node] for hit in hits.hits} == expected, query
        else:
            assert hits.total == 0


async def test_a_session_is_named_by_the_beginning_of_its_id(store: Store, names: dict[int, str]) -> None:
    for session in await store.list_sessions():
        hits = await store.search("needle", filters=Filters(session_begins=session.id[:-1]))
        assert {hit.session for hit in hits.hits} == {session.id}


async def test_hits_say_where_they_are_from(store: Store, names: dict[int, str]) -> None:
    hits = await store.search("money", order="newest")
    assert [(hit.workspace, hit.tool, hit.title) for hit in hits.hits] == [
        ("/home/anna/shop-api", "terminal", "Shop")
    ]


async def test_a_branch_is_searched_to_its_root_even_where_many_hits_lie_beside_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "MAX_HITS", 5)
    session = await store.create_session(workspace="/w", model="m")
    first = await store.append(session.id, "user", "needle first")
    await store.fork(session.id, first.id, "side")
    await store.append_many(session.id, [NewNode("user", f"needle {n}") for n in range(40)])
    hits = await store.search("needle", filters=Filters(branch="side"), patience=60)
    assert [hit.node for hit in hits.hits] == [first.id]


_TEXT = st.text(st.characters(codec=None, categories=None), max_size=8)


@pytest.mark.thorough
@given(
    st.builds(
        Filters,
        roles=st.lists(_TEXT, max_size=2).map(tuple),
        session_begins=_TEXT,
        tool_begins=_TEXT,
        project=_TEXT,
        branch=_TEXT,
        without=st.lists(_TEXT, max_size=2).map(tuple),
    ),
    st.sampled_from(["", "needle", "n", "nee"]),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
async def test_no_filter_is_an_error(
    store: Store, names: dict[int, str], filters: Filters, query: str
) -> None:
    hits = await store.search(query, filters=filters)
    assert hits.total <= len(names)


def test_nothing_is_limited_by_default() -> None:
    assert not Filters()
    assert Filters(roles=("user",))
    assert filtering.conditions_of(Filters()) == ([], [])


async def test_a_message_is_found_on_the_branch_used_last_or_gets_one_of_its_own(
    store: Store, names: dict[int, str]
) -> None:
    at = {name: node for node, name in names.items()}
    session = (await store.search("money")).hits[0].session
    assert await store.branch_with(session, at["result"]) == "main"
    assert await store.branch_with(session, at["fixed"]) == "fix-rounding"
    await store.use_head(session, "main")
    assert await store.branch_with(session, at["asked"]) == "main"
    await store.drop_head(session, "fix-rounding")
    name = await store.branch_with(session, at["asked"])
    assert name == "main"
    name = await store.branch_with(session, at["fixed"])
    assert name == f"found-{at['fixed']}"
    assert [node.id for node in await store.path(session, name)] == [at["asked"], at["fixed"]]
    assert await store.branch_with(session, at["fixed"]) == name
