"""Several keys for one provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from agent.events import Noticed, RetryScheduled
from tests.support.engines import Bench, bench
from tests.support.model_server import Reply
from tests.support.replies import say


def configured(b: Bench, **keys: str) -> None:
    """A provider at the server with a key for each variable."""
    first, *more = keys
    b.environ |= keys
    b.config(
        f"providers: {{lab: {{base_url: '{b.server.base_url}', api_key_env: {first}, "
        f"more_key_envs: [{', '.join(more)}]}}}}\nmodel: {{name: lab/scripted, retries: 2}}\n"
    )
    b.environ["HERMES_MODEL"] = "lab/scripted"


def used(b: Bench) -> list[str]:
    """The keys of the requests, in order."""
    return [request.headers["authorization"].removeprefix("Bearer ") for request in b.server.requests]


def refusing(*answers: tuple[str, int]) -> Any:
    """A model that answers all keys but these, which get a status."""
    statuses = dict(answers)

    def script(request: Any) -> Reply:
        key = request.headers["authorization"].removeprefix("Bearer ")
        return Reply(status=statuses[key], body=b"{}") if key in statuses else say("Yes.")

    return script


async def test_a_key_that_is_refused_for_now_is_followed_by_the_next_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, refusing(("key-a", 429))) as b:
        configured(b, KEY_A="key-a", KEY_B="key-b", KEY_C="key-c")
        async with b.engine() as engine:
            for message in ("One.", "Two."):
                ended = await engine.run(message)
                assert ended.outcome == "done", ended.error
        # The key that answered stays in use, since the cache belongs to its account.
        assert used(b) == ["key-a", "key-b", "key-b"]
        assert b.seen(RetryScheduled) == []


async def test_a_key_that_is_no_longer_valid_is_named_once_and_never_shown(tmp_path: Path) -> None:
    async with bench(tmp_path, refusing(("key-aaaa", 401), ("key-bbbb", 402))) as b:
        configured(b, KEY_A="key-aaaa", KEY_B="key-bbbb", KEY_C="key-cccc")
        async with b.engine() as engine:
            for message in ("One.", "Two."):
                assert (await engine.run(message)).outcome == "done"
        assert used(b) == ["key-aaaa", "key-bbbb", "key-cccc", "key-cccc"]
        told = [event.text for event in b.seen(Noticed) if event.kind == "warning"]
        assert [text.split(" is not used")[0] for text in told] == ["KEY_A", "KEY_B"]
        assert "key-aaaa" not in str(b.events)


async def test_when_all_keys_are_refused_it_is_told_once_and_tried_again_later(tmp_path: Path) -> None:
    async with bench(tmp_path, refusing(("key-a", 401), ("key-b", 403))) as b:
        configured(b, KEY_A="key-a", KEY_B="key-b")
        async with b.engine() as engine:
            ended = await engine.run("One.")
        assert ended.outcome == "failed" and "KEY_B" in (ended.error or "")
        assert used(b) == ["key-a", "key-b"]


async def test_a_further_key_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    async with bench(tmp_path, refusing()) as b:
        configured(b, KEY_A="key-a", KEY_B="key b")
        with pytest.raises(ConfigError, match="The key in KEY_B holds a blank"):
            async with b.engine():
                pass
