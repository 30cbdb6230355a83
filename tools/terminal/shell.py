"""The shell of a task: state between commands, running in the foreground, meaning of exit codes."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import re
import shutil
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import on_thread
from tools.results import ToolError
from tools.terminal.backend import (
    NO_EXTRA_PERMISSIONS,
    Backend,
    CommandPermissions,
    Launch,
    ShellChild,
    ShellEnding,
)
from tools.terminal.output import LIMIT, Output, OutputCollector, ScreenRecording, render
from tools.text.redact import redact
from tools.text.safe_text import truncate

_COMPLETE = b"\n# complete\n"
_NO_BASH = (
    "There is no bash here, so sh runs the commands: the folder and variables persist between calls, "
    "functions, aliases and shell options do not."
)
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARED = re.compile(rb"^declare -(\S+) (\w+)", re.MULTILINE)
_NAMING = (b"\ndeclare -f", b"\nalias ", b"xtrace")
"""How a saved state contains functions, aliases, and the option that expands a prompt before each command."""
_SPECIAL = re.compile(r'["\\$`]')
_TOO_LONG = "Argument list too long"
_BURDEN = 100_000
"""The size in bytes of exported variables from which they may prevent programs from starting."""
_calls = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ShellPlace:
    """The folder in which a command will run. `note` is set if the shell's last folder no longer exists."""

    cwd: Path
    """The resolved folder, checked and used by the command."""
    shown: Path
    """The folder as the shell names it, possibly through links."""
    is_own: bool
    """Whether it is the shell's folder and not one named for this call."""
    note: str = ""


class Shell:
    """Folder, environment, variables, functions, aliases and options of one task.

    Calls of one task run one after another: hold `lock` from `place` to `adopt_state`.
    """

    def __init__(
        self, task: str, workspace: Path, folder: Path, backend: Backend, env: Mapping[str, str]
    ) -> None:
        self.lock = asyncio.Lock()
        self._workspace = workspace
        self._folder = folder / hashlib.sha256(task.encode("utf-8", "replace")).hexdigest()[:16]
        self._backend = backend
        self._env = dict(env)
        self._cwd = workspace
        self._previous = ""
        self._start = workspace
        self._generation = 0

    @property
    def variable_names(self) -> Collection[str]:
        """The names of the variables that the shell began with."""
        return self._env.keys()

    @property
    def cwd(self) -> Path:
        """The folder of the next command, if it still exists."""
        return self._cwd

    def place(self, workdir: str | None) -> ShellPlace:
        """Return the folder for the next command: `workdir`, or the current one.

        Raises `ToolError` if `workdir` is not usable.
        """
        if self._backend.place:
            return self._remote_place(workdir)
        note = ""
        if not self._cwd.is_dir():
            if not self._workspace.is_dir():
                raise ToolError(
                    f"The workspace {self._workspace} does not exist; create it or start elsewhere."
                )
            note = f"The folder {self._cwd} is gone; the shell is back in {self._workspace}."
            self._cwd = self._workspace
        if not workdir:
            return ShellPlace(self._cwd.resolve(), self._cwd, True, note)
        try:
            path = (self._cwd / Path(workdir).expanduser()).resolve()
            is_folder = path.is_dir()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(f"workdir {workdir!r} cannot be used: {error}.") from error
        if not is_folder:
            raise ToolError(f"workdir {workdir!r} is not a folder; make it first or name another.")
        return ShellPlace(path, path, False, note)

    async def connect(self) -> str:
        """Connect to the machine of the shell; return a note if its shell is not bash, else an empty text.

        Raises `ToolError` if that fails. Raises it also if the last command's state was lost with the
        connection, because the next command may depend on it.
        """
        generation = await self._backend.open()
        if generation == self._generation:
            return ""
        is_first, self._generation = self._generation == 0, generation
        note = "" if self._backend.shell == "bash" else _NO_BASH
        if is_first:
            return note
        self.forget()
        self._cwd, self._previous = self._start, ""
        raise ToolError(
            f"The connection to {self._backend.place} was lost and made again, so the shell starts afresh in "
            f"{self._start}; run the command again if it still fits."
        )

    async def start(
        self,
        command: str,
        place: ShellPlace,
        *,
        pty: bool = False,
        keeps_input: bool = False,
        keeps_state: bool = True,
        permissions: CommandPermissions = NO_EXTRA_PERMISSIONS,
    ) -> tuple[ShellChild, Launch]:
        """Start a shell for `command`. Raises `ToolError` if that fails.

        A shell outside of the sandbox takes over only the folder and leaves no state. Otherwise functions and
        variables that a command set inside the sandbox could act outside.
        """
        keeps_state = keeps_state and not permissions.outside
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        call = str(next(_calls))
        launch = Launch(
            cwd=place.cwd,
            env=self._environment(place.shown, is_fresh=permissions.outside),
            state=self._folder / ("nothing" if permissions.outside else "state"),
            new_state=self._folder / f"{call}.state" if keeps_state else None,
            command_file=self._folder / f"{call}.command",
            mark=call,
            pty=pty,
            keeps_input=keeps_input,
            permissions=permissions,
        )
        if launch.new_state is not None:
            # Made here, so that the umask of the shell has no say in who may read them.
            private_write(launch.new_state, "")
            private_write(folders_file(launch.new_state), "")
        private_write(launch.command_file, command)
        return await self._backend.start(launch), launch

    def adopt_state(self, launch: Launch, place: ShellPlace) -> None:
        """Take over the state the shell left, if it is complete, and clean up."""
        launch.command_file.unlink(missing_ok=True)
        new = launch.new_state
        if new is None:
            return
        folders = folders_file(new)
        if not new.exists() and place.is_own:
            self._cwd = self._start
        try:
            if _is_complete(new):
                new.replace(launch.state)
                self._move(folders.read_bytes(), place)
        except OSError:
            # A shell that was killed or replaced itself leaves no state; the last one stays good.
            pass
        finally:
            new.unlink(missing_ok=True)
            folders.unlink(missing_ok=True)

    def size_note(self, output: str) -> str:
        """Return a sentence if the variables are too large to start programs, or an empty text. Blocking."""
        if _TOO_LONG not in output:
            return ""
        try:
            state = (self._folder / "state").read_bytes()
        except OSError:
            return ""
        starts = [*_DECLARED.finditer(state)]
        ends = [each.start() for each in starts[1:]] + [len(state)]
        exported = [pair for pair in zip(starts, ends, strict=True) if b"x" in pair[0][1]]
        sizes = {each[2]: end - each.start() for each, end in exported}
        if (total := sum(sizes.values())) < _BURDEN:
            return ""
        largest = os.fsdecode(max(sizes, key=lambda name: sizes[name]))
        return (
            f"The exported variables of this shell take up {total / 1e6:.1f} MB, more than programs can be "
            f"started with; the largest is {largest}: `unset {largest}`, or `export -n {largest}`."
        )

    def has_usual_programs(self, names: Collection[str], given: Mapping[str, str]) -> bool:
        """Return whether these names mean the programs that they mean to the user. Blocking.

        They do not if an earlier command left a function, an alias or another variable for programs, or if
        the workspace holds a program of such a name on the search path. In doubt False. `given` are the
        variables that the boundary adds.
        """
        folders = [Path(entry) for entry in self._env.get("PATH", os.defpath).split(":")]
        inside = [each for each in folders if each.resolve().is_relative_to(self._workspace.resolve())]
        planted = any((folder / name).exists() for folder in inside for name in names)
        if planted or not all(each.is_absolute() for each in folders):
            return False
        try:
            state = (self._folder / "state").read_bytes()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        begun = {name: _declared(name, value) for name, value in {**self._env, **given}.items()}
        exported = {
            each.start(): os.fsdecode(each[2]) for each in _DECLARED.finditer(state) if b"x" in each[1]
        }
        return (
            not any(mark in state for mark in _NAMING)
            and ("PATH" in exported.values()) == ("PATH" in begun)
            and all(state.startswith(begun.get(name, b"\0"), start) for start, name in exported.items())
        )

    def forget(self) -> None:
        """Remove the stored state."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _remote_place(self, workdir: str | None) -> ShellPlace:
        """Return a folder on another machine, without checking it: the shell reports if it does not exist."""
        if not workdir:
            return ShellPlace(self._cwd, self._cwd, True)
        if "\0" in workdir:
            raise ToolError(f"workdir {workdir!r} cannot be used: it holds a NUL character.")
        # Only `~` of the person itself is known there without asking; `..` is left to the far side's links.
        path = Path(workdir) if workdir.startswith("~") else self._cwd / workdir
        return ShellPlace(path, path, False)

    def _move(self, folders: bytes, place: ShellPlace) -> None:
        cwd, _, previous = os.fsdecode(folders).partition("\0")
        self._previous = previous
        # A folder named for one call only is left again, unless the command went on from there.
        reached = Path(cwd) if self._backend.place else Path(cwd).resolve()
        if cwd and (place.is_own or reached != place.cwd):
            self._cwd = Path(cwd)

    def _environment(self, cwd: Path, *, is_fresh: bool) -> dict[str, str]:
        """Return the environment for a start.

        A stored state already contains the variables, except those whose names no shell can read.
        """
        own = {"PWD": str(cwd)} | ({"OLDPWD": self._previous} if self._previous else {})
        if is_fresh or not (self._folder / "state").exists():
            return self._env | own
        return {name: value for name, value in self._env.items() if not _NAME.fullmatch(name)} | own


def _declared(name: str, value: str) -> bytes:
    """Return an exported variable as bash writes it into a state."""
    marked = _SPECIAL.sub(r"\\\g<0>", value)
    return os.fsencode(f'declare -x {name}="{marked}"\n')


def folders_file(state: Path) -> Path:
    """Return the path of the file, next to a state, that stores the current and the previous folder."""
    return Path(f"{state}.cwd")


def private_write(path: Path, text: str) -> None:
    """Write a file, readable only by its owner if it is new. A link is refused with `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())


def _is_complete(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - len(_COMPLETE), 0))
        return file.read() == _COMPLETE


TIMED_OUT = 124

_NO_MATCH = {1: "no line matched; that is not an error"}
_DIFFERENT = {1: "the inputs differ; that is not an error"}
_FALSE = {1: "the condition is false; that is not an error"}
_NO_PROCESS = {1: "no process matched; that is not an error"}
_NO_COMMAND = {1: "no such command was found"}

_KNOWN: Mapping[str, Mapping[int, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "git grep"), _NO_MATCH),
    **dict.fromkeys(("diff", "cmp", "colordiff", "git diff"), _DIFFERENT),
    **dict.fromkeys(("test", "[", "[["), _FALSE),
    **dict.fromkeys(("pgrep", "pkill"), _NO_PROCESS),
    **dict.fromkeys(("which", "type"), _NO_COMMAND),
    "find": {1: "some folders could not be read; what was found stands"},
    "pytest": {
        1: "some tests failed",
        2: "interrupted, or tests could not be read",
        5: "no tests were found",
    },
    "curl": {
        6: "the host name could not be resolved",
        7: "the connection was refused",
        22: "the server answered with an error (HTTP 400 or above)",
        28: "curl's own time limit was reached",
        60: "the certificate could not be verified",
    },
    "ssh": {255: "ssh itself failed: connection or authentication"},
    "git merge-base": {1: "no; that is not an error"},
}
_GENERAL = {
    126: "the command was found but could not be executed (not executable, or a folder)",
    127: "the command was not found",
}
_WRAPPERS = frozenset(
    {"sudo", "time", "nice", "nohup", "command", "exec", "env", "stdbuf", "!", "then", "do", "else"}
)
_SEPARATOR = lazy_pattern(r"\|\|?|&&|;|\n")
_QUOTED = lazy_pattern(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)


def exit_code_meaning(command: str, code: int) -> str:
    """Return one clause about the exit code `code`, or empty if it needs no explanation.

    The program is guessed from the last part of `command`. That is good enough for a hint, but not for a
    decision.
    """
    if code == 0:
        return ""
    words = _last_words(command)
    for name in (" ".join(words[:2]), words[0] if words else ""):
        if code in _KNOWN.get(name, {}):
            return _KNOWN[name][code]
    if code in _GENERAL:
        return _GENERAL[code]
    if code > 128:
        try:
            return f"ended by signal {code - 128} ({signal.Signals(code - 128).name})"
        except ValueError:
            return ""
    return ""


def _last_words(command: str) -> list[str]:
    """Return the first words of the last simple command: program and perhaps subcommand."""
    bare = _QUOTED.sub("''", command[-10_000:]).rstrip("; \t\n")
    words = _SEPARATOR.split(bare)[-1].split()
    while words and (words[0] in _WRAPPERS or re.match(r"[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    if words:
        words[0] = words[0].rsplit("/", 1)[-1].lstrip("({")
    return words


_PROGRESS = 0.1
"""Seconds between two updates of live output."""

_PATIENCE = 5.0
"""Seconds to wait for a killed shell (a process may hang in the kernel)."""

_DETACHES = lazy_pattern(r"(?<![&>\d])&(?![&>\d])|\b(?:nohup|setsid|disown|coproc)\b|daemon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a command: output, exit code and notes."""

    output: Output
    code: int
    notes: list[str] = field(default_factory=list)


async def run_command(
    shell: Shell,
    place: ShellPlace,
    command: str,
    *,
    limit: float,
    pty: bool,
    spool: Path,
    secrets: Mapping[str, str],
    progress: Callable[[str], None],
    permissions: CommandPermissions = NO_EXTRA_PERMISSIONS,
    screen_of: Callable[[str], None] | None = None,
) -> Outcome:
    """Run `command`, and kill it if it has not ended after `limit` seconds.

    `screen_of` is called with the output for a terminal that shows it. The caller holds the shell's lock. If
    the wait is cancelled, everything the command started is killed before the cancellation is passed on.
    """
    collector = OutputCollector(spool, secrets, screen=screen_of)
    replay = ScreenRecording() if pty else None
    live = _Live(collector.last_lines, progress)

    def sink(data: bytes) -> None:
        collector.feed(data)
        if replay is not None:
            replay.feed(data)
        live.is_news = True

    child, launch = await shell.start(command, place, pty=pty, permissions=permissions)
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
        shell.adopt_state(launch, place)
    if output.spool_problem:
        notes.append(f"Of the output, {output.spool_problem}.")
    return Outcome(output=output, code=TIMED_OUT if timed_out else ending.code, notes=notes)


async def _wait(child: ShellChild, limit: float) -> tuple[ShellEnding, bool]:
    """Wait for the shell, and kill it at the time limit; return how it ended, and whether it was killed."""
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
    """Return notes about processes that still run after the command."""
    thorough = ending.still_open or _DETACHES.search(command) is not None
    left = await child.remaining_processes(thorough=thorough)
    if not left:
        return []
    names = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
    return [
        f"Left running in the background: {names}. Their further output is lost, and later commands may "
        "neither see nor stop them; "
        "use background=true for processes that should continue, to read their output and to stop them."
    ]


def _timeout_note(limit: float) -> str:
    return (
        f"Stopped after {limit:g} s, with everything it had started. Use a larger timeout, "
        "or background=true for what takes long or never ends. Input is empty: nothing can be typed."
    )


def _finish(collector: OutputCollector, replay: ScreenRecording | None, secrets: Mapping[str, str]) -> Output:
    output = collector.finish()
    if replay is None or not replay.is_whole:
        return output
    shown = redact(render(replay.data(), history=True), secrets)
    return replace(output, text=truncate(shown, LIMIT))


class _Live:
    """A display of the newest output, updated at intervals if that has changed."""

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
