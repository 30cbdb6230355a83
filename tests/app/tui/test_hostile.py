"""Hostile text of all sorts in the places of the running application, to the byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    ApprovalAsked,
    AssistantMessageAdded,
    FileChange,
    FilesChanged,
    Noticed,
    QuestionAsked,
    QueueChanged,
    ReasoningAdded,
    ReplyCut,
    SessionOpened,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from app.tui.questions.dialogs import ApprovalDialog, ClarifyDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog, DetailScreen, Dialog
from tests.support.hostile import KINDS, SHORT, Kind, some_or_all
from tests.support.watched import Watch, watched
from tools.context import Todo
from tools.results import DiffDetail, Display, TextDetail
from tools.text.safe_text import clean, reveal
from widgets.panes.agents import AgentRow
from widgets.rows.reader import Reader

SIZE = (110, 40)
NUMBERED = [kind.numbered(number) for number, kind in enumerate(KINDS)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMES_REDUCED_MOTION", "1")


def display(text: str) -> Display:
    return Display(text, text, text, TextDetail(text, "python"))


def one_session(text: str) -> list[Any]:
    """A session in which every field of every event is `text`."""
    edit = Display(
        "edit", text, text, DiffDetail(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{text[:99]}\n+{text[:99]}\n")
    )
    call = {"node": 1, "seconds": 0.1}
    return [
        SessionOpened(session=text[:50], title=text, model=text, workspace=f"/{text}"),
        UserMessageAdded(node=1, text=text),
        ReasoningAdded(text=text),
        *(TextAdded(text=piece) for piece in (text[:7], text[7:12], text[12:])),
        AssistantMessageAdded(node=2, text=text, reasoning=text),
        ToolStarted(call="a", tool=text, arguments={text[:50]: text}, display=display(text)),
        ToolProgressed(call="a", text=text),
        ToolFinished(call="a", tool=text, outcome="failed", result=text, display=display(text), **call),
        ToolStarted(call="b", tool="patch", arguments={}, display=edit),
        ToolFinished(call="b", tool="patch", outcome="done", result=text, display=edit, **call),
        ToolStarted(agent=text[:30], call="c", tool=text, arguments={}, display=display(text)),
        ToolProgressed(agent=text[:30], call="c", text=text),
        ReplyCut(reason=text),
        TurnEnded(outcome="failed", text=text, session="s", usage={}, error=text),
        TodosChanged(items=(Todo("1", text, "in_progress"), Todo("2", text, "pending"))),
        QueueChanged(queued=(text, text)),
        FilesChanged(
            by="agent", files=(FileChange(text.replace("/", "-"), "modified", 1, 1, text),), call="b"
        ),
        FilesChanged(by="others", files=(FileChange(text.replace("/", "-"), "added", 1, 1, text),)),
        Noticed(kind="warning", text=text),
        Noticed(kind="process", text=text[:3_000]),
        UserMessageAdded(node=3, text=text.lstrip()[:200].split("\n")[0]),
    ]


def show(watch: Watch, kind: Kind) -> None:
    bridge, session = watch.app.bridge, watch.app.session
    for event in one_session(kind.text):
        bridge(event)
    bridge.change(branch=kind.text, approvals=kind.text, title=kind.text)
    session.agents.show([AgentRow(agent="x", name=kind.text, state="running", action=kind.text)])
    session.prompt.set_text(kind.text[:2_000])


@pytest.mark.thorough
@some_or_all
async def test_kinds_of_all_sorts_in_every_place_of_the_session(step: int) -> None:
    async with watched(SIZE) as watch:
        session = watch.app.session
        places = [
            session.status,
            session.todo,
            session.calls,
            session.files,
            session.transcript,
            session.prompt,
        ]
        for kind in NUMBERED[:: 3 * step]:
            show(watch, kind)
            await watch.settle()
            assert watch.faults == [], kind.name
            for place in places:
                if place is not session.files:  # a long path keeps its end
                    await watch.until(kind.shows[0], place)
            assert watch.faults == [], kind.name
        assert watch.app.is_running and not watch.app.has_crashed


@pytest.mark.thorough
@some_or_all
@pytest.mark.parametrize("size", [(40, 12), (20, 6)])
async def test_a_small_terminal_is_not_overrun(size: tuple[int, int], step: int) -> None:
    async with watched(size) as watch:
        for kind in NUMBERED[size[1] % 7 :: 5 * step]:
            show(watch, kind)
            await watch.settle()
            assert watch.faults == [], kind.name
        assert watch.app.is_running and not watch.app.has_crashed


def approval(headline: str, reasons: tuple[str, ...] = (), touches: tuple[str, ...] = ()) -> ApprovalAsked:
    reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return ApprovalAsked(
        id="r", agent=headline[:60], tool=headline[:60], headline=headline, reasons=reasons, touches=touches,
        reply=reply,
    )  # fmt: skip


BATCH = 24
READ = [kind for kind in NUMBERED if len(reveal(kind.text)) < 2_000]
"""What fits a few screens."""
HIDDEN = "\x00\x07\x1b\x7f\x9b\r\u202e\u2066\u200b\ufeff\U000e0072\u00ad"


async def pages(watch: Watch) -> str:
    """All that a dialog shows, from its first page to its last."""
    seen = [watch.seen()]
    while any(reader.page(1) for reader in watch.app.screen.query(Reader)):
        await watch.settle()
        seen.append(watch.seen())
    return "\n".join(seen)


async def check_all_is_read(watch: Watch, dialog: Dialog[Any], kinds: list[Kind]) -> None:
    watch.app.push_screen(dialog)
    await watch.settle()
    seen = await pages(watch)
    assert watch.faults == [], kinds
    for kind in kinds:
        assert kind.shows[0] in seen, kind.name
    for character in HIDDEN:
        if any(character in kind.text for kind in kinds):
            assert reveal(character) in seen, (ascii(character), kinds)
    watch.app.pop_screen()
    await watch.settle()


@pytest.mark.thorough
@some_or_all
async def test_all_of_an_approval_can_be_read_and_what_is_hidden_is_spelled_out(step: int) -> None:
    async with watched((160, 100)) as watch:
        read = READ[::step]
        for start in range(0, len(read), BATCH):
            kinds = read[start : start + BATCH]
            texts = tuple(kind.text for kind in kinds)
            await check_all_is_read(watch, ApprovalDialog(approval("\n".join(texts))), kinds)
            await check_all_is_read(watch, ApprovalDialog(approval("ls", texts, texts[:3])), kinds)
        assert watch.app.is_running


@pytest.mark.thorough
@some_or_all
async def test_all_of_a_question_can_be_read_and_what_is_hidden_is_spelled_out(step: int) -> None:
    async with watched((160, 100)) as watch:
        read = READ[::step]
        for start in range(0, len(read), BATCH):
            kinds = read[start : start + BATCH]
            texts = tuple(kind.text for kind in kinds)
            reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            asked = QuestionAsked(
                id="q", question="\n".join(texts), choices=texts[:5], allow_freetext=True, reply=reply
            )
            await check_all_is_read(watch, ClarifyDialog(asked), kinds)
        assert watch.app.is_running


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["long-line", "many-nul", "many-marks"])
async def test_a_huge_text_does_not_stop_a_dialog(name: str) -> None:
    (kind,) = (each for each in NUMBERED if each.name == name)
    async with watched() as watch:
        watch.app.push_screen(ApprovalDialog(approval(kind.text, (kind.text,), (kind.text,))))
        await watch.settle()
        assert watch.faults == [] and kind.shows[0] in watch.seen()
        watch.app.push_screen(DetailScreen(kind.text, kind.text))
        await watch.settle()
        assert watch.faults == [] and kind.shows[0] in watch.seen()


@pytest.mark.thorough
@some_or_all
async def test_a_text_in_full_is_harmless(step: int) -> None:
    async with watched((100, 200)) as watch:
        short = SHORT[::step]
        for start in range(0, len(short), BATCH):
            kinds = [kind.numbered(at) for at, kind in enumerate(short[start : start + BATCH])]
            texts = [clean(kind.text)[:300] for kind in kinds]
            watch.app.push_screen(DetailScreen(kinds[0].text, "\n".join(texts)))
            await watch.settle()
            seen = watch.seen()
            assert watch.faults == [] and kinds[0].shows[0] in seen, kinds
            watch.app.pop_screen()
            watch.app.push_screen(
                ConfirmDialog(kinds[0].text[:300], kinds[-1].text[:300], kinds[-1].text[:300])
            )
            await watch.settle()
            assert watch.faults == [], kinds
            watch.app.pop_screen()
        assert watch.app.is_running


@some_or_all
async def test_remarks_and_notifications_are_text(step: int) -> None:
    async with watched(SIZE) as watch:
        watch.app.attention.focus(False)
        for kind in NUMBERED[:: 2 * step]:
            watch.app.clear_notifications()
            watch.app.show_notice(kind.text[:3_000])
            watch.app.show_warning(kind.text[:3_000])
            watch.app.attention.press()
            watch.app.attention.call("done", kind.text)
            await watch.settle()
            assert watch.faults == [], kind.name
            assert kind.shows[0] in watch.screen.notes[-1], kind.name
        assert watch.app.is_running and len(watch.screen.notes) >= len(KINDS) // (2 * step)


@pytest.mark.thorough
async def test_what_is_copied_steers_nothing() -> None:
    async with watched(SIZE) as watch:
        transcript = watch.app.session.transcript
        for kind in NUMBERED[::40]:
            watch.app.bridge(UserMessageAdded(node=1, text=kind.text[:5_000]))
            await watch.settle()
            transcript.focus()
            await watch.pilot.press("G", "y")
            await watch.settle()
        assert watch.faults == []
