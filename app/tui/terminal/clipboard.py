"""Copying text to the user's clipboard in the first way that works here, with a sentence about that way.

The ways: a program of this desktop, tmux, the terminal itself (OSC 52), and a file. A text is called copied
only if it has certainly arrived. A terminal sends no confirmation; for an unknown terminal the text is also
written to the file, and for one known to ignore OSC 52 only there.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.tui.terminal.terminals import (
    Terminal,
    TerminalAnswers,
    ask_version,
    is_remote,
    known_terminal,
    multiplexer,
)
from tools.kit.children import kill_child, start_child
from tools.kit.files import write_atomically

SECONDS = 3.0
"""The time limit in seconds for one program."""
SCREEN_PIECE = 500
"""The number of bytes of a sequence that GNU screen gets at once; it prints sequences of more than 768."""
_ENVIRONMENT = (
    "PATH", "HOME", "LANG", "LC_ALL", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "TMUX",
    "TMUX_TMPDIR", "TMUX_PANE",
)  # fmt: skip


class CopyResult(NamedTuple):
    """The way in which a text was copied."""

    way: str
    """A program, `tmux`, `screen`, `terminal` or `file`."""
    sentence: str
    """A sentence for the user, which says copied only if the text is on the clipboard."""
    is_copied: bool


class Clipboard:
    """The user's clipboard. `write` sends text to the terminal; `file` receives what cannot be copied."""

    def __init__(
        self,
        write: Callable[[str], None],
        answers: TerminalAnswers,
        file: Path,
        environ: Mapping[str, str],
        platform: str,
    ) -> None:
        self._write, self._answers = write, answers
        self._file, self._environ, self._platform = file, environ, platform
        self._terminal: Terminal | None = None

    def forget(self) -> None:
        """Forget what the terminal supports, as another one may be attached now."""
        self._terminal = None

    async def copy(self, text: str) -> CopyResult:
        """Put `text` on the clipboard. Raises `OSError` if not even the file can be written."""
        for program in local_programs(self._environ, self._platform):
            if await self._run(program, text) is not None:
                return CopyResult(program[0], f"Copied with {program[0]}.", True)
        match multiplexer(self._environ):
            case "tmux":
                return await self._through_tmux(text)
            case inside:
                return await self._through_terminal(text, inside)

    async def _through_tmux(self, text: str) -> CopyResult:
        """Copy through tmux, which passes the text to the terminal regardless of `set-clipboard`."""
        if await self._run(("tmux", "load-buffer", "-w", "-"), text) is None:
            return await self._into_file(text, "tmux did not take it")
        shown = "#{client_termfeatures}\n#{client_termtype}"
        facts = (await self._run(("tmux", "display-message", "-p", shown), "", output=True) or b"").decode(
            "utf-8", "replace"
        )
        features, _, name = facts.partition("\n")
        terminal = known_terminal({"TMUX": "1"}, name.strip())
        if "clipboard" in features.split(",") and terminal.copies == "yes":
            return CopyResult("tmux", f"Copied by tmux and {terminal.name}.", True)
        return CopyResult(
            "tmux", "In the buffer of tmux: its prefix and ] paste it. The clipboard may lack it.", False
        )

    async def _through_terminal(self, text: str, inside: str) -> CopyResult:
        terminal = self._terminal = self._terminal or await self._ask_terminal(inside)
        payload = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        if terminal.copies == "no":
            return await self._into_file(text, f"{terminal.name} takes no text from programs", terminal.hint)
        if terminal.copy_limit and len(payload) > terminal.copy_limit:
            return await self._into_file(text, f"it is too long for {terminal.name}")
        way = inside or "terminal"
        self._write(screen_pieces(payload) if inside else f"\x1b]52;c;{payload}\x07")
        if terminal.copies == "yes":
            return CopyResult(way, f"Copied by {terminal.name}.", True)
        await self._keep(text)
        return CopyResult(
            way, f"Sent to {terminal.name}, which may not take it; it is also in {self._place()}.", False
        )

    async def _ask_terminal(self, inside: str) -> Terminal:
        """Return the table's row for the terminal; ask the terminal if its variables do not identify it."""
        terminal = known_terminal(self._environ)
        # TERM of a multiplexer on the user's machine: it would answer for itself, or print the query.
        inner = self._environ.get("TERM", "").startswith(("screen", "tmux"))
        if inside or terminal.is_known or inner:
            return terminal
        return known_terminal(self._environ, await ask_version(self._write, self._answers))

    async def _into_file(self, text: str, reason: str, hint: str = "") -> CopyResult:
        await self._keep(text)
        more = f" ({hint})" if hint else ""
        return CopyResult("file", f"Not copied: {reason}{more}. The text is in {self._place()}.", False)

    async def _keep(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        await asyncio.to_thread(write_atomically, self._file, data, mode=0o600)

    def _place(self) -> str:
        home = self._environ.get("HOME", "")
        with suppress(ValueError):
            return f"~/{self._file.relative_to(home)}" if home else str(self._file)
        return str(self._file)

    async def _run(self, program: Sequence[str], text: str, *, output: bool = False) -> bytes | None:
        """Run a program with `text` as input; return its output if wanted; None if it is missing or fails."""
        environ = {name: self._environ[name] for name in _ENVIRONMENT if name in self._environ}
        found = shutil.which(program[0], path=environ.get("PATH"))
        if found is None:
            return None
        try:
            # A program that stays to serve the clipboard would keep an output open that was read.
            process = await start_child(
                (found, *program[1:]),
                env=environ,
                stdin=PIPE,
                stdout=PIPE if output else DEVNULL,
                private=True,
            )
        except OSError:
            return None
        try:
            async with asyncio.timeout(SECONDS):
                printed, _ = await process.communicate(text.encode("utf-8", "replace"))
        except (OSError, TimeoutError):
            return None
        finally:
            await kill_child(process)
        return (printed or b"") if process.returncode == 0 else None


def local_programs(environ: Mapping[str, str], platform: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that copy their input to the clipboard of the user's desktop. Pure."""
    remote = is_remote(environ)
    if environ.get("WAYLAND_DISPLAY") and not remote:
        yield ("wl-copy",)
    display = environ.get("DISPLAY", "")
    if display and not (remote and display.startswith(":")):  # the display of this machine, not the user's
        yield "xclip", "-selection", "clipboard"
        yield "xsel", "--clipboard", "--input"
    if remote:
        return
    if platform == "darwin":
        yield ("pbcopy",)
    if environ.get("WSL_DISTRO_NAME"):
        yield ("clip.exe",)


def screen_pieces(payload: str) -> str:
    """Return a clipboard sequence in short pieces, which GNU screen passes to the terminal. Pure."""
    whole = f"\x1b]52;c;{payload}\x07"
    parts = (whole[at : at + SCREEN_PIECE] for at in range(0, len(whole), SCREEN_PIECE))
    return "".join(f"\x1bP{part}\x1b\\" for part in parts)


def copy_prospect(environ: Mapping[str, str], platform: str) -> tuple[bool, str, str]:
    """Return whether copied text arrives in the clipboard here, in which way, and a hint if it may not."""
    for program in local_programs(environ, platform):
        if shutil.which(program[0], path=environ.get("PATH")):
            return True, f"by {program[0]}", ""
    if inside := multiplexer(environ):
        return True, f"by {inside}, which passes it to the terminal where that takes it", ""
    terminal = known_terminal(environ)
    if terminal.copies == "yes":
        return True, f"by {terminal.name} (OSC 52)", ""
    program = "wl-clipboard" if environ.get("WAYLAND_DISPLAY") else "xclip"
    install = f"Install {program}." if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else ""
    hint = terminal.hint[:1].upper() + terminal.hint[1:] + "." if terminal.hint else install
    if terminal.copies == "no":
        return False, f"into a file, as {terminal.name} takes no text from programs", hint
    return False, "by the terminal (OSC 52), if it takes it, and into a file", hint
