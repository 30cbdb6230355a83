"""What a person types, as the source and the skill it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.knowledge.skills.hub.bundle import HubError
from agent.knowledge.skills.hub.opening import SkillSources, SourcePlace

HERE = Path("/somewhere")
SOURCES = SkillSources(HERE, (SourcePlace("team", "well-known", "http://127.0.0.1:1"),))


@pytest.mark.parametrize(
    ("text", "kind", "url", "item", "version"),
    [
        ("openai/skills/skills/pdf", "github", "openai/skills", "skills/pdf", ""),
        ("ana/tools", "github", "ana/tools", "", ""),
        ("ana/tools/a/b@v1.2", "github", "ana/tools", "a/b", "v1.2"),
        ("github:ana/tools/a", "github", "ana/tools", "a", ""),
        ("https://github.com/ana/tools", "github", "https://github.com/ana/tools", "", ""),
        (
            "https://github.com/ana/tools/tree/main/skills/x",
            "github",
            "https://github.com/ana/tools",
            "skills/x",
            "main",
        ),
        ("https://git.example.org/a/b.git", "git", "https://git.example.org/a/b.git", "", ""),
        ("git+https://h.example/x.git@v2#skills/y", "git", "https://h.example/x.git", "skills/y", "v2"),
        ("git@h.example:a/b.git", "git", "ssh://git@h.example/a/b.git", "", ""),
        ("git:https://h.example/x", "git", "https://h.example/x", "", ""),
        ("./mine", "folder", "/somewhere/mine", "", ""),
        ("/tmp/x", "folder", "/tmp/x", "", ""),
        ("file:///tmp/x", "folder", "/tmp/x", "", ""),
        ("file:///tmp/x.git", "git", "file:///tmp/x.git", "", ""),
        ("file:///tmp/x.git#skills/y", "git", "file:///tmp/x.git", "skills/y", ""),
        ("/tmp/x.git@v2#y", "git", "file:///tmp/x.git", "y", "v2"),
        ("folder:sub#deep", "folder", "/somewhere/sub", "deep", ""),
        ("https://example.org", "well-known", "https://example.org", "", ""),
        ("https://example.org#pdf", "well-known", "https://example.org", "pdf", ""),
        ("well-known:https://e.org#pdf", "well-known", "https://e.org", "pdf", ""),
        ("marketplace:ana/tools#docs/pdf", "marketplace", "ana/tools", "docs/pdf", ""),
        ("clawhub:gifgrep@1.2.3", "clawhub", "https://clawhub.ai", "gifgrep", "1.2.3"),
        ("clawhub/@ana/gifgrep", "clawhub", "https://clawhub.ai", "@ana/gifgrep", ""),
        ("lobehub:github.ana.pdf", "lobehub", "https://market.lobehub.com", "github.ana.pdf", ""),
        ("team:pdf", "well-known", "http://127.0.0.1:1", "pdf", ""),
        ("team/pdf", "well-known", "http://127.0.0.1:1", "pdf", ""),
    ],
)
def test_an_identifier_names_one_skill_of_one_source(
    text: str, kind: str, url: str, item: str, version: str
) -> None:
    found = SOURCES.reference(text)
    assert found is not None
    assert (found.place.kind, found.place.url, found.item, found.version) == (kind, url, item, version)


def test_a_bare_name_is_looked_for_everywhere() -> None:
    assert SOURCES.reference("pdf") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a b", "/\0", "x" * 2_000, "https://u:p@example.org", "ftp://example.org/x", "owner/"),
        *(
            "git+ext::sh -c id",
            "ext::sh -c true%.git",
            "git+ftp://h/x.git",
            "git+https://h/x.git@-b",
            "x/../y",
        ),
        *(
            "ssh://-oProxyCommand=id/x.git",
            "https://exa mple.org",
            "http://[",
            "github:../x",
            "owner/..",
            "~nobody9/x",
        ),
    ],
)
def test_what_names_no_skill_is_one_sentence(text: str) -> None:
    with pytest.raises(HubError) as caught:
        found = SOURCES.reference(text)
        assert found is not None
        SOURCES.open(found.place).inspect(found.item)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_sources_of_the_settings_take_the_place_of_the_public_ones() -> None:
    assert [place.name for place in SOURCES.search_places()] == ["official", "team"]
    assert "clawhub" in [place.name for place in SkillSources(HERE).search_places()]
