from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_context import FakeContext
from tools.clarify_tool import ADVICE
from tools.context import PersonAnswer
from tools.registry import call_tool, registry


async def ask(context: FakeContext, **arguments: Any) -> dict[str, Any]:
    return json.loads(await call_tool("clarify", arguments, context))


async def test_an_answer_comes_back_with_its_question(tmp_path: Path) -> None:
    context = FakeContext(tmp_path, answers=["blue"])
    answer = await ask(context, question="Which colour?", choices=["red", "blue"])
    assert answer == {"question": "Which colour?", "outcome": "answered", "answer": "blue"}
    assert context.asker.asked == [("Which colour?", ("red", "blue"), True)]


@pytest.mark.parametrize("outcome", ["declined", "expired", "cancelled"])
async def test_no_answer_is_never_taken_for_a_choice(tmp_path: Path, outcome: Any) -> None:
    context = FakeContext(tmp_path, answers=[PersonAnswer(outcome, "red")])
    answer = await ask(context, question="Which?", choices=["red"])
    assert answer["outcome"] == outcome
    assert answer["answer"] is None
    assert answer["hint"] == ADVICE[outcome]
    assert "error" not in answer


async def test_when_nobody_is_there_the_model_is_told(tmp_path: Path) -> None:
    answer = await ask(FakeContext(tmp_path), question="Which?")
    assert answer["outcome"] == "declined"
    assert "nobody is there" in answer["hint"]


@pytest.mark.parametrize("field", ["label", "description", "text", "title"])
async def test_choices_written_as_objects_are_unwrapped(tmp_path: Path, field: str) -> None:
    context = FakeContext(tmp_path, answers=["a"])
    await ask(context, question="Which?", choices=[{field: "a"}, {field: "b"}])
    assert context.asker.asked[0][1] == ("a", "b")


async def test_more_than_six_choices_are_refused(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    answer = await ask(context, question="Which?", choices=list("abcdefg"))
    assert "at most 6 items" in answer["error"]
    assert not context.asker.asked


async def test_equal_and_empty_choices_are_shown_once_or_not_at_all(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    await ask(context, question="Which?", choices=["a", " a", "", "b"])
    assert context.asker.asked[0][1] == ("a", "b")


async def test_a_question_without_choices_can_always_be_answered_freely(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    await ask(context, question="Why?", allow_freetext=False)
    await ask(context, question="Which?", choices=["a"], allow_freetext=False)
    assert [freetext for _, _, freetext in context.asker.asked] == [True, False]


@pytest.mark.parametrize("question", ["", "  ", "\x1b[2J"])
async def test_an_empty_question_is_not_asked(tmp_path: Path, question: str) -> None:
    context = FakeContext(tmp_path)
    assert "empty" in (await ask(context, question=question))["error"]
    assert not context.asker.asked


async def test_terminal_control_reaches_neither_person_nor_model(tmp_path: Path) -> None:
    context = FakeContext(tmp_path, answers=["ye\x1b[8ms"])
    answer = await ask(context, question="A\x1b]0;x\x07B", choices=["c\x9b1mD"])
    assert context.asker.asked == [("AB", ("cD",), True)]
    assert answer["answer"] == "yes"


def test_the_display_tells_the_outcome() -> None:
    entry = registry.get("clarify")
    assert entry is not None and entry.describe is not None
    asked = {"question": "Which\none?"}
    assert entry.describe(asked, None).subject == "Which one?"
    assert entry.describe(asked, {"outcome": "answered", "answer": "a"}).summary == "a"
    assert entry.describe(asked, {"outcome": "expired", "answer": None}).summary == "expired"
    assert entry.describe({}, {"error": "bad"}).summary == "bad"
