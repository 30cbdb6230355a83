"""The head of a SKILL.md: read leniently, validated strictly."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.skills.skill import SkillFormatError, loadable_name, read, validate


def skill(head: str, body: str = "Do it.\n") -> str:
    return f"---\n{head}---\n{body}"


GOOD = "name: demo\ndescription: Does things.\n"

VALID = {
    "the least": GOOD,
    "all fields": f"{GOOD}license: MIT\ncompatibility: Python 3\nallowed-tools: Bash(git:*) Read\n"
    "metadata:\n  author: ana\n  version: '1.0'\n",
    "a block text": "name: demo\ndescription: |\n  One line.\n  Another.\n",
    "a folded text": "name: demo\ndescription: >\n  One line\n  and more.\n",
    "quotes": "name: \"demo\"\ndescription: 'Does: things.'\n",
    "a comment": f"# for people\n{GOOD}",
    "a list of tools": f"{GOOD}allowed-tools:\n  - Bash\n  - Read\n",
    "the longest description": f"name: demo\ndescription: {'x' * 1024}\n",
    "a number as text": "name: demo\ndescription: 42\n",
    "a line separator": "name: demo\ndescription: one\u2028two\n",
    "a merge key": f"<<:\n  a: b\n{GOOD}",
    "mappings one below the other": f"{GOOD}metadata:\n  a:\n      b: c\n  d: e\n",
}
INVALID = {
    "no name": ("description: Does things.\n", "name"),
    "no description": ("name: demo\n", "description"),
    "an empty name": ("name:\ndescription: x\n", "name"),
    "an empty description": ("name: demo\ndescription: ''\n", "description"),
    "upper case": ("name: Demo\ndescription: x\n", "lowercase"),
    "an underscore": ("name: de_mo\ndescription: x\n", "letters, digits and hyphens"),
    "a dot": ("name: de.mo\ndescription: x\n", "letters, digits and hyphens"),
    "a leading hyphen": ("name: -demo\ndescription: x\n", "begin or end"),
    "two hyphens": ("name: de--mo\ndescription: x\n", "two hyphens"),
    "another folder": ("name: other\ndescription: x\n", "folder"),
    "a long name": (f"name: {'x' * 65}\ndescription: x\n", "65 characters"),
    "a long description": (f"name: demo\ndescription: {'x' * 1025}\n", "1,025 characters"),
    "a long compatibility": (f"{GOOD}compatibility: {'x' * 501}\n", "501 characters"),
    "an unknown field": (f"{GOOD}author: ana\n", "author"),
    "flow style": (f"{GOOD}metadata: {{a: b}}\n", "flow style"),
    "an alias": ("name: &x demo\ndescription: *x\n", "anchor"),
    "a tag": ("name: !!str demo\ndescription: x\n", "tag"),
    "a key given twice": (f"{GOOD}name: demo\n", "name twice"),
    "a bare colon": ("name: demo\ndescription: use: it\n", "cannot be read"),
    "a list": ("- name\n- description\n", "not a mapping"),
    "mappings of two depths": (f"{GOOD}metadata:\n  a:\n      b: c\n  d:\n    e: f\n", "differently"),
    "a tab": ("name: demo\n\tdescription: x\n", "cannot be read"),
}


@pytest.mark.parametrize("head", VALID.values(), ids=VALID.keys())
def test_what_keeps_to_the_format_is_valid_and_read(head: str) -> None:
    assert validate(skill(head), "demo") == ()
    assert read(skill(head)).body == "Do it."


@pytest.mark.parametrize(("head", "named"), INVALID.values(), ids=INVALID.keys())
def test_what_does_not_keep_to_the_format_is_named(head: str, named: str) -> None:
    problems = validate(skill(head), "demo")
    assert problems and named in " ".join(problems)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"\ufeff{skill(GOOD)}", "byte-order mark"),
        (skill("name: demo\ndescription: use: it\n"), "not quoted"),
        (skill(f"{GOOD}version: 1.10\n"), "unknown fields: version"),
        (skill("name: de_mo.x\ndescription: x\n"), ""),
        (skill(f"{GOOD}metadata: {{hermes: {{tags: [a, b]}}}}\n"), ""),
        (skill(GOOD).replace("\n", "\r\n"), ""),
    ],
)
def test_what_other_agents_wrote_is_read_with_a_warning(text: str, warning: str) -> None:
    head = read(text)
    assert head.fields["name"] and head.body == "Do it."
    assert warning in " ".join(head.warnings)


def test_what_the_reference_reads_up_to_three_hyphens_in_a_line_is_valid_and_read() -> None:
    text = "---\nname: demo\ndescription: a --- b: c\n---\nbody\n- x: [\n"
    assert validate(text, "demo") == ()
    assert read(text).fields["description"] == "a --- b: c"
    torn = "---\nname: demo\ndescription: a --- b\n x: [\n---\nbody\n"
    assert validate(torn, "demo") == ()
    assert read(torn).fields["description"] == "a"


def test_values_stay_as_they_were_written() -> None:
    fields = read(skill(f"{GOOD}metadata:\n  version: 1.10\n  date: 2026-01-02\n  on: yes\n")).fields
    assert fields["metadata"] == {"version": "1.10", "date": "2026-01-02", "on": "yes"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# A page",
        "---\nname: demo\n",
        "---\n---\n",
        "---\n[]\n---\n",
        skill("name: demo\n"),
        skill("name: [a]\ndescription: x\n"),
        skill("a: &a [*a]\nname: x\ndescription: y\n"),
        skill("x: " + "[" * 500 + "]" * 500 + "\n" + GOOD),
        skill("a: &a x\nb: *a\n" + GOOD),
    ],
)
def test_what_is_no_skill_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SkillFormatError) as raised:
        read(text)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


@given(st.text(st.sampled_from("---\nname: demo\ndescription: x'\"|>[]{}&*!%@`#\t-?,"), max_size=80))
def test_any_head_is_read_or_refused(text: str) -> None:
    for whole in (text, skill(text)):
        with contextlib.suppress(SkillFormatError):
            read(whole)
        if validate(whole, "demo") == ():
            assert read(whole).fields["description"], "what is valid can be read"


NAMES = {"demo": True, "de.mo_x": True, "démo": True, "": False, "..": False, "a/b": False}
NAMES |= {"Demo": False, "x" * 65: False, ".x": False, "a b": False}


@pytest.mark.parametrize(("name", "loads"), NAMES.items())
def test_a_name_is_one_safe_part_of_a_path(name: str, loads: bool) -> None:
    assert loadable_name(name) is loads


BROKEN = {
    "a tab before a later field": "name: demo\ndescription: Formats tables.\n\tlicense: MIT\n",
    "an open list": "name: demo\ndescription: Formats tables.\nallowed-tools: [Read, Grep\n",
    "an open quote": 'name: demo\ndescription: Formats tables.\nversion: "1.0\n',
    "text at the margin": "name: demo\ndescription: Formats tables.\nand more words\nlicense: MIT\n",
    "a stray indentation": "name: demo\n  title: x\ndescription: Formats tables.\n",
    "quotes within quotes": 'name: demo\ndescription: "Formats tables."\ntitle: "the "big" one"\n',
}


@pytest.mark.parametrize("head", BROKEN.values(), ids=BROKEN)
def test_a_broken_head_whose_name_and_description_can_be_read_loads_with_a_warning(head: str) -> None:
    found = read(f"---\n{head}---\nbody")
    assert found.fields["name"] == "demo"
    assert found.fields["description"].startswith("Formats tables.")
    assert found.body == "body"
    assert found.warnings
    assert "allowed-tools" not in found.fields


@pytest.mark.parametrize("head", ["name: demo\ntext: [\n", "description: x\n\tname: demo [\n"])
def test_a_broken_head_without_both_lines_is_refused_with_the_cause(head: str) -> None:
    with pytest.raises(SkillFormatError, match="cannot be read"):
        read(f"---\n{head}---\nbody")
