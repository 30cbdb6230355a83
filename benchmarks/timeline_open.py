"""From opening the timeline to the painted first screen, and to the whole tree: 100, 1,200 and 10,000 nodes.

The screen is opened over a real store, in an application that shows nothing else; what is waited for is a
frame with rows in it, then the frame after the whole tree came in. Beside it the layout alone, in CPU time,
folded and unfolded. The help screen is opened by turns with it. Targets: 10,000 nodes below 150 ms, layout
below 60 ms; 1,200 nodes (300 turns) within 1.5 × the help screen.

    python benchmarks/timeline_open.py [--nodes 10000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip

from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import NewNode
from app.tui.commands.keys import resolve
from app.tui.screens.help import HelpScreen
from app.tui.screens.history.timeline import EngineTimeline, TimelineScreen
from app.tui.startup.gc_scheduler import GcScheduler
from tests.app.tui.pages import PageHost
from tests.app.tui.timeline_stage import Book, opened
from widgets.timeline.layout import BranchTip, TimelineFilter, build_tree, lay_out

SMALL, TURNS = 100, 1200
FORK_EVERY = 50
"""Turns between two side branches."""


class Quick(Book):
    """The session of the benchmark, outlined as the program does it."""

    rows: Sequence[OutlineRow] = ()

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        rows = await self.store.tail(self.session, "main", count)
        known = {row.id: row for row in self.rows[-4 * count :]}
        return [known[node.id] for node in rows if node.id in known]

    async def outline(self) -> Sequence[OutlineRow]:
        return await self.store.outline(self.session)

    async def steps(self) -> Mapping[int, Sequence[str]]:
        return {}

    async def labels(self) -> Mapping[int, str]:
        return {}


def turn_of(number: int) -> list[NewNode]:
    """A question, a call, its result, an answer."""
    call = {"id": str(number), "name": "read_file", "arguments": "{}"}
    about = {"call": str(number), "tool": "read_file", "outcome": "done"}
    return [
        NewNode("user", f"Question {number}: why is the total off by a cent?", {"origin": "prompt"}),
        NewNode("assistant", "", {"calls": [call]}),
        NewNode("tool", '{"content": "text"}', about),
        NewNode("assistant", f"Answer {number}: rounding.", {"calls": []}),
    ]


async def grown(folder: Path, count: int) -> Quick:
    """A session of so many nodes: turns of four, and now and then a side branch."""
    book = await opened(folder)
    quick = Quick(book.store, book.session)
    turns = [turn_of(number) for number in range(count // 4)]
    for start in range(0, len(turns), FORK_EVERY):
        *line, last = turns[start : start + FORK_EVERY]
        made = await quick.store.append_many(quick.session, [node for turn in line for node in turn])
        if made:
            await quick.store.fork(quick.session, made[-2].id, f"side-{start}")
            await quick.store.append_many(quick.session, last, head=f"side-{start}")
    await quick.store.use_head(quick.session, "main")
    quick.rows = await quick.store.outline(quick.session)
    return quick


async def once(screen: TimelineScreen | HelpScreen) -> tuple[float, float, float]:
    """Seconds to the first painted rows, of CPU until then, and until all of it is there."""
    host = PageHost(lambda: ModalScreen())
    async with host.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        painted = asyncio.Event()
        rows = screen.timeline if isinstance(screen, TimelineScreen) else screen.rows
        compose = rows.render_lines

        def seen(crop: Region) -> list[Strip]:
            lines = compose(crop)
            if rows.count:
                painted.set()
            return lines

        rows.render_lines = seen
        start, busy = time.perf_counter(), time.process_time()
        host.push_screen(screen)
        await painted.wait()
        first, spent = time.perf_counter() - start, time.process_time() - busy
        while isinstance(screen, TimelineScreen) and not screen.complete:  # noqa: ASYNC110 - a hundred times as short
            await asyncio.sleep(0.001)
        return first, spent, time.perf_counter() - start


def layout(rows: Sequence[OutlineRow], look: TimelineFilter) -> float:
    """Seconds of CPU of planting and laying out."""
    start = time.thread_time()
    lay_out(build_tree(rows, [BranchTip("main", rows[-1].id)], "main"), look)
    return time.thread_time() - start


async def run(count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        book = await grown(Path(name), count)
        async with book.store:
            pairs = [
                (
                    await once(TimelineScreen(cast(EngineTimeline, book))),
                    await once(HelpScreen([], resolve({}))),
                )
                for _ in range(rounds)
            ]
            times = [ours for ours, _help in pairs]
            first, spent, whole = (statistics.median(each) * 1e3 for each in zip(*times, strict=True))
            beside, cpu = (
                statistics.median(ours[at] / other[at] for ours, other in pairs) for at in range(2)
            )
            folded, unfolded = (
                min(layout(book.rows, TimelineFilter(unfolded=opened)) for _ in range(rounds)) * 1e3
                for opened in (False, True)
            )
    print(
        f"{count:6,} nodes: first screen {first:5.0f} ms ({spent:4.0f} ms CPU), whole tree {whole:5.0f} ms; "
        f"layout {folded:4.1f} ms CPU folded, {unfolded:4.1f} ms unfolded; "
        f"first screen {beside:.2f} × the help screen ({cpu:.2f} × in CPU)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    GcScheduler().start()
    for count in (SMALL, TURNS, args.nodes):
        asyncio.run(run(count, args.rounds))


if __name__ == "__main__":
    main()
