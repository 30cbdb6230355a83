"""Bytes of the default tools' schemas in a request as it is sent, against the reference system's 55,027.

Target: under 9,000 bytes.

    python benchmarks/schema_size.py
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.engines import bench
from tests.support.replies import say

REFERENCE = 55_027


async def sent_tools(folder: Path) -> list[dict[str, Any]]:
    """The tools in the first request of a session with default settings."""
    async with bench(folder, [say("Hello.")]) as b:
        await b.turn("Hello.")
        return b.server.requests[0].body["tools"]


def size(value: Any) -> int:
    """Bytes of JSON as it is sent."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tools = asyncio.run(sent_tools(Path(folder)))
    for tool in tools:
        print(f"{tool['function']['name']:16} {size(tool):6,}")
    total = size(tools)
    print(f"{'all':16} {total:6,} bytes, ratio {total / REFERENCE:.2f} (target < 9,000)")


if __name__ == "__main__":
    main()
