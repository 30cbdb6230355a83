"""What comes from a terminal: keys and pastes are told apart, and nothing makes the application deaf."""

from __future__ import annotations

import os
import select
import threading
import time
import tty
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.constants import ESCAPE_DELAY
from textual.message import Message

from app.tui.terminal.tty_input import (
    BEGIN,
    END,
    LARGEST,
    MOST_WAITING,
    SILENCE,
    InputDecoder,
    Keyboard,
    Pasted,
    WakingEvent,
    read_terminal,
)

KEYS = st.text(st.characters(exclude_characters="\x1b", exclude_categories=["Cs"]), min_size=1, max_size=20)
PASTED = st.text(st.sampled_from("ab\r\n\x1b[20é\x03\x07;m"), max_size=30)


def joined(found: list[str | Pasted]) -> list[str | Pasted]:
    """Neighbouring keys as one."""
    out: list[str | Pasted] = []
    for piece in found:
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return out


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS, PASTED), min_size=1, max_size=4), st.integers(1, 9))
def test_keys_and_pastes_are_the_same_however_they_are_cut(parts: list[tuple[str, str]], size: int) -> None:
    sent = b"".join(keys.encode() + BEGIN + pasted.encode() + END for keys, pasted in parts)
    decoder, found = InputDecoder(), []
    for at in range(0, len(sent), size):
        found += decoder.feed(sent[at : at + size], 1.0)
    assert joined(found) == [piece for keys, pasted in parts for piece in (keys, Pasted(pasted))]


def test_a_paste_presses_no_keys_whatever_it_holds() -> None:
    hostile = b"ls\x1b" + b"y" * 80 + b"\r\x1b[13u\x1b[<0;1;1M\x1b\rrm -rf /\r"
    assert InputDecoder().feed(BEGIN + hostile + END, 0.0) == [Pasted(hostile.decode())]


def test_wrong_bytes_are_replaced() -> None:
    assert InputDecoder().feed(b"caf\xe9 " + BEGIN + b"\xff\x00\xfe" + END, 0.0) == [
        "caf\ufffd ",
        Pasted("\ufffd\ufffd"),
    ]


def test_a_lone_escape_is_let_go_and_a_paste_that_begins_late_is_still_a_paste() -> None:
    decoder = InputDecoder()
    assert decoder.feed(b"\x1b", 0.0) == []
    assert decoder.deadline == ESCAPE_DELAY and decoder.idle(ESCAPE_DELAY / 2) == []
    assert decoder.idle(ESCAPE_DELAY) == ["\x1b"] and decoder.deadline is None
    assert decoder.feed(BEGIN[1:3], 0.1) == []
    assert decoder.feed(BEGIN[3:] + b"text" + END, 0.2) == [Pasted("text")]
    assert decoder.feed(b"\x1b", 0.3) + decoder.idle(0.5) + decoder.feed(b"[A", 0.5) == ["\x1b", "[A"]


def test_a_paste_that_stops_is_handed_on_and_its_rest_is_pasted_too() -> None:
    decoder = InputDecoder()
    assert decoder.feed(BEGIN + "half é".encode()[:-1], 0.0) == []
    assert decoder.idle(SILENCE / 2) == []
    assert decoder.idle(SILENCE) == [Pasted("half ")]
    assert decoder.idle(SILENCE * 2) == []
    assert decoder.feed("é".encode()[-1:] + b" rest" + END + b"x", SILENCE * 3) == [Pasted("é rest"), "x"]


@pytest.mark.parametrize("key", [b"\x03", b"\x1b[99;5u", b"\x1b[<35;1;1M"])
def test_a_paste_whose_end_was_lost_ends_with_the_next_command(key: bytes) -> None:
    decoder = InputDecoder()
    decoder.feed(BEGIN + b"lost", 0.0)
    assert decoder.idle(SILENCE) == [Pasted("lost")]
    assert decoder.feed(key, SILENCE * 2) == [key.decode()]
    assert decoder.feed(b"\r", SILENCE * 2) == ["\r"]


def test_an_end_that_comes_late_still_ends_the_paste() -> None:
    decoder = InputDecoder()
    decoder.feed(BEGIN + b"slow" + END[:3], 0.0)
    assert decoder.idle(SILENCE) == [Pasted("slow")]
    assert decoder.feed(END[3:] + b"k", SILENCE * 2) == [Pasted(""), "k"]


def test_a_paste_without_an_end_is_handed_on_in_parts() -> None:
    decoder = InputDecoder()
    found = decoder.feed(BEGIN, 0.0)
    for _ in range(LARGEST // (1 << 22) + 1):
        found += decoder.feed(b"x" * (1 << 22), 0.0)
    assert sum(len(piece.text) for piece in found if isinstance(piece, Pasted)) > LARGEST


class Reading:
    """A terminal that is read in a thread, and what was delivered."""

    def __init__(self) -> None:
        self.outer, self.inner = os.openpty()
        tty.setraw(self.inner)
        self.heard: list[Message] = []
        self.fault: OSError | None = None
        self._news = threading.Condition()
        self._ended = WakingEvent()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            read_terminal(self.inner, self._ended, self._deliver)
        except OSError as fault:
            self.fault = fault

    def _deliver(self, message: Message) -> None:
        with self._news:
            self.heard.append(message)
            self._news.notify()

    def until_key(self, key: str) -> None:
        with self._news:
            assert self._news.wait_for(
                lambda: any(isinstance(each, events.Key) and each.key == key for each in self.heard), 60
            )

    def until_read(self) -> None:
        """Wait until everything that was written has been read, so that what comes next is read by itself."""
        while select.select([self.inner], [], [], 0)[0] and self._thread.is_alive():
            time.sleep(0.001)

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def close(self) -> None:
        self._ended.set()
        self.join()
        os.close(self.inner)
        if self.outer >= 0:
            os.close(self.outer)


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.close()


def test_keys_are_heard_after_bytes_that_nobody_understands(reading: Reading) -> None:
    os.write(reading.outer, b"\xff\xe9\x80\x1b[99999999999999999999u\x1b[1;1;99999999999999u")
    os.write(reading.outer, BEGIN + b"one\rtwo" + END + b"\x1b[Bq")
    reading.until_key("q")
    assert [each.text for each in reading.heard if isinstance(each, events.Paste)] == ["one\rtwo"]
    assert any(isinstance(each, events.Key) and each.key == "down" for each in reading.heard)
    assert not any(isinstance(each, events.Key) and each.key == "enter" for each in reading.heard)


def test_escape_alone_is_a_key(reading: Reading) -> None:
    os.write(reading.outer, b"\x1b")
    reading.until_key("escape")


def test_a_terminal_that_goes_away_ends_the_reading(reading: Reading) -> None:
    os.close(reading.outer)
    reading.outer = -1
    reading.join()
    assert reading.fault is not None


def moved(column: int, row: int) -> bytes:
    return f"\x1b[<35;{column};{row}M".encode()


def test_of_a_mouse_on_its_way_only_the_last_place_is_heard_and_every_click(reading: Reading) -> None:
    click = b"\x1b[<0;9;9M\x1b[<0;9;9m"
    storm = b"".join(moved(column, 3) for column in range(1, 90))
    os.write(reading.outer, storm + click + storm + b"q")
    reading.until_key("q")
    kinds = [type(each) for each in reading.heard if isinstance(each, events.MouseEvent)]
    assert kinds.count(events.MouseDown) == kinds.count(events.MouseUp) == 1
    # The terminal may hand a storm on in a few pieces.
    assert 2 <= kinds.count(events.MouseMove) <= 8
    assert [each.x for each in reading.heard if isinstance(each, events.MouseMove)][-1] == 88


def test_nothing_is_read_while_the_application_is_behind() -> None:
    outer, inner = os.openpty()
    tty.setraw(inner)
    heard: list[Message] = []
    waiting, ended = [MOST_WAITING + 1], WakingEvent()
    asked = threading.Semaphore(0)

    def behind() -> int:
        asked.release()
        return waiting[0]

    thread = threading.Thread(target=read_terminal, args=(inner, ended, heard.append, behind))
    os.write(outer, b"abc")
    thread.start()
    for _ in range(3):
        assert asked.acquire(timeout=60)
    assert heard == []
    waiting[0] = 0
    while len(heard) < 3 and thread.is_alive():
        time.sleep(0.005)
    ended.set()
    thread.join(60)
    os.close(outer)
    os.close(inner)
    assert [each.key for each in heard if isinstance(each, events.Key)] == ["a", "b", "c"]


def test_the_reader_sleeps_until_a_key_comes_or_reading_ends() -> None:
    outer, inner = os.openpty()
    tty.setraw(inner)
    heard: list[Message] = []
    asked: list[int] = []
    ended = WakingEvent()

    def behind() -> int:
        asked.append(len(heard))
        return 0

    thread = threading.Thread(target=read_terminal, args=(inner, ended, heard.append, behind))
    thread.start()
    time.sleep(0.35)
    os.write(outer, b"a")
    while not heard and thread.is_alive():
        time.sleep(0.005)
    time.sleep(0.35)
    ended.set()
    thread.join(60)
    os.close(outer)
    os.close(inner)
    assert not thread.is_alive() and asked == [0, 1]
    ended.clear()
    assert not select.select([ended.number], [], [], 0)[0]


ANSWERS = {
    "what it is": "\x1b[?62;22c",
    "its version": "\x1b[>1;10;0c",
    "its name": "\x1bP>|tmux 3.3a\x1b\\",
    "its size": "\x1b[8;26;100t",
    "its cells": "\x1b[6;20;10t",
    "its keyboard": "\x1b[?1u",
    "its state": "\x1b[0n",
    "its theme": "\x1b[?997;1n",
    "a colour": "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    "a colour that ends with a bell": "\x1b]4;1;rgb:00/00/00\x07",
    "pictures": "\x1b_Gi=31;OK\x1b\\",
    "a capability": "\x1bP1+r544e=787465726d\x1b\\",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
def test_what_a_terminal_answers_in_the_midst_of_typing_presses_no_key(reading: Reading, answer: str) -> None:
    for sent in (f"a{answer}b", answer, f"c{answer}{answer}q"):
        os.write(reading.outer, sent.encode())
        reading.until_read()
    reading.until_key("q")
    assert [each.key for each in reading.heard if isinstance(each, events.Key)] == ["a", "b", "c", "q"]


def heard(*parts: tuple[float, bytes]) -> list[str]:
    """What is heard of bytes that come at these seconds, and of a long silence after them."""
    decoder, keyboard, events_heard = InputDecoder(), Keyboard(), []
    for when, data in (*parts, (1000.0, b"")):
        if decoder.deadline is not None and when >= decoder.deadline:
            events_heard += keyboard.to_messages(decoder.idle(decoder.deadline))
        if data:
            events_heard += keyboard.to_messages(decoder.feed(data, when))
    return [each.key if isinstance(each, events.Key) else type(each).__name__ for each in events_heard]


REPORTS = {
    **{answer: [] for answer in ANSWERS.values()},
    "\x1b[I": ["AppFocus"],
    "\x1b[O": ["AppBlur"],
    "\x1b[<0;12;5M": ["MouseDown"],
    "\x1b[<64;120;35M": ["MouseScrollUp"],
    "\x1b[12;40R": ["CursorPosition"],
    "\x1b[?2026;2$y": ["TerminalSupportsSynchronizedOutput"],
    "\x1b[?9999;0$y": [],
    "\x1b[48;26;100;520;1000t": ["Resize"],
}
KEYS_SENT = {
    "\x1b[A": ["up"],
    "\x1b[1;5C": ["ctrl+right"],
    "\x1b[97;5u": ["ctrl+a"],
    "\x1b[97;6u": ["ctrl+shift+a"],
    "\x1bOP": ["f1"],
    "\x1b[3~": ["delete"],
    "\x1b[3$": ["shift+delete"],
    "\x1b[[A": ["f1"],
    "\x1b[?9q": [],
}


@pytest.mark.parametrize(("sent", "means"), [*REPORTS.items(), *KEYS_SENT.items()])
def test_a_sequence_in_two_pieces_is_what_it_is_in_one(sent: str, means: list[str]) -> None:
    data = sent.encode()
    assert heard((0.0, b"a" + data + b"b")) == ["a", *means, "b"]
    assert heard((0.0, data)) == means
    for cut in range(1, len(data)):
        gap = ESCAPE_DELAY / 2 if cut < 3 else SILENCE / 2
        assert heard((0.0, b"a" + data[:cut]), (gap, data[cut:] + b"b")) == ["a", *means, "b"]


@pytest.mark.parametrize(("sent", "means"), REPORTS.items())
def test_the_rest_of_a_report_is_not_typed_even_after_a_long_wait(sent: str, means: list[str]) -> None:
    data = sent.encode()
    for cut in range(3, len(data) - 1):
        assert heard((0.0, data[:cut]), (SILENCE * 5, data[cut:])) == means
    # What came first was escape for all anybody knew.
    assert heard((0.0, data[:1]), (SILENCE * 5, data[1:])) == ["escape", *means]


@pytest.mark.parametrize(
    "begun", ["\x1b[?62", "\x1b[<0;1", "\x1b]11;rgb:1e", "\x1bP>|tm", "\x1b_Gi=31", "\x1b[97;"]
)
@pytest.mark.parametrize("gap", [0.0, SILENCE / 2, SILENCE * 5])
def test_escape_and_return_are_heard_after_a_sequence_that_was_cut_off(begun: str, gap: float) -> None:
    assert heard((0.0, begun.encode()), (gap, b"\x1b")) == ["escape"]
    assert heard((0.0, begun.encode()), (gap, b"\x1b"), (gap + SILENCE / 4, b"\x1b")) == ["escape", "escape"]
    assert heard((0.0, begun.encode()), (gap, b"\rx")) == ["enter", "x"]
    assert heard((0.0, begun.encode()), (gap, b"\x03")) == ["ctrl+c"]
    assert heard((0.0, begun.encode()), (gap, b"\x1b[B")) == ["down"]


@pytest.mark.parametrize(
    ("sent", "means"),
    [
        (b"\x1bx", ["alt+x"]),
        ("\x1bé".encode(), ["alt+é"]),
        (b"\x1b[", ["alt+left_square_bracket"]),
        (b"\x1bO", ["alt+shift+o"]),
        (b"\x1b]", ["alt+right_square_bracket"]),
        (b"\x1bPx", ["alt+shift+p", "x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\xc3\x1b[A", ["\ufffd", "up"]),
        (b"[?62;22c", list("[?62;22c")),
    ],
)
def test_what_a_person_presses_is_no_report(sent: bytes, means: list[str]) -> None:
    names = {"[": "left_square_bracket", "?": "question_mark", ";": "semicolon"}
    names |= {"]": "right_square_bracket", "\ufffd": "replacement_character"}
    assert heard((0.0, sent)) == [names.get(each, each) for each in means]


def test_the_mouse_is_where_it_was_after_a_report_that_means_nothing() -> None:
    keyboard = Keyboard()
    first = list(keyboard.to_messages(["\x1b[<35;10;5M", "\x1b[?9q"]))
    (second,) = keyboard.to_messages(["\x1b[<35;12;5M"])
    assert len(first) == 1 and isinstance(second, events.MouseMove) and second.delta_x == 2


def keys_of(sent: bytes, cuts: list[int]) -> list[tuple[str, str | None]]:
    """Keys and pasted texts of bytes that arrive in pieces."""
    decoder, keyboard = InputDecoder(), Keyboard()
    ends = sorted({min(cut, len(sent)) for cut in cuts} | {len(sent)})
    found: list[tuple[str, str | None]] = []
    for start, end in zip([0, *ends], ends, strict=False):
        for event in keyboard.to_messages(decoder.feed(sent[start:end], 1.0)):
            assert isinstance(event, events.Key | events.Paste)
            found.append(
                (event.key, event.character) if isinstance(event, events.Key) else ("paste", event.text)
            )
    return found


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("\x1b[1089::99;5u", "ctrl+c"),
        ("\x1b[1089::99;133u", "ctrl+c"),
        ("\x1b[1089::99;197u", "ctrl+c"),
        ("\x1b[1089;5u", "ctrl+c"),
        ("\x1b[956::109;3u", "alt+m"),
        ("\x1b[1502::97;3u", "alt+a"),
        ("\x1bь", "alt+m"),
        ("\x1b[99:67;6u", "ctrl+shift+c"),
        ("\x1b[45:95;6u", "ctrl+underscore"),  # foot and kitty, on the key of minus
        ("\x1b[246::59;5u", "ctrl+ö"),
        ("\x1b[97::113;5u", "ctrl+a"),
        ("\x1b[99;69u", "ctrl+c"),
        ("\x1b[13;129u", "enter"),
        ("\x1b[1;133A", "ctrl+up"),
    ],
)
def test_commands_follow_the_key_and_not_the_letter_of_another_script(sent: str, key: str) -> None:
    assert [name for name, _ in keys_of(sent.encode(), [])] == [key]


def test_a_letter_without_ctrl_or_alt_stays_the_letter() -> None:
    assert keys_of(b"\x1b[1074::100;;1074u", []) == [("в", "в")]
    assert keys_of(b"\x1b[99;5:3u\x1b[0;;u", []) == []


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200),
    st.lists(st.integers(0, 1500), max_size=6),
    st.sampled_from(["", "129", "65"]),
)
@settings(max_examples=60, deadline=None)
def test_the_text_of_an_input_method_is_the_text_however_it_is_cut(
    text: str, cuts: list[int], held: str
) -> None:
    sent = f"\x1b[0;{held};{':'.join(str(ord(letter)) for letter in text)}u".encode()
    assert "".join(written or "" for _, written in keys_of(sent, cuts)) == text


def test_no_control_character_comes_out_of_composed_text() -> None:
    assert keys_of(b"\x1b[0;;27:91:50:74:155:97:3u", []) == [
        ("left_square_bracket", "["),
        ("2", "2"),
        ("J", "J"),
        ("a", "a"),
    ]
