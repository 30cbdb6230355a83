"""What providers say about failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelErrorKind
from agent.model.dialect import DEFAULT, load
from agent.model.repairs import window_in
from agent.model.transport.failures import Complaint, is_complaint, kind_of, read_complaint

OVERFLOWS = [
    "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "the request exceeds the available context size, try increasing it",
    "The input token count (1189393) exceeds the maximum number of tokens allowed (1048576).",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Input is too long for requested model.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4500 `inputs` tokens",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Trying to keep the first 8192 tokens when context the overflows.",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "Your request exceeded model token limit: 131072",
    "Prompt exceeds max length",
    "context window exceeds limit (2013)",
    "The prompt size exceeds the context window size and cannot be processed.",
    "Range of input length should be [1, 30720]",
    "prompt token count of 130000 exceeds the limit of 128000",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
    "Error code: context_length_exceeded",
    "max_tokens (4096) + prompt tokens (130000) > model context length 131072",
    "The input (40000 tokens) is longer than the model's context length (32768 tokens)",
    "tokens in request more than max tokens allowed",
    "Request too large for model",
    "Input token length too long",
    "Conversation too long: 200001 tokens > 200000",
]
OTHERS: list[tuple[int | None, str, ModelErrorKind]] = [
    (400, "Invalid value for 'content': expected a string, got null.", "bad_request"),
    (
        400,
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "bad_request",
    ),
    (429, "Rate limit reached on tokens per min (TPM): Limit 30000. Please reduce the length.", "rate_limit"),
    (429, "Too many tokens, please wait before trying again.", "rate_limit"),
    (429, "You exceeded your current quota, please check your plan and billing details.", "billing"),
    (400, "Used tokens exceed the limit of 30000 tokens per minute.", "bad_request"),
    (400, "Your credit balance is too low to access the API.", "billing"),
    (403, "Your input was flagged by moderation", "content_filter"),
    (400, "The response was filtered due to content management policy", "content_filter"),
    (400, "Violated guardrail policy", "content_filter"),
    (400, "Content Exists Risk", "content_filter"),
    (400, "Input data may contain inappropriate content.", "content_filter"),
    (400, "The request was rejected because it was considered high risk", "content_filter"),
    (501, "not implemented", "overloaded"),
    (451, "unavailable for legal reasons", "bad_request"),
    # What the model wrote is not the form of the request, from which something would be learned for good.
    (500, "Failed to parse input at pos 12: <tool_call> the prompt is too long </tool_call>", "bad_reply"),
    (500, "Failed to parse tool call arguments as JSON: parse error at line 1, column 62072", "bad_reply"),
    (500, "error parsing tool call: raw='{', err=unexpected end of JSON input", "bad_reply"),
    (500, "XML syntax error on line 9: element <parameter> closed by </function>", "bad_reply"),
    (400, "Failed to call a function. See 'failed_generation' for more details.", "bad_reply"),
    (400, "tool call validation failed: attempted to call tool 'Read'", "bad_reply"),
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_is_known_by_the_words_of_every_server(text):
    assert kind_of(Complaint(text), 400) == "overflow"
    assert kind_of(Complaint(text), None) == "overflow"


REAL = [line.split("\t") for line in (Path(__file__).parent / "overflows.tsv").read_text().splitlines()]
"""Who says it, what they say, the window they name if they do."""


@pytest.mark.sample(31)
@pytest.mark.parametrize(("who", "text", "window"), REAL)
def test_what_providers_really_say_is_known_with_the_window_they_name(who, text, window):
    assert kind_of(Complaint(text), 400) == "overflow", who
    assert window_in(load(DEFAULT), text) == (int(window) if window else None)


def bodies(name: str) -> list[list[str]]:
    """Bodies of answers in the words that are reported of each: who, the HTTP status, the window."""
    return [line.split("\t") for line in (Path(__file__).parent / name).read_text().splitlines()]


@pytest.mark.sample(32)
@pytest.mark.parametrize(("who", "status", "window", "body"), bodies("overflow_bodies.tsv"))
def test_whole_bodies_of_providers_are_known_for_an_overflow(who, status, window, body):
    complaint = read_complaint(body.encode())
    assert kind_of(complaint, int(status)) == "overflow", who
    assert window_in(load(DEFAULT), complaint.text) == (int(window) if window else None)


@pytest.mark.parametrize(("who", "status", "body"), bodies("other_bodies.tsv"))
def test_whole_bodies_about_something_else_are_not_taken_for_an_overflow(who, status, body):
    assert kind_of(read_complaint(body.encode()), int(status)) != "overflow", who


@pytest.mark.parametrize(("status", "text", "kind"), OTHERS)
def test_other_failures_are_not_taken_for_an_overflow(status, text, kind):
    assert kind_of(Complaint(text), status) == kind


@pytest.mark.parametrize(
    ("body", "text", "words"),
    [
        ({"error": {"message": "m", "type": "T", "code": "c"}}, "m", "c t"),
        ({"error": "m"}, "m", ""),
        ({"detail": "m"}, "m", ""),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, '[{"loc": ["body"], "msg": "m"}]', ""),
        ([{"error": {"message": "m", "status": "RESOURCE_EXHAUSTED"}}], "m", "resource_exhausted"),
        ({"object": "error", "message": "m", "type": "X"}, "m", "x"),
        ({"error": {"message": "m", "metadata": {"raw": "why"}}}, "m (why)", ""),
        ("m", "m", ""),
        (None, "", ""),
    ],
)
def test_a_complaint_is_read_in_every_shape(body, text, words):
    complaint = read_complaint(json.dumps(body).encode())
    assert (complaint.text, complaint.words) == (text, words)


def test_a_page_is_no_complaint_and_plain_text_is():
    page = read_complaint(b" <html><h1>502</h1></html>")
    assert (page.text, page.page) == ("", "502")
    assert read_complaint(b"no healthy upstream\n").text == "no healthy upstream"
    assert read_complaint(b"").text == ""


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"error": {"message": "x"}}, True),
        ({"error": {"message": "x"}, "choices": []}, True),
        ({"error": None, "choices": []}, False),
        ({"choices": [], "detail": "x"}, False),
        ({"detail": "x"}, True),
        ({"type": "error"}, True),
        ({"object": "error", "message": "x"}, True),
        ({"usage": {}}, False),
        ({}, False),
    ],
)
def test_an_error_inside_an_answer_is_told_from_a_piece_of_it(payload, expected):
    assert is_complaint(payload) is expected


@given(st.binary(max_size=100))
def test_no_body_is_too_odd(body):
    kind_of(read_complaint(body), 400)


def test_the_data_of_an_error_event_is_a_complaint_and_a_chunk_is_none():
    assert is_complaint({"type": "overloaded_error", "message": "Overloaded"})
    assert is_complaint({"code": 503, "message": "Loading model"})
    assert not is_complaint({"message": {"role": "assistant", "content": "Hi"}, "type": "message"})
    assert not is_complaint({"choices": [], "message": "Hi", "type": "chunk"})


def test_a_gateway_without_a_database_speaks_of_a_key_that_is_not_its_own() -> None:
    said = {
        "error": {"message": "No connected db.", "type": "no_db_connection", "param": None, "code": "400"}
    }
    assert kind_of(read_complaint(json.dumps(said).encode()), 400) == "auth"


def gateway(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "APIError", "code": "500"}}).encode()


CHALLENGE = (
    b'<!DOCTYPE html>\n<!--[if lt IE 7]><html class="ie6"><![endif]--><head>\n<title>Just a moment...</title>'
)


@pytest.mark.parametrize(
    ("status", "body", "kind", "title"),
    [
        (
            502,
            b"<html>\r\n<head><title>502 Bad Gateway</title></head></html>",
            "overloaded",
            "502 Bad Gateway",
        ),
        (
            520,
            b"<!DOCTYPE html><title>api | 520: Unknown &amp; odd</title>",
            "overloaded",
            "520: Unknown & odd",
        ),
        (403, CHALLENGE, "overloaded", "Just a moment..."),
        (
            400,
            b"<html><center><h1>400 Header\n Too Large</h1></center>",
            "overloaded",
            "400 Header Too Large",
        ),
        (500, gateway("APIError: <html><title>502 Bad Gateway</title>"), "overloaded", "502 Bad Gateway"),
        (400, gateway("BadRequest - <!DOCTYPE html><title>504 Gateway Time-out"), "bad_request", None),
        (
            400,
            gateway("BadRequest - <html><h1>504 Gateway Time-out</h1>"),
            "overloaded",
            "504 Gateway Time-out",
        ),
        (400, gateway("content '<html><h1>My page</h1>' must not be empty"), "bad_request", None),
        (401, b"<html><title>401 Authorization Required</title>", "auth", "401 Authorization Required"),
        (404, b"<html><title>Nothing here</title>", "not_found", "Nothing here"),
        (500, gateway("Authentication Error, No api key passed in."), "auth", None),
    ],
)
def test_the_page_of_a_proxy_is_an_outage_with_its_title(status, body, kind, title):
    complaint = read_complaint(body)
    assert kind_of(complaint, status) == kind
    assert (complaint.page or "").endswith(title or "") and (complaint.page is None) == (title is None)
    assert title is None or "<" not in complaint.text
