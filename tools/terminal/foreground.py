"""Running one command to its end: with a time limit, live output, and nothing left half done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.terminal import screen
from tools.terminal.backend import NO_LEAVE, Leave, ShellChild
from tools.terminal.exit_codes import TIMED_OUT
from tools.terminal.output import LIMIT, Output, OutputCollector
from tools.terminal.pump import ShellEnding
from tools.terminal.shell import Shell, ShellPlace
from tools.terminal.threads import on_thread
from tools.text.redact import redact
from tools.text.safe_text import truncate

_PROGRESS = 0.1
"""Seconds between two looks at live output."""

_PATIENCE = 5.0
"""Seconds a killed shell gets until it is given up (a process may hang in the kernel)."""

_DETACHES = re.compile(r"(?<![&>\d])&(?![&>\d])|\b(?:nohup|setsid|disown|coproc)\b|daemon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended."""

    output: Output
    code: int
    notes: list[str] = field(default_factory=list)


async def run(
    shell: Shell,
    place: ShellPlace,
    command: str,
    *,
    limit: float,
    pty: bool,
    spool: Path,
    secrets: Mapping[str, str],
    progress: Callable[[str], None],
    leave: Leave = NO_LEAVE,
    screen_of: Callable[[str], None] | None = None,
) -> Outcome:
    """Run `command` and wait for it, at most `limit` seconds.

    `screen_of` is a terminal of somebody who looks on. The caller holds the shell's lock. When the wait is
    cancelled, everything the command started is killed before the cancellation passes on.
    """
    collector = OutputCollector(spool, secrets, screen=screen_of)
    replay = screen.ScreenRecording() if pty else None
    live = _Live(collector.last_lines, progress)

    def sink(data: bytes) -> None:
        collector.feed(data)
        if replay is not None:
            replay.feed(data)
        live.is_news = True

    child, launch = shell.start(command, place, pty=pty, leave=leave)
    child.watch(sink)
    follower = asyncio.create_task(live.follow())
    try:
        ending, timed_out = await _wait(child, limit)
        notes = [_timeout_note(limit)] if timed_out else await _leftovers(child, command, ending)
        output = await on_thread(_finish, collector, replay, secrets)
    except BaseException:
        await child.kill()
        await on_thread(collector.finish)
        raise
    finally:
        follower.cancel()
        shell.settle(launch, place)
    if output.spool_problem:
        notes.append(f"Of the output, {output.spool_problem}.")
    return Outcome(output=output, code=TIMED_OUT if timed_out else ending.code, notes=notes)


async def _wait(child: ShellChild, limit: float) -> tuple[ShellEnding, bool]:
    """How the shell ended, and whether that was because its time was up."""
    ended = asyncio.ensure_future(child.ended())
    try:
        await asyncio.wait({ended}, timeout=limit)
        if ended.done():
            return ended.result(), False
        await child.kill()
        await asyncio.wait({ended}, timeout=_PATIENCE)
        return (ended.result() if ended.done() else ShellEnding(TIMED_OUT, True)), True
    finally:
        ended.cancel()


async def _leftovers(child: ShellChild, command: str, ending: ShellEnding) -> list[str]:
    """What to say about processes that outlive the command."""
    thorough = ending.still_open or _DETACHES.search(command) is not None
    left = await child.left_behind(thorough=thorough)
    if not left:
        return []
    names = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
    return [
        f"Left running in the background: {names}. Their further output is lost, and later commands may "
        "neither see nor stop them; "
        "use background=true for processes that should go on, to read their output and to stop them."
    ]


def _timeout_note(limit: float) -> str:
    return (
        f"Stopped after {limit:g} s, with everything it had started. Use a larger timeout, "
        "or background=true for what takes long or never ends. Input is empty: nothing can be typed."
    )


def _finish(
    collector: OutputCollector, replay: screen.ScreenRecording | None, secrets: Mapping[str, str]
) -> Output:
    output = collector.finish()
    if replay is None or not replay.is_whole:
        return output
    shown = redact(screen.render(replay.data(), history=True), secrets)
    return replace(output, text=truncate(shown, LIMIT))


class _Live:
    """Shows the newest output every now and then, while there is news."""

    def __init__(self, newest: Callable[[], str], show: Callable[[str], None]) -> None:
        self._newest = newest
        self._show = show
        self.is_news = False

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS)
            if self.is_news:
                self.is_news = False
                self._show(await asyncio.to_thread(self._newest))
