"""What is measured of one program in a home of its own; each measurement yields figures as it gets them.

What a measurement yields before it fails still counts. All raise `TimeoutError` when a program does not do
its part.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import FILES, TOKENIZER, Home, Missing, Shelf
from benchmarks.peers.figures import Value, percentile
from benchmarks.peers.screen import Screen, cpu, end_all, letters, memory, plain
from benchmarks.peers.wire import UNDO, end_mark, start_mark

KEYS = 0x4E00
"""The first character of keys; each is typed once."""
APART = 0.02
"""Seconds between two keys while a program starts."""
PASTE = 0.3
"""Seconds after which Enter no longer counts as part of a paste."""
MESSAGE = "鐵"
"""What marks the person's message where it is looked for later."""
LINE = re.compile(r"L(\d{3}) of the answer")
TURNS, WORDS = 40, 600
CALLS, LONG, MESSAGES = 50, 90.0, 1000
RATES = {50: 300, 200: 800, 2000: 4000}
"""Tokens a second, and how many of them are sent."""


@dataclass(slots=True)
class Log:
    """What the server wrote down, read as it grows."""

    folder: Path
    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _at: int = 0

    def read(self) -> list[dict[str, Any]]:
        with (self.folder / "requests.jsonl").open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        self.entries += map(json.loads, whole.splitlines())
        return self.entries

    def since(self, at: int, kind: str, text: str = "") -> list[dict[str, Any]]:
        """Requests or answers after the entry of this number; with a text: requests whose person wrote it."""
        return [each for each in self.read()[at:] if each["kind"] == kind and text in each.get("text", "")]


@dataclass(slots=True)
class Work:
    """One measurement: the home it takes place in and what the server saw."""

    home: Home
    log: Log

    def requests(self, at: int, text: str = "") -> list[dict[str, Any]]:
        return self.log.since(at, "request", text)

    def answers(self, at: int) -> dict[int, dict[str, Any]]:
        return {each["number"]: each for each in self.log.since(at, "answer")}


Figures = Iterator[dict[str, Value]]


def press_until_seen(screen: Screen, limit: float = 60.0) -> list[str]:
    """Type another key every moment until one of them is on the screen; those that were typed."""
    pressed: list[str] = []
    for key in letters(KEYS):
        pressed.append(key)
        screen.press(key)
        until = time.monotonic() + APART
        while time.monotonic() < until:
            screen.read(until - time.monotonic())
        if any(screen.painted.find(each.encode()) >= 0 for each in pressed):
            return pressed
        if time.monotonic() - screen.began > limit * screen.patience or screen.process.poll() is not None:
            break
    raise TimeoutError(
        f"no typed key was shown; last painted: {plain(bytes(screen.painted[-1500:]))[-160:]!r}"
    )


def first_shown(screen: Screen, pressed: list[str]) -> float:
    shown = [screen.moment(key) for key in pressed if screen.painted.find(key.encode()) >= 0]
    return min(shown) - screen.began


def open_prompt(screen: Screen, settle: float = 0.0) -> None:
    """Wait for a prompt that takes keys, and leave it empty."""
    pressed = press_until_seen(screen)
    screen.watch(PASTE)
    for key in (*screen.home.peer.clear, *("\x7f" for _ in pressed)):
        screen.press(key)
        screen.watch(0.004)
    screen.watch(max(settle, 0.1))


def send(screen: Screen, text: str) -> float:
    """Type a message and send it; the moment of Enter."""
    screen.press(text)
    screen.watch(PASTE)
    return screen.press("\r")


def play(screen: Screen, name: str, number: int, rate: int, turn: int, limit: float) -> int:
    """Ask for a play and wait until its end is painted; where what was painted since Enter begins."""
    since = len(screen.painted)
    send(screen, f"go {name} {number} {rate} {turn}")
    screen.until(end_mark(turn), limit, since)
    return since


def start(work: Work) -> Figures:
    """First paint, first key, keys that were kept, and the first request after an early Enter."""
    with Screen(work.home) as screen:
        before = len(work.log.read())
        pressed = press_until_seen(screen)
        yield {"paint": screen.first_paint() - screen.began, "key": first_shown(screen, pressed)}
        screen.watch(max(PASTE, screen.began + 1.0 - time.monotonic()))
        entered = screen.press("\r")
        screen.until(lambda: bool(work.requests(before)), 20.0)
        request = work.requests(before)[0]
        kept = sum(key in request["text"] for key in pressed)
        yield {"early": request["at"] - entered, "kept": 100 * kept / len(pressed)}


def task(work: Work) -> Figures:
    """Six shell calls in a fresh session, sent as soon as the prompt takes keys."""
    with Screen(work.home) as screen:
        open_prompt(screen)
        before = len(work.log.read())
        since = len(screen.painted)
        entered = send(screen, "go task 6 0 1")
        screen.until(end_mark(1), 60.0, since)
        requests = [each for each in work.requests(before, "go task") if each["tools"]]
        answers = work.answers(before)
        model = sum(
            answers[each["number"]]["at"] - each["at"] for each in requests if each["number"] in answers
        )
        waits = [1000 * (after["at"] - answers[call["number"]]["at"]) for call, after in pairwise(requests)]
        if not (work.home.work / "notes.txt").exists():
            raise TimeoutError("the commands were not run")
        yield {
            "task": screen.moment(end_mark(1), since) - entered - model,
            "task_next": statistics.median(waits),
            "task_first": requests[0]["at"] - entered,
            "task_bytes": sum(each["bytes"] for each in requests) / 1000,
        }


def hi(work: Work) -> Figures:
    """What the shortest message costs."""
    with Screen(work.home) as screen:
        open_prompt(screen, 2.0)
        before = len(work.log.read())
        since = len(screen.painted)
        send(screen, "hi")
        screen.until(end_mark(0), 30.0, since)
        screen.watch(3.0)
        requests = [each for each in work.requests(before) if "file" in each]
        first = max(requests, key=lambda each: each["tools"])
        counts = {
            each["number"]: count_tokens(work.home.shelf, work.log.folder / each["file"]) for each in requests
        }
        tokens, tools = counts[first["number"]]
        everything = sum(tokens for tokens, _tools in counts.values())
        yield {"hi_tokens": tokens, "hi_tools": tools, "hi_number": first["tools"]}
        yield {"hi_requests": len(requests), "hi_all": everything}


COUNT = """
const { countTokens } = require("gpt-tokenizer");
const body = JSON.parse(require("fs").readFileSync(process.argv[1]));
const count = value => value ? countTokens(JSON.stringify(value), { allowedSpecial: "all" }) : 0;
console.log(JSON.stringify([count(body), count(body.tools)]));
"""


def count_tokens(shelf: Shelf, body: Path) -> tuple[int, int]:
    """Tokens of a request as compact JSON, and of its tools. Raises `Missing` without the tokenizer."""
    folder = shelf.need_npm("tokenizer", TOKENIZER)
    done = subprocess.run(
        [shelf.node, "-e", COUNT, body], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"tokens not counted: {done.stderr.strip().splitlines()[-1]}")
    tokens, tools = json.loads(done.stdout)
    return tokens, tools


def once(work: Work) -> Figures:
    """One answer on stdout."""
    began = time.monotonic()
    process = subprocess.Popen(
        work.home.command(*work.home.peer.once),
        cwd=work.home.work,
        env=work.home.env(),
        stdin=subprocess.DEVNULL,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=40.0 * Screen.patience)
        took = time.monotonic() - began
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("no end within 40 s") from error
    finally:
        end_all(process.pid, work.home.token)
    if end_mark(0) not in out:
        raise TimeoutError(f"exit {process.returncode} without the answer: {plain(out.encode())[-160:]!r}")
    yield {"once": took}


def idle(work: Work) -> Figures:
    """Left alone at the prompt."""
    with Screen(work.home) as screen:
        open_prompt(screen, 10.0)
        yield {"memory": memory(screen)}
        before, painted, began = cpu(screen), len(screen.painted), time.monotonic()
        screen.watch(15.0)
        took = time.monotonic() - began
        yield {
            "idle_cpu": 100 * (cpu(screen) - before) / took,
            "idle_bytes": (len(screen.painted) - painted) / took,
        }


def echo(work: Work) -> Figures:
    """From a key to its paint, idle and while an answer comes."""
    with Screen(work.home) as screen:
        open_prompt(screen, 5.0)
        yield echoes(screen, "echo", KEYS + 0x800)
        screen.press("\x7f" * 31)
        screen.watch(0.5)
        since = len(screen.painted)
        send(screen, "go stream 24000 2000 1")
        screen.until(start_mark(1), 20.0, since)
        yield echoes(screen, "stream", KEYS + 0x900)


def echoes(screen: Screen, name: str, first: int) -> dict[str, Value]:
    """Median, 95th percentile and worst of thirty keys, in milliseconds."""
    times: list[float] = []
    keys = letters(first)
    for _ in range(31):
        key, since = next(keys), len(screen.painted)
        pressed = screen.press(key)
        screen.until(key, 3.0, since)
        times.append(1000 * (screen.moment(key, since) - pressed))
        screen.watch(0.1)
    times = times[1:]
    return {
        f"{name}_p50": percentile(times, 0.5),
        f"{name}_p95": percentile(times, 0.95),
        f"{name}_worst": max(times),
    }


def stream(work: Work) -> Figures:
    """CPU and bytes of answers at three speeds, and how long after its last token the end is painted."""
    with Screen(work.home) as screen:
        open_prompt(screen, 4.0)
        play(screen, "stream", 20, 0, 9, 20.0)
        for turn, (rate, tokens) in enumerate(RATES.items(), start=1):
            screen.watch(1.5)
            before, at = cpu(screen), len(work.log.read())
            since = play(screen, "stream", tokens, rate, turn, tokens / rate + 20)
            screen.watch(0.5)
            last = max(each["last"] for each in work.answers(at).values())
            yield {
                f"cpu_{rate}": 1000 * (cpu(screen) - before) / tokens,
                f"bytes_{rate}": (len(screen.painted) - since) / tokens,
                f"end_{rate}": 1000 * (screen.moment(end_mark(turn), since) - last),
            }


def turns(work: Work) -> Figures:
    """Forty turns, then the same session opened again."""
    with Screen(work.home) as screen:
        open_prompt(screen, 2.0)
        for turn in range(1, TURNS + 1):
            play(screen, "stream", WORDS, 0, turn, 25.0)
        screen.watch(2.0)
        yield {"memory_turns": memory(screen)}
        leave(screen)
    yield from reopened(work, "resume", TURNS)


def leave(screen: Screen) -> None:
    """Close the terminal as a person does who closes its window."""
    screen.watch(1.0)
    os.killpg(screen.process.pid, signal.SIGHUP)
    end = time.monotonic() + 3.0
    while screen.process.poll() is None and time.monotonic() < end and screen.read(0.05):
        continue


def reopened(work: Work, name: str, turn: int) -> Figures:
    """First key and last answer of a session that is continued, and its memory."""
    with Screen(work.home, *work.home.resume()) as screen:
        yield {f"{name}_key": first_shown(screen, press_until_seen(screen))}
        screen.until(end_mark(turn), 40.0)
        yield {f"{name}_last": screen.moment(end_mark(turn)) - screen.began}
        screen.watch(3.0)
        yield {f"{name}_memory": memory(screen)}


def long(work: Work) -> Figures:
    """A session of a thousand messages (or of what can be made in a minute and a half), opened again."""
    with Screen(work.home) as screen:
        open_prompt(screen, 2.0)
        before, began, turn = len(work.log.read()), time.monotonic(), 0
        messages = 0
        while messages < MESSAGES and time.monotonic() - began < LONG:
            turn += 1
            play(screen, "calls", CALLS, 0, turn, 60.0)
            messages = 2 * len([each for each in work.requests(before, "go calls") if each["tools"]])
        yield {"long_messages": messages}
        leave(screen)
    yield from reopened(work, "long", turn)


def resize(work: Work) -> Figures:
    """A hundred sizes while 150 lines arrive; then everything the terminal has is read."""
    socket, config = work.home.folder / "tmux", work.home.folder / "tmux.conf"
    config.write_text("set -g history-limit 30000\nset -g default-terminal tmux-256color\n")

    def tmux(*arguments: str) -> str:
        env = {"PATH": os.defpath, "HOME": str(work.home.folder), "LANG": "C.UTF-8"}
        done = subprocess.run(
            ["tmux", "-S", str(socket), "-f", str(config), *arguments],
            capture_output=True,
            text=True,
            env=env,
            timeout=20,
            check=False,
        )
        return done.stdout

    def wait(seen: Callable[[], object], limit: float) -> None:
        end = time.monotonic() + limit * Screen.patience
        while not seen():
            if time.monotonic() > end:
                shown = " ".join(tmux("capture-pane", "-p").split())[-160:]
                raise TimeoutError(f"nothing within {limit:.0f} s; on the screen: {shown!r}")
            time.sleep(0.1)

    before = len(work.log.read())
    env = [f"{name}={value}" for name, value in work.home.env().items() if name != "TERM"]
    command = ["env", "-i", "TERM=tmux-256color", *env, *work.home.command()]
    try:
        tmux("new-session", "-d", "-x", "120", "-y", "40", "-c", str(work.home.work), *command)
        pressed: list[str] = []

        def key_shown() -> bool:
            pressed.append(chr(KEYS + len(pressed)))
            tmux("send-keys", "-l", pressed[-1])
            return any(key in tmux("capture-pane", "-p") for key in pressed)

        wait(key_shown, 60.0)
        time.sleep(PASTE)
        tmux("send-keys", "-N", str(len(pressed)), "BSpace")
        time.sleep(2.0)
        wait(lambda: not any(key in tmux("capture-pane", "-p") for key in pressed), 20.0)
        tmux("send-keys", "-l", "go lines 150 40 1")
        wait(lambda: "go lines 150 40 1" in tmux("capture-pane", "-p"), 20.0)
        time.sleep(PASTE)
        tmux("send-keys", "Enter")
        wait(lambda: work.requests(before, "go lines"), 20.0)
        for at in range(100):
            tmux("resize-window", "-x", str(120 - 13 * at % 50), "-y", str(40 - 7 * at % 20))
            time.sleep(0.025)
        wait(lambda: work.answers(before), 20.0)
        tmux("resize-window", "-x", "120", "-y", "300")
        time.sleep(3.0)
        times = [int(each[1]) for each in LINE.finditer(tmux("capture-pane", "-p", "-S", "-"))]
        yield {
            "resize_missing": 150 - len(set(times)),
            "resize_doubled": sum(times.count(each) > 1 for each in set(times)),
        }
    finally:
        tmux("kill-server")
        end_all(0, work.home.token)


def kill(work: Work) -> Figures:
    """Killed in the middle of an answer; what is there when the session is continued."""
    with Screen(work.home) as screen:
        open_prompt(screen, 2.0)
        since = len(screen.painted)
        send(screen, f"go stream 2000 100 1 {MESSAGE}")
        screen.until(start_mark(1), 20.0, since)
        screen.watch(2.0)
        end_all(screen.process.pid, work.home.token)
    with Screen(work.home, *work.home.resume()) as screen:
        for name, text in (("kill_message", MESSAGE), ("kill_part", "w000")):
            seen = screen.until(text, 8.0 * screen.patience, fails=False)
            yield {name: "yes" if seen else "no"}


def undo(work: Work) -> Figures:
    """A command overwrites, deletes, and appends to an ignored file; the turn is taken back."""
    with Screen(work.home) as screen:
        open_prompt(screen, 4.0)
        play(screen, "undo", 1, 0, 1, 30.0)
        if count_restored(work.home.work):
            raise TimeoutError(f"the command was not run: {UNDO}")
        screen.watch(1.0)
        for keys in work.home.peer.undo:
            screen.press(keys)
            screen.watch(1.0)
        screen.watch(2.0)
        yield {"undo": count_restored(work.home.work)}


def count_restored(folder: Path) -> int:
    """How many of the three files are as they were at the start."""
    names = [name for name in FILES if not name.startswith(".")]
    return sum((folder / name).exists() and (folder / name).read_text() == FILES[name] for name in names)


@dataclass(frozen=True, slots=True)
class Measure:
    """How often something is measured, for how many seconds at most, and whether in pairs with ours."""

    run: Callable[[Work], Figures]
    rounds: int = 1
    limit: int = 120
    paired: bool = True


MEASURES: Mapping[str, Measure] = {
    "start": Measure(start, rounds=5, limit=90),
    "task": Measure(task, rounds=3, limit=120),
    "hi": Measure(hi, paired=False),
    "once": Measure(once, rounds=3, limit=60),
    "idle": Measure(idle, limit=120),
    "echo": Measure(echo, limit=120),
    "stream": Measure(stream, limit=150),
    "turns": Measure(turns, limit=300),
    "long": Measure(long, limit=400),
    "resize": Measure(resize, limit=120, paired=False),
    "kill": Measure(kill, limit=120, paired=False),
    "undo": Measure(undo, limit=120, paired=False),
}


def choose(names: str) -> list[str]:
    """The measurements of a list with commas (empty: all). Raises `ValueError` for an unknown one."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in MEASURES]:
        raise ValueError(f"nothing is measured under {unknown[0]!r}; there are {', '.join(MEASURES)}")
    return list(dict.fromkeys(wanted)) or list(MEASURES)
