"""Building the request of a conversation of 1,000 messages, against one json.dumps of it.

Target: the ledger step and the body together under 0.1 of the baseline.

    python benchmarks/request_build.py [--messages N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.messages import Message
from agent.knowledge.context.context_table import PrefixLedger
from agent.model.codecs import codec_for
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import ModelRequest
from agent.model.wire_format import Wire

ROUNDS = 40


def median_seconds(job: Callable[[], object]) -> float:
    """Median CPU seconds of `job`."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        job()
        times.append(time.process_time_ns() - began)
    return statistics.median(times) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--messages", type=int, default=1_000)
    count = parser.parse_args().messages
    text = "The quick brown fox — jumps over “the” lazy dog.\n" * 20
    messages = [Message("user" if number % 2 else "assistant", f"{number} {text}") for number in range(count)]
    framer = Wire(CHAT, codec_for("native")).framer()
    ledger = PrefixLedger()
    for message in messages:
        ledger.extend(framer.frames(message))
    ledger.send()

    def build() -> bytes:
        ledger.extend(framer.frames(Message("user", "and now?")))
        return CHAT.body(ModelRequest(model="m", frames=ledger.send(marked=False).frames))

    plain = [{"role": message.role, "content": message.content} for message in messages]

    def baseline() -> bytes:
        return json.dumps({"model": "m", "messages": plain}, ensure_ascii=False).encode()

    ours, theirs = median_seconds(build), median_seconds(baseline)
    print(f"messages {count}, body {len(baseline()):,} bytes")
    ratio = ours / theirs
    print(f"json.dumps {theirs * 1e3:.2f} ms, ours {ours * 1e3:.3f} ms, ratio {ratio:.3f} (target < 0.1)")


if __name__ == "__main__":
    main()
