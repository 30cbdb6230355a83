"""Which plugins are used: places, consent by hash, trust of projects, names that are taken."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

import pytest

from agent.core.config import trust
from agent.core.home import Home
from agent.integrations.plugins.consent import LONGEST_TEXT, PluginConsent, PluginConsents, agreed_files
from agent.integrations.plugins.files import hashes, read_files
from agent.integrations.plugins.shelf import MOST_SHOWN, FoundPlugin, differences, find_plugins, lines_of

YAML = "name: {}\n"


def make(folder: Path, name: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(YAML.format(name or folder.name))
    (folder / "handler.py").write_text("def register(ctx): ...\n")
    return folder.resolve()


def agree(home: Home, folder: Path, name: str = "") -> None:
    consent = PluginConsent(name=name or folder.name, files=hashes(folder))
    PluginConsents(home.plugin_consent).agree(folder, consent, dict(agreed_files(read_files(folder))))


def shelved(home: Home, workspace: Path, *packages: EntryPoint) -> dict[str, FoundPlugin]:
    found = find_plugins(home, workspace, lambda: packages)
    return {f"{each.place} {each.folder.name}": each for each in found}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return Home((tmp_path / "home").resolve())


def _append(folder: Path) -> None:
    with (folder / "handler.py").open("a") as file:
        file.write("eval('\x1b[2K\u202e')")


def _add(folder: Path) -> None:
    (folder / "more.py").touch()


def _remove(folder: Path) -> None:
    (folder / "handler.py").unlink()


def _permit(folder: Path) -> None:
    (folder / "handler.py").chmod(0o755)


def _link(folder: Path) -> None:
    text = (folder / "handler.py").read_text()
    (folder / "elsewhere.py").write_text(text)
    (folder / "handler.py").unlink()
    (folder / "handler.py").symlink_to("elsewhere.py")


def _binary(folder: Path) -> None:
    (folder / "handler.py").write_bytes(b"\0" * 10)


def _large(folder: Path) -> None:
    (folder / "more.txt").write_text("x" * (LONGEST_TEXT + 1))


def _lines(folder: Path) -> None:
    (folder / "more.txt").write_text("\n".join(map(str, range(40_000))))


ZEROS = "01d448afd928065458cf670b60f5a594d735af0172c8d67f22a81680132681ca"


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("change", "titles", "lines"),
    [
        (_append, ["~ handler.py (+1)"], ["+eval('\\x1b[2K\\u202e')"]),
        (_add, ["+ more.py"], []),
        (_remove, ["- handler.py (-1)"], ["--- agreed/handler.py", "+++ /dev/null"]),
        (_permit, ["~ handler.py; it can be run as a program now"], []),
        (
            _link,
            ["+ elsewhere.py (+1)", "~ handler.py (+1 -1); a link within the plugin, to elsewhere.py"],
            ["+elsewhere.py"],
        ),
        (_binary, [f"~ handler.py; now: no plain text, 10 bytes, SHA-256 {ZEROS}"], []),
        (_large, ["+ more.txt; now: more than 256,000 bytes, 256,001 bytes, SHA-256"], []),
        (_lines, ["+ more.txt (+40,000)"], ["+++ now/more.txt", "more lines of diff"]),
    ],
)
def test_any_change_switches_a_plugin_off_and_is_shown(
    home: Home, tmp_path: Path, change: Callable[[Path], None], titles: list[str], lines: list[str]
) -> None:
    folder = make(home.plugins / "one")
    agree(home, folder)
    before = shelved(home, tmp_path / "work")["home one"]
    assert before.is_on and before.difference() == () and differences(home, before) == ()
    change(folder)
    after = shelved(home, tmp_path / "work")["home one"]
    assert after.standing == "changed" and "hermes plugin enable one" in after.reason
    found = differences(home, after)
    assert len(after.difference()) == len(found) == len(titles)
    assert all(each.title.startswith(title) for each, title in zip(found, titles, strict=True))
    text = "\n".join(lines_of(found))
    assert all(line in text for line in lines) and len(text) <= 1.01 * MOST_SHOWN
    assert not any(each in text for each in "\x1b\u202e\0")


def test_a_text_that_nobody_agreed_to_is_not_compared_with(home: Home, tmp_path: Path) -> None:
    folder = make(home.plugins / "one")
    agree(home, folder)
    _append(folder)
    after = shelved(home, tmp_path / "work")["home one"]
    (kept,) = (home.root / "plugin-texts").iterdir()
    told = json.loads(zlib.decompress(kept.read_bytes()))
    told["handler.py"]["text"] = (folder / "handler.py").read_text()
    for content in (zlib.compress(json.dumps(told).encode()), b"", b"x", zlib.compress(b"[5]")):
        kept.write_bytes(content)
        (found,) = differences(home, after)
        assert found.diff == "" and "its text was not kept when you agreed" in found.title
    # What changes while it is looked at is not shown as what was hashed.
    (folder / "handler.py").write_text("3")
    assert "it is being changed right now" in differences(home, after)[0].title


def test_what_python_and_git_leave_changes_nothing(home: Home, tmp_path: Path) -> None:
    folder = make(home.plugins / "one")
    agree(home, folder)
    for name in ("__pycache__", ".git"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("x")
    assert shelved(home, tmp_path / "work")["home one"].is_on


def test_a_folder_that_merely_lies_there_is_disabled(home: Home, tmp_path: Path) -> None:
    make(home.plugins / "one")
    (home.plugins / "empty").mkdir()
    (home.plugins / ".new-x").mkdir()
    found = shelved(home, tmp_path / "work")
    assert {name: each.standing for name, each in found.items()} == {
        "home one": "disabled",
        "home empty": "broken",
    }


def test_a_project_is_trusted_before_its_plugins_are(home: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    agree(home, make(work / ".hermes" / "plugins" / "one"))
    outside = make(tmp_path / "outside")
    agree(home, outside)
    (work / ".hermes" / "plugins" / "two").symlink_to(outside)
    assert shelved(home, work)["project one"].is_on
    assert shelved(home, work)["project outside"].standing == "refused"
    (work / ".hermes" / "config.yaml").write_text("model: {}\n")
    assert "hermes config trust" in shelved(home, work)["project one"].reason
    project = trust.read_project(home, work)
    assert project is not None
    trust.trust(home, project)
    assert shelved(home, work)["project one"].is_on


def test_a_name_that_is_taken_is_refused_and_says_by_whom(home: Home, tmp_path: Path) -> None:
    first = make(home.plugins / "a", "same")
    second = make(home.plugins / "b", "same")
    for folder in (first, second):
        agree(home, folder, "same")
    found = shelved(home, tmp_path / "work")
    assert found["home a"].is_on
    assert found["home b"].standing == "refused" and str(first) in found["home b"].reason


def test_an_installed_package_brings_one_without_being_imported(home: Home, tmp_path: Path) -> None:
    site = tmp_path / "site"
    folder = make(site / "hermes_words", "words")
    (folder / "__init__.py").write_text("raise SystemExit('imported')")
    about = site / "hermes_words-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-words\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[hermes.plugins]\nwords = hermes_words\nnone = not_there\n")
    points = tuple(PathDistribution(about).entry_points)
    assert shelved(home, tmp_path / "work", *points)["pip hermes_words"].standing == "disabled"
    agree(home, folder, "words")
    assert shelved(home, tmp_path / "work", *points)["pip hermes_words"].is_on


@pytest.mark.parametrize("content", [b"", b"{}", b'{"plugins": 3}', b"\xff", b"[" * 100_000])
def test_a_damaged_consent_file_agrees_to_nothing(home: Home, content: bytes) -> None:
    home.plugin_consent.write_bytes(content)
    home.plugin_consent.chmod(0o600)
    assert PluginConsents(home.plugin_consent).read() == {}


def test_a_consent_file_that_others_may_write_agrees_to_nothing(home: Home) -> None:
    agree(home, make(home.plugins / "one"))
    assert PluginConsents(home.plugin_consent).read()
    home.plugin_consent.chmod(0o666)
    assert PluginConsents(home.plugin_consent).read() == {}


def test_devices_and_links_that_lead_out_are_hashed_without_being_read(home: Home) -> None:
    folder = make(home.plugins / "one")
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    before = hashes(folder)
    assert {"pipe", "link"} <= set(before)
    (folder / "link").unlink()
    (folder / "link").symlink_to("/etc/group")
    assert hashes(folder)["link"] != before["link"]
