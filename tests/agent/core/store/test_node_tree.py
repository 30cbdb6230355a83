"""The tree against a model of it: whatever is appended and forked, every branch is what it should be."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from agent.core.store.connection import HeadMoved
from agent.core.store.nodes import NewNode
from agent.core.store.store import Store
from agent.errors import StoreError
from tests.agent.core.store.conftest import MEMORY

KINDS = st.sampled_from(["system", "user", "assistant", "notice", "compaction"])
TEXTS = st.text(max_size=20)


class Trees(RuleBasedStateMachine):
    """Two sessions with branches; the model is a list of contents per branch."""

    nodes = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.store = self.run(Store.open(self.folder / "home" / "state.db"))
        self.sessions = [self.run(self.store.create_session(workspace="/w", model="m")).id for _ in range(2)]
        self.branches: dict[tuple[str, str], list[str]] = {(each, "main"): [] for each in self.sessions}
        self.tips: dict[tuple[str, str], int | None] = dict.fromkeys(self.branches)
        self.lines: dict[int, list[str]] = {}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def pick(self, number: int) -> tuple[str, str]:
        return sorted(self.branches)[number % len(self.branches)]

    @rule(
        target=nodes, branch=st.integers(0, 50), new=st.lists(st.tuples(KINDS, TEXTS), min_size=1, max_size=4)
    )
    def append(self, branch: int, new: list[tuple[Any, str]]) -> tuple[str, int]:
        key = self.pick(branch)
        added = self.run(
            self.store.append_many(
                key[0], [NewNode(*each) for each in new], head=key[1], expected=self.tips[key]
            )
        )
        self.branches[key] = [*self.branches[key], *(text for _, text in new)]
        self.tips[key] = added[-1].id
        self.lines[added[-1].id] = self.branches[key]
        return key[0], added[-1].id

    @rule(branch=st.integers(0, 50), wrong=st.integers(-3, 0))
    def append_to_a_moved_head(self, branch: int, wrong: int) -> None:
        key = self.pick(branch)
        try:
            self.run(self.store.append(key[0], "user", "lost", head=key[1], expected=wrong))
        except HeadMoved as error:
            assert error.found == self.tips[key]
        else:
            raise AssertionError("appended to a head that had moved")

    @rule(node=nodes, name=st.text("abcd", min_size=1, max_size=2))
    def fork(self, node: tuple[str, int], name: str) -> None:
        session, at = node
        try:
            self.run(self.store.fork(session, at, name))
        except StoreError:
            assert (session, name) in self.branches
        else:
            assert (session, name) not in self.branches
            self.branches[session, name] = self.lines[at]
            self.tips[session, name] = at

    @rule(node=consumes(nodes), count=st.integers(0, 8))
    def look_back(self, node: tuple[str, int], count: int) -> None:
        found = self.run(self.store.before(*node, count))
        line = self.lines[node[1]][:-1]
        assert [each.content for each in found] == line[max(0, len(line) - count) :]

    @invariant()
    def every_branch_is_its_line(self) -> None:
        for (session, name), line in self.branches.items():
            assert [node.content for node in self.run(self.store.path(session, name))] == line
            assert self.run(self.store.length(session, name)) == len(line)
            tail = self.run(self.store.tail(session, name, 3))
            assert [node.content for node in tail] == line[-3:]

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()
        shutil.rmtree(self.folder)


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
