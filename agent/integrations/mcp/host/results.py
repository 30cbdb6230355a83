"""Conversion of a server's answers for the model: text, data, and files for everything that is not text.

Long texts and other content are written to files of the session, so that little data is sent to Hermes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import mimetypes
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, methods
from mcp_types.jsonrpc import URL_ELICITATION_REQUIRED
from pydantic import ValidationError

from agent.integrations.mcp.catalog import FAULT, SCALARS
from agent.model.tool_schemas import sound
from tools.text.safe_text import clean
from tools.text.words import one_line, plural

_DEEPEST = 100
"""The maximum nesting depth of data that is read."""
LONGEST_TEXT = 100_000
"""The maximum number of characters of text sent to Hermes; a longer text is written to a file."""
PREVIEW = 1_500
LONGEST_BASE64 = 2_000
"""The length in characters from which base64 in data is written to a file."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,")
MOST_PARTS = 1_000
"""The maximum number of parts of one answer that are read."""


def call_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """Return the result for the answer to a tool call. If the tool failed, `error` holds its text."""
    result = parts_result(answer.get("content") or [], files)
    said = answer.get("structuredContent")
    data = None if _repeats_blocks(said, answer.get("content") or []) else clean_data(said)
    if data is not None:
        light, text = _light_data(data, files), result.get("content", "")
        if not (is_same := _says_the_same(text, data)) or light != data:
            result["data"] = _bound_result(light, files)
            if is_same:  # the text has the same base64
                del result["content"]
    if answer.get("isError"):
        result["error"] = result.pop("content", "") or "The tool failed and did not say why."
    return result


def _repeats_blocks(data: Any, parts: Sequence[Any]) -> bool:
    """Return whether data consists only of parts of the answer. Pure."""
    alone = next(iter(data.values())) if isinstance(data, Mapping) and len(data) == 1 else data
    blocks = alone if isinstance(alone, list) else [alone]
    known = [_block(each) for each in parts]
    return bool(blocks) and all(isinstance(each, Mapping) and _block(each) in known for each in blocks)


def _block(part: Any) -> Any:
    """Return the fields by which parts of an answer are compared; None if it is not a part."""
    if not isinstance(part, Mapping) or "type" not in part:
        return None
    return {key: part.get(key) for key in ("type", "data", "text", "mimeType", "uri", "resource")}


def _light_data(data: Any, files: Path, media: Any = None) -> Any:
    """Return data with each long base64 text replaced by the description of a file that contains it."""
    if isinstance(data, Mapping):
        kind = data.get("mimeType") or data.get("mime_type") or data.get("media_type")
        return {key: _light_data(each, files, kind) for key, each in data.items()}
    if isinstance(data, list):
        return [_light_data(each, files, media) for each in data]
    if not isinstance(data, str) or len(data) < LONGEST_BASE64:
        return data
    address = _DATA_URL.match(data)
    encoded = data[address.end() :] if address is not None else data
    if not _BASE64.fullmatch(encoded):
        return data
    saved = _save_file("".join(encoded.split()), address[1] if address is not None else media, files)
    return saved if "path" in saved else data


def clean_data(data: Any, depth: int = 0) -> Any:
    """Return a server's data with every text cleaned and deeply nested parts cut off. Pure."""
    if isinstance(data, str):
        return clean(data)
    if depth > _DEEPEST:
        return "[… nested deeper than is read]"
    if isinstance(data, Mapping):
        return {clean(str(key)): clean_data(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list):
        return [clean_data(each, depth + 1) for each in data]
    return data


def resource_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """Return the contents of a resource as a result; long text and other content are written to files."""
    contents = answer.get("contents") or []
    return parts_result([{"type": "resource", "resource": each} for each in contents], files)


def prompt_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """Return the description and the messages of a prompt, each message with role and content."""
    messages = []
    for each in (answer.get("messages") or [])[:MOST_PARTS]:
        part = parts_result([each.get("content") or {}], files)
        messages.append({"role": each.get("role", "user"), **part})
    return {"description": clean_data(answer.get("description") or ""), "messages": messages}


def parts_result(parts: Sequence[Any], files: Path) -> dict[str, Any]:
    """Return the parts of an answer as one result, with a key for each kind of part; save images, sounds,
    binary resources and long text in `files`. At most `MOST_PARTS` parts are included.
    """
    texts: list[str] = []
    found: dict[str, list[Any]] = {}
    for part in parts[:MOST_PARTS]:
        match part.get("type") if isinstance(part, Mapping) else None:
            case "text":
                texts.append(clean(str(part.get("text", ""))))
            case "image" | "audio" as kind:
                name = "images" if kind == "image" else "sounds"
                found.setdefault(name, []).append(_save_file(part.get("data"), part.get("mimeType"), files))
            case "resource":
                resource = part.get("resource") or {}
                if isinstance(resource.get("text"), str):
                    texts.append(clean(f"[resource {resource.get('uri', '')}]\n{resource['text']}"))
                else:
                    saved = _save_file(resource.get("blob"), resource.get("mimeType"), files)
                    found.setdefault("resources", []).append(
                        {"uri": clean_data(resource.get("uri", "")), **saved}
                    )
            case "resource_link":
                link = {key: part[key] for key in ("uri", "name", "description", "mimeType") if part.get(key)}
                found.setdefault("links", []).append(clean_data(link))
            case _:
                texts.append("[a part of a kind that is not known]")
    if len(parts) > MOST_PARTS:
        texts.append(f"[… {len(parts) - MOST_PARTS:,} further parts were left out]")
    result: dict[str, Any] = _text("\n".join(texts), files) if texts else {}
    return {**result, **found}


def _text(text: str, files: Path) -> dict[str, Any]:
    if len(text) <= LONGEST_TEXT:
        return {"content": text}
    path = write_file(text.encode("utf-8", "replace"), ".txt", files)
    return {
        "content": text[:PREVIEW],
        "characters": len(text),
        "full_result": str(path),
        "hint": "The whole text is in that file; read_file or search it.",
    }


def _bound_result(data: Any, files: Path) -> Any:
    text = json.dumps(data, ensure_ascii=False, default=str)
    if len(text) <= LONGEST_TEXT:
        return data
    return {
        "full_result": str(write_file(text.encode("utf-8", "replace"), ".json", files)),
        "characters": len(text),
    }


def _says_the_same(text: str, data: Any) -> bool:
    """Return whether the text only repeats the data, as servers do for older clients."""
    alone = data["result"] if isinstance(data, Mapping) and list(data) == ["result"] else data
    if alone == text:
        return True
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return said in (data, alone)


def _save_file(encoded: Any, media_type: Any, files: Path) -> dict[str, Any]:
    """Write content that is not text to a file, and return its description."""
    kind = clean(media_type) if isinstance(media_type, str) else "application/octet-stream"
    try:
        data = base64.b64decode(encoded if isinstance(encoded, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return {"type": kind, "problem": "it was not sent as base64 and is left out"}
    ending = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ".bin"
    return {"path": str(write_file(data, ending, files)), "type": kind, "bytes": len(data)}


def write_file(data: bytes, ending: str, files: Path) -> Path:
    files.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = files / f"mcp-{hashlib.sha256(data).hexdigest()[:16]}{ending}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


LONGEST = 600
_FORGOTTEN = (INVALID_REQUEST, "Session terminated")
"""The error that the MCP SDK makes of a session for which the server answers 404."""


class CallFaultError(Exception):
    """A request to a server failed. The text is a clause that follows the server's name."""

    def __init__(
        self, text: str, *, gone: bool = False, sign_in: bool = False, forgotten: bool = False
    ) -> None:
        super().__init__(text)
        self.forgotten = forgotten
        """Whether the server no longer knows the session, so that the request had no effect."""
        self.gone = gone
        """Whether the server is no longer running or connected."""
        self.sign_in = sign_in
        """Whether the user has to sign in first."""

    def to_json(self) -> dict[str, Any]:
        return {"text": str(self), "gone": self.gone, "sign_in": self.sign_in}


class SignInNeededError(Exception):
    """The user has to sign in, but is not present."""


def as_call_fault(error: BaseException) -> CallFaultError:
    """Return the `CallFaultError` for an error of the MCP SDK."""
    inner = _innermost(error)
    match inner:
        case CallFaultError():
            return inner
        case SignInNeededError():
            return CallFaultError("it asks for a sign-in", sign_in=True)
        case OAuthFlowError() | OAuthRegistrationError() | OAuthTokenError():
            return CallFaultError(f"signing in failed: {_oauth_words(str(inner))}")
        case MCPError() if (inner.code, inner.error.message) == _FORGOTTEN:
            return CallFaultError("it has forgotten the session", gone=True, forgotten=True)
        case MCPError() if inner.code == CONNECTION_CLOSED:
            return CallFaultError(f"the connection ended: {_short(inner)}", gone=True)
        case MCPError():
            return CallFaultError(f"it answered with error {inner.code}: {_short(inner)}")
        case httpx2.HTTPStatusError():
            return CallFaultError(f"it answered with HTTP {inner.response.status_code}")
        case httpx2.TimeoutException() | TimeoutError():
            return CallFaultError("it did not answer in time", gone=True)
        case httpx2.ConnectError():
            return CallFaultError(f"it cannot be reached ({_short(inner)})", gone=True)
        case httpx2.HTTPError():
            return CallFaultError(_short(inner) or type(inner).__name__, gone=True)
        case OSError():
            return CallFaultError(f"it cannot be started: {inner.strerror or _short(inner)}", gone=True)
        case ValueError():
            return CallFaultError(f"it answered with what is not a valid answer ({_short(inner, 200)})")
        case _:
            return CallFaultError(f"{type(inner).__name__}: {_short(inner)}".rstrip(": "))


def _oauth_words(text: str) -> str:
    """Return the server's message from a refusal; OAuth's JSON form is turned into words."""
    start = text.find("{")
    try:
        said = json.loads(text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("error"), str):
        return _short(Exception(text), 300)
    described = said.get("error_description")
    more = f" ({described})" if isinstance(described, str) and described else ""
    return _short(Exception(f"{text[:start]}{said['error']}{more}"), 300)


def _innermost(error: BaseException) -> BaseException:
    """Return the first error inside nested error groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _short(error: BaseException, limit: int = LONGEST) -> str:
    said = re.sub(r":? \d+ validation errors? for .*", "", one_line(str(error)))  # for a programmer
    return said[:limit].rstrip(".")


Ask = Callable[[str, Any], Awaitable[Any]]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]

MOST_ADDRESSES = 5
"""The maximum number of URLs that one call may ask the user to open."""
KEPT_FOR = 3_600_000
"""The time in milliseconds for which a server is asked to keep a task."""
_PACE = (0.2, 5.0)
"""The minimum and maximum number of seconds between two requests for the status of a task."""


def tools_run_as_tasks(client: Client, tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the tools that can only be called as tasks."""
    if client.server_capabilities.tasks is None:
        return frozenset()
    wanted = [tool for tool in tools if (tool.get("execution") or {}).get("taskSupport") == "required"]
    return frozenset(str(tool.get("name")) for tool in wanted)


async def with_addresses(call: Callable[[], Awaitable[Any]], ask: Ask) -> Any:
    """Run `call`; if the server requires URLs to be opened, ask and run it again. Raises `CallFaultError`."""
    try:
        return await call()
    except MCPError as error:
        if error.code != URL_ELICITATION_REQUIRED:
            raise
        wanted = _addresses(error)
    for each in wanted:
        answer = await ask("elicit", {**each, "mode": "url"})
        if answer.get("action") != "accept":
            raise CallFaultError("it wants an address to be opened first, and nobody did that")
    return await call()


async def call_as_task(
    client: Client, name: str, arguments: Mapping[str, Any], progress: Progress
) -> dict[str, Any]:
    """Call a tool as a task, and return its result. Cancelling this call cancels the task."""
    # The package's own check of answers does not know tasks.
    send = client.session._dispatcher.send_raw_request
    params = {"name": name, "arguments": dict(arguments), "task": {"ttl": KEPT_FOR}}
    started = types.CreateTaskResult.model_validate(await send("tools/call", params, {}), by_name=False)
    task = started.task
    watching = asyncio.create_task(_watch(client, task, progress))
    try:
        # The answer comes when the task has ended, and questions of the task on the way.
        return dict(await send("tasks/result", {"taskId": task.task_id}, {}))
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(1.0):
                await send("tasks/cancel", {"taskId": task.task_id}, {})
        raise
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(client: Client, task: types.Task, progress: Progress) -> None:
    """Report the status messages of a task until cancelled."""
    request = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task.task_id))
    said, count = "", 0
    while True:
        least, most = _PACE
        await asyncio.sleep(min(max((task.poll_interval or 1_000) / 1_000, least), most))
        try:
            task = await client.session.send_request(request, types.GetTaskResult)
        except MCPError:
            return
        if task.status_message and task.status_message != said:
            said, count = task.status_message, count + 1
            await progress(count, None, said)


def _addresses(error: MCPError) -> list[dict[str, Any]]:
    """Return the URLs that an error asks to open. Raises `CallFaultError` if it names none or too many."""
    data = error.error.data
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    found = [dict(each) for each in listed or [] if isinstance(each, Mapping) and each.get("url")]
    if not found or len(found) > MOST_ADDRESSES:
        raise CallFaultError("it wants addresses to be opened first, and does not say which")
    return found


LAST_WITH_HANDSHAKE = "2025-11-25"
_METHOD = "tools/list"
_CALL = "tools/call"
_LONGEST_PART = 20_000
"""The maximum number of characters shown of a part of an unknown kind."""
_MOST_PARTS = 1_000


class ListingFilter:
    """A filter for tool lists before the MCP SDK checks them.

    `refused` holds the tools removed from the last list. `schemas` holds the original schemas of the others
    by name.
    """

    def __init__(self) -> None:
        self.refused: list[dict[str, Any]] = []
        self.schemas: dict[str, Any] = {}

    def begin(self) -> None:
        """Clear the results of the last list."""
        self.refused.clear()
        self.schemas.clear()

    def put_before(self, client: Client) -> None:
        """Start filtering the lists and repairing the results that this client receives."""
        # The package has no place for that; what it hands on is the plain answer of the server.
        dispatcher = client.session._dispatcher
        send = dispatcher.send_raw_request

        async def send_filtered(method: str, *arguments: Any, **named: Any) -> dict[str, Any]:
            raw = await send(method, *arguments, **named)
            if client.protocol_version > LAST_WITH_HANDSHAKE:
                # A result that does not say what it is counts as complete, by the protocol.
                raw = {"resultType": "complete", **raw}
            match method:
                case "tools/list":
                    return self._without_faulty(raw, client.protocol_version)
                case "tools/call":
                    return readable_result(raw, client.protocol_version)
            return raw

        dispatcher.send_raw_request = send_filtered  # pyright: ignore[reportAttributeAccessIssue]

    def _without_faulty(self, raw: dict[str, Any], version: str) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list):
            return raw
        kept = []
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(schema := tool.get("inputSchema", {}), Mapping):
                self.schemas.setdefault(str(tool.get("name")), schema)
                # The package would throw away an answer that does not fit the server's own outputSchema.
                tool = {key: value for key, value in tool.items() if key != "outputSchema"}
                tool["inputSchema"] = _readable_schema(schema)
            if reason := _why(raw, [tool], version):
                name = tool.get("name") if isinstance(tool, Mapping) else ""
                self.refused.append({"name": name, FAULT: reason})
            else:
                kept.append(tool)
        return {**raw, "tools": kept}


def _readable_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema in the form that the MCP SDK accepts.

    A schema that is not for an object is returned unchanged.
    """
    try:
        return schema if schema.get("type") in SCALARS else sound(schema)
    except RecursionError:
        return schema


def _why(raw: Mapping[str, Any], tools: Sequence[Any], version: str) -> str:
    """Return why the MCP SDK refuses a list with these tools, as a clause; empty if it accepts the list."""
    try:
        methods.validate_server_result(_METHOD, version, {**raw, "tools": tools})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][2:]) or "description"
        return f"its {where} is wrong ({first['msg'][:120]})"
    except KeyError:
        return ""
    return ""


def readable_result(raw: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the result of a call in the form that the MCP SDK accepts. Pure.

    A result that needs no repair, or that cannot be a result at all, is returned unchanged.
    """
    if _is_result(raw, version) or "task" in raw:
        return raw
    content = raw.get("content", raw.get("toolResult"))
    if content is not None and not isinstance(content, str | Mapping | list):
        return raw
    parts = content if isinstance(content, list) else [] if content is None else [content]
    data = raw.get("structuredContent")
    if data is not None and not isinstance(data, Mapping):
        data = {"result": data}
    return {
        **({"resultType": raw["resultType"]} if "resultType" in raw else {}),
        "content": [_readable_part(part, version) for part in parts[:_MOST_PARTS]],
        **({"structuredContent": data} if data is not None else {}),
        "isError": raw.get("isError") is True,
    }


def _readable_part(part: Any, version: str) -> Any:
    """Return one part of a result in the form that the MCP SDK accepts."""
    if _is_result({"content": [part]}, version):
        return part
    if isinstance(part, Mapping):
        kind, data = part.get("type"), part.get("data")
        if kind in ("image", "audio") and isinstance(data, str):
            media = part.get("mimeType")
            kept = {"type": kind, "data": data, "mimeType": media if isinstance(media, str) else f"{kind}/*"}
            if _is_result({"content": [kept]}, version):
                return kept
        if isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]}
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
    if len(text) > _LONGEST_PART:
        text = f"{text[:_LONGEST_PART]} [… {plural(len(text) - _LONGEST_PART, 'character')} left out]"
    return {"type": "text", "text": text}


def _is_result(raw: Mapping[str, Any], version: str) -> bool:
    try:
        methods.validate_server_result(_CALL, version, {"resultType": "complete", **raw})
    except ValidationError:
        return False
    except KeyError:
        return True
    return True
