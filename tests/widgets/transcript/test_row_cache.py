"""Rows that stay the same rows while what they belong to is written on."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.document import Document
from widgets.transcript.parts import alike
from widgets.transcript.streamed_reply import StreamedReply

ITEMS = "".join(f"- item {number}\n" for number in range(6))


def strip(text: str) -> Strip:
    return Strip([Segment(text)])


def writing() -> tuple[Document, StreamedReply]:
    document = Document(Palette(Skin()))
    document.resize(60)
    return document, StreamedReply(document, lambda: 0.0)


def rows(document: Document) -> list[Strip]:
    """All rows of a document, as they are drawn."""
    return [row.strip for row in document.down(document.start)]


def test_only_what_equals_its_predecessor_is_taken_over():
    before = [strip("one"), strip("two"), strip("three")]
    new = [strip("one"), strip("2"), strip("three"), strip("four")]
    taken = alike(new, before)
    assert taken == new
    assert [row is old for row, old in zip(taken, before, strict=False)] == [True, False, True]
    assert taken[3] is new[3]
    assert alike(new[:1], before) == before[:1]
    assert alike([], before) == []
    assert alike(new, []) == new


def test_rows_of_what_is_being_written_stay_while_it_grows():
    document, reply = writing()
    reply.add(ITEMS)
    reply.flush()
    before = rows(document)
    reply.add("- one more, of **weight**\n")
    reply.flush()
    after = rows(document)
    assert len(after) == len(before) + 1 == 7
    assert all(new is old for new, old in zip(after, before, strict=False))


def test_rows_of_what_was_being_written_stay_when_it_is_complete():
    document, reply = writing()
    reply.add(ITEMS)
    reply.flush()
    before = rows(document)
    reply.add("\nA paragraph that follows.\n\nAnd another.")
    reply.flush()
    after = rows(document)
    assert all(new is old for new, old in zip(after, before, strict=False))
    assert [row.text.strip() for row in after[len(before) :]] == [
        "",
        "A paragraph that follows.",
        "",
        "And another.",
    ]


def test_what_becomes_something_else_is_drawn_as_that():
    document, reply = writing()
    reply.add("Name | Size\n")
    reply.flush()
    assert rows(document)[0].text.strip() == "Name | Size"
    reply.add("--- | ---\none | 1\n")
    reply.flush()
    assert [row.text.split() for row in rows(document)][::2] == [["Name", "│", "Size"], ["one", "│", "1"]]


def test_after_a_change_of_width_nothing_is_as_it_was():
    document, reply = writing()
    reply.add(ITEMS)
    reply.flush()
    before = rows(document)
    document.resize(40)
    reply.restyle()
    reply.add("\nThat was all.\n\nYes.")
    reply.flush()
    after = rows(document)
    assert {row.cell_length for row in after} == {40}
    assert not any(new is old for new, old in zip(after, before, strict=False))
