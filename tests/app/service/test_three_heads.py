"""Terminal, page and messenger on one session: whoever answers first decides, and all see the same end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chat_platform import until
from tests.support.chat_stage import ChatStage
from tests.support.service import Head
from tests.support.telegram_server import TelegramServer
from tests.support.thorough import thoroughly
from tests.support.three_heads import SCRIPT, Interleaving

ACTS = 10
STORED = ("user_message", "assistant_message", "tool_finished")


@pytest.fixture(scope="module")
def telegram() -> TelegramServer:
    return TelegramServer()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, telegram: TelegramServer) -> Iterator[ChatStage]:
    with ChatStage(tmp_path_factory.mktemp("heads"), telegram, script=SCRIPT) as running:
        (running.folder / "here").mkdir(exist_ok=True)
        telegram.write("say m0")
        until(lambda: any("Answer to m0" in each.text for each in telegram.shown), "the first answer")
        yield running


@pytest.fixture(scope="module")
def device(stage: ChatStage) -> Head:
    return stage.service.device("approve", "page")


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [*range(8), *thoroughly(*range(8, 200))])
async def test_all_see_the_same_end_and_an_approval_is_taken_once(
    seed: int, stage: ChatStage, telegram: TelegramServer, device: Head
) -> None:
    run = Interleaving(stage, telegram, device, seed)
    await run.begin()
    try:
        await run.go(ACTS)
        await run.settle()
        check_messages(run, stage)
        await check_stored(run, device)
        check_answers(run)
        check_chat(run)
        check_terminal(run, await asyncio.to_thread(device.events, run.session))
        # After a kill an edit that was made and not noted is made again, which the platform refuses.
        assert [each for each in telegram.refusals if "not modified" not in each] == []
    except BaseException:
        print(run.session, *run.done, sep="\n  ")
        raise
    finally:
        await run.end()


def check_messages(run: Interleaving, stage: ChatStage) -> None:
    """What somebody was told has arrived is there once; nothing appears twice, nothing from nowhere."""
    sql = (
        "SELECT content FROM nodes WHERE kind = 'user' AND session = ? "
        "AND json_extract(data, '$.origin') != 'engine'"
    )
    said = Counter(text.split()[-1] for (text,) in stage.rows(sql, run.session))
    assert [name for name, times in said.items() if times > 1] == []
    assert set(said) <= run.maybe
    back = {text.split()[-1] for text in run.terminal.given_back}
    by_terminal = {each.split()[-1] for each in run.done if each.startswith("terminal ") and " m" in each}
    assert run.sure - set(said) == set()
    assert by_terminal - set(said) - back == set()


async def check_stored(run: Interleaving, device: Head) -> None:
    """The page heard every stored message once, in order, and its events are those of the service."""
    path = f"/api/sessions/{run.session}/history?limit=500"
    _, told = await asyncio.to_thread(device.get, path)
    stored = [(each["type"], each["node"]) for each in told["events"] if each["type"] in STORED]
    heard = [
        (each["type"], each["node"])
        for each in run.page.events
        if each["type"] in STORED and each["agent"] == "main" and not each.get("parent")
    ]
    assert heard == stored
    events = await asyncio.to_thread(device.events, run.session)
    assert run.page.events == events
    # What the engine says to the model alone is nowhere an event.
    nodes = [
        node.id
        for node in run.terminal.client.path
        if node.kind in ("user", "assistant", "tool") and node.data.get("origin") != "engine"
    ]
    assert nodes == [node for _, node in stored]


def check_answers(run: Interleaving) -> None:
    """Each request ends once; who answered it second heard who was first."""
    resolved = [each for each in run.page.events if each["type"] == "request_resolved"]
    ended = {each["id"]: each for each in resolved}
    asked = {each["id"] for each in run.page.events if each["type"] in ("approval", "question")}
    assert len(resolved) == len(ended) and set(ended) == asked
    taken: Counter[str] = Counter()
    for frame, answer in run.page.told:
        if frame["type"] != "answer":
            continue
        end = ended[frame["request"]]
        if answer["type"] == "ok":
            taken[frame["request"]] += 1
            if end["outcome"] == frame["answer"]:
                assert end["by"].startswith("serve: page")
        elif answer["status"] == 409:
            assert answer["error"].startswith("This was decided already, by ")
            assert not end["by"] or end["by"] in answer["error"]
        else:
            # After a restart the service knows only what was open then.
            assert answer["status"] == 404 and run.kills
    assert all(times == 1 for times in taken.values())


def check_chat(run: Interleaving) -> None:
    """The chat has every complete answer, once, or twice where a kill cut off the sending of it."""
    said = [each["text"] for each in run.page.events if each["type"] == "assistant_message"]
    shown = Counter(each.text for each in run.chat.shown)
    for text in said:
        if text.startswith(("Answer to", "Went on")) or text.endswith("."):
            assert 1 <= shown[text] <= 1 + run.kills, f"{text!r}: {shown[text]} times in the chat"
    open_buttons = [each.text for each in run.chat.shown if each.buttons]
    # A question that was sent and not noted before a kill is sent again; nobody knows of the first one.
    assert len(open_buttons) <= run.kills


def check_terminal(run: Interleaving, events: list[dict[str, Any]]) -> None:
    """From when it came in last, the terminal heard what the service told, and it shows that all is over."""
    first = run.terminal.events[0].seq
    mine = {each.seq: each.type for each in run.terminal.events[1:]}
    told = {each["seq"]: each["type"] for each in events}
    later = {seq: kind for seq, kind in mine.items() if seq in told}
    assert all(told[seq] == kind for seq, kind in later.items())
    assert max(mine) == events[-1]["seq"], first
    assert not run.terminal.client.busy and run.terminal.client.queue == ()
