"""Hostile text in everything the transcript draws: harmless, in full, and never wider than its row."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.hostile import KINDS, RAW_BYTES, SHORT, some_or_all, spread
from themes.skin import Skin
from tools.results import DiffDetail, Display, TextDetail
from tools.text.safe_text import Cleaner, clean, printable, reveal, steers
from widgets.palette import Palette
from widgets.transcript.document import Document, PlacedRow
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    Fold,
    Item,
    NoticeItem,
    ReasoningItem,
    UserItem,
    source_of,
)
from widgets.transcript.picture import selected_text, whole
from widgets.transcript.streamed_reply import StreamedReply

PALETTE = Palette(Skin())
WIDTH = 60
ROWS = 400
"""Rows that are looked at; a huge text has more."""
PLAIN = Display("run", "ls")


def call(text: str, **more: object) -> CallItem:
    fields: dict[str, object] = {"call": "c", "tool": "t", "display": PLAIN, "arguments": {}}
    return CallItem(**{**fields, **more})  # type: ignore[arg-type]


def diff(text: str) -> str:
    lines = clean(text).split("\n")[:500]
    body = "\n".join(f"+{line}" for line in lines)
    return (
        f"--- a/{lines[0][:80]}\n+++ b/{lines[0][:80]}\n@@ -0,0 +1,{len(lines)} @@ {lines[0][:80]}\n{body}\n"
    )


PLACES: dict[str, Callable[[str], Item]] = {
    "user": UserItem,
    "reasoning": ReasoningItem,
    "answer": AnswerItem,
    "notice": lambda text: NoticeItem("info", text),
    "error": lambda text: NoticeItem("error", text),
    "live output": lambda text: call(text, live=" ".join(text[:4_096].split())),
    "result": lambda text: call(text, outcome="done", result=json.dumps({"output": text})),
    "result that is not json": lambda text: call(text, outcome="done", result=text),
    "detail": lambda text: call(text, outcome="done", display=Display("run", "x", "", TextDetail(text))),
    "code": lambda text: call(
        text, outcome="done", display=Display("read", "x", "", TextDetail(text, "python"))
    ),
    "diff": lambda text: call(text, outcome="done", display=Display("edit", "x", "", DiffDetail(diff(text)))),
    "raw diff": lambda text: call(text, outcome="done", display=Display("edit", "x", "", DiffDetail(text))),
    "failure": lambda text: call(text, outcome="failed", result=json.dumps({"error": text})),
    "failure that is not json": lambda text: call(text, outcome="failed", result=text),
    "argument": lambda text: call(text, arguments={"content": text}),
    "arguments": lambda text: call(text, arguments={text[:2_000]: [text[:2_000], {text[:2_000]: None}]}),
}
ONE_LINE: dict[str, Callable[[str], Item]] = {
    "verb": lambda text: call(text, display=Display(text, "ls", "ok")),
    "tool": lambda text: call(text, tool=text, display=Display("", "ls", "ok")),
    "subject": lambda text: call(text, display=Display("run", text, "ok")),
    "summary": lambda text: call(text, display=Display("run", "x", text), outcome="done"),
}
PARTIAL = {
    "live output",
    "raw diff",
    "diff",
    "arguments",
    "result",
    "result that is not json",
    "detail",
    "code",
}
"""Places that show other things beside the text, or only a part of it."""


def rows_of(item: Item, width: int = WIDTH, fold: Fold = Fold.OPEN) -> list[PlacedRow]:
    document = Document(PALETTE)
    document.resize(width)
    document.load([item])
    document.fold(0, fold)
    return list(islice(document.down(document.start_of(0)), ROWS))


def check(rows: list[PlacedRow], width: int) -> str:
    """The text of the rows, each of which fills the width and steers nothing."""
    lines = []
    for row in rows:
        text = "".join(run.text for run in row.strip)
        assert not steers(text), ascii(text)
        assert all(run.control is None and (run.style is None or run.style.link is None) for run in row.strip)
        assert cell_len(text) == width, (cell_len(text), ascii(text))
        lines.append(text[2:])
    return "\n".join(lines)


def squeezed(text: str) -> str:
    return "".join(text.split())


EVERYWHERE = {**PLACES, **ONE_LINE}


@pytest.mark.thorough
@some_or_all
def test_every_kind_is_drawn_harmless_and_to_read(step: int) -> None:
    for place, kind in spread(KINDS, EVERYWHERE, step):
        shown = squeezed(check(rows_of(EVERYWHERE[place](kind.text)), WIDTH))
        wanted = kind.shows[:1] if place in ONE_LINE or place in PARTIAL else kind.shows
        for word in wanted:
            assert word in shown or (place in ONE_LINE and word[:4] in shown), (kind.name, place, shown[:300])


def test_a_return_in_an_argument_hides_nothing_of_it() -> None:
    [kind] = [each for each in KINDS if each.name == "return-overwrites"]
    assert all(word in squeezed(check(rows_of(PLACES["argument"](kind.text)), WIDTH)) for word in kind.shows)


@pytest.mark.sample(1)
@some_or_all
@pytest.mark.parametrize("width", [7, 23])
def test_no_row_is_wider_than_a_narrow_screen(width: int, step: int) -> None:
    for place, kind in spread(SHORT, EVERYWHERE, 3 * step):
        for fold in (Fold.CLOSED, Fold.OPEN):
            check(rows_of(EVERYWHERE[place](kind.text), width, fold), width)


@pytest.mark.thorough
@some_or_all
def test_an_answer_reads_the_same_however_it_is_cut(step: int) -> None:
    for kind in SHORT[::step]:
        length, pieces = len(kind.text), 20 if step > 1 else 60
        whole_answer = check(rows_of(AnswerItem(kind.text)), WIDTH).rstrip()
        for cut in range(1, length, 1 if length < pieces else length // 7):
            document = Document(PALETTE)
            document.resize(WIDTH)
            reply = StreamedReply(document, lambda: 0.0)
            for piece in (kind.text[:cut], kind.text[cut:]):
                reply.add(piece)
                reply.flush()
                check(list(islice(document.down(document.start_of(0)), ROWS)) if len(document) else [], WIDTH)
            reply.finish(kind.text, "", 1)
            rows = list(islice(document.down(document.start_of(0)), ROWS))
            assert check(rows, WIDTH).rstrip() == whole_answer, (kind.name, cut)


def test_what_is_selected_and_copied_is_clean() -> None:
    for kind in SHORT:
        document = Document(PALETTE)
        document.resize(WIDTH)
        document.load([UserItem(kind.text)])
        text = selected_text(document, whole(document, 0))
        assert not steers(text.replace("\n", "")), kind.name
        assert kind.shows[0] in squeezed(text), kind.name


@pytest.mark.sample(1)
@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_a_result_nested_without_end_is_shown_as_it_is(depth: int) -> None:
    for result in ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        for outcome in ("done", "failed"):
            item = call("", outcome=outcome, result=result)
            assert "[[[" in squeezed(check(rows_of(item), WIDTH)) or '{"a"' in check(rows_of(item), WIDTH)


def test_arguments_nested_without_end_hide_no_other_one() -> None:
    deep: list[object] = []
    for _ in range(50_000):
        deep = [deep]
    item = call("", arguments={"a": "otter", "b": deep})
    assert "otter" in check(rows_of(item), WIDTH)
    # From Python 3.14 on it can be written, and is cut as any long value is.
    assert any(each in source_of(item) for each in ("too deeply", "[[[["))


@pytest.mark.thorough
def test_cleaning_leaves_the_words_and_nothing_of_a_payload() -> None:
    for kind in KINDS:
        cleaned = clean(kind.text)
        assert all(word in cleaned for word in kind.shows), kind.name
        assert not any(word in cleaned for word in kind.hides), kind.name
        assert clean(cleaned) == cleaned and len(cleaned) <= len(kind.text), kind.name
        for text in (cleaned, printable(kind.text), reveal(kind.text)):
            assert not steers(text.replace("\n", "").replace("\t", "")), kind.name


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", RAW_BYTES)
def test_bytes_are_cleaned_the_same_however_they_are_cut(name: str) -> None:
    data = RAW_BYTES[name]
    once = Cleaner()
    expected = once.feed(data) + once.finish()
    assert not steers(expected.replace("\n", ""))
    for cut in range(min(len(data), 60)):
        cleaner = Cleaner()
        assert cleaner.feed(data[:cut]) + cleaner.feed(data[cut:]) + cleaner.finish() == expected


ALPHABET = (
    "ab \t\n\r\b[]*_`>|-#!(){}:\\<&;01\x00\x07\x1b\x7f\x85\x9b\x9c\x9d\u0301\u200b\u200d\u202e\u2028"
    "\ufe0f\ud800漢👩🇩"
)
TEXT = st.one_of(st.text(max_size=80), st.text(st.sampled_from(ALPHABET), max_size=80))


@pytest.mark.thorough
@given(TEXT, st.sampled_from([*EVERYWHERE]), st.integers(4, 40))
def test_no_text_at_all_steers_or_overflows(text: str, place: str, width: int) -> None:
    check(rows_of(EVERYWHERE[place](text), width), width)
