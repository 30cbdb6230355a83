from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_context import FakeContext
from tools.context import FoundMessage, FoundNote, FoundSession
from tools.registry import call_tool, registry
from tools.results import ToolError
from tools.session_search_tool import MAX_MESSAGE, parse_time

NOW = 1_800_000_000.0


def found(number: int, text: str = "we chose the Fenwick tree") -> FoundSession:
    return FoundSession(
        session=f"s{number}",
        title=f"Session {number}",
        started=NOW + number,
        match=number,
        snippet="…Fenwick…",
        messages=(
            FoundMessage(number - 1, "user", NOW, "which structure?"),
            FoundMessage(number, "assistant", NOW, text, is_match=True),
        ),
    )


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path)


async def search(context: FakeContext, **arguments: Any) -> dict[str, Any]:
    return json.loads(await call_tool("session_search", arguments, context))


async def test_hits_come_with_the_real_messages_around_them(context: FakeContext) -> None:
    context.sessions.found = [found(1)]
    answer = await search(context, query="fenwick")
    assert answer["total"] == 1
    hit = answer["results"][0]
    assert (hit["session_id"], hit["title"], hit["match_message_id"]) == ("s1", "Session 1", 1)
    assert [message["text"] for message in hit["messages"]] == [
        "which structure?",
        "we chose the Fenwick tree",
    ]
    assert [message.get("match", False) for message in hit["messages"]] == [False, True]
    assert datetime.fromisoformat(hit["started"]).timestamp() == NOW + 1


async def test_filters_reach_the_store(context: FakeContext) -> None:
    await search(
        context,
        query=" a b ",
        role_filter="user, Assistant",
        since="2026-01-01",
        until="2026-01-31",
        session_id="s9",
        limit="3",
        offset=6,
    )
    assert context.sessions.queries == [
        {
            "query": "a b",
            "roles": ("user", "assistant"),
            "session": "s9",
            "since": datetime(2026, 1, 1).timestamp(),
            "until": datetime(2026, 2, 1).timestamp(),
            "limit": 3,
            "offset": 6,
            "window": 3,
            "mode": "auto",
        }
    ]


async def test_the_next_page_is_named_while_there_is_one(context: FakeContext) -> None:
    context.sessions.found = [found(number) for number in range(5)]
    first = await search(context, query="x", limit=3)
    assert first["next_offset"] == 3
    second = await search(context, query="x", limit=3, offset=3)
    assert len(second["results"]) == 2 and "next_offset" not in second


async def test_nothing_found_says_what_to_try(context: FakeContext) -> None:
    answer = await search(context, query="x")
    assert answer["results"] == [] and "fewer" in answer["hint"]


async def test_notes_stand_among_the_results(context: FakeContext) -> None:
    context.sessions.found = [FoundNote("memory", "MEMORY.md", "use \x1b[1mtabs", NOW, ("words",)), found(1)]
    answer = await search(context, query="tabs")
    note = answer["results"][0]
    assert (note["source"], note["title"], note["text"]) == ("memory", "MEMORY.md", "use tabs")
    assert note["found_by"] == ["words"] and "time" in note
    assert answer["results"][1]["session_id"] == "s1"


async def test_a_page_past_the_end_is_empty_but_not_called_nothing_found(context: FakeContext) -> None:
    context.sessions.found = [found(1)]
    answer = await search(context, query="x", offset=5)
    assert answer["results"] == [] and "hint" not in answer and answer["total"] == 1


async def test_a_long_message_is_cut_and_says_so(context: FakeContext) -> None:
    context.sessions.found = [found(1, "y" * (MAX_MESSAGE + 1_234))]
    text = (await search(context, query="y"))["results"][0]["messages"][1]["text"]
    assert text.endswith("… [1,234 more characters]")


async def test_terminal_control_in_stored_text_does_not_come_back(context: FakeContext) -> None:
    context.sessions.found = [found(1, "a\x1b]52;c;eA==\x07b")]
    answer = await search(context, query="a")
    assert answer["results"][0]["messages"][1]["text"] == "ab"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": "  "}, "empty"),
        ({"query": "x", "role_filter": ["root"]}, "Unknown role 'root'"),
        ({"query": "x", "since": "last spring"}, "Cannot read the time"),
        ({"query": "x", "since": "2026-02-01", "until": "2026-01-01"}, "swap"),
        ({"query": "x", "limit": 0}, "at least 1"),
        ({"query": "x", "offset": -1}, "at least 0"),
    ],
)
async def test_a_wrong_request_is_refused_before_the_search(
    context: FakeContext, arguments: dict[str, Any], said: str
) -> None:
    assert said in (await search(context, **arguments))["error"]
    assert not context.sessions.queries


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7d", 7 * 86_400), ("12h", 43_200), ("2 W", 1_209_600), ("90m", 5_400)],
)
def test_a_span_counts_back_from_now(text: str, seconds: int) -> None:
    assert parse_time(text, end=False, now=NOW) == NOW - seconds


def test_a_time_with_a_zone_is_exact_and_a_date_at_the_end_includes_its_day() -> None:
    moment = datetime(2026, 1, 31, 14, tzinfo=UTC).timestamp()
    assert parse_time("2026-01-31T14:00Z", end=False, now=NOW) == moment
    assert parse_time("2026-01-31", end=True, now=NOW) == datetime(2026, 2, 1).timestamp()
    assert parse_time("2026-01-31T14:00", end=True, now=NOW) == datetime(2026, 1, 31, 14).timestamp()


@pytest.mark.parametrize(
    "text", ["", "d", "-3d", "9999-12-31", "0001-01-01", "2026-13-01", "99999999d", "x\x1b[m"]
)
def test_a_time_without_meaning_is_refused_or_a_number(text: str) -> None:
    try:
        assert isinstance(parse_time(text, end=True, now=NOW), float)
    except ToolError as error:
        assert str(error).isprintable()


def test_the_display_counts_matches() -> None:
    entry = registry.get("session_search")
    assert entry is not None and entry.describe is not None
    assert entry.describe({"query": "x"}, {"total": 1}).summary == "1 match"
    assert entry.describe({"query": "x"}, {"total": 0}).summary == "0 matches"
    assert entry.describe({}, None).subject == ""
    assert entry.read_only
