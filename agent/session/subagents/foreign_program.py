"""Agents of other programs configured in the settings: their commands and processes."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, HermesError
from agent.session.subagents.definitions import Definition, is_name
from tools.kit.children import end_child, start_child
from tools.kit.threads import to_the_end
from tools.terminal.environment import child_environment
from tools.terminal.process_tree import MARK, kill_marked
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.sections import ForeignAgentSettings
    from agent.session.subagents.foreign_client import ForeignClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProgram:
    """One program that is controlled by the Agent Client Protocol."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_passthrough: tuple[str, ...] = ()
    """Names of the user's environment variables that it gets besides the usual ones."""
    description: str = ""
    mode: str = ""
    """The mode of its sessions; empty for a known mode in which it asks, if it offers one."""
    files: bool = True
    """True if it is offered to read and write files through Hermes."""

    @property
    def line(self) -> str:
        """The command line for display."""
        return shlex.join((self.command, *self.args))

    @property
    def definition(self) -> Definition:
        """The program as a kind of agent."""
        told = self.description or f"Another program ({self.name}) with tools and a model of its own."
        return Definition(name=self.name, description=told, prompt="", source="yours", foreign=True)


def foreign_programs(
    given: Mapping[str, ForeignAgentSettings],
) -> tuple[dict[str, ForeignProgram], list[str]]:
    """Return the valid programs of the settings by name, and a sentence about each invalid one. Pure."""
    found: dict[str, ForeignProgram] = {}
    problems: list[str] = []
    for name, entry in given.items():
        if not is_name(name):
            problems.append(f"The agent {name!r} of the settings needs a name of a-z, 0-9 and -.")
            continue
        try:
            words = shlex.split(entry.command)
        except ValueError as error:
            words = []
            problems.append(f"The command of the agent {name} cannot be read ({error}); close its quotes.")
        if not words:
            continue
        found[name] = ForeignProgram(
            name=name,
            command=words[0],
            args=tuple(words[1:]),
            env=dict(entry.env),
            env_passthrough=tuple(entry.env_passthrough),
            description=" ".join(entry.description.split())[:300],
            mode=entry.mode,
            files=entry.files,
        )
    return found, problems


def program_named(programs: Mapping[str, ForeignProgram], name: str) -> ForeignProgram:
    """Return the program with this name. Raises `ConfigError` if it is not in the settings."""
    if name not in programs:
        raise ConfigError(f"The agent {name} is not in the settings any more (agents.{name}); add it again.")
    return programs[name]


START = 30.0
"""Seconds that a program has to start and to open a session."""
LEAVE = 3.0
"""Seconds that a program has to stop its work after a cancel, and to exit."""
_AUTH_REQUIRED = -32000
_ASKING = ("default", "ask", "read-only")
"""Modes in which Claude, Gemini and Qwen, vibe, and Codex ask before they change anything."""
_STDERR = 2_000


class ForeignProcess:
    """A running program with an open session."""

    def __init__(self, program: ForeignProgram, connection: Any, session: str) -> None:
        self._program = program
        self._connection = connection
        self.session = session

    async def prompt(self, text: str, answered: Callable[[Any], None]) -> Any:
        """Let the agent work on a message; return its answer, with stop reason and usage. Raises
        `HermesError`.

        `answered` gets the answer before anything that the agent sends after it is handled. If the task is
        cancelled, the agent's work is stopped first.
        """
        from acp import RequestError, schema

        block = schema.TextContentBlock(type="text", text=text)

        async def ask() -> Any:
            answer = await self._connection.prompt(session_id=self.session, prompt=[block])
            answered(answer)
            return answer

        asking = asyncio.ensure_future(ask())
        # If no caller waits for it any more, its failure is ignored.
        asking.add_done_callback(lambda over: over.cancelled() or over.exception())
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            with suppress(Exception):
                await self._connection.cancel(session_id=self.session)
                await asyncio.wait({asking}, timeout=LEAVE)
            asking.cancel()
            raise
        except RequestError as error:
            if error.code == _AUTH_REQUIRED:
                raise _sign_in(self._program) from error
            raise HermesError(f"The agent {self._program.name} failed: {clean(str(error))}") from error
        except (ConnectionError, EOFError) as error:
            raise HermesError(f"The agent {self._program.name} ended before it answered.") from error


@asynccontextmanager
async def running(
    program: ForeignProgram,
    client: ForeignClient,
    workspace: Path,
    environ: Mapping[str, str],
    earlier: str,
) -> AsyncIterator[ForeignProcess]:
    """Run an agent of another program, and end its process with the context. Raises `HermesError`.

    It resumes the session `earlier` if it can, and otherwise begins a new one.
    """
    mark = f"acp.{secrets.token_hex(8)}"
    process = await _start(program, workspace, {**environ, MARK: mark})
    said = asyncio.create_task(_tail(process))
    connection: Any = None
    try:
        from acp.client.connection import ClientSideConnection

        connection = ClientSideConnection(
            client,  # type: ignore[arg-type]
            process.stdin,
            process.stdout,
            use_unstable_protocol=True,
        )
        async with _explain_failures(program, process, said):
            async with asyncio.timeout(START):
                session = await _session(program, connection, workspace, earlier)
            yield ForeignProcess(program, connection, session)
    finally:
        # A second cancellation, as of a closing session, must not leave it running.
        await to_the_end(asyncio.create_task(_end(process, mark)))
        if connection is not None:
            with suppress(Exception):
                await connection.close()
        said.cancel()


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End a program and all processes that it started, even those that left its process group."""
    await end_child(process, LEAVE)
    await asyncio.to_thread(kill_marked, mark)


async def _start(
    program: ForeignProgram, workspace: Path, environ: Mapping[str, str]
) -> asyncio.subprocess.Process:
    env = {**child_environment(environ, (*program.env_passthrough, MARK)), **program.env}
    found = shutil.which(program.command, path=env.get("PATH"))
    if found is None:
        raise ConfigError(
            f"The agent {program.name} cannot be started: there is no program {program.command!r}; install "
            f"it, or correct agents.{program.name}.command."
        )
    try:
        return await start_child(
            [found, *program.args],
            cwd=workspace,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"The agent {program.name} cannot be started: {why}.") from error


async def _session(program: ForeignProgram, connection: Any, workspace: Path, earlier: str) -> str:
    from acp import PROTOCOL_VERSION, RequestError, schema

    files = schema.FileSystemCapabilities(read_text_file=program.files, write_text_file=program.files)
    offer = schema.ClientCapabilities(fs=files)
    known = await connection.initialize(PROTOCOL_VERSION, client_capabilities=offer)
    capabilities = known.agent_capabilities
    try:
        if earlier and getattr(capabilities.session_capabilities, "resume", None) is not None:
            opened = await connection.resume_session(cwd=str(workspace), session_id=earlier, mcp_servers=[])
            session = earlier
        else:
            opened = await connection.new_session(cwd=str(workspace), mcp_servers=[])
            session = str(opened.session_id)
        if mode := _mode(program, opened.modes):
            await connection.set_session_mode(session_id=session, mode_id=mode)
        return session
    except RequestError as error:
        if error.code == _AUTH_REQUIRED:
            raise _sign_in(program) from error
        raise


def _mode(program: ForeignProgram, modes: Any) -> str:
    """Return the mode to set for a new session; empty if none has to be set. Raises `ConfigError`.

    Some programs begin in a mode in which they decide about their calls themselves and never ask.
    """
    offered = [each.id for each in modes.available_modes] if modes is not None else []
    if program.mode and program.mode not in offered:
        has = f"it has {clean(', '.join(offered))}" if offered else "it has none"
        name = program.name
        raise ConfigError(
            f"The agent {name} has no mode {program.mode!r}; {has}. Correct agents.{name}.mode."
        )
    wanted = program.mode or next((each for each in _ASKING if each in offered), "")
    return "" if modes is None or wanted == modes.current_mode_id else wanted


def _sign_in(program: ForeignProgram) -> ConfigError:
    wish = "wants to be signed in; do that once in a terminal, with its own program"
    return ConfigError(f"The agent {program.name} {wish}.")


@asynccontextmanager
async def _explain_failures(
    program: ForeignProgram, process: asyncio.subprocess.Process, said: asyncio.Task[str]
) -> AsyncIterator[None]:
    """Turn failures of the process or the protocol in this context into a `HermesError` of one sentence."""
    from acp import RequestError

    try:
        yield
    except TimeoutError:
        raise HermesError(
            f"The agent {program.name} did not answer within {START:.0f} s; see whether `{program.line}` "
            "speaks the Agent Client Protocol."
        ) from None
    except RequestError as error:
        raise HermesError(f"The agent {program.name} refused: {clean(str(error))}") from error
    except (HermesError, ConnectionError, EOFError) as error:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await process.wait()
        if process.returncode is None or isinstance(error, ConfigError):
            raise
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(said)
        last = said.result() if said.done() and not said.cancelled() else ""
        code = process.returncode
        with suppress(ValueError):
            code = signal.Signals(-code).name
        raise HermesError(
            f"The agent {program.name} ended with {code} before it answered{f': {last}' if last else ''}."
        ) from error


async def _tail(process: asyncio.subprocess.Process) -> str:
    """Return the last line that the process wrote to stderr, at most 300 characters; waits for its end."""
    assert process.stderr is not None
    kept = b""
    while data := await process.stderr.read(4_096):
        kept = (kept + data)[-_STDERR:]
    lines = clean(kept.decode("utf-8", "replace")).strip().splitlines()
    return lines[-1][:300].rstrip(".") if lines else ""
