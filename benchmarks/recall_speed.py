"""How long a question takes over 100,000 messages, and what indexing them does to typing.

    .venv/bin/python benchmarks/recall_speed.py [--messages 100000] [--questions 500]

Builds a store of made-up talk in a temporary folder: sessions of 40 messages with a subject each, words as
common as those of a natural language (Zipf). First the index is built in the background while something
wakes up every two milliseconds on the event loop, as typing does, and vectors likewise where the extra
`semantic` is there; then questions of three to nine words are
asked, some of them words of one message and some any. Each question is asked of a search in the moment in
which it is opened, so that all of its words are read from the file; of one that was just opened and has read
its common words in the background, as it does two seconds later; and once more when its words are known.

A loop of 100,000 multiplications of the same run tells how fast the machine is meanwhile.

Targets: p95 <= 5 ms a question; no wake-up later than 16 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.config.schema import Settings
from agent.core.store.store import Store
from agent.knowledge.recall.recall import Recall
from agent.session.wiring.recall import open_meaning
from benchmarks.store_search import SYLLABLES, quantile

SESSION = 40
VOCABULARY = 30_000
SUBJECT = 25
"""Words that a session keeps coming back to."""
TICK = 0.002


class Language:
    """Made-up words, the n-th of them n times rarer than the first."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        words: dict[str, None] = {}
        while len(words) < VOCABULARY:
            words["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))] = None
        self._words = list(words)
        self._shares = list(itertools.accumulate(1 / (rank + 10) for rank in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        """Some words, each as often as it is said."""
        return self._chance.choices(self._words, cum_weights=self._shares, k=count)


def sessions(language: Language, chance: random.Random, count: int) -> Iterator[list[str]]:
    """The messages of one session after the other, `count` in all."""
    while count > 0:
        subject = language.words(SUBJECT)
        said = []
        for _ in range(min(SESSION, count)):
            words = language.words(chance.randint(6, 40))
            said.append(" ".join(chance.choice(subject) if chance.random() < 0.2 else word for word in words))
        yield said
        count -= len(said)


def fill(path: Path, talks: Iterator[list[str]]) -> None:
    """Sessions as `Store.append` makes them, in one transaction and unsynced."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    moment, node = time.time() - 400 * 86_400, 0
    for number, said in enumerate(talks):
        name = f"s{number:06}"
        moment += 3_600
        connection.execute(
            "INSERT INTO sessions (id, title, workspace, model, created, updated) VALUES (?, ?, ?, ?, ?, ?)",
            (name, name, f"/srv/{number % 7}", "none", moment, moment),
        )
        for depth, text in enumerate(said):
            node += 1
            values = (node, name, node - 1 if depth else None, depth + 1, ("user", "assistant")[depth % 2])
            connection.execute(
                "INSERT INTO nodes (id, session, parent, depth, kind, created, size, data, content, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, '{}', ?, NULL)",
                (*values, moment + depth, len(text), text),
            )
            for index in ("words", "trigrams"):
                connection.execute(f"INSERT INTO {index} (rowid, body) VALUES (?, ?)", (node, text))
        connection.execute("INSERT INTO heads VALUES (?, 'main', ?, ?)", (name, node, moment))
    connection.execute("COMMIT")
    connection.close()


def questions(path: Path, language: Language, chance: random.Random, count: int) -> list[str]:
    """Words of a message in another order with some beside them, and every fourth of any words."""
    connection = sqlite3.connect(path)
    (last,) = connection.execute("SELECT max(id) FROM nodes").fetchone()
    asked = []
    for number in range(count):
        words = language.words(chance.randint(1, 3))
        if number % 4:
            at = chance.randint(1, last)
            (text,) = connection.execute("SELECT content FROM nodes WHERE id = ?", (at,)).fetchone()
            words += chance.sample(text.split(), chance.randint(3, 6))
        else:
            words += language.words(3)
        chance.shuffle(words)
        asked.append(" ".join(words))
    connection.close()
    return asked


async def watched(recall: Recall, is_done: Callable[[], Awaitable[bool]]) -> tuple[float, list[float]]:
    """Seconds until all was made in the background, and by how much each wake-up was late."""
    late: list[float] = []

    async def wake_up() -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            late.append(time.perf_counter() - due)

    ticker = asyncio.create_task(wake_up())
    start = time.perf_counter()
    recall.index_soon()
    while not await is_done():  # noqa: ASYNC110 - nothing in the search says so, and nobody needs it
        await asyncio.sleep(0.1)
    seconds = time.perf_counter() - start
    ticker.cancel()
    return seconds, late


async def is_indexed(recall: Recall) -> bool:
    reached, newest = await recall.index.progress()
    return reached >= newest


async def asked(recall: Recall, texts: list[str]) -> tuple[list[float], list[float]]:
    """Seconds, and those of CPU, for each question."""
    wall, cpu = [], []
    for text in texts:
        start, used = time.perf_counter(), time.process_time()
        await recall.search(text, mode="words")
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - start)
    return wall, cpu


def pace() -> float:
    """Seconds of CPU for 100,000 multiplications."""
    start = time.process_time()
    for number in range(100_000):
        _ = number * number % 7
    return time.process_time() - start


def row(label: str, values: list[float]) -> str:
    shares = "".join(f"{quantile(values, share):>9.2f}" for share in (0.5, 0.95, 0.99))
    return f"{label:<42}{shares}{max(values) * 1_000:>9.2f}"


async def told(recall: Recall, texts: list[str], label: str) -> None:
    wall, cpu = await asked(recall, texts)
    print(row(f"question, {label}", wall))
    print(row(f"question, {label}, CPU", cpu))


async def run(count: int, number: int) -> None:
    chance = random.Random(7)
    language = Language(chance)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "home" / "state.db"
        async with await Store.open(path):
            pass
        fill(path, sessions(language, chance, count))
        texts = questions(path, language, chance, number)
        async with await Store.open(path) as store:
            recall = Recall(store)
            seconds, late = await watched(recall, partial(is_indexed, recall))
            size = recall.index.path.stat().st_size / 2**20
            print(f"{count:,} messages indexed in {seconds:.1f} s; {size:.1f} MB\n")
            print(f"{'milliseconds':<42}{'p50':>9}{'p95':>9}{'p99':>9}{'worst':>9}")
            print(row("wake-up late while indexing", late))
            if (meaning := open_meaning(store, Settings(), {})) is not None:
                await recall.close()
                recall = Recall(store, meaning=meaning)
                seconds, late = await watched(recall, meaning.is_up_to_date)
                print(row(f"wake-up late, vectors in {seconds:.1f} s", late))
            for label, is_warm in (("at once after opening", False), ("just opened", True)):
                await recall.close()
                recall = Recall(store)
                await recall.search("one")
                if is_warm:
                    await recall.index.warm_up()
                await told(recall, texts, label)
            await told(recall, texts, "again")
            print(row("100,000 multiplications, CPU", [pace() for _ in range(20)]))
            await recall.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=500)
    options = parser.parse_args()
    asyncio.run(run(options.messages, options.questions))
