"""An update renews a bundled skill that nobody changed, and leaves one that somebody did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.knowledge.skills.catalog import SkillCatalog, SkillOriginals
from agent.knowledge.skills.keeper import carried_out, draft_change
from tests.support.skills import write_skill
from tools.services.skill_keeper import SkillChange


@pytest.fixture
def catalog(tmp_path: Path) -> SkillCatalog:
    write_skill(tmp_path / "bundled", "data/plots", body="Draw bars.")
    home = Home(tmp_path / "home")
    home.skills.mkdir(parents=True, mode=0o700)
    return SkillCatalog(home=home, workspace=tmp_path, user=tmp_path / "person", bundled=tmp_path / "bundled")


def changed(catalog: SkillCatalog, old: str, new: str) -> Path:
    """The skill with a change by the agent; where it lies then."""
    change = SkillChange(act="patch", name="plots", file="SKILL.md", old=old, new=new)
    write = draft_change(change, catalog.load(), catalog.home).plan
    carried_out(write)
    if write.original:
        SkillOriginals(catalog.home).remember(write.folder, write.original)
    return write.folder


def renew(catalog: SkillCatalog) -> None:
    path = catalog.bundled / "data" / "plots" / "SKILL.md"
    path.write_text(path.read_text() + "\nDraw lines too.\n")
    (path.parent / "references").mkdir()
    (path.parent / "references" / "new.md").write_text("More.\n")


def test_a_changed_copy_stays_and_is_named_once_there_is_a_new_version(catalog: SkillCatalog) -> None:
    copy = changed(catalog, "Draw bars.", "Draw blue bars.")
    assert catalog.load().renewed == ()
    renew(catalog)
    found = catalog.load()
    skill = found.get("plots")
    assert skill is not None and skill.folder == copy and "blue" in skill.body
    (note,) = found.renewed
    assert "plots has a new version; yours, which you changed, stays in force" in note
    shutil.rmtree(copy)
    found = catalog.load()
    skill = found.get("plots")
    assert skill is not None and skill.scope == "bundled" and not found.renewed


def test_a_copy_that_is_as_it_was_copied_gives_way(catalog: SkillCatalog) -> None:
    copy = changed(catalog, "Draw bars.", "Draw blue bars.")
    changed(catalog, "Draw blue bars.", "Draw bars.")
    renew(catalog)
    found = catalog.load()
    skill = found.get("plots")
    assert skill is not None and skill.scope == "bundled" and "lines too" in skill.body
    assert [each.folder for each in found.shadowed] == [copy]
    assert found.renewed == ()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"data/plots": 3}', b"\xff\0", b"[" * 5_000])
def test_a_torn_record_leaves_the_copy_in_force(catalog: SkillCatalog, content: bytes) -> None:
    copy = changed(catalog, "Draw bars.", "Draw blue bars.")
    (catalog.home.skills / ".hub" / "originals.json").write_bytes(content)
    renew(catalog)
    found = catalog.load()
    skill = found.get("plots")
    assert skill is not None and skill.folder == copy
    assert found.renewed == ()
