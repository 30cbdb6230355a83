"""What one `append` costs the event loop, against the same insert made inline.

    .venv/bin/python benchmarks/store_commit.py [--appends 300] [--folder DIR]

Loop time is the processor time of the loop's own thread: what the interface
loses. Wall time is what the engine waits for the disk (one synced commit). The
baseline runs in turn with it: a plain `sqlite3` insert into a bare table with
the same journal and sync, called on the loop's thread as a simple program would.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agent.core.store.store import Store

TEXT = "Read the configuration, change one value, run the tests and say what happened. " * 5


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1_000


class Watch:
    """Loop time and wall time of a step, in seconds."""

    def __init__(self) -> None:
        self.loop: list[float] = []
        self.wall: list[float] = []

    def __enter__(self) -> None:
        self._wall, self._loop = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.loop.append(time.thread_time() - self._loop)
        self.wall.append(time.perf_counter() - self._wall)

    def line(self, label: str, baseline: Watch) -> str:
        blocked = quantile(baseline.wall, 0.5) / quantile(self.loop, 0.5)
        figures = [quantile(values, share) for values in (self.loop, self.wall) for share in (0.5, 0.99)]
        return f"{label:<34}" + "".join(f"{figure:>10.3f}" for figure in figures) + f"{blocked:>12.0f}"


def bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session TEXT, kind TEXT, content TEXT)"
    )
    return connection


async def run(count: int, folder: Path) -> None:
    inline, append, call, hop = Watch(), Watch(), Watch(), Watch()
    baseline = bare(folder / "bare.db")
    async with await Store.open(folder / "home" / "state.db") as store:
        session = (await store.create_session(workspace="/benchmark", model="none")).id
        for number in range(count):
            with inline:
                baseline.execute(
                    "INSERT INTO messages (session, kind, content) VALUES (?, 'user', ?)", (session, TEXT)
                )
            with append:
                await store.append(session, "user", TEXT)
            calls = [{"id": f"c{number}", "name": "terminal", "arguments": '{"command": "make test"}'}]
            asker = await store.append(session, "assistant", "", {"calls": calls})
            await store.start_call(session, asker.id, f"c{number}", "terminal")
            with call:
                await store.finish_call(session, f"c{number}", '{"output": "ok"}', {"outcome": "done"})
            with hop:
                await store.length(session)
    baseline.close()
    print(f"{'milliseconds':<34}{'loop p50':>10}{'p99':>10}{'wall p50':>10}{'p99':>10}{'inline/loop':>12}")
    print(inline.line("insert inline, blocks the loop", inline))
    print(append.line("append, with both search indexes", inline))
    print(call.line("finish_call, result and state", inline))
    print(hop.line("one read", inline))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where to put the stores; a disk of interest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        asyncio.run(run(options.appends, Path(temporary)))
