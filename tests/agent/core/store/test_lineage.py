"""Which nodes lie on which paths, against the whole path walked plainly."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.store import branches
from agent.core.store.branches import BranchPaths, Lineages, ancestors
from agent.core.store.nodes import NewNode
from agent.core.store.search import Filters
from agent.core.store.store import Store


def table(nodes: list[tuple[str, int | None]]) -> sqlite3.Connection:
    """A connection to nodes of these sessions and parents; the first has the id 1."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE nodes (id INTEGER PRIMARY KEY, session TEXT, parent INTEGER, depth INT)")
    connection.execute("CREATE INDEX nodes_by_session ON nodes (session)")
    connection.execute("CREATE TABLE heads (session TEXT, name TEXT, node INTEGER)")
    depths: dict[int | None, int] = {None: 0}
    for id, (session, parent) in enumerate(nodes, 1):
        depths[id] = depths[parent] + 1
        connection.execute("INSERT INTO nodes VALUES (?, ?, ?, ?)", (id, session, parent, depths[id]))
    return connection


@st.composite
def _forests(draw: st.DrawFn) -> list[tuple[str, int | None]]:
    """Two sessions, written in turns; most nodes continue from the last one, some from any other."""
    nodes: list[tuple[str, int | None]] = []
    own: dict[str, list[int]] = {"one": [], "two": []}
    for id in range(1, draw(st.integers(1, 60)) + 1):
        session = "one" if draw(st.integers(0, 9)) else "two"
        before = own[session]
        back = draw(st.sampled_from([1, 1, 1, 1, 1, 2, 5, 30]))
        nodes.append((session, before[-min(back, len(before))] if before else None))
        before.append(id)
    return nodes


@pytest.mark.thorough
@given(_forests(), st.integers(1, 7), st.lists(st.integers(1, 60), min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_remembered_path_holds_what_the_whole_path_does(
    monkeypatch: pytest.MonkeyPatch, nodes: list[tuple[str, int | None]], stretch: int, asked: list[int]
) -> None:
    monkeypatch.setattr(branches, "STRETCH", stretch)
    connection, known = table(nodes), Lineages()
    for end in [min(each, len(nodes)) for each in asked]:
        session = nodes[end - 1][0]
        path, whole = known.of(connection, session, end), ancestors(connection, end)
        for node in range(len(nodes), 0, -1):
            if nodes[node - 1][0] != session:
                continue
            while not path.reaches(node):
                known.walk(connection, path)
            assert path.holds(node) == (node in whole), (end, node)
    connection.close()


@pytest.mark.thorough
@given(_forests(), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_branches_hold_their_messages_however_often_one_has_to_ask(
    monkeypatch: pytest.MonkeyPatch, nodes: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    monkeypatch.setattr(branches, "STRETCH", 2)
    ids = range(1, len(nodes) + 1)
    # A draw may end an example at once, so nothing is open yet.
    ends = {name: data.draw(st.sampled_from(ids)) for name in ("fix-a", "fix-b", "main")}
    connection, known = table(nodes), Lineages()
    for name, end in ends.items():
        connection.execute("INSERT INTO heads VALUES (?, ?, ?)", (nodes[end - 1][0], name, end))
    for begins in ("fix", "main", "none", "fix"):
        found = connection.execute("SELECT node FROM heads WHERE name LIKE ?", (begins + "%",)).fetchall()
        expected = set().union(*(ancestors(connection, end) for (end,) in found))
        paths, held = BranchPaths(begins, known), None
        while held is None:
            held = paths.select_nodes(connection, list(reversed(ids)), patience=0)
        assert held == sorted(expected, reverse=True)
    connection.close()


def test_a_session_without_forks_is_remembered_in_a_handful_of_numbers() -> None:
    connection, known = table([("one", id or None) for id in range(10_000)]), Lineages()
    path = known.of(connection, "one", 10_000)
    known.walk(connection, path)
    assert path.next is None and len(path.stretches) == 1
    connection.close()


def test_one_fork_far_back_takes_no_list_of_its_nodes() -> None:
    nodes: list[tuple[str, int | None]] = [("one", None), ("one", 1), ("one", 1)]
    nodes += [("one", id) for id in range(3, 9_000)]
    connection, known = table(nodes), Lineages()
    path = known.of(connection, "one", len(nodes))
    while not path.reaches(1):
        known.walk(connection, path)
    assert len(path.stretches) <= len(nodes) // branches.STRETCH + 2
    assert sum(len(stretch.only or ()) for stretch in path.stretches) <= branches.STRETCH
    assert path.holds(1) and not path.holds(2) and path.holds(3)
    connection.close()


def test_old_paths_are_forgotten() -> None:
    connection, known = table([("one", id or None) for id in range(3 * branches.KEPT)]), Lineages()
    for end in range(1, 3 * branches.KEPT + 1):
        known.of(connection, "one", end)
    assert len(known._known) == branches.KEPT
    connection.close()


async def test_a_search_of_a_branch_sees_what_was_said_after_the_one_before(store: Store) -> None:
    session = await store.create_session(workspace="/w", model="m")
    first = await store.append(session.id, "user", "needle first")
    await store.fork(session.id, first.id, "side")
    only = Filters(branch="side")
    assert [hit.node for hit in (await store.search("needle", filters=only)).hits] == [first.id]
    await store.append_many(session.id, [NewNode("user", f"needle {number}") for number in range(5)])
    later = await store.append(session.id, "user", "needle later", head="side")
    found = await store.search("needle", filters=only, order="newest")
    assert [hit.node for hit in found.hits] == [later.id, first.id]
