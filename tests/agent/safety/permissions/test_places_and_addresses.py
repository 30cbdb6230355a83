from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.permissions.patterns import AddressPattern, Certainty, PathPattern

HOME = Path("/home/ada")


def pattern(text: str, workspace: Path = Path("/home/ada/project")) -> PathPattern:
    return PathPattern(text, workspace, HOME)


@pytest.mark.parametrize(
    ("text", "path", "covered"),
    [
        ("src/**", "/home/ada/project/src/a.py", True),
        ("src/**", "/home/ada/project/src/deep/a.py", True),
        ("src/**", "/home/ada/project/other/src/a.py", False),
        ("src/**", "/home/ada/other/src/a.py", False),
        ("src", "/home/ada/project/src/a.py", True),
        ("./src/*.py", "/home/ada/project/src/a.py", True),
        ("src/*.py", "/home/ada/project/src/deep/a.py", False),
        ("*.md", "/home/ada/project/docs/a.md", True),
        ("*.md", "/home/ada/a.md", False),
        ("~/notes/**", "/home/ada/notes/a", True),
        ("~/notes/**", "/home/ada/notebook", False),
        ("/srv/data/**", "/srv/data/x", True),
        ("../shared/**", "/home/ada/shared/x", True),
        ("src/**", "/home/ada/project/src/../../secret", False),
    ],
)
def test_paths_that_a_rule_allows(text: str, path: str, covered: bool) -> None:
    assert pattern(text).covers(Path(path)) is covered


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        (".env", "/srv/app/.env", True),
        ("**/.env", "/srv/app/.env", True),
        ("**/.env", "/home/ada/project/.env", True),
        ("**/.env", "/home/ada/project/.env.md", False),
        ("secrets", "/home/ada/project/secrets", True),
        ("secrets/", "/home/ada/project/secrets", True),
        ("secrets/**", "/home/ada/project/secrets/a/b", True),
        ("secrets/**", "/home/ada/project/secrets", True),
        ("secrets/**", "/home/ada/project/x/../secrets/a", True),
        ("secrets/**", "/home/ada/project/public/a", False),
    ],
)
def test_paths_that_a_rule_asks_about(text: str, path: str, found: bool) -> None:
    assert (pattern(text).touches(Path(path)) is Certainty.YES) is found


def test_searching_above_a_denied_folder_may_touch_it() -> None:
    assert pattern("secrets/**").touches(Path("/home/ada/project"), inside=True) is Certainty.MAYBE
    assert pattern("secrets/**").touches(Path("/home/ada/project"), inside=False) is Certainty.NO
    assert pattern("secrets/**").touches(Path("/home/ada/project/src"), inside=True) is Certainty.NO


def test_a_link_in_a_pattern_is_followed_for_denials_and_not_for_permissions(tmp_path: Path) -> None:
    workspace, vault = tmp_path / "work", tmp_path / "vault"
    workspace.mkdir()
    vault.mkdir()
    (workspace / "inside").symlink_to(vault)
    assert pattern("inside/**", workspace).touches(vault / "key") is Certainty.YES
    assert not pattern("inside/**", workspace).covers(vault / "key")


def test_a_workspace_with_glob_characters_in_its_name_is_taken_as_it_is() -> None:
    odd = Path("/home/ada/[old] *project")
    assert pattern("src/**", odd).covers(odd / "src/a")
    assert not pattern("src/**", odd).covers(Path("/home/ada/o xproject/src/a"))


@pytest.mark.parametrize("text", ["", "!src", "~bob/x"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names"):
        pattern(text)


@pytest.mark.parametrize(
    ("text", "url", "covered"),
    [
        ("https://docs.python.org/**", "https://docs.python.org", True),
        ("https://docs.python.org/**", "https://DOCS.python.org:443/3/a?b=c#d", True),
        ("https://docs.python.org/**", "http://docs.python.org/", False),
        ("https://docs.python.org/**", "https://docs.python.org:8443/", False),
        ("https://docs.python.org/**", "https://docs.python.org@evil.com/", False),
        ("https://docs.python.org/**", "https://docs.python.org.evil.com/", False),
        ("https://docs.python.org/**", "https://docs.python.org\\@evil.com/", False),
        ("https://a.org/docs/**", "https://a.org/docs/../admin", False),
        ("https://a.org/docs/**", "https://a.org/docs/%2e%2e/admin", False),
        ("https://a.org/*/x", "https://a.org/b/c/x", False),
        ("*.example.com", "https://a.b.example.com/x", True),
        ("*.example.com", "https://example.com/x", False),
        ("example.com", "ftp://example.com/x", False),
        ("http://localhost:*/**", "http://localhost:8000/x", True),
    ],
)
def test_addresses_that_a_rule_allows(text: str, url: str, covered: bool) -> None:
    assert AddressPattern(text).covers(url) is covered


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.com",
        "https://evil.com.:8443/x",
        "https://me:pw@EVIL.com/",
        "ftp://evil.com/x",
        "https://bad\\host",
        "nonsense",
    ],
)
def test_a_denied_host_is_found_on_every_port_and_what_cannot_be_read_counts_as_it(url: str) -> None:
    assert AddressPattern("evil.com").touches(url)


def test_another_host_is_not_the_denied_one() -> None:
    assert not AddressPattern("evil.com").touches("https://notevil.com/")
    assert not AddressPattern("https://a.org/admin/**").touches("https://a.org/docs")
    assert AddressPattern("https://a.org/admin/**").touches("http://a.org/admin/x")
