"""The parts of the prompt by themselves, without a screen."""

from __future__ import annotations

import pytest

from themes.skin import Skin
from widgets.palette import Palette
from widgets.prompt.buffer import is_token
from widgets.prompt.completion import CommandChoice, Completer, CompletionChoice, CompletionMenu
from widgets.prompt.draft import FOLDED_WHEN_SET, Draft
from widgets.prompt.history import History
from widgets.prompt.keys import KeyHints, PromptKeys, PromptState
from widgets.prompt.picture import PromptPicture, QueueView

PALETTE = Palette(Skin())


def draft_of(text: str, cursor: int | None = None) -> Draft:
    draft = Draft()
    draft.buffer.insert(text)
    draft.buffer.move(len(text) if cursor is None else cursor)
    return draft


@pytest.mark.parametrize(
    ("cursor", "expected", "after"),
    [(11, "see @b now!", 11), (0, "see @b now!", 0), (4, "see @b now!", 4), (8, "see @b now!", 6)],
)
def test_an_exchange_leaves_the_cursor_in_its_place(cursor: int, expected: str, after: int) -> None:
    draft = draft_of("see @abc now!", cursor + 2 if cursor > 8 else cursor)
    assert draft.exchange("@abc", "@b")
    assert (draft.buffer.text, draft.buffer.cursor) == (expected, after)
    assert not draft.exchange("@abc", "@c")


def test_a_cleared_draft_still_yanks_a_paste_that_was_cut() -> None:
    draft = Draft(vi=True)
    long = "a line\n" * 40
    draft.buffer.insert(draft.pastes.take(long))
    assert is_token(draft.token_at_cursor()) and draft.text == long
    draft.buffer.kill_to_line_start()
    draft.clear()
    assert draft.vi is not None and draft.text == ""
    draft.buffer.yank()
    assert draft.text == long
    assert draft.unfold(draft.token_at_cursor()) and draft.buffer.text == long


def test_a_very_long_text_is_folded_and_too_long_to_open() -> None:
    draft = Draft()
    draft.replace("x" * (FOLDED_WHEN_SET * 3))
    assert len(draft.buffer.text) == 1 and len(draft.text) == FOLDED_WHEN_SET * 3
    assert not draft.unfold(draft.token_at_cursor())


def test_the_choice_in_the_queue_stays_among_what_waits() -> None:
    queue = QueueView()
    assert not queue.choose_last() and queue.height == 0
    queue.queued = ("one", "two", "three", "four")
    assert queue.choose_last() and queue.chosen == 3
    queue.step(-1)
    assert queue.take(2) == "three" and (queue.chosen, queue.queued) == (2, ("one", "two", "four"))
    queue.queued = ("one",)
    assert queue.chosen == 0
    queue.step(1)
    assert queue.chosen is None
    queue.choose_at(0)
    assert queue.chosen == 0 and len(queue.paint(30, PALETTE)) == queue.height == 1


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (PromptState(""), ["⏎ send"]),
        (PromptState("\n/help"), ["⏎ run"]),
        (PromptState("!ls"), ["⏎ run"]),
        (PromptState("/etc/hosts"), ["⏎ send"]),
        (PromptState("a", busy=True, queued=2), ["queued 2", "⏎ queue", "^S steer", "esc stop"]),
        (PromptState("a", menu=True, vi="2d"), ["vi 2d", "⏎ take", "esc close"]),
        (PromptState("a", chosen=True), ["d delete", "⏎ take back", "esc back"]),
    ],
)
def test_the_words_for_the_keys_follow_what_is_written(state: PromptState, expected: list[str]) -> None:
    assert KeyHints().words(state) == expected


def test_a_command_with_another_key_shows_that_one_and_one_without_a_key_none() -> None:
    hints = KeyHints()
    hints.bind({"prompt.submit": "f2", "prompt.steer": ""})
    assert hints.words(PromptState("a", busy=True)) == ["F2 queue", "esc stop"]


def test_a_picture_says_which_rows_are_others_and_where_the_cursor_is() -> None:
    draft, queue = draft_of("one\ntwo"), QueueView()
    picture = PromptPicture(draft, queue)

    def draw() -> list[int]:
        assert picture.measure(40, 24) == len(draft.buffer.lines()) + queue.height
        return picture.draw(40, 9, PALETTE, focused=True, placeholder="", hints=("send",), search=None)

    assert draw() == [0, 1] and draw() == []
    draft.buffer.insert("!")
    assert draw() == [1] and picture.cursor_cell() == (6, 1)
    assert picture.offset_at(2, 0) == 0 and picture.offset_at(3, 1) == 5
    queue.queued = ("waits",)
    assert draw() == [0, 1, 2] and picture.cursor_cell() == (6, 2)


class Host:
    """What a prompt is to its keys, written down."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def insert(self, text: str) -> None:
        self.asked.append(("insert", text))

    def draft_changed(self, *, typed: bool = True) -> None:
        self.asked.append("changed")

    def draw(self) -> None:
        self.asked.append("draw")

    def leave(self, *, steer: bool) -> bool:
        self.asked.append(("leave", steer))
        return True

    def edit_elsewhere(self) -> None:
        self.asked.append("editor")

    def post_recall(self, index: int, text: str) -> None:
        self.asked.append(("recalled", index, text))

    def post_removal(self, index: int, text: str) -> None:
        self.asked.append(("removed", index, text))

    def completed(self, choice: CompletionChoice) -> None:
        self.asked.append(("completed", choice.label))

    def say(self, sentence: str) -> None:
        self.asked.append(sentence)


@pytest.mark.parametrize(
    ("keys", "asked", "text"),
    [
        (["enter"], [("leave", False)], "draft"),
        (["ctrl+s"], [("leave", True)], "draft"),
        (["x"], [("insert", "x")], "draft"),
        (["f9"], [], "draft"),
        (["ctrl+w"], ["changed"], ""),
        (["ctrl+r", "f", "enter"], ["draw", "draw", "changed"], "fix it"),
        (["alt+up", "up", "d"], ["draw", "draw", ("removed", 0, "one"), "draw"], "draft"),
        (["alt+up", "enter"], ["draw", ("recalled", 1, "two"), "changed", "draw"], "two"),
        (["up"], ["changed", "changed"], "fix it"),
    ],
)
def test_each_key_does_its_work_on_the_parts(keys: list[str], asked: list[object], text: str) -> None:
    draft, queue, host, history = draft_of("draft"), QueueView(), Host(), History()
    history.add("fix it")
    queue.queued = ("one", "two")
    picture = PromptPicture(draft, queue)
    completer = Completer(CompletionMenu(), [CommandChoice("help")], None)
    taker = PromptKeys(draft, queue, history, completer, KeyHints(), picture, host)
    used = [taker.take(key, key if len(key) == 1 else "") for key in keys]
    assert (host.asked, draft.text) == (asked, text)
    assert all(used) is (keys != ["f9"])
