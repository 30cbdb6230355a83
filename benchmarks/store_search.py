"""How long a search takes in a large store, against reading every message with LIKE.

    .venv/bin/python benchmarks/store_search.py [--messages 1000000] [--rounds 20]

Builds a store of made-up messages in a temporary folder (about a minute and
1.5 GB for a million), then asks each kind of query in turn, round-robin. Prints
p50 and p99 in milliseconds and the ratio to the LIKE scan of the same run; in
the end, what an append to that store takes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agent.core.store.nodes import Session
from agent.core.store.store import Store

FREQUENT = (
    "the file test error function config build run output value change path server request data "
    "session commit branch query result update return string number list class method import"
)
PARTS = "ba ce di fo gu ha je ki lo mu na pe qi ro su ta ve wi xo zu"
COMMON, SYLLABLES = FREQUENT.split(), PARTS.split()
CJK = "数据库连接失败请检查配置文件并重新启动服务器日志显示错误"
BATCH = 20_000


def messages(count: int, seed: int = 7) -> Iterator[tuple[str, str]]:
    """(kind, text) of a conversation: 70 % common words, the rest from a vocabulary of 8,000."""
    chance = random.Random(seed)
    rare = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(8_000)]
    for number in range(count):
        words = [
            chance.choice(COMMON) if chance.random() < 0.7 else chance.choice(rare)
            for _ in range(chance.randint(10, 50))
        ]
        if number % 50_000 == 17:
            words.append(f"needle{number // 50_000}")
        if number % 40 == 0:
            start = chance.randrange(len(CJK) - 6)
            words.append(CJK[start : start + 6])
        if number % 1_000 == 3:
            words.append("/etc/nginx/nginx.conf user@example.com")
        yield ("user", "assistant", "tool")[number % 3], " ".join(words)


def fill(path: Path, session: Session, count: int) -> None:
    """Bulk insert: the rows and index entries `Store.append` makes, in few transactions and unsynced."""
    from agent.core.store.nodes import searchable

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -200000")
    source = messages(count)
    number = 0
    while number < count:
        rows = []
        for kind, text in source:
            number += 1
            body = searchable(kind, text, {})
            created = session.created - (count - number)
            rows.append(
                (number, session.id, number - 1 or None, number, kind, created, len(body), "{}", text, body)
            )
            if len(rows) == BATCH:
                break
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))", rows)
        for index in ("words", "trigrams"):
            connection.executemany(
                f"INSERT INTO {index} (rowid, body) VALUES (?, ?)", [(row[0], row[-1]) for row in rows]
            )
        connection.execute("COMMIT")
    connection.execute("UPDATE heads SET node = ?", (count,))
    connection.close()


QUERIES: dict[str, tuple[str, ...]] = {
    "rare word": ("needle0", "needle1"),
    "common word": ("error", "file", "test", "session"),
    "two common words": ("error file", "build commit", "the test"),
    "prefix": ("erro", "sess", "confi", "need"),
    "short prefix": ("er", "se", "co"),
    "phrase": ('"error file"', '"the test"', '"commit branch"'),
    "path, address": ("/etc/nginx/nginx.conf", "user@example.com"),
    "CJK, two": ("数据", "失败", "日志"),
    "CJK, four": ("连接失败", "配置文件", "重新启动"),
    "middle of words": ("unctio", "essio", "equest"),
    "no hit": ("qqqqq", "needle99999", "xyzzy plugh"),
}


async def measure(store: Store, rounds: int) -> dict[str, list[float]]:
    """Seconds per kind of query, the kinds taking turns."""
    times: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        for kind, texts in QUERIES.items():
            for text in texts if turn else texts * 2:
                start = time.perf_counter()
                hits = await store.search(text)
                times[kind].append(time.perf_counter() - start)
                if kind == "no hit":
                    assert hits.total == 0, text
                else:
                    assert hits.total > 0, text
    return times


async def appends(store: Store, session: Session, count: int = 100) -> list[float]:
    """Seconds per append to the large store, sync included."""
    times = []
    for number in range(count):
        start = time.perf_counter()
        await store.append(session.id, "user", f"one more message about the server and its config {number}")
        times.append(time.perf_counter() - start)
    return times


def scan(path: Path, rounds: int) -> list[float]:
    """The baseline: every message, with LIKE, for a word that does not occur."""
    connection = sqlite3.connect(path)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        connection.execute("SELECT count(*) FROM nodes WHERE content LIKE '%qqqqq%'").fetchone()
        times.append(time.perf_counter() - start)
    connection.close()
    return times


def timed(label: str, work: Callable[[], None]) -> None:
    start = time.perf_counter()
    work()
    print(f"{label}: {time.perf_counter() - start:.1f} s", flush=True)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1_000


async def run(count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "home" / "state.db"
        async with await Store.open(path) as store:
            session = await store.create_session(workspace="/benchmark", model="none", title="benchmark")
        timed(f"built {count:,} messages", lambda: fill(path, session, count))
        print(f"file: {path.stat().st_size / 2**20:,.0f} MiB")
        baseline = quantile(scan(path, 3), 0.5)
        print(f"LIKE scan: {baseline:.0f} ms\n\n{'query':<18}{'p50 ms':>9}{'p99 ms':>9}{'scan / p50':>12}")
        async with await Store.open(path) as store:
            times = await measure(store, rounds)
            added = await appends(store, session)
        everything = [seconds for values in times.values() for seconds in values]
        for kind, values in [*times.items(), ("all", everything)]:
            p50, p99 = quantile(values, 0.5), quantile(values, 0.99)
            print(f"{kind:<18}{p50:>9.2f}{p99:>9.2f}{baseline / p50:>12.0f}")
        print(f"\nappend to it: p50 {quantile(added, 0.5):.1f} ms, p99 {quantile(added, 0.99):.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    asyncio.run(run(options.messages, options.rounds))
