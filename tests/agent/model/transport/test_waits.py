"""How long a provider asks to wait, under the names that real ones use."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import RetryScheduled
from agent.model.transport.waits import asked_wait
from tests.support.engines import bench
from tests.support.model_server import say
from tests.support.replies import Reply

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = NOW.timestamp()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}, 60),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 -0100"}, 3660),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0),
        ({"llm_provider-retry-after": "12"}, 12),
        ({"llm_provider-retry-after": "12", "retry-after": "3"}, 3),
        ({"llm_provider-retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "800"}, 0.8),
        ({"x-retry-after": "4"}, 4),
        ({"x-ratelimit-retry-after": "5"}, 5),
        ({"do-not-retry-afterwards": "5"}, None),
        # Limits that are reset: OpenAI and Groq, Anthropic, OpenRouter, GitHub, Cerebras, the drafts.
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 360),
        ({"x-ratelimit-reset-tokens": "7.66s", "x-ratelimit-reset-requests": "2m59.56s"}, 7.66),
        (
            {
                "x-ratelimit-reset-tokens": "20ms",
                "x-ratelimit-remaining-tokens": "4000",
                "x-ratelimit-reset-requests": "8.5s",
                "x-ratelimit-remaining-requests": "0",
            },
            8.5,
        ),
        ({"llm_provider-x-ratelimit-reset-requests": "3s"}, 3),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T00:00:30Z"}, 30),
        ({"x-ratelimit-reset": str(int((SECONDS + 40) * 1000))}, 40),
        ({"x-ratelimit-reset": str(int(SECONDS + 41))}, 41),
        ({"x-ratelimit-reset-requests-day": "33011.4", "x-ratelimit-reset-tokens-minute": "11.4"}, 11.4),
        ({"x-ratelimit-reset-requests-day": "33011.4"}, None),
        ({"ratelimit": '"default";r=0;t=50'}, 50),
        ({"ratelimit": "limit=100, remaining=0, reset=20"}, 20),
        ({"ratelimit-reset": "9", "ratelimit-remaining": "0"}, 9),
        ({"x-ratelimit-remaining-requests": "-2"}, None),
    ],
)
def test_the_wish_to_wait_is_read_under_every_name(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers, 429, now=NOW) == pytest.approx(seconds)


def test_a_limit_that_was_not_reached_delays_nothing() -> None:
    assert asked_wait({"x-ratelimit-reset-requests": "60s"}, 500, now=NOW) is None


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Rate limit reached for gpt-5 in organization x: Limit 3. Please try again in 20s.", 20),
        ("Limit 6000, Used 5800. Please try again in 7.66s. Need more tokens?", 7.66),
        ("Please try again in 6m0.5s.", 360.5),
        ("Please retry after 13 seconds.", 13),
        ("Please retry in 34.07s.", 34.07),
        ("Please try again in 500ms", 0.5),
        ("wait 2 minutes", 120),
        ("Too many requests. Try again later.", None),
        ("Try again in 3 hops", None),
    ],
)
def test_a_sentence_says_how_long(said: str, seconds: float | None) -> None:
    assert asked_wait({}, 429, json.dumps({"error": {"message": said}}), NOW) == pytest.approx(seconds)


def test_fields_of_the_body_say_it_too() -> None:
    google = [{"error": {"details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}]
    assert asked_wait({}, 429, json.dumps(google), NOW) == 34.5
    assert asked_wait({}, 429, '{"retry_after": 2.5}', NOW) == 2.5
    assert asked_wait({}, 429, '{"retry_after_ms": 300}', NOW) == 0.3
    assert asked_wait({"llm_provider-retry-after": "3"}, 429, '{"retry_after": 9}', NOW) == 3


@pytest.mark.thorough
@given(st.text(max_size=60), st.text(max_size=200))
def test_no_header_and_no_body_is_too_odd(value: str, body: str) -> None:
    names = ("retry-after", "retry-after-ms", "x-ratelimit-reset", "ratelimit")
    for name in names:
        wait = asked_wait({name: value}, 429, body)
        assert wait is None or wait >= 0


async def test_a_gateway_that_renames_the_header_is_waited_for_and_the_notice_says_how_long(
    tmp_path: Path,
) -> None:
    error = {
        "message": "litellm.RateLimitError: Rate limit reached for requests",
        "type": "throttling_error",
        "param": None,
        "code": "429",
    }
    limited = Reply(
        status=429,
        headers={"llm_provider-retry-after": "1.5"},
        content_type="application/json",
        body=json.dumps({"error": error}).encode(),
    )
    async with bench(tmp_path, [limited, say("Here.")]) as b:
        assert (await b.turn("Hi")).text == "Here."
        retry = b.seen(RetryScheduled)[0]
        assert retry.delay == 1.5
        assert "Trying again in 1.5 s" in retry.notice()[1]
