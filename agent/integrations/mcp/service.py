"""The servers of one session: their tools and prompts, calls of their tools, and their health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from agent.errors import HermesError
from agent.integrations.mcp.catalog import (
    PromptDefinition,
    ServerCatalog,
    ToolDefinition,
    ToolKey,
    is_of,
    load_catalog,
    merge_listing,
    save_catalog,
    tool_names,
)
from agent.integrations.mcp.launch import TokenFile
from agent.integrations.mcp.server import LogPace, RefusedError, Server, ServerError
from agent.integrations.mcp.server_config import (
    DeclaredServer,
    LaunchEnvironment,
    ServerAgreement,
    ServerConfig,
    launch_of,
    token_path,
)
from agent.integrations.mcp.server_state import Health, ServerState, tool_state, waiting, why_parked
from tools.text.safe_text import clean
from tools.text.words import plural

STARTS_IN = 30.0
"""Seconds that a server has to send its sign-in URL; then the user's own time begins."""
COMES_BACK_IN = 10.0
"""The timeout in seconds for passing a URL to the local sign-in page."""


class SignIns:
    """The running sign-ins, at most one for each server. Methods raise `ServerError`."""

    def __init__(self, around: LaunchEnvironment) -> None:
        self._around = replace(around, interactive=True, renew=True)
        self._addresses: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def address(self, name: str) -> str | None:
        """Return the URL at which the user signs in.

        The text is empty until the server has sent the URL. None means that no sign-in is running.
        """
        return self._addresses.get(name)

    async def sign_in(self, config: ServerConfig) -> None:
        """Sign in again and store the tokens.

        Raises `ServerError` if the user does not sign in or cancels.
        """
        name = config.name
        if not config.url:
            mend = "only servers with an address are signed in to"
            raise ServerError(name, "it is started on this machine", mend)
        if name in self._tasks:
            raise ServerError(name, "somebody is signing in to it already", "end that first")
        patient = replace(config, connect_timeout=max(config.start_time, STARTS_IN))
        self._addresses[name] = ""
        task = self._tasks[name] = asyncio.create_task(self._connect(patient))
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise ServerError(name, "the sign-in was left", "begin again whenever you like") from None
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ServerError):
                await task
            del self._tasks[name], self._addresses[name]

    def cancel(self, name: str) -> None:
        """Cancel a sign-in; callers that wait for it get an error."""
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    async def pass_redirect(self, name: str, address: str) -> None:
        """Pass the URL at which a browser on another machine ended to the waiting sign-in."""
        expected = urlsplit(_way_back(self._addresses.get(name) or ""))
        given = urlsplit(address.strip())
        if not expected.port or (given.netloc, given.path) != (expected.netloc, expected.path):
            where = f"the address begins with {expected.scheme}://{expected.netloc}{expected.path}"
            raise ServerError(name, "that is not where its sign-in ends", where)
        target = clean(f"{given.path}?{given.query}").replace("\n", "").replace(" ", "")
        try:
            async with asyncio.timeout(COMES_BACK_IN):
                reader, writer = await asyncio.open_connection(expected.hostname, expected.port)
                with closing(writer):
                    writer.write(f"GET {target} HTTP/1.1\r\nHost: {expected.netloc}\r\n\r\n".encode())
                    await reader.read()
        except (OSError, TimeoutError) as error:
            raise ServerError(name, "nothing waits for that address", "begin the sign-in again") from error

    def is_signed_in(self, config: ServerConfig) -> bool:
        """Return whether tokens for a server are stored. Reads the disk."""
        return bool(config.url) and "tokens" in self._tokens(config).read()

    def sign_out(self, config: ServerConfig) -> bool:
        """Delete the stored tokens; return False if there were none.

        Writes to the disk. Raises `ConfigError`.
        """
        return self._tokens(config).forget()

    async def close(self) -> None:
        """Cancel all sign-ins."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, config: ServerConfig) -> None:
        name, around = config.name, self._around

        async def answer(kind: str, params: Mapping[str, Any]) -> Any:
            match kind:
                case "sign_in":
                    self._addresses[name] = clean(str(params["url"])).replace("\n", "")
                    return {}
                case "elicit":
                    return {"action": "decline"}
            raise RefusedError("a person is signing in")

        server = Server(name, lambda: launch_of(config, around), around.of_process, answer)
        try:
            await server.connect()
        finally:
            await server.close()

    def _tokens(self, config: ServerConfig) -> TokenFile:
        return TokenFile(token_path(self._around.home.servers, config))


def _way_back(address: str) -> str:
    """Return the local URL to which a sign-in redirects the browser. Pure."""
    return next(iter(parse_qs(urlsplit(address).query).get("redirect_uri", ())), "")


_AFTER_PAUSE = 0.05
AGAIN_AFTER = 1.0
"""The minimum number of seconds between two listings of a server that keeps reporting changes."""

Say = Callable[[str, str], None]
"""A function that shows the user a notice: its kind, and its text."""


Log = Callable[[str, str, str], None]
"""A function that receives a log line of a server: server, level, text."""


class Answers(Protocol):
    """The answers to the questions of servers. Both methods raise `RefusedError`."""

    async def elicit(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the user to fill in a form or open a URL; return `action` and `content`."""
        ...

    async def sample(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a model's answer: `role`, `content` and `model`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A callable tool, with the name that the model uses for it."""

    name: str
    server: str
    definition: ToolDefinition
    about: str = ""
    """The server's instructions on all its tools, given with the first tool only. Text from outside."""


@dataclass(slots=True)
class _LiveServer:
    """The state of one server in this session."""

    declared: DeclaredServer
    server: Server
    catalog: ServerCatalog | None
    changes: int = 0
    """The number of times that it reported changed lists."""
    listed_at: tuple[int, int] = (-1, -1)
    """The values of `moment` when its lists were last read."""
    is_renewing: bool = False
    is_probed: bool = False
    is_signed_in: bool = False
    lines: LogPace = field(default_factory=LogPace)
    calls: set[Callable[[str], None]] = field(default_factory=set)
    """Functions that receive the output of running calls."""
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def moment(self) -> tuple[int, int]:
        return self.server.health.starts, self.changes

    @property
    def is_fresh(self) -> bool:
        """Whether the catalog is the server's current list."""
        return self.catalog is not None and self.listed_at == self.moment


class McpService:
    """All servers of a session. Methods that contact a server raise `ServerError`."""

    def __init__(
        self,
        declared: Iterable[DeclaredServer],
        around: LaunchEnvironment,
        answers: Answers,
        say: Say,
        write: Log = lambda _server, _level, _text: None,
    ) -> None:
        """Set up the servers. `write` receives their log lines, limited for each of them."""
        self._write = write
        self._around = around
        self._answers = answers
        self.say = say
        self._kept = {each.config.name: self._keep(each) for each in declared}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sign_ins = SignIns(around)
        self.changed: Callable[[], None] = lambda: None
        """Called when a server has been listed, because the offered tools may have changed."""

    def _keep(self, declared: DeclaredServer) -> _LiveServer:
        config, around = declared.config, self._around
        name = config.name

        async def answer(kind: str, params: Any) -> Any:
            if kind == "elicit":
                return await self._answers.elicit(name, params)
            if kind == "sample":
                return await self._answers.sample(name, params)
            raise RefusedError(f"Hermes does not know the question {kind!r}")

        server = Server(
            name,
            lambda: launch_of(config, around),
            around.of_process,
            answer,
            lambda event, fields: self._handle_event(name, event, fields),
        )
        return _LiveServer(declared, server, None)

    def load(self) -> None:
        """Read the stored catalogs of all servers. Touches the disk."""
        for kept in self._kept.values():
            if kept.declared.usable:
                kept.catalog = load_catalog(self._around.home.servers, kept.declared.config)
                kept.is_signed_in = self._sign_ins.is_signed_in(kept.declared.config)

    def notices(self) -> list[str]:
        """Return notices for the user about servers and tools that wait for approval."""
        told = []
        for name, kept in self._kept.items():
            if kept.declared.config.enabled and not kept.declared.agreed:
                place = clean(kept.declared.config.place)[:200]
                told.append(
                    f"This project brings the MCP server {name} ({place}), which is not started; "
                    f"agree to it with `hermes mcp trust {name}`."
                )
            told += waiting(name, kept.catalog)
        return told

    async def list_unknown(self) -> None:
        """Request the lists of all servers without a stored catalog, in parallel.

        Failures are reported as notices.
        """
        unknown = [kept for kept in self._kept.values() if kept.declared.usable and kept.catalog is None]

        async def one(kept: _LiveServer) -> None:
            try:
                await self._list_if_due(kept)
            except HermesError as error:
                self.say("warning", str(error))

        await asyncio.gather(*(one(kept) for kept in unknown))

    def list_unknown_in_background(self) -> asyncio.Task[None]:
        """Run `learn` in the background and return the task. Tools that it finds can be used at once."""

        async def learning() -> None:
            before = {tool.name for tool in self.offered_tools()}
            await self.list_unknown()
            new = [tool for tool in self.offered_tools() if tool.name not in before]
            if new:
                servers = ", ".join(dict.fromkeys(tool.server for tool in new))
                text = f"{plural(len(new), 'tool')} of MCP servers ({servers}) can be used now."
                self.say("info", text)

        return self._beside(learning())

    def usable(self) -> bool:
        """Return whether any server may be used."""
        return any(kept.declared.usable for kept in self._kept.values())

    def may_offer(self, name: str) -> bool:
        """Return whether a tool with this name could belong to a usable server, offered now or not."""
        return any(is_of(name, server) for server, kept in self._kept.items() if kept.declared.usable)

    def has_unknown(self) -> bool:
        """Return whether any usable server has no stored catalog."""
        return bool(self.unknown(self._kept))

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return those of the servers that may be used and have no catalog."""
        kept = ((name, self._kept[name]) for name in names)
        return [name for name, each in kept if each.declared.usable and each.catalog is None]

    def offered_tools(self) -> tuple[OfferedTool, ...]:
        """Return all tools that can be called now, in a stable order."""
        found: dict[ToolKey, ToolDefinition] = {}
        every: list[ToolKey] = []
        for server, kept in sorted(self._kept.items()):
            if kept.catalog is None or not kept.declared.usable:
                continue
            # Names do not depend on which of them are left out.
            every += [(server, tool.name) for tool in kept.catalog.tools]
            for tool in kept.catalog.ready():
                if kept.declared.config.offers(tool.name):
                    found[server, tool.name] = tool
        names, notes = tool_names(every), self.notes()
        return tuple(
            OfferedTool(name=names[key], server=key[0], definition=tool, about=notes.pop(key[0], ""))
            for key, tool in sorted(found.items())
        )

    def notes(self) -> dict[str, str]:
        """Return the approved instructions of servers, by server. Outside text."""
        return {
            name: kept.catalog.note
            for name, kept in sorted(self._kept.items())
            if kept.catalog is not None and kept.declared.usable and kept.catalog.note
        }

    def prompts(self) -> tuple[tuple[str, PromptDefinition], ...]:
        """Return all prompts, each with the name of its server."""
        return tuple(
            (name, prompt)
            for name, kept in sorted(self._kept.items())
            if kept.catalog is not None and kept.declared.usable
            for prompt in kept.catalog.prompts
        )

    def with_resources(self) -> tuple[str, ...]:
        """Return the names of the servers that have resources."""
        return tuple(
            name
            for name, kept in sorted(self._kept.items())
            if kept.catalog is not None and kept.declared.usable and "resources" in kept.catalog.able
        )

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        progress: Callable[[str], None] | None = None,
        *,
        files: str = "",
    ) -> dict[str, Any]:
        """Call a tool and return its result as the model gets it.

        Here and below, content too large for the conversation is written to the folder `files`; without it,
        to the folder of all sessions.
        """
        kept = self._usable(server)
        await self._list_if_due(kept)
        self._check(server, tool, kept)
        if progress is not None:
            kept.calls.add(progress)
        try:
            return await kept.server.request(
                "call_tool", {"name": tool, "arguments": dict(arguments), "files": files}, progress
            )
        finally:
            if progress is not None:
                kept.calls.discard(progress)

    async def require(self, server: str, tool: str) -> None:
        """Raise `ServerError` if a running server does not offer a tool. Called before the user is asked."""
        kept = self._usable(server)
        if kept.server.health.state == "ready":
            await self._list_if_due(kept)
            self._check(server, tool, kept)

    async def read(self, server: str, uri: str, *, files: str = "") -> dict[str, Any]:
        """Return the contents of a resource."""
        kept = self._usable(server)
        return await kept.server.request("read_resource", {"uri": uri, "files": files})

    async def resources(self, server: str) -> dict[str, Any]:
        """Return the resources of a server, and its templates for others."""
        return await self._usable(server).server.request("resources", {})

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str], *, files: str = ""
    ) -> dict[str, Any]:
        """Return the messages of a prompt."""
        asked = {"name": name, "arguments": dict(arguments), "files": files}
        return await self._usable(server).server.request("get_prompt", asked)

    async def restart(self, server: str) -> None:
        """End a server, start it again and read its lists."""
        kept = self._usable(server)
        await kept.server.close()
        await self._list_if_due(kept)

    async def sign_in(self, server: str) -> None:
        """Sign in to a server and restart it.

        Returns when the sign-in has succeeded; raises if it fails or is cancelled.
        """
        kept = self._usable(server)
        await self._sign_ins.sign_in(kept.declared.config)
        kept.is_signed_in = True
        await self.restart(server)

    async def leave_sign_in(self, server: str) -> None:
        """Cancel a running sign-in."""
        self._sign_ins.cancel(server)

    async def came_back(self, server: str, address: str) -> None:
        """Pass the URL at which a browser on another machine ended to the waiting sign-in."""
        await self._sign_ins.pass_redirect(server, address)

    async def sign_out(self, server: str) -> bool:
        """Delete the tokens of a server and end it; return False if there were none."""
        kept = self._usable(server)
        was = await asyncio.to_thread(self._sign_ins.sign_out, kept.declared.config)
        kept.is_signed_in = False
        await kept.server.close()
        return was

    async def agree(self, server: str, seen: str = "") -> None:
        """Approve a server of the project, and its tools in their current form.

        With `seen` from a `ServerState`, raises `ServerError` if the waiting tools have changed since then.
        """
        kept = self._kept.get(server)
        if kept is None:
            raise ServerError(server, "there is no such server in this session")
        declared, catalog, folder = kept.declared, kept.catalog, self._around.home.servers
        if seen and catalog is not None and catalog.parked_digest != seen:
            raise ServerError(server, "its tools changed while you looked", "look at them again, then agree")
        if not declared.agreed and declared.root is not None:
            agreement = ServerAgreement(folder)
            await asyncio.to_thread(agreement.agree, declared.root, declared.config)
            kept.declared = replace(declared, agreed=True)
        if catalog is None:
            await self._list_if_due(self._usable(server))
        elif catalog.parked_tools():
            accepted = await asyncio.to_thread(catalog.accept)
            await asyncio.to_thread(save_catalog, folder, declared.config, accepted)
            kept.catalog = accepted
        self.changed()

    async def states(self) -> tuple[ServerState, ...]:
        """Return the state of every server."""
        return tuple(self._state(name, kept) for name, kept in self._kept.items())

    async def close(self) -> None:
        """End all servers."""
        await self._sign_ins.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(kept.server.close() for kept in self._kept.values()), return_exceptions=True)

    def _state(self, name: str, kept: _LiveServer) -> ServerState:
        declared, catalog = kept.declared, kept.catalog or ServerCatalog()
        health = kept.server.health
        if not declared.config.enabled:
            health = Health(state="off")
        elif not declared.agreed:
            health = Health(state="not agreed")
        return ServerState(
            name=name,
            origin=declared.origin,
            place=clean(declared.config.place),
            terms=tuple(map(clean, declared.config.terms)),
            health=health,
            retry_in=health.waits(time.monotonic()),
            tools=tuple(tool.name for tool in catalog.ready() if declared.config.offers(tool.name)),
            parked=tuple((tool.name, why_parked(catalog, tool)) for tool in catalog.parked_tools()),
            seen=catalog.parked_digest if catalog.parked_tools() else "",
            offer=tuple(
                tool_state(catalog, tool)
                for tool in catalog.pinned
                if tool is not catalog.instructions or catalog.standing(tool) != "ready"
            ),
            prompts=tuple(prompt.name for prompt in catalog.prompts),
            problems=catalog.problems,
            log=tuple(kept.server.log),
            signs_in=bool(declared.config.url),
            signed_in=kept.is_signed_in,
            sign_in=self._sign_ins.address(name),
        )

    def _usable(self, name: str) -> _LiveServer:
        kept = self._kept.get(name)
        if kept is None:
            known = ", ".join(sorted(self._kept)) or "none"
            raise ServerError(name, "there is no such server in this session", f"there are: {known}")
        if not kept.declared.agreed:
            raise ServerError(name, "nobody agreed to it yet", f"agree with `hermes mcp trust {name}`")
        if not kept.declared.config.enabled:
            raise ServerError(name, "it is switched off", f"set mcp_servers.{name}.enabled to true")
        return kept

    def _check(self, server: str, tool: str, kept: _LiveServer) -> None:
        """Raise `ServerError` if a tool no longer exists, is excluded, or differs from what was approved."""
        catalog = kept.catalog or ServerCatalog()
        found = next((each for each in catalog.tools if each.name == tool), None)
        if found is None or not kept.declared.config.offers(tool):
            names = ", ".join(each.name for each in catalog.ready()[:50]) or "none"
            raise ServerError(server, f"it has no tool {clean(tool)!r} (any more)", f"its tools are: {names}")
        if catalog.standing(found) != "ready":
            mend = f"a person can look at it and agree with `hermes mcp trust {server}`"
            raise ServerError(server, f"its tool {tool} {why_parked(catalog, found)}", mend)

    async def _list_if_due(self, kept: _LiveServer) -> None:
        """List a server's tools and prompts if it was started or has changed since the last list."""
        try:
            about = await kept.server.connect()
        except HermesError:
            self._probe_later(kept)
            raise
        async with kept.listing:
            if not kept.is_fresh:
                await self._list(kept, about)

    async def _list(self, kept: _LiveServer, about: Mapping[str, Any]) -> None:
        moment = kept.moment
        given = await kept.server.request("list", {})
        before = kept.catalog
        config = kept.declared.config
        given = {**given, "instructions": about.get("instructions")}
        catalog = await asyncio.to_thread(merge_listing, before, given, about.get("able") or [])
        if before is None or (before.listed, before.agreed) != (catalog.listed, catalog.agreed):
            # What cannot be kept is not used either: later nobody could tell that it changed.
            await asyncio.to_thread(save_catalog, self._around.home.servers, config, catalog)
        kept.catalog, kept.listed_at = catalog, moment
        self.changed()
        known = {tool.name for tool in before.parked_tools()} if before is not None else set[str]()
        if any(tool.name not in known for tool in catalog.parked_tools()):
            for text in waiting(config.name, catalog):
                self.say("warning", text)
        for problem in catalog.problems if before is None else ():
            self.say("warning", f"The MCP server {config.name}: {problem}.")

    def _handle_event(self, name: str, event: str, fields: Mapping[str, Any]) -> None:
        kept = self._kept[name]
        match event:
            case "changed":
                # From now on nothing is called that was not listed after this.
                kept.changes += 1
                self._beside(self._again(kept))
            case "gone":
                reason = clean(str(fields.get("reason", "")))
                self.say(
                    "warning", f"The MCP server {name} is gone: {reason}; it starts again when it is used."
                )
            case "log":
                level, text = clean(str(fields.get("level"))), clean(str(fields.get("text")))
                for call in tuple(kept.calls):
                    call(f"{level}: {text}\n")
                if kept.lines.takes(time.monotonic()):
                    self._write(name, level, text)

    def _probe_later(self, kept: _LiveServer) -> None:
        """Try a failed server again in the background, unless that is switched off or already happening."""
        if self._around.probes and not kept.is_probed:
            self._beside(self._probe(kept))

    async def _probe(self, kept: _LiveServer) -> None:
        name = kept.declared.config.name
        kept.is_probed = True
        try:
            while (health := kept.server.health).state in ("failed", "parked"):
                if health.state == "failed" and kept.catalog is not None:
                    return  # its tools are offered, so it is tried at their use
                await asyncio.sleep(health.waits(time.monotonic()) + _AFTER_PAUSE)
                with suppress(HermesError):
                    await self._list_if_due(kept)
                    self.say("info", f"The MCP server {name} is there; its tools can be used.")
        finally:
            kept.is_probed = False

    async def _again(self, kept: _LiveServer) -> None:
        """List a server that reports a change. Several changes in a short time are handled together."""
        if kept.is_renewing:
            return
        kept.is_renewing = True
        try:
            while not kept.is_fresh and kept.server.health.state == "ready":
                async with kept.listing:
                    if not kept.is_fresh:
                        await self._list(kept, await kept.server.connect())
                if not kept.is_fresh:
                    await asyncio.sleep(AGAIN_AFTER)
        except HermesError:
            pass  # it is told when it is used
        finally:
            kept.is_renewing = False

    def _beside(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
