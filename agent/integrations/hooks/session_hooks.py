"""The hooks of one session: approved by their hash, run as processes, asked before and after tool calls."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any

from agent.core.config.hook_list import (
    AnyHook,
    Hook,
    HookAnswer,
    HookError,
    HookEvent,
    by_event,
    combine,
    parse_answer,
)
from agent.core.consents import ConsentFile
from agent.events import (
    AgentEnded,
    AgentStarted,
    ApprovalAsked,
    Event,
    FilesChanged,
    Noticed,
    RequestResolved,
    RequestStarted,
    SessionOpened,
    ToolFinished,
    UsageChanged,
)
from tools.kit.children import kill_child, kill_group, start_child
from tools.text.safe_text import clean
from tools.text.words import one_line

LARGEST_ANSWER = 1_000_000
"""The maximum number of bytes of a hook's output."""
_CHUNK = 65_536
_COMPLAINT = 300
"""The maximum number of characters of a hook's error output that a notice quotes."""


async def run_hook(
    hook: Hook, payload: Mapping[str, Any], workspace: Path, environment: Mapping[str, str]
) -> HookAnswer:
    """Run a hook and return its answer. No process of its group is left running. Raises `HookError`."""
    data = await asyncio.to_thread(_encode, payload)
    async with AsyncExitStack() as streams:
        source = streams.enter_context(tempfile.TemporaryFile(prefix="hermes-hook-"))  # noqa: SIM115
        await asyncio.to_thread(_fill, source, data)
        output, to_output = await _pipe(streams)
        errors, to_errors = await _pipe(streams)
        try:
            process = await start_child(
                ["/bin/sh", "-c", hook.command],
                stdin=source,
                stdout=to_output,
                stderr=to_errors,
                cwd=workspace,
                env=environment,
            )
        except OSError as error:
            raise HookError(f"it cannot be started: {error.strerror or error}") from error
        finally:
            os.close(to_output)
            os.close(to_errors)
        return await _answer(hook, process, output, errors)


async def _answer(
    hook: Hook,
    process: asyncio.subprocess.Process,
    output: asyncio.StreamReader,
    errors: asyncio.StreamReader,
) -> HookAnswer:
    """Wait until a hook's process ends, and return its answer. Raises `HookError`."""
    complaining = asyncio.create_task(_read(errors, keep=_COMPLAINT * 4))
    answering = asyncio.create_task(_read(output, keep=LARGEST_ANSWER + 1))
    try:
        async with asyncio.timeout(hook.timeout):
            code = await process.wait()
            # What it left in the background may hold the pipes.
            kill_group(process.pid)
            said, complaint = await answering, await complaining
    except TimeoutError:
        raise HookError(f"it did not answer within {hook.timeout:g} s") from None
    finally:
        kill_group(process.pid)
        await kill_child(process)
        for task in (answering, complaining):
            task.cancel()
        await asyncio.gather(answering, complaining, return_exceptions=True)
    if code != 0:
        words = one_line(complaint.decode("utf-8", "replace"))[:_COMPLAINT]
        raise HookError(f"it ended with code {code}" + (f" ({words})" if words else ""))
    if len(said) > LARGEST_ANSWER:
        raise HookError(f"its answer is larger than {LARGEST_ANSWER:,} bytes")
    return parse_answer(said)


def _encode(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=True, default=str).encode("ascii") + b"\n"


def _fill(source: IO[bytes], data: bytes) -> None:
    """Write a hook's input to a file. Unlike a pipe, it does not block if the hook never reads it."""
    source.write(data)
    source.seek(0)


async def _pipe(streams: AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """Open a pipe; return its reader and the descriptor to write to.

    A pipe made by asyncio would delay the end of the process until the pipe is closed.
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    streams.callback(transport.close)
    return reader, writing


async def _read(stream: asyncio.StreamReader, keep: int) -> bytes:
    """Read a stream to its end and return the first `keep` bytes."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: max(keep - len(kept), 0)]
    return bytes(kept)


log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""The maximum number of events that wait for hooks without influence; further ones are dropped."""
_PATIENCE = 10.0
"""The maximum number of seconds that the end of a session waits for hooks."""


HEARD = (
    SessionOpened,
    RequestStarted,
    UsageChanged,
    ToolFinished,
    AgentStarted,
    AgentEnded,
    ApprovalAsked,
    RequestResolved,
    FilesChanged,
    Noticed,
)
"""The session events of which hooks are notified."""


class SessionHooks:
    """The hooks of a session. No method raises; a failing hook causes a notice."""

    def __init__(
        self,
        hooks: Sequence[AnyHook],
        session: str,
        workspace: Path,
        environment: Mapping[str, str],
        emit: Callable[[Event], None],
    ) -> None:
        """Set up the hooks. `environment` holds the variables that hooks inherit, without secrets."""
        self._hooks = by_event(hooks)
        self._session = session
        self._workspace = workspace
        self._environment = environment
        self._emit = emit
        self._waiting: asyncio.Queue[tuple[HookEvent, str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)
        self._telling: asyncio.Task[None] | None = None
        self._lost = 0
        self._failed: set[str] = set()

    def __bool__(self) -> bool:
        """Return whether there are any hooks."""
        return bool(self._hooks)

    def requires(self, event: HookEvent, tool: str = "") -> bool:
        """Return whether a hook must answer before the session may continue."""
        return any(hook.required and hook.applies_to(tool) for hook in self._hooks.get(event, ()))

    async def before_tool(self, tool: str, arguments: Mapping[str, Any]) -> HookAnswer:
        """Return the combined answer of the hooks on a tool call that is about to be made."""
        return await self._ask("before_tool", tool, {"arguments": dict(arguments)})

    async def transform_result(self, tool: str, arguments: Mapping[str, Any], result: Any) -> HookAnswer:
        """Return the combined answer of the hooks on the result of a tool call."""
        return await self._ask("transform_result", tool, {"arguments": dict(arguments), "result": result})

    async def before_response(self, text: str) -> HookAnswer:
        """Return the combined answer of the hooks on a reply that ends a turn."""
        return await self._ask("before_response", "", {"result": text})

    def notify(self, event: HookEvent, tool: str = "", **fields: Any) -> None:
        """Notify hooks of an event, in order and in the background; dropped if too many are waiting."""
        if not any(hook.applies_to(tool) for hook in self._hooks.get(event, ())):
            return
        try:
            self._waiting.put_nowait((event, tool, fields))
        except asyncio.QueueFull:
            self._lost += 1
            return
        if self._telling is None:
            self._telling = asyncio.create_task(self._notify_all(), name="hooks")

    def handle_event(self, event: Event) -> None:
        """Notify hooks of the session events that they cannot influence."""
        match event:
            case SessionOpened():
                self.notify("session_start", model=event.model)
            case RequestStarted():
                self.notify("before_request", model=event.model, agent=event.agent)
            case UsageChanged():
                self.notify("after_request", result=event.to_json()["request"], agent=event.agent)
            case ToolFinished():
                self.notify(
                    "after_tool",
                    event.tool,
                    call=event.call,
                    result=event.result,
                    outcome=event.outcome,
                    agent=event.agent,
                )
            case AgentStarted():
                self.notify("subagent_start", agent=event.agent, name=event.name, goal=event.goal)
            case AgentEnded():
                self.notify("subagent_stop", agent=event.agent, outcome=event.outcome, result=event.summary)
            case ApprovalAsked():
                self.notify("approval_asked", event.tool, headline=event.headline, request=event.id)
            case RequestResolved():
                self.notify("approval_answered", request=event.id, outcome=event.outcome)
            case FilesChanged():
                self.notify("file_changed", by=event.by, paths=[file.path for file in event.files])
            case Noticed(kind="compaction"):
                self.notify("compaction", result=event.text)
            case _:
                pass

    async def close(self) -> None:
        """Notify hooks of the session's end, and wait a limited time until all have run."""
        self.notify("session_end")
        if (telling := self._telling) is not None:
            await asyncio.wait({telling}, timeout=_PATIENCE)
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _notify_all(self) -> None:
        while True:
            try:
                event, tool, fields = self._waiting.get_nowait()
            except asyncio.QueueEmpty:
                self._telling = None
                return
            await self._ask(event, tool, fields)

    async def _ask(self, event: HookEvent, tool: str, fields: dict[str, Any]) -> HookAnswer:
        """Return the hooks' combined answer; each receives what earlier ones rewrote, until one blocks."""
        answer = HookAnswer()
        for hook in self._hooks.get(event, ()):
            if not hook.applies_to(tool):
                continue
            payload = {"event": event, "session": self._session, "workspace": str(self._workspace), **fields}
            if tool:
                payload["tool"] = tool
            try:
                said = await self._ask_hook(hook, payload)
            except Exception as error:
                cause = str(error) if isinstance(error, HookError) else f"{type(error).__name__}: {error}"
                if not isinstance(error, HookError):
                    log.exception("the hook %s failed", hook.title)
                self._report_failure(hook, clean(cause))
                if hook.required:
                    return HookAnswer("block", f"The hook `{hook.title}` is required and failed: {cause}.")
                continue
            answer = combine(answer, said)
            if answer.decision == "block":
                return answer
            if said.arguments is not None:
                fields = {**fields, "arguments": said.arguments}
            if said.result is not None:
                fields = {**fields, "result": said.result}
        return answer

    async def _ask_hook(self, hook: AnyHook, payload: dict[str, Any]) -> HookAnswer:
        """Return the answer of one hook. Raises `HookError`."""
        if isinstance(hook, Hook):
            return await run_hook(hook, payload, self._workspace, self._environment)
        return await hook.answer(payload)

    def _report_failure(self, hook: AnyHook, cause: str) -> None:
        """Report a problem with a hook, once per session."""
        if hook.digest in self._failed:
            return
        self._failed.add(hook.digest)
        text = f"The hook `{hook.title[:200]}` for {hook.event} failed: {cause}; it is told once."
        self._emit(Noticed(kind="warning", text=text))


class HookConsent(ConsentFile):
    """Digests of the approved hooks: `hooks` for the user's settings, `projects` by project folder."""

    def agreed_digests(self) -> frozenset[str]:
        """Return the digests of all approved hooks."""
        return frozenset(each for digests in self.by_project().values() for each in digests)

    def by_project(self) -> dict[str, frozenset[str]]:
        """Return the digests by project folder; those of the user's settings are under the empty text."""
        kept = self.data()
        projects = kept.get("projects")
        lists = {**(projects if isinstance(projects, dict) else {}), "": kept.get("hooks")}
        return {
            root: frozenset(each for each in digests if isinstance(each, str))
            for root, digests in lists.items()
            if isinstance(digests, list)
        }

    def agree(self, hooks: Iterable[Hook]) -> None:
        """Approve these hooks. They replace what was approved for the user's settings and for their projects.

        Approvals for other projects stay. Raises `ConfigError`.
        """
        hooks = list(hooks)
        roots = {"", *(hook.project for hook in hooks)}
        self._write(
            {root: frozenset(hook.digest for hook in hooks if hook.project == root) for root in roots}
        )

    def withdraw(self, digest: str) -> bool:
        """Withdraw the approval of a hook; return False if it was not approved. Raises `ConfigError`."""
        if digest not in self.agreed_digests():
            return False
        self._write({root: digests - {digest} for root, digests in self.by_project().items()})
        return True

    def _write(self, changed: dict[str, frozenset[str]]) -> None:
        with self.change() as data:
            agreed = self.by_project() | changed
            data["projects"] = {root: sorted(each) for root, each in agreed.items() if root and each}
            data["hooks"] = sorted(agreed.get("", ()))
