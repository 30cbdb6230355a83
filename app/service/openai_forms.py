"""Messages, usage and complaints in the form of OpenAI's endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from agent.events import TurnEnded
from app.service.doors import TurnedAwayError
from app.service.routes import NO_STORE

IMAGES = 10
"""Images of one request."""
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
_KINDS |= {404: "not_found_error", 413: "invalid_request_error", 429: "rate_limit_error"}
_TEXTS = ("text", "input_text", "output_text")
_PICTURES = ("image_url", "input_image")


@dataclass(frozen=True, slots=True)
class GivenMessage:
    """What a request says to the session."""

    text: str
    images: tuple[Mapping[str, str], ...] = ()
    """Each with `name` and `data` in base64."""


def conversation(messages: Sequence[Any]) -> GivenMessage:
    """The messages of a request as the first message of a session. Raises `TurnedAwayError`. Pure."""
    read = [(_role(each), _content(each)) for each in messages]
    images = tuple(image for _, given in read for image in given.images)
    if len(images) > IMAGES:
        raise TurnedAwayError(400, f"A request may hold {IMAGES} images.")
    last = read[-1][1]
    if len(read) == 1:
        return last
    before = "\n\n".join(f"[{role}]\n{given.text}" for role, given in read[:-1])
    return GivenMessage(f"What was said before, by role:\n\n{before}\n\n[now]\n{last.text}", images)


def newest(messages: Sequence[Any]) -> GivenMessage:
    """The last message of the person. Raises `TurnedAwayError`. Pure."""
    for each in reversed(messages):
        if _role(each) == "user":
            return _content(each)
    raise TurnedAwayError(400, "There is no message of role user.")


def require_own_ways(data: Mapping[str, Any]) -> None:
    """Refuse what a session cannot do, rather than leave it out. Raises `TurnedAwayError`. Pure."""
    if data.get("tools") or data.get("functions"):
        raise TurnedAwayError(400, "Tools of the client are not taken: the session has its own.")
    if data.get("n") not in (None, 1):
        raise TurnedAwayError(400, "A request has one answer; leave out `n`.")
    form = data.get("response_format")
    text = data.get("text")
    if form is None and isinstance(text, dict):
        form = text.get("format")
    if isinstance(form, dict) and form.get("type", "text") != "text":
        raise TurnedAwayError(400, "Answers are text: ask for JSON in the message instead.")


def usage_of(ended: TurnEnded) -> dict[str, int]:
    """Tokens of a turn, all its requests together. Pure."""
    found: dict[str, int] = {}
    for name, field in (("prompt_tokens", "input"), ("completion_tokens", "output")):
        with suppress(TypeError, ValueError):
            found[name] = int(ended.usage.get(field) or 0)
    given, written = found.get("prompt_tokens", 0), found.get("completion_tokens", 0)
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}


def complaint(status: int, sentence: str) -> dict[str, Any]:
    """An error as such clients read it. Pure."""
    kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}


def refusal_of(status: int, sentence: str, headers: Mapping[str, str] = NO_STORE) -> Response:
    """The answer that carries a complaint."""
    return JSONResponse(complaint(status, sentence), status, headers=dict(headers))


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("system", "developer", "user", "assistant"):
        raise TurnedAwayError(400, "A message has the role system, developer, user or assistant.")
    return str(role)


def _content(message: dict[str, Any]) -> GivenMessage:
    content = message.get("content")
    if isinstance(content, str):
        return GivenMessage(content)
    if not isinstance(content, list):
        raise TurnedAwayError(400, "The content of a message is a text, or a list of texts and images.")
    texts: list[str] = []
    images: list[Mapping[str, str]] = []
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else None
        if kind in _TEXTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind in _PICTURES:
            images.append(_image(part, len(images) + 1))
        else:
            raise TurnedAwayError(400, "The parts of a message are texts and images.")
    return GivenMessage("\n".join(texts), tuple(images))


def _image(part: Mapping[str, Any], number: int) -> Mapping[str, str]:
    """An image that a part carries itself: nothing is fetched for a request."""
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    kind = head.removeprefix("data:image/").removesuffix(";base64")
    if not comma or head != f"data:image/{kind};base64" or not kind.isalnum():
        raise TurnedAwayError(400, "An image is a `data:image/…;base64,…` address; others are not fetched.")
    return {"name": f"image-{number}.{kind}", "data": data}
