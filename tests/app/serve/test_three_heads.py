"""Terminal, page and messenger on one session: whoever answers first decides, and all see the same end."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from agent.events import AssistantMessageAdded, Decision, RequestResolved
from tests.app.serve.test_attach import Terminal, until
from tests.support.chat_stage import ChatStage
from tests.support.telegram_server import TelegramServer
from tests.support.thorough import thoroughly

pytestmark = pytest.mark.thorough
"""They start services and wait for them: too much for every run."""


@pytest.mark.parametrize("rounds", [8, *thoroughly(200)])
async def test_terminal_page_and_messenger_see_the_same_end(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    telegram = TelegramServer()
    with ChatStage(tmp_path / "stage", telegram) as stage:
        telegram.write("begin")
        await until(lambda: any("begin" in each.text for each in telegram.shown))
        (session,) = stage.rows("SELECT session FROM gateway_places")[0]
        page = stage.service.device("approve", "page")
        terminal = Terminal(stage.service)
        client = await terminal.attach(stage.folder / "here", session)
        told: list[tuple[int, Any]] = []

        async def at_terminal(asked: Any) -> None:
            client.answer(asked.id, Decision("deny"))

        async def at_page(asked: Any) -> None:
            path = f"/api/sessions/{session}/requests/{asked.id}"
            told.append(await asyncio.to_thread(page.post, path, {"answer": "deny"}))

        async def in_chat(asked: Any, _at: int) -> None:
            def seen() -> bool:
                # A question that another head answered before it was put is never put.
                over = any(isinstance(e, RequestResolved) and e.id == asked.id for e in terminal.events)
                return over or any(each.buttons for each in telegram.shown)

            await until(seen)
            if message := next((each for each in telegram.shown if each.buttons), None):
                telegram.press(message, "No")

        for number in range(rounds):
            words = f"push {number}"
            match chance.randrange(3):
                case 0:
                    client.submit(words)
                case 1:
                    await asyncio.to_thread(page.say, session, words)
                case _:
                    telegram.write(words)

            def asked_now(count: int = number + 1) -> list[Any]:
                return [each for each in terminal.events if each.type == "approval"][count - 1 :]

            await until(asked_now)
            asked = asked_now()[0]
            answers = [at_terminal(asked), at_page(asked), in_chat(asked, number)]
            chance.shuffle(answers)
            if chance.random() < 0.5:
                await asyncio.gather(*answers)
            else:
                for each in answers:
                    await each
                    await asyncio.sleep(chance.uniform(0, 0.01))
            await until(lambda n=number: terminal.types().count("turn_ended") >= n + 1)
        await asyncio.to_thread(stage.settled)
        resolved = [each for each in terminal.events if isinstance(each, RequestResolved)]
        assert len(resolved) == len({each.id for each in resolved}) == rounds
        assert all(each.outcome == "deny" and each.by for each in resolved)
        assert all(status in (200, 409) for status, _ in told) and len(told) == rounds
        by_page = [each for each in resolved if each.by.startswith("serve: page")]
        assert len(by_page) == sum(status == 200 for status, _ in told)
        # The same end everywhere: terminal, page (its stored events), chat, store.
        said = [
            each.text for each in terminal.events if isinstance(each, AssistantMessageAdded) and each.text
        ]
        events = await asyncio.to_thread(page.events, session)
        shown = [e["text"] for e in events if e["type"] == "assistant_message" and e["text"]]
        assert shown[-rounds:] == said == ["Pushed or not."] * rounds
        await until(lambda: sum(e.text == "Pushed or not." for e in telegram.shown) == rounds)
        asks = [each for each in telegram.shown if "May I?" in each.text]
        assert len(asks) <= rounds
        await until(lambda: all("✗ no" in each.text and not each.buttons for each in asks))
        assert telegram.refusals == []
        await client.aclose()
