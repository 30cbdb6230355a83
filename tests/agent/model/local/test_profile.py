"""The small model's profile: compact, and guarded against guessing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.model.codecs.schema import SchemaCodec, reply_schema
from agent.model.local.profile import LOCAL, guard
from agent.model.protocol import STANDARD, Profile, ToolSpec
from tests.agent.model.offer import chat_form

FULL: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "required": ["command"],
}
OFFERED = [ToolSpec(name, "Long words.", FULL) for name in ("read_file", "patch", "terminal", "search")]


@pytest.mark.parametrize(
    "request_text",
    [
        "How many lines does poem.txt have?",
        "List the files in the folder data.",
        "What does hello.py do?",
        "Explain src/main.rs",
        "Run the tests",
        "What is the current git branch?",
        "How much disk space is free?",
        "Which version of Python is installed here?",
        "Create a folder called backup",
        "why does this script fail?",
        "what is in /etc/hosts",
        "cat ~/notes",
        "Wie viele Zeilen hat poem.txt?",
        "How do I call the function parse in this project?",
    ],
)
def test_an_answer_about_files_without_a_look_is_sent_back(request_text: str) -> None:
    nudge = guard(request_text, 0, "It has 12 lines.")
    assert nudge is not None
    assert request_text in nudge
    assert guard(request_text, 1, "It has 23 lines.") is None


@pytest.mark.parametrize(
    "request_text",
    [
        "Hello!",
        "Thank you, that was helpful!",
        "What is the capital of France?",
        "What is a class in Python?",
        "explain what a decorator is",
        "How does a file system work?",
        "What's the difference between a process and a thread?",
        "Write a haiku about rain.",
        "Who are you?",
        "",
    ],
)
def test_general_knowledge_needs_no_look(request_text: str) -> None:
    assert guard(request_text, 0, "An answer.") is None


def test_a_long_request_is_not_repeated_in_full() -> None:
    nudge = guard("Read notes.txt. " + "x" * 100_000, 0, "Done.")
    assert nudge is not None
    assert len(nudge) < 2_000


def test_braces_in_a_request_do_no_harm() -> None:
    nudge = guard("What is in {a.txt} and {0}?", 0, "Nothing.")
    assert nudge is not None
    assert "{a.txt} and {0}" in nudge


def test_the_profile_shows_few_tools_in_its_own_words() -> None:
    tools = LOCAL.offer(OFFERED)
    assert [tool.name for tool in tools] == ["terminal", "read_file", "search"]
    assert list(tools[0].parameters["properties"]) == ["command"]
    assert tools[0].description != "Long words."
    assert len(LOCAL.tools or ()) <= 5


def test_the_standard_profile_changes_nothing() -> None:
    assert STANDARD.offer(OFFERED) == tuple(OFFERED)


def test_a_profile_with_unknown_tools_offers_what_there_is() -> None:
    assert Profile(name="x", tools=("none", "patch")).offer(OFFERED) == (OFFERED[1],)


def test_the_worked_examples_keep_to_the_schema() -> None:
    tools = LOCAL.offer([ToolSpec(name, "", FULL) for name in LOCAL.tools or ()])
    arguments = {
        choice["properties"]["name"]["const"]: choice["properties"]["arguments"]
        for choice in reply_schema(tools)["anyOf"]
    }
    calls = [call for message in LOCAL.examples for call in message.tool_calls]
    assert calls
    for call in calls:
        assert set(json.loads(call.arguments)) == set(arguments[call.name]["required"])


def test_every_call_of_the_examples_is_answered() -> None:
    asked = [call.id for message in LOCAL.examples for call in message.tool_calls]
    answered = [message.call_id for message in LOCAL.examples if message.role == "tool"]
    assert asked == answered


def test_the_opening_is_short() -> None:
    """Under 600 tokens; this text has a little over 3.5 characters per token."""
    codec = SchemaCodec()
    tools = LOCAL.offer([ToolSpec(name, "", FULL) for name in LOCAL.tools or ()])
    opening = codec.system(LOCAL.system_prompt or "", tools)
    opening += "".join(json.loads(chat_form(codec, message))["content"] for message in LOCAL.examples)
    assert len(opening) < 2_000
