"""`hermes -p TEXT`: work on one message and exit.

The final answer goes to stdout, everything else to stderr; with `--json`, stdout gets only events, one per
line.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent.api.opening import Listener, open_session
from agent.core.messages import Attachment
from agent.errors import ConfigError, ExitCode
from agent.events import (
    Event,
    ReplyCut,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from app.cli.console import Console
from app.cli.lines import call_line
from app.cli.options import options_of
from tools.command_name import as_called, command_name
from tools.text.safe_text import clean

if TYPE_CHECKING:
    import argparse

    from app.tui.startup.fast_args import FastOptions

MAX_STDIN = 4_000_000
"""The largest number of characters of a message from stdin."""
SILENCE = 5.0
"""Seconds without input on stdin, for a task that has a text, before other writers are searched for."""


def run(args: FastOptions | argparse.Namespace) -> int:
    """Run one turn; return an exit code for its outcome."""
    text = message_of(args.prompt, args.image)
    return asyncio.run(_turn(args, text, (*_images(args.image), *_mentioned_images(text))))


def message_of(prompt: str | None, images: Sequence[str]) -> str:
    """Return the message: the text of `-p`, stdin, or both, stdin last. Raises `ConfigError` if empty."""
    text = "" if prompt in (None, "-") else prompt
    piped = "" if text and _is_silent() else read_stdin()
    if text and piped.strip():
        text = f"{text}\n\n{piped}"
    text = text or piped
    if not text.strip() and not images:
        raise ConfigError("There is nothing to do: give a text with -p, or pipe one in.")
    return text.encode("utf-8", "replace").decode("utf-8")


def _images(paths: Sequence[str]) -> tuple[Attachment, ...]:
    """Store the images of `--image` in the home. Raises `AttachmentError` at the first non-image."""
    if not paths:
        return ()
    from agent.core.attachments import AttachmentStore
    from agent.core.home import Home, private_folder

    home = Home.locate()
    private_folder(home.root)
    store = AttachmentStore(home.attachments)
    return tuple(store.take(Path(path).absolute()) for path in paths)


def _mentioned_images(text: str) -> tuple[Attachment, ...]:
    """Store the images that a message mentions as `@chart.png`; print a sentence for each unusable one."""
    if "@" not in text:
        return ()
    from agent.core.attachments import AttachmentStore
    from agent.core.home import Home
    from app.tui.conversation.attachments import store_mentioned
    from widgets.prompt.draft import images_mentioned

    images, problems = store_mentioned(
        images_mentioned(text), AttachmentStore(Home.locate().attachments), Path.cwd()
    )
    for problem in problems:
        print(f"hermes: {clean(problem)}", file=sys.stderr)
    return images


def _is_silent() -> bool:
    """Return whether stdin is empty and only the processes that started this program could still write to it.

    Editors, agents and services start programs with a pipe that they never write to and never close.
    """
    try:
        descriptor = sys.stdin.fileno()
        if sys.stdin.isatty() or select.select([descriptor], [], [], SILENCE)[0]:
            return False
    except (OSError, ValueError):
        return False
    if silent := not _has_other_writer(descriptor):
        print(
            "hermes: Nothing comes on stdin: the task begins without. `< /dev/null` saves the wait.",
            file=sys.stderr,
        )
    else:
        print("hermes: Waiting for the text that is piped in.", file=sys.stderr)
    return silent


def _has_other_writer(descriptor: int) -> bool:
    """Return whether a process that did not start this one can write to a pipe; True if unknown."""
    pipe = os.fstat(descriptor)
    if not stat.S_ISFIFO(pipe.st_mode):
        return False
    if not Path("/proc/self/fdinfo").exists():
        return True
    above, process = {0}, os.getpid()
    with suppress(OSError):
        while process not in above:
            above.add(process)
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    for each in Path("/proc").glob("[0-9]*/fd"):
        number = int(each.parent.name)
        with suppress(OSError):
            if number not in above and not os.access(each, os.R_OK) and os.getpgid(number) == os.getpgrp():
                return True
            for file in each.iterdir() if number not in above else ():
                if os.path.samestat(file.stat(), pipe):
                    flags = (each.parent / "fdinfo" / file.name).read_text().partition("flags:")[2].split()[0]
                    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def read_stdin() -> str:
    """Return the cleaned text on stdin; empty on a terminal. Raises `ConfigError`."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    try:
        text = sys.stdin.buffer.read(MAX_STDIN * 4 + 1).decode("utf-8", "replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"The text on stdin cannot be read: {reason}; pipe one in, or use -p.") from error
    if len(text) > MAX_STDIN:
        raise ConfigError(
            f"The text on stdin is longer than {MAX_STDIN:,} characters; put it into a file instead."
        )
    # NUL and escape sequences of a piped program are not text for a model.
    return clean(text)


async def _turn(args: FastOptions | argparse.Namespace, text: str, images: Sequence[Attachment]) -> int:
    console = Console() if sys.stdin.isatty() and sys.stderr.isatty() and not args.json else None
    options = options_of(args, attended=console is not None, surface="json" if args.json else "oneshot")
    view = JsonView(sys.stdout) if args.json else TextView(sys.stderr)
    denied = LastDenied()
    listeners: list[Listener] = [view, denied]
    if console is not None:
        listeners.append(lambda event: _show_event(console, event))
    # What sends the request is imported meanwhile, as opening waits for the disk and a trial of the sandbox.
    sending = asyncio.create_task(asyncio.to_thread(import_module, "openai"))
    client = await open_session(options, *listeners)
    try:
        await sending
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, client.interrupt)
        if isinstance(view, JsonView):
            view.stop = client.interrupt
        said = await client.plugins.run_called(text, show=args.json)
        if said is not None:
            if not args.json:
                print(said, flush=True)
            return int(ExitCode.DONE)
        ended = await client.run(text, images)
    finally:
        await client.aclose()
    if isinstance(view, JsonView) and view.failure is not None:
        raise view.failure
    if not args.json:
        _print_answer(ended, args.approve, denied.call, client.workspace)
    return ended.exit_code


def _print_answer(ended: TurnEnded, approve: str | None, denied: ToolStarted | None, workspace: Path) -> None:
    if ended.text:
        print(clean(ended.text), flush=True)
    if ended.error:
        print(f"hermes: {clean(ended.error)}", file=sys.stderr)
    if ended.outcome == "budget" and not ended.error:
        print("hermes: the limit of requests was reached; raise it with --max-turns.", file=sys.stderr)
    if ended.outcome == "denied":
        print(f"hermes: {_advice(denied, workspace, approve)}", file=sys.stderr)


def _advice(denied: ToolStarted | None, workspace: Path, approve: str | None) -> str:
    """Return a sentence about how to allow an action that was denied."""
    if approve not in ("all", "yolo") and denied is not None:
        from app.cli.safety.permissions import narrow_rule

        if rule := narrow_rule(denied.tool, denied.arguments, workspace):
            allow = f"{command_name()} permissions allow {shlex.quote(rule)}"
            return f"denied, as nobody is here to say yes. To allow just this from now on: {allow}"
    return "an action was denied, for the reasons above."


def _show_event(console: Console, event: Event) -> None:
    console.handle(event)


class LastDenied:
    """Records the last call of the main agent that was denied because no user could be asked.

    What a hook or a rule refused would stay refused.
    """

    def __init__(self) -> None:
        self.call: ToolStarted | None = None
        self._started: dict[str, ToolStarted] = {}

    def __call__(self, event: Event) -> None:
        if event.agent == "main" and isinstance(event, ToolStarted):
            self._started[event.call] = event
        elif isinstance(event, ToolFinished):
            started = self._started.pop(event.call, None)
            if event.outcome == "denied" and json.loads(event.result).get("outcome") == "nobody":
                self.call = started


class JsonView:
    """Prints every event as one line of JSON. If stdout is closed, it sets `failure` and stops the turn."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.failure: OSError | None = None
        self.stop: Callable[[], None] | None = None
        """A function that stops the turn; None before it starts."""

    def __call__(self, event: Event) -> None:
        if self.failure is not None:
            return
        try:
            print(json.dumps(event.to_json(), ensure_ascii=True), file=self._out, flush=True)
        except OSError as error:
            self.failure = error
            if self.stop is not None:
                self.stop()


class TextView:
    """Prints one line for each finished call and each notice to stderr."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        line = ""
        if event.agent != "main":
            # Subagents' calls are left out; their results are shown.
            return
        if isinstance(event, ToolFinished):
            line = call_line(event)
        elif isinstance(event, ReplyCut):
            line = "┊ The answer was cut off."
        elif said := event.notice():
            line = as_called(f"┊ {said[1]}")
        if line:
            print(clean(line), file=self._out, flush=True)
