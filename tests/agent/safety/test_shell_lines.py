"""Command lines are taken apart once, and plain ones without their nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.shell import lines
from agent.safety.shell.recording import Recording, record

_HOME, _CWD = "/home/ada", "/home/ada/project"

_PIECES = """ls -l a/b.txt 12 x:y 'q' "$v" v=1 time ! if then fi do case in done
export {a,b} * 2>&1 | && ; ( ) f() { } $(ls)"""
_WORDS = st.sampled_from((*_PIECES.split(), "> out", "< in", "\n"))


def _followed(text: str) -> Recording:
    return record.__wrapped__(text, _CWD, _HOME)


@given(st.lists(_WORDS, min_size=1, max_size=12))
def test_plain_commands_say_the_same_as_their_nodes(words: list[str]) -> None:
    text = "ls; " + " ".join(words)
    shortened = _followed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "plain_words", lambda text: None)
        whole = _followed(text)
    assert (shortened.events, shortened.tangled) == (whole.events, whole.tangled)


def test_the_arguments_of_each_call_count_where_a_line_is_followed_again() -> None:
    events = _followed('f() { rm -r "$1" > out/$1; }\nf a\nf b\nf a\n').events
    removed = [event[1] for event in events if event[0] == "rm"]
    assert ("-r", "a") in removed
    assert ("-r", "b") in removed


def test_expansions_whose_readings_are_too_long_are_not_followed() -> None:
    assert _followed("ls " + "{a,b}" * 2_000).tangled
    assert _followed("ls x" + "{a,b}" * 8 + "y" * 10_000).tangled


def test_a_long_word_with_a_few_readings_is_followed() -> None:
    assert not _followed('for i in a b c d; do echo "$i ' + "y" * 200_000 + '"; done').tangled
