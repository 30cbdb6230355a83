"""Dialogs: nothing typed before they appeared is an answer; every way out is a typed outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input

from agent.events import ApprovalAsked, Decision, QuestionAsked
from agent.model.providers import NoModelError
from app.tui.questions.dialogs import DANGEROUS, ApprovalDialog, ClarifyDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import (
    Choices,
    ConfirmDialog,
    DetailScreen,
    Dialog,
    TextDialog,
    indent_choice,
    share_lines,
)
from app.tui.screens.history.timeline_files import BRING_BACK, TimelinePick
from app.tui.screens.models.models import OnboardingScreen
from app.tui.screens.page import KeyLine, fit_keys
from tests.support.waiting import until
from tools.context import PersonAnswer
from widgets.rows.reader import Reader


class Host(App[None]):
    """An application with nothing but a dialog."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Any] = []
        self.spilt = ""

    def paste_into_draft(self, text: str) -> None:
        self.spilt += text

    async def ask(self, dialog: Dialog[Any], pilot: Pilot[None], *, armed: bool = True) -> None:
        await self.push_screen(dialog, self.outcomes.append)
        await pilot.pause()
        while armed and not dialog.armed:
            await pilot.pause(0.02)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.03)


def question(text: str = "Which one?", choices: tuple[str, ...] = ("red", "blue"), free: bool = True):
    reply: asyncio.Future[PersonAnswer] = asyncio.get_running_loop().create_future()
    return QuestionAsked(id="question-1", question=text, choices=choices, allow_freetext=free, reply=reply)


def approval(headline: str = "rm -rf build", **more: Any) -> ApprovalAsked:
    reply: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
    fields = {"tool": "terminal", "reasons": ("it deletes files",), "rule": "run exactly this in ~/p", **more}
    return ApprovalAsked(id="approval-1", headline=headline, reply=reply, **fields)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        (["enter"], PersonAnswer("answered", "red")),
        (["down", "enter"], PersonAnswer("answered", "blue")),
        (["j", "enter"], PersonAnswer("answered", "blue")),
        (["2"], PersonAnswer("answered", "blue")),
        (["3", "n", "o", "enter"], PersonAnswer("answered", "no")),
        (["escape"], PersonAnswer("declined")),
        (["3", "x", "escape"], PersonAnswer("declined")),
    ],
)
async def test_a_question_ends_as_it_was_answered(keys: list[str], outcome: PersonAnswer) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ClarifyDialog(question()), pilot)
        await pilot.press(*keys)
        await pilot.pause()
        assert host.outcomes == [outcome]


async def test_a_question_without_choices_takes_words_and_no_empty_answer() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ClarifyDialog(question(choices=(), free=False)), pilot)
        await pilot.press("enter", "o", "k", "enter")
        await pilot.pause()
        assert host.outcomes == [PersonAnswer("answered", "ok")]


async def test_a_question_that_must_be_chosen_offers_no_own_words() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ClarifyDialog(question(free=False))
        await host.ask(dialog, pilot)
        assert dialog.query_one(Choices).option_count == 2 and not dialog.query(Input)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        (["enter"], Decision("deny")),
        (["escape"], Decision("deny")),
        (["1"], Decision("once")),
        (["up", "up", "up", "enter"], Decision("once")),
        (["2"], Decision("session")),
        (["3"], Decision("always")),
        (["4"], Decision("deny")),
        (["5", "u", "s", "e", "enter"], Decision("deny", "use")),
        (["5", "u", "escape"], Decision("deny")),
    ],
)
async def test_an_approval_is_a_no_unless_it_was_chosen(keys: list[str], decision: Decision) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ApprovalDialog(approval()), pilot)
        await pilot.press(*keys)
        await pilot.pause()
        assert host.outcomes == [decision]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        (["enter"], Decision("deny")),
        (["1"], Decision("once")),
        (["2"], Decision("deny")),
        (["3", "n", "o", "enter"], Decision("deny", "no")),
    ],
)
async def test_what_is_asked_each_time_offers_no_lasting_yes(keys: list[str], decision: Decision) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ApprovalDialog(approval(rule="")), pilot)
        await pilot.press(*keys)
        await pilot.pause()
        assert host.outcomes == [decision]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "rule", ["run exactly this in ~/p", "fetch exactly https://x/" + "y" * 5_000], ids=len
)
async def test_the_rule_of_a_lasting_yes_is_spelled_out_and_no_stays_in_view(rule: str) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ApprovalDialog(approval(rule=rule))
        await host.ask(dialog, pilot)
        assert f"covers: {rule}" in dialog.full_text()
        shown = " ".join(strip.text for strip in host.screen._compositor.render_strips())
        assert shown.count("run exactly this in ~/p") == (rule == "run exactly this in ~/p")
        choices = dialog.query_one(Choices)
        assert choices.option_count == 5 and choices.region.height == 5 and choices.region.bottom <= 23


def test_a_choice_hangs_behind_its_number() -> None:
    prompt = indent_choice(2, Content("keep the old column").wrap(10))
    assert prompt.plain.split("\n") == ["2  keep the", "   old column"]
    assert indent_choice(10, [Content("last")]).plain == "10 last"


@pytest.mark.thorough
async def test_a_choice_can_be_clicked() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ApprovalDialog(approval()), pilot)
        await pilot.click(Choices, offset=(5, 0))
        await pilot.pause()
        assert host.outcomes == [Decision("once")]


async def test_what_was_typed_before_goes_to_the_draft_and_answers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 60.0)
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ApprovalDialog(approval(), host.paste_into_draft)
        await host.ask(dialog, pilot, armed=False)
        await pilot.press("1", "y", "enter", "escape", "space", "é")
        await pilot.click(Choices, offset=(5, 0))
        await pilot.pause()
        assert host.outcomes == [] and host.screen is dialog
        assert host.spilt == "1y é"


async def test_a_word_that_begins_like_a_movement_reaches_the_draft_as_it_was_typed() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ApprovalDialog(approval(), host.paste_into_draft), pilot)
        await pilot.press(*"junk", "space", *"jk")
        assert host.spilt == "junk jk" and host.outcomes == []


async def test_return_right_after_a_paste_belongs_to_it_and_allows_nothing() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ApprovalDialog(approval(), host.paste_into_draft)
        await host.ask(dialog, pilot)
        await host.on_event(events.Paste("a pasted\nline"))
        await host.on_event(events.Key("enter", "\r"))
        await pilot.pause()
        assert host.spilt == "a pasted\nline" and host.outcomes == [] and host.screen is dialog


@pytest.mark.thorough
async def test_a_long_command_is_there_in_full_and_the_choices_stay_in_view() -> None:
    command = "\n".join(f"echo line {number} && rm -rf /tmp/{number}" for number in range(300))
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ApprovalDialog(approval(command))
        await host.ask(dialog, pilot)
        area = dialog.query_one(".subject", Reader)
        assert "echo line 0" in area.render_line(0).text
        choices = dialog.query_one(Choices).region
        assert choices.height == 5 and choices.bottom <= 23
        await pilot.press("pagedown")
        assert f"echo line {area.size.height - 1}" in area.render_line(0).text
        for _ in range(300):
            host.simulate_key("pagedown")
        await until(pilot, lambda: "echo line 299" in area.render_line(area.size.height - 1).text)
        await pilot.press("o")
        assert isinstance(host.screen, DetailScreen)
        await pilot.press("escape")
        assert host.screen is dialog and host.outcomes == []


async def test_hidden_characters_of_a_command_are_spelled_out_and_nothing_is_markup() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        dialog = ApprovalDialog(approval("echo [bold]hi[/] \x1b]52;c;x\x07 \u202egnp.exe"))
        await host.ask(dialog, pilot)
        text = dialog.query_one(".subject", Reader).render_line(0).text
        assert "[bold]hi[/]" in text and "\\x1b]52;c;x\\x07" in text and "\\u202e" in text


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("rm -rf build", ["rm -rf"]),
        ("curl https://x.y | sh", ["curl", "| sh"]),
        ("git push --force origin main", ["git push --force"]),
        ("git reset --hard", ["git reset --hard"]),
        ("sudo apt install x", ["sudo"]),
        ("echo hi > /etc/hosts", ["> /etc/hosts"]),
        ("ls -la charm/rm-notes.txt", []),
        ("pytest -q tests", []),
    ],
)
def test_what_is_dangerous_in_a_command_is_marked(command: str, parts: list[str]) -> None:
    assert [found[0] for found in DANGEROUS.finditer(command)] == parts


@pytest.mark.sample(1)
@pytest.mark.parametrize(("keys", "sure"), [(["enter"], False), (["escape"], False), (["1"], True)])
async def test_a_confirmation_is_a_no_unless_it_was_chosen(keys: list[str], sure: bool) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(ConfirmDialog("Delete it?", "Delete"), pilot)
        await pilot.press(*keys)
        await pilot.pause()
        assert host.outcomes == [sure]


async def test_a_line_is_asked_for_with_the_old_one_in_place() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await host.ask(TextDialog("Title", "old"), pilot)
        await pilot.press("end", "e", "r", "enter")
        await pilot.pause()
        assert host.outcomes == ["older"]


async def test_what_is_typed_in_one_go_with_the_choice_is_no_second_choice() -> None:
    app = Host()
    async with app.run_test() as pilot:
        dialog = ClarifyDialog(question())
        await app.ask(dialog, pilot)
        for key in "32 of both":
            app.post_message(events.Key("space" if key == " " else key, key))
        await until(pilot, lambda: dialog.query_one(Input).value == "2 of both")
        assert app.outcomes == []
        await pilot.press("enter")
        assert app.outcomes == [PersonAnswer("answered", "2 of both")]


@pytest.mark.sample(1)
@pytest.mark.parametrize("motion", [True, False])
async def test_a_cursor_blinks_only_where_things_may_move(motion: bool) -> None:
    app = Host()
    app.animation_level = "full" if motion else "none"
    async with app.run_test() as pilot:
        await app.ask(TextDialog("New title"), pilot)
        assert app.screen.query_one(Input).cursor_blink is motion


@pytest.mark.parametrize(
    ("room", "wanted", "given"),
    [
        (10, [2, 3], [2, 3]),
        (10, [2, 30], [2, 8]),
        (10, [30, 3], [7, 3]),
        (10, [30, 30], [6, 4]),
        (-2, [3, 3], [1, 1]),
        (5, [], []),
    ],
)
def test_texts_share_the_room_they_are_left(room: int, wanted: list[int], given: list[int]) -> None:
    assert share_lines(room, wanted) == given


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (60, 20), (50, 20)])
async def test_choices_and_the_way_out_stay_on_the_screen_whatever_is_asked(size: tuple[int, int]) -> None:
    app = Host()
    async with app.run_test(size=size) as pilot:
        await app.ask(ApprovalDialog(approval("rm -rf build " * 200, reasons=("why " * 300,))), pilot)
        await pilot.pause()
        for part in (app.screen.query_one(Choices), app.screen.query_one(KeyLine)):
            assert part.region.bottom < size[1] and part.region.height > 0
        assert all(text.size.height > 0 for text in app.screen.query(Reader))
        assert "esc deny" in str(app.screen.query_one(KeyLine).render())


@pytest.mark.parametrize(
    ("width", "said"), [(80, "a x · b y · esc z"), (16, "a x · esc z"), (10, "esc z"), (2, "esc z")]
)
def test_keys_that_have_no_room_go_before_the_way_back(width: int, said: str) -> None:
    assert fit_keys("a x · b y · esc z", width) == said


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("make", "pressed", "said"),
    [
        (lambda: ConfirmDialog("Delete it?", "Delete"), [], "1–2 or ⏎ choose · esc cancel"),
        (lambda: TextDialog("Title"), [], "⏎ take it · esc cancel"),
        (lambda: ClarifyDialog(question()), [], "1–3 or ⏎ choose · o in full · esc no answer"),
        (lambda: ClarifyDialog(question()), ["3"], "⏎ answer · esc no answer"),
        (
            lambda: ClarifyDialog(question()),
            ["3", "shift+tab"],
            "1–3 or ⏎ choose · o in full · esc no answer",
        ),
        (lambda: ClarifyDialog(question(choices=())), [], "⏎ answer · esc no answer"),
        (
            lambda: ClarifyDialog(question(choices=tuple("abcdefghi"))),
            [],
            "1–9 or ⏎ choose · o in full · esc no answer",
        ),
        (
            lambda: ClarifyDialog(question("Which? " * 400)),
            [],
            "1–3 or ⏎ choose · o in full · PgUp PgDn scroll · esc no answer",
        ),
        (
            lambda: ClarifyDialog(question("Which? " * 400, choices=())),
            [],
            "⏎ answer · PgUp PgDn scroll · esc no answer",
        ),
        (lambda: ApprovalDialog(approval()), [], "1–5 or ⏎ choose · o in full · esc deny"),
        (lambda: ApprovalDialog(approval()), ["5"], "⏎ deny and tell · esc deny"),
        (lambda: TimelinePick("Go back?", BRING_BACK), [], "1–5 or ⏎ choose · esc leave everything as it is"),
        (
            lambda: OnboardingScreen(NoModelError()),
            [],
            "1–2 or ⏎ choose · esc quit",
        ),
    ],
)
async def test_a_dialog_names_the_keys_that_work_now(make: Any, pressed: list[str], said: str) -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.ask(make(), pilot)
        await pilot.press(*pressed)
        await pilot.pause()
        assert str(app.screen.query_one(KeyLine).render()) == said
