"""A child process that appends to a store and says so: `writer.py STATE_DB SESSION COUNT LABEL`.

Prints one line per acknowledged append. A negative COUNT means for ever.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from agent.core.store.store import Store


async def main(path: Path, session: str, count: int, label: str) -> None:
    numbers = range(count) if count >= 0 else itertools.count()
    async with await Store.open(path) as store:
        for number in numbers:
            text = f"{label} {number} " + "word " * (number % 50)
            node = await store.append(session, "user" if number % 2 else "assistant", text)
            print(node.id, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
