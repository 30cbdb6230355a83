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
def script(request):
    asked = next(each["content"] for each in reversed(request.messages) if each["role"] == "user")
    number = asked.split()[1]
    if int(number) % 5 == 0 and request.messages[-1]["role"] == "user":
        return call("read_file", path="note.txt")
    return say("answer " + number, delay={latency})
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
    wrong = [each["id"] for each in results if each["text"] != f"answer {each['id']}"]
    lost, twice = place.count - len(by_id), sum(number - 1 for number in by_id.values())
    print(f"  {place.count} tasks, {done} kills, {jobs} at once: exit {process.returncode}")
    print(f"  lost: {lost}; twice: {twice}; wrong: {len(wrong)}")
    total = sum(asked.values())
    print(f"  requests: {total} for {least} answers; {total - least} again, as a kill had lost the answer")
    order = [str(each["id"]) for each in results] == [str(number) for number in range(place.count)]
    print(f"  in the order of the file: {order}")
    if process.returncode != 0:
        print(said.decode()[-500:])


def _number(request: dict[str, object]) -> int:
    messages = request["body"]["messages"]  # type: ignore[index]
    asked = next(each["content"] for each in reversed(messages) if each["role"] == "user")
    return int(asked.split()[1])


def memory(place: Place, jobs: int) -> float:
    """Peak of all its processes over the tasks that have ended; seconds of the whole."""
    began = time.monotonic()
    process = place.start(jobs=jobs)
    seen: list[tuple[int, float]] = []
    while process.poll() is None:
        seen.append((place.ended(), _resident(process.pid)))
        time.sleep(0.5)
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


def _resident(group: int) -> float:
    """MB of all processes of a group, what they share counted once (Linux)."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) != group:
                continue
            lines = (folder / "smaps_rollup").read_text().splitlines()
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
    with ServerProcess(SCRIPT.format(latency=0.01), _made(folder)) as server:
        place = Place(folder / "place", server, count)
        most = 300_000
        process = place.start("--max-tokens", str(most), jobs=jobs)
        process.communicate()
        counts = [each["usage"] for each in place.results()]
        used = sum(each.get(name, 0) for each in counts for name in ("input", "output"))  # type: ignore[attr-defined]
    held = "held" if used <= most else "PASSED"
    print(f"  {count} tasks, ceiling {most:,} tokens: {used:,} used, {held}, exit {process.returncode}")


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
            throughput(folder / "c", max(40, args.many // 20), args.jobs, args.latency)
        if "ceiling" in wanted:
            print("Ceiling")
            ceiling(folder / "d", 40, args.jobs)


if __name__ == "__main__":
    main()
