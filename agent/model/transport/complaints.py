"""Reads provider errors from any of the shapes in use, and tells their kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from agent.errors import ModelErrorKind
from agent.model.dialect import DEFAULT, Dialect, load
from agent.model.repairs import Refusal, is_overflow, names

_QUOTA_TEXT = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|exceeded your current quota"
    r"|billing[_ ](?:hard[_ ]limit|not[_ ]active)|credit balance is too low|payment required",
    re.IGNORECASE,
)
_FILTER_TEXT = re.compile(
    r"content[_ -]?(?:filter|policy|management)|content exists risk"
    r"|(?:inappropriate|unsafe|sensitive) content"
    r"|data[_ ]?inspection|moderation|flagged|guardrail|considered high risk|safety (?:system|polic)"
    r"|responsibleai|\u654f\u611f\u5185\u5bb9",  # "sensitive content" in Chinese
    re.IGNORECASE,
)

_PAGE = re.compile(r"<(?:!doctype\s+html|html|head|body|center|h1|title)\b[^>]*>", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|h1)\b[^>]*>(.{1,300}?)</", re.IGNORECASE | re.DOTALL)
_OUTAGE = re.compile(r"\b[45]\d\d\b|gateway|unavailable|time-?out|denied|forbidden|error", re.IGNORECASE)
"""Titles of pages that a gateway quotes; others may be of the conversation."""
_NO_KEY = re.compile(
    r"\bauth(?:entication)?_error\b|\bno api[ _-]?key (?:was )?(?:passed|provided|given|sent)", re.I
)
_NO_MODEL = re.compile(
    r"\b(?:invalid|unknown|no such) model(?: name| id)?\b|\bmodel\b.{1,90}\b(?:does not exist|not found)\b",
    re.I,
)
_ABOUT_THE_PERSON = (401, 402, 404, 405, 407, 410, 413, 429)
"""Statuses that mean what they say also in the page of a proxy."""

_STATUS_KINDS: dict[int, ModelErrorKind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    409: "overloaded",
    410: "not_found",
    413: "overflow",
    425: "overloaded",
    429: "rate_limit",
}
_WORD_KINDS: tuple[tuple[str, ModelErrorKind], ...] = (
    ("rate_limit", "rate_limit"),
    ("too_many_requests", "rate_limit"),
    ("resource_exhausted", "rate_limit"),
    ("authentication", "auth"),
    ("invalid_api_key", "auth"),
    ("unauthorized", "auth"),
    ("permission", "auth"),
    ("not_found", "not_found"),
    ("timeout", "timeout"),
    ("invalid_request", "bad_request"),
    ("invalid_argument", "bad_request"),
    ("badrequest", "bad_request"),
    ("unsupported", "bad_request"),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a provider says about a failure: its sentence, and its code and type in one lower-case text."""

    text: str
    words: str = ""
    status: int | None = None
    page: str | None = None
    """Title of the web page it holds, if it does: then a proxy on the way speaks, not the provider."""


def read_complaint(body: bytes) -> Complaint:
    """What an error body says, whether it is JSON, a page or nothing."""
    text = body.decode("utf-8", "replace").strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _plain(f"<html>{text}" if text.startswith("<") else text)
    return complaint_of(data)


def complaint_of(data: Any) -> Complaint:
    """What an error object says, in any of the shapes in use."""
    if isinstance(data, list):
        data = next((item for item in data if isinstance(item, dict)), {})
    if not isinstance(data, Mapping):
        return _plain("" if data is None else str(data))
    error = _inner(data)
    if not isinstance(error, Mapping):
        return _plain(str(error))
    text = _sentence(error)
    sources = (error,) if error is data else (error, data)
    words = " ".join(
        str(source[name]).lower()
        for source in sources
        for name in ("code", "type", "status")
        if isinstance(source.get(name), str)
    )
    numbers = (source.get(name) for source in sources for name in ("code", "status", "status_code"))
    status = next((found for number in numbers if (found := _http_status(number)) is not None), None)
    return _plain(text, words, status)


def _plain(text: str, words: str = "", status: int | None = None) -> Complaint:
    """A complaint in which the title stands for a web page, alone or behind what a gateway says of it."""
    page = _PAGE.search(text[:1_000])
    if page is None:
        return Complaint(text, words, status)
    title = _TITLE.search(text[: page.start() + 4_000], page.start())
    before = text[: page.start()].strip().rstrip("-:'\"b ")
    named = " ".join(unescape(re.sub("<[^>]*>", " ", title[1])).split()) if title else ""
    if before and not _OUTAGE.search(named):
        return Complaint(text, words, status)
    return Complaint(f"{before}: {named}" if before else "", words, status, named)


def _inner(data: Mapping[str, Any]) -> Any:
    """The part of a body that holds the complaint; the body itself where it does."""
    for name in ("error", "errors", "base_resp"):
        part = data.get(name)
        if name == "errors" and isinstance(part, list):
            part = next((each for each in part if each), None)
        if part:
            return part
    inner = data.get("data")
    return data if not isinstance(inner, Mapping) or data.get("message") else inner


_SENTENCES = ("message", "detail", "msg", "status_msg", "error_msg", "reason")


def _sentence(error: Mapping[str, Any]) -> str:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    message = next((error[name] for name in _SENTENCES if error.get(name)), "")
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    return f"{message} ({raw})" if isinstance(raw, str) and raw else message


def _http_status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def kind_of(complaint: Complaint, status: int | None, dialect: Dialect | None = None) -> ModelErrorKind:
    """The kind of a failure. `status` is the HTTP status, or None inside a stream."""
    words, text = complaint.words, complaint.text
    dialect = dialect or load(DEFAULT)
    if complaint.page is not None and (status is None or status not in _ABOUT_THE_PERSON):
        return "overloaded"
    refusal = Refusal(status or 0, text, words)
    if is_overflow(dialect, refusal):
        return "overflow"
    if _QUOTA_TEXT.search(f"{words} {text}") and (status is None or status < 500):
        return "billing"
    if status in (None, 400, 403, 422) and _FILTER_TEXT.search(f"{words} {text}"):
        return "content_filter"
    if "no_db_connection" in words or (_NO_KEY.search(f"{words} {text}") and status in (None, 400, 500)):
        # LiteLLM of a key that is not its own, or of none.
        return "auth"
    if names(dialect, refusal, "drop_image"):
        return "images"
    if status == 400 and (("model" in words and "not_found" in words) or _NO_MODEL.search(text)):
        return "not_found"
    if status is not None:
        if status in _STATUS_KINDS:
            return _STATUS_KINDS[status]
        return "overloaded" if status >= 500 else "bad_request"
    for word, kind in _WORD_KINDS:
        if word in words:
            return kind
    return "overloaded"


def is_complaint(payload: Mapping[str, Any]) -> bool:
    """Whether an object inside an answer reports an error rather than a piece of the answer."""
    if payload.get("error"):
        return True
    if payload.get("choices") is not None:
        return False
    if payload.get("object") == "error" or payload.get("type") == "error" or "detail" in payload:
        return True
    base = payload.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code"):
        return True
    if payload.get("error_code") and payload.get("error_msg"):
        return True
    # The data of an event called `error` is the complaint itself.
    return isinstance(payload.get("message"), str) and bool(payload.keys() & {"type", "code"})
