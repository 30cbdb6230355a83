"""Batches at scale: resumed after kills, memory, throughput against bare asyncio, the ceiling.

    python benchmarks/batch.py                                   # small: a minute
    python benchmarks/batch.py --tasks 1000 --kills 20 --many 10000

A strict model server answers in a process of its own, after `--latency` seconds. A kill is `kill -9` of the
whole process group at a random moment; the same line then goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import httpx2  # noqa: E402

from tests.support.command import HERMES, environment  # noqa: E402
from tests.support.model_process import ServerProcess  # noqa: E402

MOST_BARE = 500
"""Requests that are posted anew to see how long they take without Hermes."""
SCRIPT = """
MARK = "\\n[This answer was interrupted here.]"

def script(request):
    messages = request.messages
    asked = next(each["content"] for each in messages if str(each["content"]).startswith("Task "))
    number = asked.split()[1]
    if int(number) % 5 == 0 and not any(each["role"] == "tool" for each in messages):
        return call("read_file", path="note.txt")
    # An answer that a kill cut off is gone on with.
    said = [each["content"] for each in messages if each["role"] == "assistant"]
    begun = "".join(each.removesuffix(MARK) for each in said if str(each).endswith(MARK))
    return say(("answer " + number)[len(begun):] or " ", delay={latency})
"""
COUNTED = """
import json
from tests.support.replies import usage_of

def counted(script):
    def count(request):
        reply = script(request)
        usage = usage_of(reply, len(request.raw))
        with open({told!r}, "a") as file:
            file.write(json.dumps([usage["prompt_tokens"], usage["completion_tokens"]]) + "\\n")
        return reply
    return count
"""
PRICES = """
providers:
  priced:
    base_url: {url}
    api_key_env: OPENAI_API_KEY
    models:
      scripted: {{input_price: 2, cached_price: 2, output_price: 8}}
"""


class Place:
    """A folder with a task file, and the server that is asked."""

    def __init__(self, folder: Path, server: ServerProcess, count: int) -> None:
        self.folder = folder
        self.server = server
        self.count = count
        folder.mkdir()
        lines = (
            json.dumps(
                {
                    "id": str(number),
                    "prompt": f"Task {number} please.",
                    "files": {"note.txt": "a note\n"},
                    "checks": [{"exact": f"answer {number}"}],
                }
            )
            for number in range(count)
        )
        (folder / "tasks.jsonl").write_text("\n".join(lines) + "\n")

    def start(self, *more: str, jobs: int) -> subprocess.Popen[bytes]:
        line = [*HERMES, "batch", "run", "tasks.jsonl", "-o", "out", "--jobs", str(jobs), "--json", *more]
        return subprocess.Popen(
            line,
            cwd=self.folder,
            env=environment(self.folder / "home", self.server.base_url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def results(self) -> list[dict[str, object]]:
        path = self.folder / "out" / "results.jsonl"
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    def ended(self) -> int:
        """Lines so far."""
        path = self.folder / "out" / "results.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0


def storm(place: Place, kills: int, jobs: int, seed: int) -> None:
    """A run that is killed again and again, and then comes to its end."""
    chance, done = random.Random(seed), 0
    points = sorted(chance.sample(range(1, place.count), kills))
    for point in points:
        process = place.start(jobs=jobs)
        while place.ended() < point and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.random() * 0.3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        done += 1
    process = place.start(jobs=jobs)
    _, said = process.communicate()
    results = place.results()
    by_id = Counter(str(each["id"]) for each in results)
    asked = Counter(_number(each) for each in place.server.requests())
    least = sum(2 if number % 5 == 0 else 1 for number in range(place.count))
    # A script that is asked for the rest of an answer that was all there says a blank.
    wrong = [each for each in results if str(each["text"]).strip() != f"answer {each['id']}"]
    lost, twice = place.count - len(by_id), sum(number - 1 for number in by_id.values())
    print(f"  {place.count} tasks, {done} kills, {jobs} at once: exit {process.returncode}")
    print(f"  lost: {lost}; twice: {twice}; wrong: {len(wrong)}")
    for each in wrong[:5]:
        print(f"    {each['id']}: {each['outcome']} {each['text']!r} {each['error']}")
    total = sum(asked.values())
    print(f"  requests: {total} for {least} answers; {total - least} again, as a kill had lost the answer")
    order = [str(each["id"]) for each in results] == [str(number) for number in range(place.count)]
    print(f"  in the order of the file: {order}")
    time.sleep(2)
    print(f"  processes left: {_left(place.folder)}")
    if process.returncode != 0:
        print(said.decode()[-500:])


def _left(folder: Path) -> int:
    """Processes that have a file of the folder open (Linux)."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += any(os.readlink(each).startswith(str(folder)) for each in (process / "fd").iterdir())
    return found


def _number(request: dict[str, object]) -> int:
    messages = request["body"]["messages"]  # type: ignore[index]
    asked = next(each["content"] for each in messages if str(each["content"]).startswith("Task "))
    return int(asked.split()[1])


def memory(place: Place, jobs: int) -> float:
    """Peak of all its processes over the tasks that have ended; seconds of the whole."""
    began = time.monotonic()
    process = place.start(jobs=jobs)
    seen: list[tuple[int, float]] = []
    while process.poll() is None:
        seen.append((place.ended(), _resident(process.pid)))
        if len(seen) % 30 == 0:
            print(f"  {seen[-1][0]} ended, {seen[-1][1]:.0f} MB", file=sys.stderr, flush=True)
        time.sleep(2.0)
    took = time.monotonic() - began
    process.communicate()
    quarters = [
        statistics.mean([size for ended, size in seen if low <= ended / place.count < low + 0.25] or [0.0])
        for low in (0.0, 0.25, 0.5, 0.75)
    ]
    shown = ", ".join(f"{each:.0f}" for each in quarters)
    rate = place.count / took
    print(f"  {place.count} tasks in {took:.0f} s ({rate:.1f} a second), exit {process.returncode}")
    print(f"  memory of all its processes by quarter of the run: {shown} MB")
    return took


def _resident(root: int) -> float:
    """MB of a process and all that it started, what they share counted once (Linux)."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for pid in family:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1000


async def bare(server: ServerProcess, bodies: list[bytes], jobs: int) -> float:
    """Seconds for the same requests, posted by nothing but asyncio."""
    queue = list(reversed(bodies))
    headers = {"Authorization": "Bearer test-key", "Content-Type": "application/json"}
    async with httpx2.AsyncClient(timeout=600, trust_env=False) as client:

        async def post() -> None:
            while queue:
                answer = await client.post(
                    f"{server.base_url}/chat/completions", content=queue.pop(), headers=headers
                )
                answer.raise_for_status()

        began = time.monotonic()
        await asyncio.gather(*(post() for _ in range(jobs)))
        return time.monotonic() - began


def throughput(folder: Path, count: int, jobs: int, latency: float) -> None:
    with ServerProcess(SCRIPT.format(latency=latency), _made(folder)) as server:
        place = Place(folder / "place", server, count)
        took = memory(place, jobs)
        count, bodies = _recorded(server)
        alone = asyncio.run(bare(server, bodies, jobs)) * count / len(bodies)
    ratio = alone / took
    print(f"  answers after {latency} s, {jobs} at once: bare asyncio {alone:.1f} s, ratio {ratio:.2f}")


def _recorded(server: ServerProcess) -> tuple[int, list[bytes]]:
    """How many requests there were, and the first of them."""
    count, bodies = 0, []
    with server.record.open("rb") as file:
        for line in file:
            count += 1
            if len(bodies) < MOST_BARE:
                bodies.append(json.dumps(json.loads(line)["body"]).encode())
    return count, bodies


def ceiling(folder: Path, count: int, jobs: int) -> None:
    """Runs under a ceiling of tokens and of money, each killed once on the way and gone on with."""
    for kind, option, most in (("tokens", "--max-tokens", 300_000), ("dollars", "--max-cost", 0.60)):
        place_of = _made(folder / kind)
        told = place_of / "told.jsonl"
        with ServerProcess(
            COUNTED.format(told=str(told)) + SCRIPT.format(latency=0.2) + "script = counted(script)\n",
            place_of,
        ) as server:
            place = Place(place_of / "place", server, count)
            _made(place.folder / "home")
            (place.folder / "home" / "config.yaml").write_text(PRICES.format(url=server.base_url))
            process = place.start(option, str(most), "--model", "priced/scripted", jobs=jobs)
            while place.ended() < count // 5 and process.poll() is None:
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            process = place.start(option, str(most), "--model", "priced/scripted", jobs=jobs)
            process.communicate()
            done = sum(each["outcome"] == "done" for each in place.results())
        counts = [json.loads(line) for line in told.read_text().splitlines()]
        prompt, completion = (sum(each[name] for each in counts) for name in (0, 1))
        used = prompt + completion if kind == "tokens" else (prompt * 2 + completion * 8) / 1e6
        print(
            f"  {count} tasks, {jobs} at once, killed once, ceiling {most:,} {kind}: "
            f"exit {process.returncode}"
        )
        print(
            f"  the server counted {used:,.6g} in {len(counts)} requests, "
            f"{'held' if used <= most else 'PASSED'}; {done} tasks done"
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=60, help="of the run that is killed")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--many", type=int, default=100, help="tasks of the run whose memory is watched")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of an answer, for throughput")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("kills", "many", "latency", "ceiling"), action="append")
    args = parser.parse_args()
    wanted = args.only or ["kills", "many", "latency", "ceiling"]
    with tempfile.TemporaryDirectory(prefix="hermes-batch-") as name:
        folder = Path(name)
        if "kills" in wanted:
            print("Kills")
            with ServerProcess(SCRIPT.format(latency=0.05), _made(folder / "a")) as server:
                storm(Place(folder / "a" / "place", server, args.tasks), args.kills, args.jobs, args.seed)
        if "many" in wanted:
            print("Many tasks, answers at once")
            throughput(folder / "b", args.many, args.jobs, 0.0)
        if "latency" in wanted:
            print("Throughput")
            throughput(folder / "c", max(100, args.many // 20), args.jobs, args.latency)
        if "ceiling" in wanted:
            print("Ceiling")
            ceiling(folder / "d", 60, args.jobs)


if __name__ == "__main__":
    main()
