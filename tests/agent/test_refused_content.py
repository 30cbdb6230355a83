"""What a provider refuses for its content stays in the session, and is not sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import bench
from tests.support.replies import call, refuse, say

FILTER = refuse(
    400,
    "The response was filtered due to the prompt triggering the content management policy.",
    code="content_filter",
)


def guarded(answer: Any) -> Any:
    """A script behind a guardrail that refuses every request with a certain word."""
    return lambda request: FILTER if b"forbidden" in request.raw else answer(request)


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", ["message", "result"])
async def test_a_session_goes_on_after_a_message_or_a_result_was_refused(tmp_path: Path, where: str) -> None:
    def answer(request: Any) -> Any:
        last = request.messages[-1]
        if last["role"] == "user" and "read" in last["content"]:
            return call("read_file", path="notes.txt")
        return say("Fine.")

    async with bench(tmp_path, guarded(answer)) as b:
        (b.workspace / "notes.txt").write_text("a forbidden word\n")
        assert (await b.turn("Hello")).text == "Fine."
        refused = await b.turn("forbidden" if where == "message" else "read it", resume_last=True)
        assert (refused.outcome, refused.exit_code) == ("failed", 3)
        assert "refused the content" in refused.error
        for text in ("Something else", "And more"):
            ended = await b.turn(text, resume_last=True)
            assert (ended.outcome, ended.text) == ("done", "Fine."), ended.error


async def test_it_is_left_out_of_an_open_session_as_of_one_that_goes_on_later(tmp_path: Path) -> None:
    async with bench(tmp_path, guarded(lambda request: say("Fine."))) as b:
        async with b.engine() as engine:
            outcomes = [
                (await engine.run(text)).outcome
                for text in ("Hello", "forbidden", "Else", "forbidden too", "More")
            ]
        assert outcomes == ["done", "failed", "done", "failed", "done"]
        sent = b.server.requests[-1].messages
        assert (await b.turn("Last", resume_last=True)).outcome == "done"
        again = b.server.requests[-1].messages
        assert [each["role"] for each in sent[-4:]] == ["user", "assistant", "user", "user"]
        assert again[: len(sent)] == sent
