"""Commits of Mercurial, Subversion, darcs, Fossil and Breezy are asked about where they leave the machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.safety.assessor import Assessor
from agent.safety.places import Places
from agent.safety.rules import UndoCoverage
from agent.safety.sandbox.boundary import BoundaryCoverage

INSIDE = BoundaryCoverage(level="bubblewrap", network="filtered", guards_places=True)


def hg(top: Path, settings: str = "") -> None:
    (top / ".hg").mkdir()
    (top / ".hg/hgrc").write_text(settings)


def darcs(top: Path, settings: str = "") -> None:
    (top / "_darcs/prefs").mkdir(parents=True)
    (top / "_darcs/prefs/defaults").write_text(settings)


def fossil(top: Path, **config: str) -> None:
    with closing(sqlite3.connect(top / ".fslckout")) as database, database:
        database.execute("CREATE TABLE vvar(name, value)")
        database.execute("INSERT INTO vvar VALUES ('repository', '../r.fossil')")
    with closing(sqlite3.connect(top.parent / "r.fossil")) as database, database:
        database.execute("CREATE TABLE config(name, value)")
        database.executemany("INSERT INTO config VALUES (?, ?)", config.items())


def svn(top: Path, root: str, hook: str = "") -> None:
    (top / ".svn").mkdir()
    with closing(sqlite3.connect(top / ".svn/wc.db")) as database, database:
        database.execute("CREATE TABLE repository(root)")
        database.execute("INSERT INTO repository VALUES (?)", (root.replace("TOP", str(top)),))
    for name in ("db", "hooks"):
        (top / "repo" / name).mkdir(parents=True)
    if hook:
        (top / "repo/hooks/post-commit").write_text(hook)
        (top / "repo/hooks/post-commit").chmod(0o755)


def bzr(top: Path, settings: str = "", location: str = "") -> None:
    (top / ".bzr/branch").mkdir(parents=True)
    (top / ".bzr/branch/branch.conf").write_text(settings)
    if location:
        (top / ".bzr/branch/location").write_text(location)


REMOTE = "https://example.org/x"
CASES: list[tuple[str, bool, Callable[[Path], None]]] = [
    ("hg commit -m x", True, hg),
    (
        "hg ci -m x",
        True,
        lambda top: hg(top, "[paths]\ndefault = https://example.org/x\n[ui]\nusername = a\n"),
    ),
    ("hg commit -m x", True, lambda top: hg(top, "[hooks]\nprecommit = make check\n")),
    ("hg commit -m x", False, lambda top: hg(top, "[hooks]\ncommit = hg push\n")),
    ("hg commit -m x", False, lambda top: hg(top, "[hooks]\ncommit.mail = python:hgext.notify.hook\n")),
    ("hg commit -m x", False, lambda top: hg(top, "[hooks]\ncommit = ./tell\n")),
    ("hg commit -m x", False, lambda top: hg(top, "%include other\n")),
    ("hg commit -m x", False, lambda top: hg(top, "[alias]\ncommit = push\n")),
    ("hg commit --config hooks.commit='hg push'", False, hg),
    ("hg push", False, hg),
    ("darcs record -a -m x", True, darcs),
    ("darcs record -a -m x", False, lambda top: darcs(top, "record posthook darcs push -a\n")),
    ("darcs amend -a", False, lambda top: darcs(top, "ALL prehook curl -d x https://example.org\n")),
    ("darcs push", False, darcs),
    ("fossil commit -m x", True, fossil),
    ("fossil commit -m x", False, lambda top: fossil(top, **{"last-sync-url": REMOTE})),
    ("fossil commit -m x", False, lambda top: fossil(top, **{"sync-url:near": REMOTE})),
    ("fossil ci -m x", True, lambda top: fossil(top, **{"last-sync-url": REMOTE, "autosync": "off"})),
    ("fossil ci -m x", False, lambda top: fossil(top, hooks='[{"cmd": "fossil push"}]')),
    ("fossil commit -m x", False, lambda top: fossil(top, hooks="{")),
    ("fossil settings autosync on", False, fossil),
    ("fossil remote add x https://example.org", False, fossil),
    ("svn commit -m 'see https://x'", True, lambda top: svn(top, "file://TOP/repo")),
    ("svn ci -m x", False, lambda top: svn(top, REMOTE)),
    ("svn commit", False, lambda top: svn(top, "file:///elsewhere/repo")),
    (
        "svn commit",
        False,
        lambda top: svn(top, "file://TOP/repo", "#!/bin/sh\nsvn commit-email x | sendmail a\n"),
    ),
    ("svn copy -m x file://$PWD/repo/a file://$PWD/repo/b", True, lambda top: svn(top, "file://TOP/repo")),
    (f"svn copy -m x {REMOTE}/a {REMOTE}/b", False, lambda top: svn(top, "file://TOP/repo")),
    ("svn mkdir a", True, lambda top: svn(top, REMOTE)),
    ("svn mkdir -m x https://example.org/x/a", False, lambda top: svn(top, REMOTE)),
    ("brz commit -m x", True, bzr),
    ("bzr commit -m x", False, lambda top: bzr(top, f"bound = True\nbound_location = {REMOTE}\n")),
    ("brz commit --local -m x", True, lambda top: bzr(top, f"bound = True\nbound_location = {REMOTE}\n")),
    ("brz commit -m x", False, lambda top: bzr(top, "post_commit_to = a@example.org\n")),
    ("brz commit -m x", False, lambda top: bzr(top, location="bzr+ssh://example.org/x")),
    ("jj commit -m x", True, lambda top: None),
    ("jj git push", False, lambda top: None),
]


@pytest.mark.sample(14)
@pytest.mark.parametrize(("command", "passes", "given"), CASES)
def test_a_commit_is_asked_about_where_it_leaves_the_machine(
    tmp_path: Path, command: str, passes: bool, given: Callable[[Path], None]
) -> None:
    top = (tmp_path / "work/project").resolve()
    top.mkdir(parents=True)
    given(top)
    places = Places(home=str(tmp_path / "home"), guarded=(), secret=(), other_homes=())
    undo = UndoCoverage(git=True)
    found = Assessor(places, top.parent, coverage=INSIDE, undo=undo).assess(
        command.replace("$PWD", str(top)), top
    )
    assert (found.verdict.kind == "allow") == passes, found.verdict.reasons
    outside = Assessor(places, top.parent, undo=undo).assess(command.replace("$PWD", str(top)), top)
    assert passes or outside.verdict.kind != "allow"


@pytest.mark.parametrize("given", [lambda top: None, lambda top: (top / ".hg").write_text("x")])
def test_what_cannot_be_read_is_asked_about(tmp_path: Path, given: Callable[[Path], None]) -> None:
    given(tmp_path)
    places = Places(home=str(tmp_path), guarded=(), secret=(), other_homes=())
    for command in ("hg commit -m x", "svn commit -m x", "fossil commit -m x"):
        found = Assessor(places, tmp_path, coverage=INSIDE, undo=UndoCoverage(git=True)).assess(
            command, tmp_path
        )
        assert found.verdict.kind == "ask", command
