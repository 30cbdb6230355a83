"""CPU per chunk of a streamed reply: our reading of it against the `openai` package's own.

Both read the same stream of the same server in the same run, through the same
package's transport; the server is another process, so only the client is
measured. Prints microseconds of CPU per chunk and the ratio.

    python -m benchmarks.stream_parse [--chunks 2000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time

from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import Frame, ModelRequest, TextDelta
from agent.model.transport.client import FormatClient
from tests.support.model_process import ServerProcess

PIECE = "stream of words here "
MESSAGE = {"role": "user", "content": "Tell me everything."}
SCRIPT = "reply = say({text!r}, piece={piece}, split={split})\nscript = lambda request: reply\n"


async def read_ours(client: FormatClient) -> int:
    request = ModelRequest(model="m", frames=(Frame(json.dumps(MESSAGE).encode()),))
    return sum([len(delta.text) async for delta in client.stream(request) if isinstance(delta, TextDelta)])


async def read_theirs(client) -> int:
    stream = await client.chat.completions.create(model="m", messages=[MESSAGE], stream=True)
    return sum([len(chunk.choices[0].delta.content or "") async for chunk in stream if chunk.choices])


async def cpu(read: Callable[[], Awaitable[int]], expected: int) -> float:
    """Seconds of CPU for one reply."""
    start = process_time()
    length = await read()
    spent = process_time() - start
    if length != expected:
        raise RuntimeError(f"{length} of {expected} characters came in")
    return spent


async def measure(base_url: str, chunks: int, rounds: int) -> tuple[list[float], list[float]]:
    """Microseconds per chunk of each round: ours, theirs."""
    from openai import AsyncOpenAI

    ours, theirs = FormatClient(CHAT, base_url, None), AsyncOpenAI(api_key="none", base_url=base_url)
    expected = chunks * len(PIECE)
    results: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        pair = (
            await cpu(lambda: read_ours(ours), expected),
            await cpu(lambda: read_theirs(theirs), expected),
        )
        if number:
            for kept, seconds in zip(results, pair, strict=True):
                kept.append(seconds / chunks * 1e6)
    await ours.aclose()
    await theirs.close()
    return results


def report(title: str, ours: list[float], theirs: list[float]) -> None:
    own, other = statistics.median(ours), statistics.median(theirs)
    print(f"{title}: ours {own:.1f} µs, openai {other:.1f} µs per chunk, ratio {own / other:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    text = PIECE * options.chunks
    for title, split in (("large HTTP chunks", 0), ("HTTP chunks of 256 bytes", 256)):
        with tempfile.TemporaryDirectory() as folder:
            script = SCRIPT.format(text=text, piece=len(PIECE), split=split)
            with ServerProcess(script, Path(folder)) as server:
                report(title, *asyncio.run(measure(server.base_url, options.chunks, options.rounds)))


if __name__ == "__main__":
    main()
