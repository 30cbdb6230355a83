"""Command lines are taken apart once, and plain ones without their nodes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.shell import choices, lines, marks, redirects, tree, words
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


_PARTS = r"""a -x 1 . / = { } , * ? ~ ^ '' "" $a $@ "x$1" '"' "'" # \ ß 'ß' !"""
_SHAPED = st.lists(
    st.sampled_from((*_PARTS.split(), " ", "  ", "\t", "'a b'", '"a b"', '"$a b"')), min_size=1, max_size=14
).map("".join)


@given(_SHAPED)
def test_words_quotes_and_variables_say_the_same_as_their_nodes(text: str) -> None:
    text = f"ls; cp {text}; f() {{ {text}; }}; {text}"
    shortened = _followed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "simple_words", lambda text: None)
        whole = _followed(text)
    assert (shortened.events, shortened.tangled) == (whole.events, whole.tangled)


@given(_SHAPED, st.sampled_from((">", ">>", "2>", "1>|", "<", "&>", "> ", "<<< ", ">&", "3< ")))
def test_redirections_to_simple_words_say_the_same_as_their_nodes(text: str, operator: str) -> None:
    to = f"{operator}{text}"
    text = f"echo a {to}; cat {to} b < c; {{ ls; }} {to}; >{text} {to}"
    shortened = _followed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redirects, "_SIMPLE", re.compile("(?!)"))
        whole = _followed(text)
    assert (shortened.events, shortened.tangled) == (whole.events, whole.tangled)


_TEXT = st.sampled_from(
    (
        "$a",
        "$b",
        "$c",
        "$e",
        "$1",
        "$@",
        "$$",
        "$-x",
        "$IFS",
        "x",
        "/",
        ",",
        "{",
        "}",
        "~",
        "*",
        "\u00e4",
        " ",
        "'",
        '"',
    )
)


@given(st.lists(_TEXT, min_size=1, max_size=7), st.sampled_from(("{}", '"{}"', "'{}'")), st.booleans())
def test_simple_words_say_the_same_as_when_they_are_read_letter_by_letter(
    texts: list[str], quotes: str, splits: bool
) -> None:
    word = quotes.format("".join(texts))
    line = f"ls -l {word} > {word}; d={word}; rm $d"
    start = f"a=x; b='y z{{1,2}} *'; c=; {'IFS=x; ' if splits else ''}"
    text = f"{start}for e in p q '' x; do {line}; done; e=(a b); {line}"
    simply = _followed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "simply", lambda word, scope: None)
        patch.setattr(words, "several", lambda word, scope: None)
        patch.setattr(choices, "simply", lambda word, scope: None)
        by_letter = _followed(text)
    assert (simply.events, simply.tangled, simply.fault) == (
        by_letter.events,
        by_letter.tangled,
        by_letter.fault,
    )


@given(
    st.lists(st.sampled_from(("a", "{", "}", ",", "{a,b}", "{1..3}", "*", "$x")), max_size=12).map("".join)
)
def test_braces_side_by_side_say_the_same_as_braces_in_each_other(word: str) -> None:
    text = f"x=1; ls {word} > {word}"
    side_by_side = _followed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "_FLAT", re.compile("(?!)()"))
        in_each_other = _followed(text)
    assert (side_by_side.events, side_by_side.tangled) == (in_each_other.events, in_each_other.tangled)


def test_a_text_on_which_the_parser_does_not_get_on_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x ) ( } fi ;; & | > " * 200
    assert not _followed(text).tangled
    with monkeypatch.context() as patch:
        patch.setattr(tree, "LONGEST", -1_000_000.0)
        assert _followed(text).tangled
    assert not _followed("ls a; " * 200).tangled


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
