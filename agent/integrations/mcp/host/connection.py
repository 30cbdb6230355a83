"""The connection to one server through the official MCP SDK: opening, requests and closing."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from agent.integrations.mcp.catalog import FAULT, MOST_TOOLS
from agent.integrations.mcp.host import results
from agent.integrations.mcp.host.places import sandbox_hint, with_files, with_sandbox_hint
from agent.integrations.mcp.host.results import (
    CallFaultError,
    ListingFilter,
    as_call_fault,
    call_as_task,
    tools_run_as_tasks,
    with_addresses,
)
from agent.integrations.mcp.host.stdio import (
    LARGEST_MESSAGE,
    ErrorOutput,
    own_places,
    resolved_command,
    stdio_streams,
    wrap_command,
)
from agent.integrations.mcp.launch import ServerLaunch
from agent.integrations.mcp.server import LogPace
from agent.model.tool_schemas import sound

if TYPE_CHECKING:
    from agent.integrations.mcp.host.oauth import SignInProvider


_STREAM = "text/event-stream"


class TooLargeError(httpx2.HTTPError):
    """The error that a response has more bytes than a message may have."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._inner:
            count += len(chunk)
            if count > LARGEST_MESSAGE:
                raise TooLargeError(f"it sent a message of more than {LARGEST_MESSAGE // 1_000_000} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Limit the size of a response. Event streams are limited per event, so they are left out here."""
    if not response.headers.get("content-type", "").startswith(_STREAM):
        response.stream = _Bounded(response.stream)


def http_client(
    headers: Mapping[str, str] | None = None,
    timeout: Any = None,
    auth: Any = None,
    *,
    reading: float = 300.0,
) -> httpx2.AsyncClient:
    """Create a client for one server. `reading` is the timeout in seconds while no byte arrives."""
    return httpx2.AsyncClient(
        headers=dict(headers or {}),
        timeout=timeout or httpx2.Timeout(30.0, read=reading),
        auth=auth,
        event_hooks={"response": [_bound]},
    )


Tell = Callable[[str, dict[str, Any]], None]
"""A function that receives an event by name, with its fields."""
Ask = Callable[[str, Any], Awaitable[Any]]
"""A function that asks Hermes a question of the given kind. Raises `CallFaultError` if it is refused."""

MOST_PAGES = 100
LARGEST_LISTING = 8_000_000
"""The maximum number of characters of descriptions and schemas accepted from one server."""
_KNOWS_SSE = (404, 405)
"""HTTP statuses of servers older than the protocol of 2025-03-26, which use SSE instead."""
_ENDS_WITHIN = 1.5
"""Seconds to wait for the exit status of a server that closed its output."""
MOST_TOLD = 200
"""The maximum number of log lines per second that are passed to Hermes."""
MOST_ASKED = 16
"""The maximum number of a server's questions that wait for an answer at the same time."""
CHANGES_WAIT = 0.1
"""Seconds within which several changes to its lists are reported as one."""
_PACE = 0.1
"""The minimum number of seconds between two progress messages of one call."""


class ServerConnection:
    """The connection to one server.

    All methods may raise `CallFaultError`, whose text gives the reason as a clause.
    """

    def __init__(self, launch: ServerLaunch, tell: Tell, ask: Ask) -> None:
        self._launch = launch
        self._tell = tell
        self._ask = ask
        self._closing = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._complaints = ErrorOutput(Path(f"{launch.folder}.log"))
        self._gone = ""
        self._has_ended = asyncio.Event()
        self._filter = ListingFilter()
        self._as_tasks = frozenset[str]()
        self._lines = LogPace(MOST_TOLD)
        self._asking = 0
        self._change: asyncio.TimerHandle | None = None
        self._has_changed = False
        self._http: httpx2.AsyncClient | None = None
        self._sign_in: SignInProvider | None = None
        self._status = 0
        """The status of the last HTTP response."""
        self._refusal: CallFaultError | None = None
        """The error that streamable HTTP caused, kept while SSE is tried instead."""

    async def open(self) -> dict[str, Any]:
        """Connect, and return the server's description of itself."""
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold(opened), name="server")
        self._client = client = await opened
        info, able = client.server_info, client.server_capabilities
        return {
            "protocol": client.protocol_version,
            "name": info.name if info else "",
            "version": info.version if info else "",
            "instructions": client.instructions or "",
            "able": [
                name for name in ("tools", "prompts", "resources", "logging") if getattr(able, name, None)
            ],
        }

    async def close(self) -> None:
        """Disconnect from the server, and wait until it has ended."""
        self._closing.set()
        if self._holding is not None:
            await asyncio.gather(self._holding, return_exceptions=True)

    async def list(self) -> dict[str, Any]:
        """Return the tools and prompts that the server lists; unusable tools are marked."""
        client = self._need()
        able = client.server_capabilities
        self._filter.begin()
        tools = await self._pages("tools", client.list_tools) if able.tools else []
        self._as_tasks = tools_run_as_tasks(client, tools)
        checked = await asyncio.to_thread(_check_tools, tools, self._filter.schemas)
        prompts = await self._pages("prompts", client.list_prompts) if able.prompts else []
        return {"tools": checked + self._filter.refused, "prompts": prompts}

    async def resources(self) -> dict[str, Any]:
        """Return the resources that the server lists, and its templates for others."""
        client = self._need()
        if not client.server_capabilities.resources:
            return {"resources": [], "templates": []}
        found = await self._pages("resources", client.list_resources)
        try:
            templates = await self._pages("resource_templates", client.list_resource_templates)
        except CallFaultError:
            templates = []
        return {"resources": found, "templates": templates}

    async def call_tool(
        self, number: int, name: str, arguments: dict[str, Any], files: str = ""
    ) -> dict[str, Any]:
        """Call a tool and return its result; its files go to `files`, by default to the launch's folder."""
        client = self._need()
        told = 0.0

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _PACE or progress == total:
                told = now
                self._tell("progress", {"call": number, "text": _progress(progress, total, message)})

        async def call() -> dict[str, Any]:
            if name in self._as_tasks:
                return await call_as_task(client, name, arguments, report_progress)
            return _dump(await client.call_tool(name, arguments, progress_callback=report_progress))

        answer = await self._await_answer(with_addresses(call, self._ask))
        return await asyncio.to_thread(self._call_result, answer, Path(files or self._launch.files))

    def _call_result(self, answer: dict[str, Any], files: Path) -> dict[str, Any]:
        result = results.call_result(answer, files)
        result = with_files(result, self._launch, partial(results.write_file, files=files))
        return with_sandbox_hint(result, self._launch)

    async def read_resource(self, uri: str, files: str = "") -> dict[str, Any]:
        answer = await self._await_answer(self._need().read_resource(uri))
        return results.resource_result(_dump(answer), Path(files or self._launch.files))

    async def get_prompt(self, name: str, arguments: dict[str, str], files: str = "") -> dict[str, Any]:
        answer = await self._await_answer(self._need().get_prompt(name, arguments))
        return results.prompt_result(_dump(answer), Path(files or self._launch.files))

    def _need(self) -> Client:
        if self._gone or self._client is None:
            raise CallFaultError(self._gone or "it is not connected", gone=True)
        return self._client

    async def _await_answer(self, request: Awaitable[Any]) -> Any:
        try:
            return await request
        except Exception as error:
            fault = self._fault(error)
            if fault.gone and not self._gone and self._launch.transport == "stdio":
                await self._wait_for_end()
                fault = self._fault(error)
            raise fault from error

    async def _wait_for_end(self) -> None:
        """Wait briefly for the reason why the server ended, because its output closes earlier."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._has_ended.wait()

    def _fault(self, error: BaseException) -> CallFaultError:
        if self._gone:
            return CallFaultError(self._gone, gone=True)
        return as_call_fault(error)

    async def _pages(self, field: str, fetch: Callable[..., Awaitable[Any]]) -> list[Any]:
        found: list[Any] = []
        cursor, size = None, 0
        for _ in range(MOST_PAGES):
            page = _dump(await self._await_answer(fetch(cursor=cursor, cache_mode="refresh")))
            entries = page.get(_WIRE_NAMES.get(field, field)) or []
            size += sum(len(str(each)) for each in entries)
            found += entries
            cursor = page.get("nextCursor")
            if cursor is None or len(found) > MOST_TOOLS or size > LARGEST_LISTING:
                break
        return found if size <= LARGEST_LISTING else found[: max(len(found) // 2, 1)]

    async def _hold(self, opened: asyncio.Future[Client]) -> None:
        """Open the client, keep it until `close`, and leave it in the same task, as the MCP SDK requires."""
        try:
            async with self._make() as client:
                try:
                    self._filter.put_before(client)
                    await self._request_logs(client)
                    opened.set_result(client)
                    listening = asyncio.create_task(self._listen_for_changes(client))
                    await self._closing.wait()
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
                finally:
                    self._closing.set()
        except BaseException as error:
            if opened.done():
                return
            if isinstance(error, asyncio.CancelledError):
                opened.cancel()
                return
            if self._launch.transport == "sse" or self._status not in _KNOWS_SSE:
                opened.set_exception(self._refusal or self._fault(error))
                return
            self._refusal = self._fault(error)
        finally:
            if self._http is not None:
                await self._http.aclose()
            if self._sign_in is not None:
                self._sign_in.close()
        if self._refusal is not None and not opened.done():
            self._launch = replace(self._launch, transport="sse")
            await self._hold(opened)

    def _make(self) -> Client:
        launch = self._launch
        protocol = launch.protocol
        mode = "legacy" if protocol == "2025-11-25" else protocol
        if mode == "auto" and launch.transport == "stdio":
            mode = "legacy"  # a probe would start what a lazy server puts off
        return Client(
            self._transport(),
            mode=mode,
            client_info=types.Implementation(name="hermes", version=_version(), title="Hermes"),
            sampling_callback=self._sample,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots,
            logging_callback=self._log,
            log_level="info",
            message_handler=self._handle_message,
        )

    def _transport(self) -> Any:
        launch = self._launch
        if launch.transport == "stdio":
            env = {**launch.env, **own_places(Path(launch.folder))}
            try:
                command = resolved_command(launch.command, env.get("PATH", ""))
            except FileNotFoundError:
                raise CallFaultError(
                    f"there is no program {launch.command[0]!r}; install it or give its path"
                ) from None
            start = partial(wrap_command, command, launch.confinement, Path(launch.folder))
            return stdio_streams(start, env, launch.cwd, self._complaints, self._note_end)
        auth = self._auth()
        reading = max(300.0, launch.timeout + 30)
        if launch.transport == "sse":

            def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
                return http_client(headers, timeout, auth, reading=reading)

            return sse_client(
                launch.url,
                headers=dict(launch.headers),
                timeout=30.0,
                sse_read_timeout=86_400.0,
                httpx_client_factory=factory,
                auth=auth,
            )
        self._http = http_client(launch.headers, auth=auth, reading=reading)
        self._http.event_hooks["response"].append(self._note_status)
        return streamable_http_client(launch.url, http_client=self._http, max_sse_event_size=LARGEST_MESSAGE)

    async def _note_status(self, response: httpx2.Response) -> None:
        self._status = response.status_code

    def _auth(self) -> Any:
        if any(name.lower() == "authorization" for name in self._launch.headers):
            return None
        from agent.integrations.mcp.host.oauth import provider_for

        self._sign_in = provider_for(self._launch, self._ask)
        return self._sign_in

    def _note_end(self, reason: str) -> None:
        hint = sandbox_hint("\n".join((reason, *self._complaints.newest)), self._launch, failed=True)
        reason = f"{reason}; {hint}" if hint else reason
        if not self._closing.is_set():
            self._gone = reason
            self._has_ended.set()
            self._tell("gone", {"reason": reason})

    # What the server asks and tells

    async def _sample(self, context: Any, params: Any) -> Any:
        try:
            answer = await self._answer_to("sample", _dump(params))
        except CallFaultError as fault:
            return types.ErrorData(code=-1, message=str(fault))
        return types.CreateMessageResult.model_validate(answer)

    async def _elicit(self, context: Any, params: Any) -> Any:
        try:
            answer = await self._answer_to("elicit", _dump(params))
        except CallFaultError as fault:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=str(fault))
        return types.ElicitResult.model_validate(answer)

    async def _answer_to(self, kind: str, params: Any) -> Any:
        """Pass a server's question to Hermes; return the answer. Raises `CallFaultError` if too many wait."""
        if self._asking >= MOST_ASKED:
            raise CallFaultError(f"{MOST_ASKED} questions wait already")
        self._asking += 1
        try:
            return await self._ask(kind, params)
        finally:
            self._asking -= 1

    async def _roots(self, context: Any) -> Any:
        roots = [types.Root.model_validate({"uri": Path(root).as_uri()}) for root in self._launch.roots]
        return types.ListRootsResult(roots=roots)

    async def _log(self, params: Any) -> None:
        if not self._lines.takes(time.monotonic()):
            return
        said = params.data if isinstance(params.data, str) else str(params.data)
        self._tell("log", {"level": params.level, "text": said[:2_000]})

    async def _handle_message(self, message: Any) -> None:
        match message:
            case types.ToolListChangedNotification() | types.PromptListChangedNotification():
                self._report_change()
            case _:
                pass

    def _report_change(self) -> None:
        """Report to Hermes that the server's lists have changed.

        The first change is reported at once, later ones at intervals.
        """
        if self._change is not None:
            self._has_changed = True
            return
        self._has_changed = False
        self._tell("changed", {})
        self._change = asyncio.get_running_loop().call_later(CHANGES_WAIT, self._change_again)

    def _change_again(self) -> None:
        self._change = None
        if self._has_changed:
            self._report_change()

    async def _request_logs(self, client: Client) -> None:
        """Request the log of a server with an older protocol version. A refusal is ignored."""
        if client.server_capabilities.logging and client.protocol_version <= "2025-11-25":
            with warnings.catch_warnings(), suppress(MCPError):
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await client.set_logging_level("info")

    async def _listen_for_changes(self, client: Client) -> None:
        """Listen for changes to the server's lists, if the protocol version needs a stream for that."""
        able = client.server_capabilities
        if client.protocol_version <= "2025-11-25" or not (able.tools and able.tools.list_changed):
            return
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                async for _ in changes:
                    self._report_change()
        except Exception:  # whatever it is, the server goes on without it
            return


_WIRE_NAMES = {"resource_templates": "resourceTemplates"}


def _dump(answer: Any) -> dict[str, Any]:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _progress(done: float, total: float | None, message: str | None) -> str:
    share = f"{done:g}/{total:g}" if total else f"{done:g}"
    return f"{share} {message}\n" if message else f"{share}\n"


def _check_tools(tools: Sequence[Mapping[str, Any]], schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools with their original `schemas`; those whose schema cannot be read are marked."""
    from jsonschema.validators import validator_for

    checked = []
    for tool in tools:
        kept = {key: tool.get(key) for key in ("name", "title", "description", "inputSchema")}
        kept["inputSchema"] = schemas.get(str(tool.get("name"))) or kept["inputSchema"] or {}
        try:
            schema = sound(kept["inputSchema"])
            validator_for(schema).check_schema(schema)
        except Exception as error:
            reason = str(getattr(error, "message", type(error).__name__))[:120]
            kept[FAULT] = f"its schema cannot be read ({reason})"
        checked.append(kept)
    return checked


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-tui")
    except PackageNotFoundError:
        return "0"
