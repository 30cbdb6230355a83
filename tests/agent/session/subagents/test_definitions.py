"""Kinds of agents in files: what they may hold, which count, and what is said of those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.config import trust
from agent.core.home import Home
from agent.safety.permissions.policy import Permissions
from agent.session.spending.budget import Budget
from agent.session.subagents.definitions import (
    BUILTIN,
    LONGEST_PROMPT,
    UNTRUSTED,
    Definition,
    Definitions,
    is_name,
    parse,
    read_definition,
    stricter,
)

GOOD = b"""\
---
name: looker
description: Looks at things.
tools: [file, todo]
model: lab/big
effort: off
budget: {turns: 7, tokens: 9000, money: 0.5, seconds: 60}
isolation: readonly
---
You look.

--- is not a fence here.
"""


def write(folder: Path, name: str, text: str | bytes = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    body = f"---\ndescription: About {name}.\n---\nDo it.\n" if text == "" else text
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


def with_field(line: str) -> bytes:
    return f"---\ndescription: x\n{line}\n---\nDo it.\n".encode()


def wrong(content: bytes, file: str = "looker.md") -> list[str]:
    parsed = parse(content, file)
    assert parsed.definition is None
    return [str(problem) for problem in parsed.problems]


def test_a_complete_file_gives_all_of_the_definition() -> None:
    made = parse(GOOD, "looker.md", "project", Path("/p/looker.md")).definition
    assert made == Definition(
        name="looker",
        description="Looks at things.",
        prompt="You look.\n\n--- is not a fence here.",
        tools=("file", "todo"),
        model="lab/big",
        effort="off",
        budget=Budget(turns=7, tokens=9000, money=0.5, seconds=60.0),
        isolation="readonly",
        source="project",
        path=Path("/p/looker.md"),
    )


def test_description_and_instructions_are_enough_and_line_ends_do_not_matter() -> None:
    made = parse(
        b"\xef\xbb\xbf---\r\ndescription: x\r\ntools: file, todo\r\n---\r\nA.\r\nB.\r\n", "a.md"
    ).definition
    assert made is not None
    assert (made.name, made.prompt, made.tools) == ("a", "A.\nB.", ("file", "todo"))
    assert (made.model, made.isolation, made.budget) == ("", "shared", Budget())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "agents/looker.md line 1, column 1: the first line must be `---`"),
        (b"You look.", "the first line must be `---`"),
        (b"---\ndescription: x\n", "a second line of `---` is missing"),
        (b"---\ndescription: x\n---\n  \n", "there are no instructions"),
        (b"---\n---\nDo it.", "`description` is missing; say in one line"),
        (with_field("name: other"), "line 3, column 7: `name` must be that of the file; write looker"),
        (
            with_field("isolaton: readonly"),
            "line 3, column 1: `isolaton` is unknown; did you mean `isolation`?",
        ),
        (with_field("color: red"), "`color` is unknown; known are name, description"),
        (with_field("tools: []"), "`tools` is empty"),
        (with_field("tools: [1]"), "`tools` must be a list"),
        (with_field("tools: {a: b}"), "`tools` must be a list"),
        (with_field("model: 3"), "`model` must be text; put 3 into quotes."),
        (with_field("model: [a]"), "`model` must be text in one line."),
        (with_field("budget: 3"), "`budget` must be ceilings"),
        (with_field("budget: {turns: 0}"), "a whole number above 0 for turns, not 0"),
        (with_field("budget: {turns: true}"), "a whole number above 0 for turns"),
        (with_field("budget: {tokens: 1.5}"), "a whole number above 0 for tokens, not 1.5"),
        (with_field("budget: {money: .inf}"), "money"),
        (
            with_field("budget: {requests: 3}"),
            "`budget` has no requests; it has turns, tokens, money, seconds.",
        ),
        (with_field("isolation: none"), "`isolation` must be shared, readonly or copy."),
        (with_field("isolation: [readonly]"), "`isolation` must be"),
        (with_field("a: &a [x]\nb: *a"), "is unknown"),
        (with_field("- x"), "line 3"),
        (with_field("x: !!python/object/apply:os.system [id]"), "line 3"),
        (b"---\ndescription: \xff\n---\nx", "not UTF-8"),
        (b"---\ndescription: x\n---\nDo \x1b]52;c;eA==\x07 it.", "control character U+001B stands here"),
        (b"---\ndescription: x\n---\nDo\0", "a NUL byte stands here"),
        (b"---\ndescription: x\n---\n" + b"y" * (LONGEST_PROMPT + 1), "longer than 20,000 characters"),
        (b"---\ndescription: " + b"y" * 301 + b"\n---\nx", "longer than 300 characters"),
        (b"---\ndescription: x\n" + b"[" * 5000 + b"\n---\nx", "line 3"),
    ],
)
def test_what_is_wrong_is_said_with_file_field_and_mend(content: bytes, said: str) -> None:
    problems = wrong(content)
    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith("agents/looker.md") and problem.isprintable() for problem in problems)


def test_aliases_that_multiply_are_refused_before_they_are_built() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert wrong(with_field("\n".join(lines)))


@pytest.mark.parametrize(
    "name", ["A.md", "a b.md", "-a.md", "a--b.md", "a_b.md", ".md", "a" * 41 + ".md", "\x1b[31m.md", "é.md"]
)
def test_a_file_needs_a_name_that_can_be_mentioned(name: str) -> None:
    (problem,) = wrong(b"---\ndescription: x\n---\nDo it.\n", name)
    assert "the file must be called NAME.md" in problem and problem.isprintable()


def test_weights_are_not_named_by_projects() -> None:
    content = with_field("model: local:/tmp/strange.gguf")
    assert parse(content, "a.md", "yours").definition is not None
    assert "cannot name weights" in str(parse(content, "a.md", "project").problems[0])


@pytest.mark.thorough
@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_it_fail(content: bytes) -> None:
    for whole in (content, b"---\n" + content + b"\n---\nDo it."):
        parsed = parse(whole, "a.md")
        assert (parsed.definition is None) == bool(parsed.problems)


LINE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
BUDGETS = st.fixed_dictionaries(
    {},
    optional={
        "turns": st.integers(1, 1000),
        "tokens": st.integers(1, 10**9),
        "money": st.floats(0.001, 1e6),
        "seconds": st.floats(0.1, 1e6),
    },
)


@pytest.mark.thorough
@given(
    name=st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True),
    description=LINE,
    prompt=LINE,
    tools=st.lists(st.sampled_from(["file", "todo", "terminal", "read_file"]), unique=True),
    budget=BUDGETS,
    isolation=st.sampled_from(["shared", "readonly", "copy"]),
)
@settings(max_examples=80, deadline=None)
def test_what_is_written_is_what_is_read(
    name: str, description: str, prompt: str, tools: list[str], budget: dict[str, float], isolation: str
) -> None:
    fields = {"name": name, "description": description, "budget": budget, "isolation": isolation}
    fields |= {"tools": tools} if tools else {}
    front = yaml.safe_dump(fields, allow_unicode=True)
    made = parse(f"---\n{front}---\n{prompt}\n".encode(), f"{name}.md").definition
    assert made is not None
    assert (made.name, made.description, made.tools) == (name, description, tuple(tools))
    assert (made.prompt, made.isolation) == (prompt, isolation)
    assert {key: value for key, value in budget.items() if getattr(made.budget, key) != value} == {}


def test_names_are_small_letters_digits_and_single_hyphens() -> None:
    assert all(map(is_name, ("a", "code-reviewer", "r2")))
    assert not any(map(is_name, ("", "A", "a/b", "..", "a.b", "a-", "a\n")))


def test_the_stricter_isolation_counts() -> None:
    assert stricter("shared", "copy") == stricter("copy", "shared") == "copy"
    assert stricter("copy", "readonly") == "readonly"


# Where they come from


@pytest.fixture
def places(tmp_path: Path) -> Definitions:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return Definitions(Home((tmp_path / "home").resolve()), (tmp_path / "work").resolve())


def project_folder(places: Definitions) -> Path:
    return places.workspace / ".hermes" / "agents"


def trusted(places: Definitions) -> None:
    project = trust.read_project(places.home, places.workspace)
    assert project is not None
    trust.trust(places.home, project)


def test_the_built_in_ones_are_sound_and_of_use(places: Definitions) -> None:
    found = places.load()
    assert (
        sorted(found.definitions)
        == ["explorer", "reviewer", "tester"]
        == sorted(p.stem for p in BUILTIN.glob("*"))
    )
    assert not found.broken and not found.problem and found.notices() == []
    assert {found.definitions[name].isolation for name in ("explorer", "reviewer")} == {"readonly"}


def test_those_of_a_project_count_only_while_it_is_trusted_as_it_is(places: Definitions) -> None:
    path = write(project_folder(places), "local.md")
    assert "local" not in places.load().definitions
    assert places.load().notices() == [UNTRUSTED]
    trusted(places)
    assert places.load().definitions["local"].source == "project"
    path.write_text(path.read_text() + "And more.\n")
    assert "local" not in places.load().definitions and places.load().problem == UNTRUSTED
    trusted(places)
    write(project_folder(places), "second.md")
    assert places.load().problem == UNTRUSTED


def test_nearer_ones_take_the_place_of_farther_ones(places: Definitions) -> None:
    write(places.home.agents, "reviewer.md")
    found = places.load()
    assert (found.definitions["reviewer"].source, found.hidden["reviewer"]) == ("yours", ("built-in",))
    write(project_folder(places), "reviewer.md")
    trusted(places)
    found = places.load()
    assert (found.definitions["reviewer"].source, found.hidden["reviewer"]) == (
        "project",
        ("built-in", "yours"),
    )


def test_a_broken_one_stops_no_other_and_keeps_its_name_from_meaning_another(places: Definitions) -> None:
    write(places.home.agents, "reviewer.md", "nonsense")
    write(places.home.agents, "mine.md")
    found = places.load()
    assert sorted(found.definitions) == ["explorer", "mine", "tester"]
    assert found.broken["reviewer"].source == "yours"
    assert "the first line must be" in found.notices()[0]


def test_links_that_lead_out_are_refused_whoever_made_them(places: Definitions, tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere", "secret.md")
    for folder in (places.home.agents, project_folder(places)):
        write(folder, "good.md")
        (folder / "out.md").symlink_to(outside)
        (folder / "inside.md").symlink_to(folder / "good.md")
        (folder / "gone.md").symlink_to(folder / "nowhere.md")
    trusted(places)
    found = places.load()
    assert {"good", "inside"} <= set(found.definitions)
    assert "it leads out of" in str(found.broken["out"].problems[0])
    assert "leads nowhere" in str(found.broken["gone"].problems[0])


def test_a_project_folder_of_agents_that_is_a_link_out_gives_none(
    places: Definitions, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere", "secret.md")
    (places.workspace / ".hermes").mkdir()
    project_folder(places).symlink_to(tmp_path / "elsewhere")
    trusted(places)
    assert "secret" not in places.load().definitions


def test_things_that_are_no_files_never_block_and_too_large_ones_are_not_read(places: Definitions) -> None:
    folder = places.home.agents
    write(folder, "large.md", b"---\ndescription: x\n---\n" + b"y" * 70_000)
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    write(folder, "notes.txt", "no agent")
    said = {name: str(each.problems[0]) for name, each in places.load().broken.items()}
    assert sorted(said) == ["folder", "large", "pipe"]
    assert "larger than 64 kB" in said["large"] and "not a regular file" in said["pipe"]


def test_only_so_many_of_a_folder_are_read(places: Definitions) -> None:
    for number in range(trust.MOST_AGENTS + 5):
        write(places.home.agents, f"a{number:03}.md")
    found = places.load().definitions
    assert f"a{trust.MOST_AGENTS - 1:03}" in found and f"a{trust.MOST_AGENTS:03}" not in found


def test_many_problems_are_counted_instead_of_told(places: Definitions) -> None:
    for number in range(9):
        write(places.home.agents, f"a{number}.md", "x")
    told = places.load().notices()
    assert len(told) == 5 and told[-1] == "5 more: see `hermes agents check`."


def test_one_file_can_be_read_wherever_it_lies(tmp_path: Path) -> None:
    assert read_definition(write(tmp_path, "a.md")).definition is not None
    assert str(read_definition(tmp_path / "b.md").problems[0]) == f"{tmp_path}/b.md: it is not there."


def test_trust_of_settings_ends_when_an_agent_of_the_project_changes(places: Definitions) -> None:
    """What is trusted is everything a project brings, so its permissions are looked at again too."""
    (places.workspace / ".hermes").mkdir()
    (places.workspace / ".hermes" / "permissions.yaml").write_text("rules:\n  - allow: terminal(ls)\n")
    path = write(project_folder(places), "a.md")
    trusted(places)
    policy = Permissions(places.home, places.workspace)
    assert policy.current().project == "trusted"
    path.write_text(path.read_text() + "More.\n")
    assert policy.current().project == "untrusted"
    assert {path.parent, path} <= set(trust.watched_paths(places.workspace))
