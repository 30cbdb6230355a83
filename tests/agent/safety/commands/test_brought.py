from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    (folder / "src").mkdir(parents=True)
    return folder


def verdict(workspace: Path, command: str) -> str:
    home = str(workspace.parent)
    return Assessor(Places(home=home), workspace).assess(command, workspace).kind


def packed(path: Path, *names: str, link: str = "") -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "x")
        return
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))
        if link:
            entry = tarfile.TarInfo("link")
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            archive.addfile(entry)


@pytest.mark.parametrize(
    "name", [".git/hooks/pre-commit", "a/.github/workflows/ci.yml", "../x", ".vscode/tasks.json"]
)
@pytest.mark.parametrize(
    "command", ["tar xzf p.tgz", "tar -xf p.tgz -C src", "unzip -o p.zip", "unzip p.zip -d src"]
)
def test_archives_that_bring_what_runs_later_ask(workspace: Path, name: str, command: str) -> None:
    for archive in ("p.tgz", "p.zip"):
        packed(workspace / archive, "readme", name)
    assert verdict(workspace, command) == "ask"


@pytest.mark.parametrize("command", ["tar xzf p.tgz", "unzip -o p.zip", "tar -xf p.tgz -C src"])
def test_archives_with_plain_files_are_unpacked_unasked(workspace: Path, command: str) -> None:
    for archive in ("p.tgz", "p.zip"):
        packed(workspace / archive, "readme", "lib/a.py")
    assert verdict(workspace, command) == "allow"


def test_an_archive_with_a_link_to_outside_asks(workspace: Path) -> None:
    packed(workspace / "p.tgz", "a", link="/etc")
    assert verdict(workspace, "tar xzf p.tgz") == "ask"


def test_removed_leading_folders_count(workspace: Path) -> None:
    packed(workspace / "p.tgz", "x/.gitignore", "x/a.py")
    assert verdict(workspace, "tar xzf p.tgz --strip-components=1") == "allow"
    packed(workspace / "p.tgz", "x/.envrc")
    assert verdict(workspace, "tar xzf p.tgz --strip-components=1") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git show evil:p.tgz > p.tgz && tar xzf p.tgz",
        "cp src/p.tgz . && tar xzf p.tgz",
        "base64 -d < a.txt | tar xz",
        "cat a.txt | git apply",
        "tar xzf /tmp/nowhere-to-be-found.tgz",
        "git am missing.patch",
    ],
)
def test_what_cannot_be_looked_into_asks(workspace: Path, command: str) -> None:
    assert verdict(workspace, command) == "ask"


@pytest.mark.parametrize(
    "command",
    ["git apply p.diff", "git am p.diff", "patch -p1 < p.diff", "patch -p1 -i p.diff", "git apply < p.diff"],
)
@pytest.mark.parametrize(
    ("path", "kind"), [("src/a.py", "allow"), (".github/workflows/a.yml", "ask"), ("../a", "ask")]
)
def test_patches_are_judged_by_what_they_change(workspace: Path, command: str, path: str, kind: str) -> None:
    (workspace / "p.diff").write_text(PATCH.format(path))
    assert verdict(workspace, command) == kind


def test_a_patch_that_makes_a_link_or_is_no_patch_asks(workspace: Path) -> None:
    (workspace / "p.diff").write_text("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n")
    assert verdict(workspace, "git apply p.diff") == "ask"
    (workspace / "p.diff").write_text("1d\n!touch x\n")
    assert verdict(workspace, "patch src/a < p.diff") == "ask"


def test_a_patch_in_a_here_document_is_read(workspace: Path) -> None:
    assert verdict(workspace, f"git apply <<'EOF'\n{PATCH.format('src/a.py')}EOF") == "allow"
    assert verdict(workspace, f"git apply <<'EOF'\n{PATCH.format('.gitlab-ci.yml')}EOF") == "ask"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cp -r plain/. .", "allow"),
        ("cp -r evil/. .", "ask"),
        ("cp -r evil copy", "ask"),
        ("mv evil/.github .", "ask"),
        ("cp evil/pre-commit .git/hooks/", "ask"),
        ("rsync -a evil/ ./", "ask"),
        ("rsync -a plain/ src/", "allow"),
        ("mv plain src/", "allow"),
        ("cp plain/a.py src/", "allow"),
    ],
)
def test_copies_of_folders_are_judged_by_what_is_in_them(workspace: Path, command: str, kind: str) -> None:
    for name in ("plain/a.py", "evil/.github/workflows/ci.yml", "evil/pre-commit"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert verdict(workspace, command) == kind


def test_emptying_what_people_wrote_asks_and_logs_do_not(workspace: Path) -> None:
    (workspace / "notes").write_text("x")
    for command in (
        "truncate -s 0 notes",
        "dd if=/dev/zero of=notes",
        "cp /dev/null notes",
        "truncate -s 0 *.go",
    ):
        assert verdict(workspace, command) == "ask", command
    for command in (
        "truncate -s 0 app.log",
        "dd if=/dev/zero of=disk.img bs=1M count=4",
        "truncate -s 10M new",
    ):
        assert verdict(workspace, command) == "allow", command


def test_a_large_archive_is_not_read_to_its_end(workspace: Path) -> None:
    path = workspace / "p.tgz"
    path.touch()
    os.truncate(path, 60_000_000)
    assert verdict(workspace, "tar xzf p.tgz") == "ask"
