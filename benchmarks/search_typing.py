"""From a key to its painted hits, in the search over a large store.

    chrt -f 40 .venv/bin/python benchmarks/search_typing.py [--messages 1000000] [--store FILE]

Builds a store of made-up messages as `store_search.py` does (or takes the one in FILE), opens the
search in a headless application of 120 x 40 cells, and types words letter by letter, at 8 keys a
second, waiting for nothing. A key counts from when it is sent until the screen was refreshed with
the hits of the line it makes; a key whose search was overtaken by the next one counts with the next.

Target: p95 < 50 ms over 1,000,000 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import unicodedata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.main import FRAMES

# Read by Textual when it is imported: as the program does.
os.environ["TEXTUAL_FPS"] = FRAMES

from textual import events
from textual.app import App

from agent.core.home import Home
from agent.core.store.query_line import Query
from agent.core.store.search import SearchHits
from agent.core.store.store import Store
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens.sessions import sessions
from app.tui.screens.sessions.sessions import SearchScreen
from benchmarks.store_search import fill, quantile
from themes.skin import Skin
from widgets.palette import css_variables

LINES = (
    "error",
    "session commit",
    "needle12",
    "/etc/nginx",
    "user@example.com",
    '"commit branch"',
    "role:user config",
    "project:bench unctio",
    "tool:term error",
    "branch:main request",
    "server -error",
    "qqqqq",
)
GAP = 0.125
"""Seconds between two keys."""


class Host(App[None]):
    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(Skin())


class Measured(SearchScreen):
    """Notes when the hits of each line were painted."""

    # A style sheet is looked for beside the class that names it.
    CSS_PATH = Path(sessions.__file__).with_name("search.tcss")

    def __init__(self, store: Store) -> None:
        super().__init__(StoredSessions(store, Home(Path())))
        self.painted: dict[str, float] = {}

    def _show(self, hits: SearchHits, query: Query, *, keep: bool) -> None:
        super()._show(hits, query, keep=keep)
        line = self.text
        self.call_after_refresh(lambda: self.painted.setdefault(line, time.perf_counter()))


async def type_lines(store: Store) -> dict[str, list[float]]:
    """Seconds per key, by the line it was typed for."""
    times: dict[str, list[float]] = {}
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        for line in LINES:
            screen = Measured(store)
            await app.push_screen(screen)
            await pilot.pause(0.3)
            times[line] = await type_line(screen, app, line)
            screen.dismiss(None)
            await pilot.pause(0.1)
    return times


async def type_line(screen: Measured, app: App[Any], line: str) -> list[float]:
    sent: dict[str, float] = {}
    for end in range(1, len(line) + 1):
        sent[line[:end]] = time.perf_counter()
        app.post_message(events.Key(key_of(line[end - 1]), line[end - 1]))
        await asyncio.sleep(GAP)
    await asyncio.sleep(1.0)
    seconds: list[float] = []
    for text, at in sent.items():
        later = [when for other, when in screen.painted.items() if len(other) >= len(text)]
        seconds.append(min(later) - at)
    return seconds


def key_of(character: str) -> str:
    """What Textual calls the key of a character."""
    if character.isalnum():
        return character
    return unicodedata.name(character).lower().replace(" ", "_").replace("-", "_")


async def run(count: int, file: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "home" / "state.db"
        if file is None:
            async with await Store.open(path) as store:
                session = await store.create_session(workspace="/benchmark", model="none", title="benchmark")
            fill(path, session, count)
        async with await Store.open(path) as store:
            times = await type_lines(store)
    print(f"{'line':<24}{'keys':>5}{'p50 ms':>9}{'p95 ms':>9}{'worst':>9}")
    everything = [seconds for values in times.values() for seconds in values]
    for line, values in [*times.items(), ("all", everything)]:
        p50, p95, worst = quantile(values, 0.5), quantile(values, 0.95), max(values) * 1_000
        print(f"{line:<24}{len(values):>5}{p50:>9.1f}{p95:>9.1f}{worst:>9.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, default=None)
    options = parser.parse_args()
    asyncio.run(run(options.messages, options.store))
