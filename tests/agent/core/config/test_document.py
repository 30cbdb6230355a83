"""YAML in, data with places out; nothing in a file can do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config.document import MAX_DEPTH, parse
from agent.core.config.problem import SettingPlace

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)
)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"a: " + b"[" * 5000, (1, MAX_DEPTH + 3), "nested deeper"),
        (b"[" * 900_000, (1, MAX_DEPTH + 1), "nested deeper"),
        (BOMB.encode(), (1, 13), "aliases expand"),
        (MERGE_BOMB.encode(), (1, 5), "aliases expand"),
        (b"a: &a [*a]", (1, 4), "contains itself"),
        (b"a: &a {<<: *a}", (1, 4), "contains itself"),
        (b"model:\n\tname: x\n", (2, 1), "indented with a tab"),
        (b"- a\n- b\n", (1, 1), "`key: value` lines"),
        (b"just words", (1, 1), "`key: value` lines"),
        (b"a: 1\nb: \0", (2, 4), "NUL byte"),
        (b"a: 1\n  \xfc: x", (2, 3), "not UTF-8"),
        (b"a: \x1b[31m", (1, 4), "U+001B"),
        (b"a: b: c", (1, 5), "not YAML"),
        (b'a: 1\nb: "x\n', (3, 1), "begun on line 2"),
        (b"a: *x", (1, 4), "undefined alias"),
        (b"a: 1\n---\nb: 2\n", (2, 1), "second document"),
        (b"!!set {a, b}", (1, 1), "tag `!!set`"),
    ],
)
def test_a_file_that_is_no_settings_file_is_named_with_its_place(
    content: bytes, place: tuple[int, int], words: str
) -> None:
    document = parse(content, "config.yaml")
    assert document.data == {}
    (problem,) = document.problems
    assert problem.place == SettingPlace(*place)
    assert words in problem.message
    assert str(problem).startswith(f"config.yaml line {place[0]}, column {place[1]}: ")
    assert "\n" not in str(problem) and str(problem).isprintable()


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"---\n", b"null", b"\xef\xbb\xbf", b"~\n"])
def test_an_empty_file_is_no_problem(content: bytes) -> None:
    assert parse(content, "config.yaml").data == {}
    assert parse(content, "config.yaml").problems == ()


def test_of_keys_given_twice_the_first_counts() -> None:
    document = parse(b"model:\n  name: a\n  name: b\nmodel: {}\n", "config.yaml")
    assert document.data == {"model": {"name": "a"}}
    assert [(str(p.place), p.key) for p in document.problems] == [
        ("SettingPlace(line=3, column=3)", "model.name"),
        ("SettingPlace(line=4, column=1)", "model"),
    ]


@pytest.mark.parametrize(
    "value",
    ["!!python/object/apply:os.system [ls]", "!!binary aGk=", "!own x", "!!int x", "9" * 5000, "!!float"],
)
def test_a_value_of_a_foreign_kind_is_left_out_alone(value: str) -> None:
    document = parse(f"bad: {value}\ngood: 1\n".encode(), "config.yaml")
    assert document.data == {"good": 1}
    assert [problem.key for problem in document.problems] == ["bad"]


def test_aliases_and_merges_work() -> None:
    text = b"base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3, z: *b}\nlist: [*b]\n"
    document = parse(text, "config.yaml")
    assert document.problems == ()
    assert document.data["other"] == {"x": 1, "y": 3, "z": {"x": 1, "y": 2}}
    assert document.data["list"] == [{"x": 1, "y": 2}]
    assert document.values["other", "y"] == SettingPlace(2, 20)


def test_keys_are_text_and_dates_stay_text() -> None:
    assert parse(b"on: 2026-01-01\n5: 1:30\n", "c").data == {"on": "2026-01-01", "5": 90}


def test_every_entry_knows_its_place() -> None:
    document = parse("ä: 1\nmodel:\r\n  name:   x\n".encode(), "c")
    assert document.keys["model", "name"] == SettingPlace(3, 3)
    assert document.values["model", "name"] == SettingPlace(3, 11)


@given(st.text(alphabet="ab:-?#&*!|>'\"%@`{}[],\n\t \r0~<é\0\x1b\ufeff\U0001f600", max_size=80))
def test_no_text_makes_it_fail(text: str) -> None:
    document = parse(text.encode(), "config.yaml")
    assert isinstance(document.data, dict)
    assert all(str(problem) and "\n" not in str(problem) for problem in document.problems)


@given(st.binary(max_size=60))
def test_no_bytes_make_it_fail(content: bytes) -> None:
    assert isinstance(parse(content, "config.yaml").data, dict)
