"""Whatever comes from outside ends in a result or in one sentence, never in another error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from agent.knowledge.skills.hub.bundle import HubError, SkillFile, checked, unpack
from agent.knowledge.skills.hub.http import HttpAnswer
from agent.knowledge.skills.hub.lock import _parse, parse_snapshot
from agent.knowledge.skills.hub.opening import SkillSources
from agent.knowledge.skills.hub.sources import packages
from agent.knowledge.skills.hub.sources.github import _entry, place
from agent.knowledge.skills.hub.sources.marketplace import parse_catalog
from agent.knowledge.skills.hub.sources.packages import SCHEMA, parse_index
from tests.support.skill_hub import skill_md, tarred, zipped

URL = "https://example.org/.well-known/agent-skills/index.json"
KEYS = some.sampled_from(
    [
        *("skills", "$schema", "version", "name", "description", "type", "url", "digest", "files", "path"),
        *("plugins", "source", "repo", "ref", "sha", "metadata", "pluginRoot", "items", "results", "slug"),
        *("skill", "latestVersion", "tags", "owner", "moderation", "identifier", "author", "mode", "size"),
    ]
)
SCALARS = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(),
    some.floats(),
    some.text(max_size=20),
    some.sampled_from(
        [SCHEMA, "skill-md", "archive", "./", "../x", "github", "url", "a/b", "x" * 500, "sha256:1"]
    ),
)
DATA = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)
TEXTS = some.text(max_size=60) | some.text(alphabet="abc/.:@#~-+git%\\[]? \0\n\u202e", max_size=40)
SOURCES = SkillSources(Path("/nowhere"))


def sentence(error: HubError) -> None:
    text = str(error)
    assert text and "\n" not in text and "\x1b" not in text and len(text) < 1_000


PARSERS: tuple[Callable[[Any, bytes], object], ...] = (
    lambda data, _: parse_index(data, URL),
    lambda _, content: parse_catalog(content),
    lambda _, content: parse_snapshot(content),
    lambda _, content: packages._records(HttpAnswer(URL, content, {}), "items", "skills"),
    lambda data, _: packages.ClawHubSource("x")._offer(data, data) if isinstance(data, dict) else None,
    lambda data, _: packages.LobeHubSource("x")._offer(data) if isinstance(data, dict) else None,
    lambda data, _: _entry(data),
)


@pytest.mark.thorough
@given(DATA)
@example({"skills": [{"name": "x", "files": [{"path": "a", "digest": 3}]}], "version": "0.2.0"})
def test_any_index_catalogue_or_answer(data: Any) -> None:
    whole = {"skills": data, "plugins": data, "$schema": SCHEMA}
    for each in (data, whole, {"skills": [data, whole]}, {"plugins": [data, whole]}):
        content = json.dumps(each).encode()
        for parse in PARSERS:
            try:
                parse(each, content)
            except HubError as error:
                sentence(error)
        try:
            assert _parse(content) == {}
        except (ValueError, TypeError, KeyError):
            pass  # a torn lock file


@pytest.mark.thorough
@given(TEXTS)
@example("https://github.com/a")
@example("https://[::1")
@example("git+ssh://")
def test_any_identifier(text: str) -> None:
    for parse in (SOURCES.reference, place):
        try:
            parse(text)
        except HubError as error:
            sentence(error)


ARCHIVES = (
    zipped({"SKILL.md": skill_md("x"), "a/b.md": b"b" * 300}),
    tarred({"SKILL.md": skill_md("x"), "a/b.md": b"b" * 300}),
)


@given(some.sampled_from(ARCHIVES), some.data())
def test_any_archive_with_wrong_bytes(archive: bytes, data: some.DataObject) -> None:
    torn = bytearray(archive)
    for _ in range(data.draw(some.integers(1, 6))):
        torn[data.draw(some.integers(0, len(torn) - 1))] = data.draw(some.integers(0, 255))
    cut = data.draw(some.integers(0, len(torn)))
    for content in (bytes(torn), bytes(torn[:cut])):
        try:
            files = checked(unpack(content))
        except HubError as error:
            sentence(error)
        else:
            assert all(not file.path.startswith(("/", "..")) for file in files)


@given(some.lists(some.tuples(TEXTS, some.binary(max_size=40)), max_size=5))
def test_any_files(files: list[tuple[str, bytes]]) -> None:
    try:
        taken = checked([SkillFile("SKILL.md", b"x"), *(SkillFile(*each) for each in files)])
    except HubError as error:
        sentence(error)
    else:
        root = Path("/a/b")
        assert all(root in (root / file.path).parents and ".." not in file.path.split("/") for file in taken)
