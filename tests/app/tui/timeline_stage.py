"""The timeline over a real store: a session that grows in a test, with its steps of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.core.store.branches import OutlineRow
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Kind, Node
from agent.core.store.store import Store
from agent.errors import StoreError
from app.tui.screens.history.timeline_files import FileDifferenceRow, Sides, What
from tools.files.diffs import diff_texts

NOW = 1_770_000_000.0
"""The time at which the ages are right, in seconds since the epoch."""

Files = dict[str, str]


@dataclass
class Book:
    """A session in a store, and the files after each step. Notes what it was asked to do."""

    store: Store
    session: str
    states: list[Files] = field(default_factory=lambda: [{}])
    """The files at each position."""
    positions: dict[int, int] = field(default_factory=dict)
    called: dict[int, str] = field(default_factory=dict)
    """What made a step."""
    done: list[tuple[object, ...]] = field(default_factory=list)
    _last: int = 0

    # How it grows

    async def say(self, text: str, head: str = "main", kind: Kind = "user", **data: object) -> int:
        """A message at the end of a branch."""
        made = await self.store.append(
            self.session, kind, text, {"step": len(self.states) - 1, **data}, head=head
        )
        self.positions[made.id] = len(self.states) - 1
        return made.id

    async def use(
        self, tool: str, files: Files | None = None, head: str = "main", outcome: str = "done"
    ) -> int:
        """A call, and the files it writes."""
        if files:
            self.called[len(self.states)] = f"{tool} {[*files][-1]}"
            self.states.append({**self.states[-1], **files})
        return await self.say('{"output": "ok"}', head, "tool", tool=tool, outcome=outcome, call="c")

    # What the screen asks for

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        rows = await self.outline()
        return rows[-count:]

    async def outline(self) -> Sequence[OutlineRow]:
        rows = await self.store.outline(self.session)
        self._last = rows[-1].id if rows else 0
        return [row._replace(created=self._created(row.id)) for row in rows]

    async def heads(self) -> Sequence[BranchHead]:
        return await self.store.heads(self.session)

    async def marks(self) -> Sequence[NodeMark]:
        return await self.store.marks(self.session)

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> NodeMark:
        return await self.store.mark(self.session, node, label=label, bookmarked=bookmarked)

    async def node(self, node: int) -> Node:
        return replace(await self.store.node(self.session, node), created=self._created(node))

    def _created(self, node: int) -> float:
        """The last message is two minutes old, and the older they are the farther they lie apart."""
        return NOW - (120 + (self._last - node) ** 2 * 210)

    async def steps(self) -> Mapping[int, Sequence[str]]:
        return {
            number: [change.path for change in self._between(number - 1, number)]
            for number in range(1, len(self.states))
        }

    async def labels(self) -> Mapping[int, str]:
        return self.called

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        found = {}
        for step in steps:
            changes = self._between(step - 1, step)
            found[step] = (sum(c.added or 0 for c in changes), sum(c.removed or 0 for c in changes))
        return found

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileDifferenceRow]:
        return self._between(steps[0] - 1, steps[-1])

    async def difference(self, one: int, other: int) -> Sequence[FileDifferenceRow]:
        return self._between(self.positions.get(one, 0), self.positions.get(other, 0))

    async def sides(self, one: int, other: int, path: str) -> Sides:
        before, after = (self.states[self.positions[node]] for node in (one, other))
        return Sides(before.get(path), after.get(path))

    async def restore(self, node: int, what: What) -> str:
        self.done.append(("restore", node, what))
        return "Files and conversation are as they were."

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        await self.store.fork(self.session, node, name)
        return f"On branch {name}" + (" with a note." if carry_over else ".")

    async def switch(self, head: str) -> str:
        await self.store.use_head(self.session, head)
        return f"On branch {head}."

    async def rename(self, head: str, name: str) -> str:
        await self.store.rename_head(self.session, head, name)
        return ""

    async def export(self, node: int) -> str:
        self.done.append(("export", node))
        raise StoreError("The disk is full; nothing was exported.")

    def _between(self, one: int, other: int) -> list[FileDifferenceRow]:
        before, after = self.states[one], self.states[other]
        changes = []
        for path in sorted({*before, *after}):
            old, new = before.get(path), after.get(path)
            if old != new:
                diff = diff_texts(old or "", new or "", "a", "b")
                kind = "added" if old is None else "deleted" if new is None else "changed"
                changes.append(FileDifferenceRow(path, kind, diff.added, diff.removed))
        return changes


async def opened(folder: Path) -> Book:
    """An empty session."""
    store = await Store.open(folder / "state.db")
    session = await store.create_session(workspace="/home/ada/payments-api", model="demo")
    return Book(store, session.id)


OLD = '''def round(amount, currency):
    """To the digits of the currency."""
    return float(f"{amount:.2f}")


def total(lines):
    return sum(line.amount for line in lines)
'''
NEW = '''def round(amount: Decimal, currency: str) -> Decimal:
    """To the digits of the currency."""
    exponent = Decimal(1).scaleb(-DIGITS[currency])
    return amount.quantize(exponent, ROUND_HALF_EVEN)


def total(lines):
    return sum(line.amount for line in lines)
'''
CENTS = '''def round(amount, currency):
    """To the digits of the currency, in integer cents."""
    return int(amount * 10 ** DIGITS[currency])


def total(lines):
    return sum(line.amount for line in lines)
'''
TESTS = "def test_kwd(): ...\n" * 14
ANSWER = "They go through `money.round()`, which cuts after two digits whatever the currency. JPY has none."


async def small(book: Book) -> None:
    """Two turns on one branch."""
    book.states = [{"src/money.py": OLD}]
    await book.say("", kind="system")
    await book.say("The invoice totals are off by a cent for JPY. Find out why and fix it.")
    await book.say("", kind="assistant", calls=[{"id": "c", "name": "read_file", "arguments": "{}"}])
    await book.use("read_file")
    await book.use("patch", {"src/money.py": NEW})
    await book.say(ANSWER, kind="assistant")
    await book.say("and add a changelog line")
    await book.use("write_file", {"CHANGELOG.md": "- JPY rounds to whole yen\n"})
    await book.say("Done: one line under *Fixed*.", kind="assistant")


async def three(book: Book) -> None:
    """The same, and two other ways from its first turn, with labels."""
    await small(book)
    nodes = {row.text: row.id for row in await book.outline()}
    fork = nodes[ANSWER]
    await book.store.fork(book.session, fork, "cents")
    book.states.append({**book.states[-1], "src/money.py": OLD})
    await book.say("Try it with integer cents instead of Decimal", "cents")
    await book.use("patch", {"src/money.py": CENTS}, "cents")
    await book.use("terminal", None, "cents", "failed")
    failed = await book.say("Three tests fail: KWD has three digits.", "cents", "assistant")
    await book.say("Pad KWD by hand", "cents")
    await book.store.fork(book.session, failed, "fractions")
    await book.say("Or with fractions?", "fractions")
    await book.use("patch", {"src/money.py": CENTS, "tests/test_money.py": TESTS}, "fractions")
    await book.say("Exact, but 40 times slower.", "fractions", "assistant")
    await book.mark(fork, label="before the other attempts", bookmarked=True)
    await book.mark(failed, bookmarked=True)
    await book.store.use_head(book.session, "main")
