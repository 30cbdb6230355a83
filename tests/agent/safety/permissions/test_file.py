from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.permissions.file import PermissionFile, parse_file
from agent.safety.permissions.subjects import Setting

SETTING = Setting(Path("/home/ada/project"), Path("/home/ada"))


def parsed(text: str) -> PermissionFile:
    return parse_file(text.encode(), "permissions.yaml", SETTING)


def test_the_whole_form_of_the_file_is_read() -> None:
    file = parsed("""
# what I allow
mode: ask
profiles:
  oneshot:
    mode: careful
    rules: {fetch: deny}
rules:
  terminal(git push *): ask
  read_file(**/.env):
    verdict: deny
    reason: it may hold keys
    match: [.env, app/.env]
    no_match: [.env.md]
""")
    assert file.problems == () and file.sound
    assert (file.mode, file.modes) == ("normal", {"oneshot": "careful"})
    assert [(rule.text, rule.verdict, rule.line, rule.surface) for rule in file.rules] == [
        ("fetch", "deny", 7, "oneshot"),
        ("terminal(git push *)", "ask", 9, ""),
        ("read_file(**/.env)", "deny", 10, ""),
    ]
    assert file.rules[2].because() == "it may hold keys (permissions.yaml line 10)"


def test_rules_may_be_a_list_and_may_be_given_twice() -> None:
    file = parsed("rules:\n  - terminal(a): allow\n  - terminal(a): deny\n")
    assert [rule.verdict for rule in file.rules] == ["allow", "deny"]
    both = parsed("rules: {terminal(a): allow}\nrules: {terminal(a): deny}\n")
    assert [rule.verdict for rule in both.rules] == ["allow", "deny"] and not both.sound


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mod: x", "line 1, column 1: unknown key `mod`; known are mode, profiles, rules."),
        ("mode: wild", "line 1, column 7: `wild` is not a mode; modes are careful"),
        ("rules: {termnal(x): deny}", "names the unknown tool `termnal`; did you mean `terminal`?"),
        ("rules:\n  terminal(x): maybe", "line 2, column 16: `maybe` is not a verdict"),
        ("rules:\n  terminal(x): {reason: a}", "line 2, column 3: the rule `terminal(x)` has no verdict"),
        ("rules:\n  terminal(x): {verdict: ask, why: a}", "unknown key `terminal(x): why`"),
        ("rules: {terminal(a | b): deny}", "names more than one command"),
        ("rules: {terminal(): deny}", "has an empty pattern"),
        ("rules: {clarify(x): deny}", "takes no pattern"),
        ("rules: {'terminal(x': deny}", "is not of the form tool or tool(pattern)"),
        ("rules: 3", "rules are lines of the form"),
        ("profiles: {phone: {mode: ask}}", "unknown key `profiles.phone`"),
        ("- a", "permissions.yaml line 1"),
        ("mode: [", "this is not YAML"),
        ("rules: {terminal(x): [a]}", "a verdict is text on one line"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(text: str, said: str) -> None:
    file = parsed(text)
    assert not file.sound
    assert said in str(file.problems[0])
    assert str(file.problems[0]).count("\n") == 0


def test_an_example_that_does_not_hold_names_rule_and_example() -> None:
    file = parsed("rules:\n  terminal(git push *):\n    verdict: deny\n    match: [git pull]\n")
    assert str(file.problems[0]) == (
        "permissions.yaml line 2, column 1: the rule `terminal(git push *)` does not cover `git pull`, "
        "which match says it should."
    )
    file = parsed("rules:\n  terminal(make *):\n    verdict: allow\n    no_match: [make x]\n")
    assert "covers `make x`, which no_match says it should not." in str(file.problems[0])
    assert "cannot have examples" in str(parsed("rules: {clarify: {verdict: deny, match: [x]}}").problems[0])


def test_an_unreadable_file_is_told_from_one_with_a_wrong_rule() -> None:
    assert not parsed("mode: [").readable
    assert parsed("rules: {nosuch: deny, terminal(x): deny}").readable
    assert len(parsed("rules: {nosuch: deny, terminal(x): deny}").rules) == 1


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_no_text_breaks_the_reader(text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    file = parse_file(content, "permissions.yaml", SETTING)
    assert file.sound or file.problems


@pytest.mark.parametrize(
    "text", ["[" * 5_000, "a: &a [*a]", "{a: " * 2_000, "rules: &r {x: *r}", "? [a]\n: b"]
)
def test_hostile_yaml_is_refused_in_words(text: str) -> None:
    assert not parsed(text).sound
