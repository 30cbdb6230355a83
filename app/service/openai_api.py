"""OpenAI-compatible endpoints on sessions: models, chat completions, responses.

The messages of a request become one message of a session, which uses its own tools. The answer is the last
message of the turn. An approval waits for a device with the scope `approve` and is denied after
`serve.approval_timeout`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.core.attachments import AttachmentStore
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.events import Event, TextAdded, TurnEnded, UserMessageAdded
from app.service.credentials import Scope
from app.service.doors import ATTACHMENTS, ClientIdentity, RequestRefusedError, json_body
from app.service.hosted_session import HostedSession, SessionHub
from app.service.routes import NO_STORE, store_images

IMAGES = 10
"""The largest number of images in one request."""
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
_KINDS |= {404: "not_found_error", 413: "invalid_request_error", 429: "rate_limit_error"}
_TEXTS = ("text", "input_text", "output_text")
_PICTURES = ("image_url", "input_image")


@dataclass(frozen=True, slots=True)
class GivenMessage:
    """The text and images of a request, which become one message of a session."""

    text: str
    images: tuple[Mapping[str, str], ...] = ()
    """The images, each with its `name` and its `data` in base64."""


def conversation(messages: Sequence[Any]) -> GivenMessage:
    """Combine a request's messages into a session's first message. Raises `RequestRefusedError`. Pure."""
    read = [(_role(each), _content(each)) for each in messages]
    images = tuple(image for _, given in read for image in given.images)
    if len(images) > IMAGES:
        raise RequestRefusedError(400, f"A request may hold {IMAGES} images.")
    last = read[-1][1]
    if len(read) == 1:
        return last
    before = "\n\n".join(f"[{role}]\n{given.text}" for role, given in read[:-1])
    return GivenMessage(f"What was said before, by role:\n\n{before}\n\n[now]\n{last.text}", images)


def newest(messages: Sequence[Any]) -> GivenMessage:
    """Return the last user message of a request. Raises `RequestRefusedError` if there is none. Pure."""
    for each in reversed(messages):
        if _role(each) == "user":
            return _content(each)
    raise RequestRefusedError(400, "There is no message of role user.")


def require_supported(data: Mapping[str, Any]) -> None:
    """Raise `RequestRefusedError` for options that sessions do not support. Pure."""
    if data.get("tools") or data.get("functions"):
        raise RequestRefusedError(400, "Tools of the client are not taken: the session has its own.")
    if data.get("n") not in (None, 1):
        raise RequestRefusedError(400, "A request has one answer; leave out `n`.")
    form = data.get("response_format")
    text = data.get("text")
    if form is None and isinstance(text, dict):
        form = text.get("format")
    if isinstance(form, dict) and form.get("type", "text") != "text":
        raise RequestRefusedError(400, "Answers are text: ask for JSON in the message instead.")


def usage_of(ended: TurnEnded) -> dict[str, int]:
    """Return the tokens of a turn, summed over its model requests, in OpenAI's form. Pure."""
    found: dict[str, int] = {}
    for name, field in (("prompt_tokens", "input"), ("completion_tokens", "output")):
        with suppress(TypeError, ValueError):
            found[name] = int(ended.usage.get(field) or 0)
    given, written = found.get("prompt_tokens", 0), found.get("completion_tokens", 0)
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}


def complaint(status: int, sentence: str) -> dict[str, Any]:
    """Return an error as JSON data in OpenAI's form. Pure."""
    kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}


def refusal_of(status: int, sentence: str, headers: Mapping[str, str] = NO_STORE) -> Response:
    """Return the HTTP response for an error, in OpenAI's form."""
    # The rest of a request that was not read would end the connection without a word.
    return JSONResponse(complaint(status, sentence), status, headers={**headers, "Connection": "close"})


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("system", "developer", "user", "assistant"):
        raise RequestRefusedError(400, "A message has the role system, developer, user or assistant.")
    return str(role)


def _content(message: dict[str, Any]) -> GivenMessage:
    content = message.get("content")
    if isinstance(content, str):
        return GivenMessage(content)
    if not isinstance(content, list):
        raise RequestRefusedError(400, "The content of a message is a text, or a list of texts and images.")
    texts: list[str] = []
    images: list[Mapping[str, str]] = []
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else None
        if kind in _TEXTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind in _PICTURES:
            images.append(_image(part, len(images) + 1))
        else:
            raise RequestRefusedError(400, "The parts of a message are texts and images.")
    return GivenMessage("\n".join(texts), tuple(images))


def _image(part: Mapping[str, Any], number: int) -> Mapping[str, str]:
    """Return the image embedded in a part of a message. Raises `RequestRefusedError`, also for other URLs."""
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    kind = head.removeprefix("data:image/").removesuffix(";base64")
    if not comma or head != f"data:image/{kind};base64" or not kind.isalnum():
        raise RequestRefusedError(
            400, "An image is a `data:image/…;base64,…` address; others are not fetched."
        )
    return {"name": f"image-{number}.{kind}", "data": data}


MODEL = "hermes"
HEADER = "X-Hermes-Session"
SETTLING = 2.0
"""Seconds to wait for the end of a turn that is still being stored."""


class OpenAiApi:
    """The HTTP handlers for the paths below `/v1`."""

    def __init__(
        self,
        hub: SessionHub,
        workspace: Path,
        models: Callable[[], Sequence[str]],
        timeout: float,
        images: AttachmentStore,
    ) -> None:
        """`workspace` is the folder of new sessions; `models` returns the model names besides `hermes`, and
        blocks.
        """
        self._hub = hub
        self._workspace = workspace
        self._models = models
        self._timeout = timeout
        self._images = images

    def routes(self) -> list[Route]:
        """Return the HTTP routes of these handlers."""
        return [
            Route("/v1/models", self._with_refusals(self._list, "look"), methods=["GET"]),
            Route("/v1/models/{model:path}", self._with_refusals(self._one_model, "look"), methods=["GET"]),
            Route("/v1/chat/completions", self._with_refusals(self._chat, "talk"), methods=["POST"]),
            Route("/v1/responses", self._with_refusals(self._respond, "talk"), methods=["POST"]),
        ]

    def _with_refusals(self, handler: Callable[[Request], Awaitable[Response]], scope: Scope) -> Any:
        async def handle(request: Request) -> Response:
            caller: ClientIdentity = request.scope["state"]["caller"]
            try:
                if not caller.has_scope(scope):
                    raise RequestRefusedError(403, f"This device may not {scope}.")
                return await handler(request)
            except RequestRefusedError as refusal:
                return refusal_of(refusal.status, str(refusal))
            except HermesError as error:
                return refusal_of(409, str(error))

        return handle

    async def _list(self, _request: Request) -> Response:
        names = [MODEL, *await asyncio.to_thread(self._models)]
        return JSONResponse({"object": "list", "data": [_model(name) for name in names]}, headers=NO_STORE)

    async def _one_model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name != MODEL and name not in await asyncio.to_thread(self._models):
            raise RequestRefusedError(404, "There is no such model; see /v1/models.")
        return JSONResponse(_model(name), headers=NO_STORE)

    async def _chat(self, request: Request) -> Response:
        data = await json_body(request, ATTACHMENTS)
        messages = data.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestRefusedError(400, "`messages` must be a list of messages.")
        known = request.headers.get(HEADER)
        # A continued session has the earlier messages: only new ones are sent.
        turn = await self._turn(data, known, newest(messages) if known else conversation(messages))
        session = turn.session
        id, created, model = f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), str(data["model"])
        headers = {**NO_STORE, HEADER: session.id}

        options = data.get("stream_options")
        counts = isinstance(options, dict) and options.get("include_usage") is True

        def chunk(choices: list[Any], usage: dict[str, int] | None = None) -> str:
            body = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
            more = {"usage": usage} if counts else {}
            return f"data: {json.dumps({**body, 'choices': choices, **more})}\n\n"

        def piece(delta: Mapping[str, str], reason: str | None = None) -> str:
            return chunk([{"index": 0, "delta": delta, "finish_reason": reason}])

        if data.get("stream") is True:

            async def stream() -> AsyncIterator[str]:
                yield piece({"role": "assistant", "content": ""})
                async for text in turn.pieces():
                    yield piece({"content": text})
                if turn.ended is not None and turn.ended.outcome == "failed":
                    yield f"data: {json.dumps(complaint(500, turn.ended.error))}\n\n"
                else:
                    yield piece({}, _reason(turn.ended))
                    if counts and turn.ended is not None:
                        yield chunk([], usage_of(turn.ended))
                yield "data: [DONE]\n\n"

            return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
        ended = await turn.wait_ended()
        if ended.outcome == "failed":
            return refusal_of(500, ended.error, headers)
        message = {"role": "assistant", "content": ended.text or ended.error}
        choice = {"index": 0, "message": message, "finish_reason": _reason(ended)}
        body = {"id": id, "object": "chat.completion", "created": created, "model": model}
        return JSONResponse({**body, "choices": [choice], "usage": usage_of(ended)}, headers=headers)

    async def _respond(self, request: Request) -> Response:
        data = await json_body(request, ATTACHMENTS)
        known = request.headers.get(HEADER)
        if (before := data.get("previous_response_id")) is not None:
            if not isinstance(before, str):
                raise RequestRefusedError(400, "`previous_response_id` has to be a text.")
            known = session_of_response(before)
            if not known:
                raise RequestRefusedError(404, "There is no response of this `previous_response_id`.")
        given = data.get("input")
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(messages, list) or not messages:
            raise RequestRefusedError(400, "`input` must be a text or a list of messages.")
        if isinstance(instructions := data.get("instructions"), str) and not known:
            messages = [{"role": "system", "content": instructions}, *messages]
        turn = await self._turn(data, known, newest(messages) if known else conversation(messages))
        session = turn.session
        id = response_id(session.id)
        base = {"id": id, "object": "response", "created_at": int(time.time()), "model": str(data["model"])}
        base |= {"previous_response_id": before, "instructions": data.get("instructions")}
        base |= {"parallel_tool_calls": False, "tool_choice": "none", "tools": []}
        headers = {**NO_STORE, HEADER: session.id}
        item = f"msg_{secrets.token_hex(8)}"

        def complete(ended: TurnEnded) -> dict[str, Any]:
            failed = ended.outcome == "failed"
            used = usage_of(ended)
            part = {"type": "output_text", "text": ended.text or ended.error, "annotations": []}
            output = {"id": item, "type": "message", "role": "assistant", "status": "completed"}
            return {
                **base,
                "status": "failed" if failed else "completed",
                "error": {"code": "server_error", "message": ended.error} if failed else None,
                "output": [] if failed else [{**output, "content": [part]}],
                "usage": {
                    "input_tokens": used["prompt_tokens"],
                    "output_tokens": used["completion_tokens"],
                    "total_tokens": used["total_tokens"],
                },
            }

        if data.get("stream") is not True:
            return JSONResponse(complete(await turn.wait_ended()), headers=headers)

        async def stream() -> AsyncIterator[str]:
            numbers = iter(range(1 << 30))

            def frame(kind: str, **more: Any) -> str:
                body = {"type": kind, "sequence_number": next(numbers), **more}
                return f"event: {kind}\ndata: {json.dumps(body)}\n\n"

            yield frame("response.created", response={**base, "status": "in_progress", "output": []})
            place = {"item_id": item, "output_index": 0, "content_index": 0}
            begun = {"id": item, "type": "message", "role": "assistant", "status": "in_progress"}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield frame("response.output_item.added", output_index=0, item={**begun, "content": []})
            yield frame("response.content_part.added", part=part, **place)
            async for text in turn.pieces():
                yield frame("response.output_text.delta", delta=text, logprobs=[], **place)
            assert turn.ended is not None
            part["text"] = turn.ended.text
            yield frame("response.output_text.done", text=turn.ended.text, logprobs=[], **place)
            yield frame("response.content_part.done", part=part, **place)
            done = {**begun, "status": "completed", "content": [part]}
            yield frame("response.output_item.done", output_index=0, item=done)
            kind = "response.failed" if turn.ended.outcome == "failed" else "response.completed"
            yield frame(kind, response=complete(turn.ended))

        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    async def _turn(self, data: dict[str, Any], known: str | None, given: GivenMessage) -> _Turn:
        """Send the message of a request to its session, and return the turn for it.

        Raises `RequestRefusedError`.
        """
        session = await self._session(data, known)
        images = await asyncio.to_thread(store_images, given.images, self._images) if given.images else ()
        return _Turn(session, given.text, self._timeout, images)

    async def _session(self, data: dict[str, Any], known: str | None) -> HostedSession:
        """Return the session for a request: the known one, or a new one. Raises `RequestRefusedError`."""
        require_supported(data)
        model = data.get("model")
        if not isinstance(model, str):
            raise RequestRefusedError(400, "`model` must be `hermes`, or a name of /v1/models.")
        if known:
            session = await self._hub.session(known)
            # A turn is over a moment after its last event.
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLING):
                    await session.client.idle()
            if session.client.busy:
                raise RequestRefusedError(409, "This session works on a message; wait for its end.")
            return session
        if model != MODEL and model not in await asyncio.to_thread(self._models):
            raise RequestRefusedError(404, "There is no such model; see /v1/models.")
        return await self._hub.create(str(self._workspace), None if model == MODEL else model)


class _Turn:
    """The turn that a request's message starts, whose answer can be streamed."""

    def __init__(
        self, session: HostedSession, text: str, timeout: float, images: Sequence[Attachment] = ()
    ) -> None:
        self.session = session
        self._timeout = timeout
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._begun = False
        self._text = text
        self.ended: TurnEnded | None = None
        self._unsubscribe = session.subscribe(self._handle)
        self._waits: dict[str, asyncio.TimerHandle] = {}
        try:
            session.message(text, "prompt", images)
        except BaseException:
            self._unsubscribe()
            raise

    async def pieces(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer as they arrive. If the client disconnects, the turn is stopped."""
        try:
            while (piece := await self._queue.get()) is not None:
                yield piece
        finally:
            self._leave()
            if self.ended is None:
                self.session.client.interrupt()

    async def wait_ended(self) -> TurnEnded:
        """Wait for the end of the turn and return its last event."""
        async for _ in self.pieces():
            pass
        assert self.ended is not None
        return self.ended

    def _handle(self, event: Event) -> None:
        match event:
            case UserMessageAdded() if event.agent == "main" and event.text.strip() == self._text.strip():
                self._begun = True
            case TextAdded() if event.agent == "main" and self._begun:
                self._queue.put_nowait(event.text)
            case TurnEnded() if event.agent == "main" and (self._begun or event.outcome == "failed"):
                self.ended = event
                self._queue.put_nowait(None)
            case _ if event.type in ("approval", "forecast", "ceiling", "question"):
                id: str = getattr(event, "id", "")
                later = asyncio.get_running_loop().call_later(self._timeout, self._expire, id)
                self._waits[id] = later
            case _:
                pass

    def _expire(self, request: str) -> None:
        """Deny a request that was not answered in time."""
        for asked in self.session.pending:
            if asked.id == request:
                self.session.decide(request, asked.unattended, "nobody in time")

    def _leave(self) -> None:
        self._unsubscribe()
        for each in self._waits.values():
            each.cancel()


def response_id(session: str) -> str:
    """Return a new response id, which contains the id of the session and a checksum."""
    nonce = secrets.token_hex(3)
    return f"resp_{session}_{nonce}{_check(session, nonce)}"


def session_of_response(id: str) -> str:
    """Return the session of a response id; empty if the id was not made by `response_id`."""
    session, _, end = id.removeprefix("resp_").rpartition("_")
    is_ours = id.startswith("resp_") and len(end) == 12 and end[6:] == _check(session, end[:6])
    return session if is_ours else ""


def _check(session: str, nonce: str) -> str:
    return hashlib.sha256(f"{session}_{nonce}".encode("utf-8", "replace")).hexdigest()[:6]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes"}


def _reason(ended: TurnEnded | None) -> str:
    return "length" if ended is not None and ended.outcome == "budget" else "stop"
