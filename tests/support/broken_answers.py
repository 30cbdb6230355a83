"""Answers that break off, are not answers, or refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from tests.support.fault_kit import Change, Fault, edited, insert, raw, refusal, sent
from tests.support.odd_answers import drop_done, finish

STALL = 30.0
"""Seconds of a stall: longer than any stall timeout a test sets."""

BROKEN: dict[str, Fault] = {}


def _add(name: str, effect: str, change: Change) -> None:
    BROKEN[name] = Fault(name, effect, change)


# Broken off

_add("cut_by_close", "cut", sent(cut_at=250))
_add("cut_by_reset", "cut", sent(cut_at=250, cut="rst"))
_add("cut_cleanly", "cut", sent(cut_at=250, cut="clean"))
_add("closed_without_answer", "cut", sent(cut_at=0))
_add("reset_without_answer", "cut", sent(cut_at=0, cut="rst"))
_add("missing_finish_and_done", "cut", lambda reply: edited(drop_done)(replace(reply, finish=None)))
_add("empty_body", "cut", sent(body=b"", content_type="text/event-stream"))
_add("only_comments", "cut", sent(body=b": nothing\n\n: at all\n\n", content_type="text/event-stream"))
_add("finish_error", "cut", finish("error"))
_add("cut_json", "cut", sent(stream=False, cut_at=-20))
_add("stalled_at_once", "timeout", sent(stall_at=0, stall=STALL))
_add("stalled", "timeout", sent(stall_at=250, stall=STALL))
_add("no_headers", "timeout", sent(delay=STALL))


# Not an answer

_add("malformed_json", "bad_reply", edited(insert(2, '{"choices": [{"delta": {"content": "half')))
_add("not_json", "bad_reply", edited(insert(1, "pong")))
_add("deep_json", "bad_reply", edited(insert(1, "[" * 200_000)))
_add("huge_line", "bad_reply", edited(insert(1, "x" * (17 * 1024 * 1024))))
_add("html_page", "bad_reply", raw("text/html", b"<!doctype html><html><body>Sign in</body></html>"))
_add("html_as_event_stream", "bad_reply", raw("text/event-stream", b"<html><body>Sign in</body></html>"))
_add("json_of_something_else", "bad_reply", raw("application/json", b'{"status": "ok"}'))
_add("json_list", "bad_reply", raw("application/json", b"[1, 2]"))
_add("plain_text", "bad_reply", raw("text/plain", b"It works!"))
_add("bad_gzip", "bad_reply", raw("text/event-stream", b"data: {}\n\n", headers={"content-encoding": "gzip"}))
_add("html_error_page", "overloaded", raw("text/html", b"<html><h1>502 Bad Gateway</h1></html>", 502))
_add(
    "redirect",
    "not_found",
    raw("text/html", b"", 307, {"location": "https://elsewhere.example/v1"}),
)


# Refusals by status

_SOON = datetime.now(UTC) + timedelta(hours=1)
_add("rate_limit", "rate_limit", refusal(429, "Rate limit reached", code="rate_limit_exceeded"))
_add("rate_limit_seconds", "rate_limit", refusal(429, "Slow down", headers={"retry-after": "2"}))
_add(
    "rate_limit_ms",
    "rate_limit",
    refusal(429, "Slow down", headers={"retry-after-ms": "15", "retry-after": "9"}),
)
_add(
    "rate_limit_date",
    "rate_limit",
    refusal(429, "Slow", headers={"retry-after": format_datetime(_SOON, True)}),
)
_add("rate_limit_nonsense", "rate_limit", refusal(429, "Slow down", headers={"retry-after": "soon"}))
for _status in (500, 502, 503, 504, 529):
    _add(f"status_{_status}", "overloaded", refusal(_status, "The server had an error", kind="server_error"))
_add("status_408", "timeout", refusal(408, "Request timeout"))
_add("status_400", "bad_request", refusal(400, "Invalid value: 'x'.", code="invalid_value"))
_add(
    "status_401", "auth", refusal(401, "Incorrect API key provided: sk-wro*****ong.", code="invalid_api_key")
)
_add("status_402", "billing", refusal(402, "Insufficient credits"))
_add("quota", "billing", refusal(429, "You exceeded your current quota", code="insufficient_quota"))
_add("status_403", "auth", refusal(403, "Country, region, or territory not supported"))
_add("status_404", "not_found", refusal(404, "The model `x` does not exist", code="model_not_found"))
_add("status_418_without_body", "bad_request", raw("text/plain", b"", 418))
_add("content_filter", "content_filter", refusal(400, "The response was filtered", code="content_filter"))


# Too large for the window, in the words of different servers

_OVERFLOWS: dict[str, tuple[int, dict[str, Any] | str]] = {
    "openai": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, your messages "
                "resulted in 200000 tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "llama_cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 8192,
            }
        },
    ),
    "llama_cpp_old": (
        500,
        {"error": {"code": 500, "message": "context size has been exceeded", "type": "server_error"}},
    ),
    "anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 213462 tokens > 200000 maximum",
            },
        },
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (1000 in the messages, 4000 in the completion).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "gemini": (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1189393) exceeds the maximum number of tokens "
                "allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "type": "invalid_request_prompt",
        },
    ),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "payload": (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
}
for _name, (_code, _error) in _OVERFLOWS.items():
    _text = _error if isinstance(_error, str) else json.dumps(_error)
    _add(f"overflow_{_name}", "overflow", raw("application/json", _text.encode(), _code))


# Errors in the middle of a stream


def _stream_error(error: Any) -> Change:
    return edited(insert(2, error))


_add(
    "stream_error",
    "overloaded",
    _stream_error({"error": {"message": "The server had an error", "type": "server_error"}}),
)
_add("stream_error_text", "overloaded", _stream_error({"error": "upstream went away"}))
_add(
    "stream_error_anthropic",
    "overloaded",
    _stream_error({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
)
_add(
    "stream_error_status",
    "rate_limit",
    _stream_error({"error": {"message": "Slow down", "code": 429}, "choices": []}),
)
_add("stream_error_vllm", "bad_request", _stream_error({"object": "error", "message": "bad", "code": 400}))
_add(
    "stream_error_overflow",
    "overflow",
    _stream_error({"error": {"message": "x", "code": "context_length_exceeded"}}),
)
_add(
    "error_with_status_200",
    "auth",
    raw("application/json", b'{"error": {"message": "bad key", "code": 401}}'),
)
