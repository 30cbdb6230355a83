"""Guarded places that stand are read-only to programs whichever way they try; other work continues."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.safety.sandbox.layout import GuardedFinder
from agent.safety.sandbox.opening import _place_reader
from tests.agent.safety.sandbox.cell import Cell
from tests.agent.safety.sandbox.kinds import WITH_NAMESPACES
from tools.services.sandbox import Need

FILES = (
    ".envrc",
    ".npmrc",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    "Jenkinsfile",
    ".mcp.json",
    "lib/.envrc",
    "lib/inner/.pre-commit-config.yaml",
    "x.code-workspace",
)
IN_FOLDERS = (
    ".vscode/settings.json",
    ".github/workflows/ci.yml",
    ".husky/pre-commit",
    ".hermes/permissions.yaml",
    ".claude/settings.json",
    "lib/.vscode/tasks.json",
    "lib/.git/hooks/pre-commit",
)
PLACES = (*FILES, *IN_FOLDERS)
BEFORE = "as it was\n"

WAYS = {
    "echo": "echo evil > {place}",
    "append": "echo evil >> {place}",
    "open": "{python} -c \"open('{place}', 'w').write('evil')\"",
    "link": "ln -s {place} way && echo evil > way",
    "hard link": "ln {place} other && echo evil > other",
    "rename over": "echo evil > new && mv -f new {place}",
    "replace": "echo evil > new && {python} -c \"import os; os.replace('new', '{place}')\"",
    "remove": "rm -f {place}; echo evil > {place}",
    "rename away": "mv {place} away; echo evil > {place}",
    "folder": "mv {folder} away && mkdir -p {folder} && echo evil > {place}",
    "folder removed": "rm -rf {folder}; mkdir -p {folder} && echo evil > {place}",
    "folder replaced": "mkdir made && echo evil > made/{name} && mv -T --exchange made {folder}; "
    "{python} -c \"import os; os.rename('made', '{folder}')\"",
    "truncate": "truncate -s 0 {place}; : > {place}",
    "in place": "sed -i s/was/evil/ {place}",
    "mode": "chmod 777 {place} && echo evil > {place}",
}


@pytest.fixture
def furnished(cell: Cell) -> Cell:
    for place in PLACES:
        path = cell.workspace / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BEFORE)
    return cell


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
@pytest.mark.parametrize("way", list(WAYS))
def test_a_guarded_place_stays_as_it_was(furnished: Cell, way: str):
    script = ""
    for place in PLACES:
        folder, _, name = place.rpartition("/")
        if "folder" in way and (not folder or folder == "lib" or folder == "lib/inner"):
            continue
        text = WAYS[way].format(place=place, folder=folder, name=name, python="python3")
        script += f"( {text} ); rm -rf way other new away made\n"
    furnished.shell(script)
    assert {place: (furnished.workspace / place).read_text() for place in PLACES} == dict.fromkeys(
        PLACES, BEFORE
    )


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_what_a_guarded_link_leads_to_stays_as_it_was(cell: Cell):
    for place in ("run/env", "ci/test.yml", "run/other"):
        (cell.workspace / place).parent.mkdir(exist_ok=True)
        (cell.workspace / place).write_text(BEFORE)
    (cell.workspace / ".envrc").symlink_to("run/env")
    (cell.workspace / ".github").mkdir()
    (cell.workspace / ".github/workflows").symlink_to("../ci")
    script = "for n in run/env ci/test.yml run/other; do echo evil >$n; done; echo evil >ci/new; "
    cell.shell(script + "mv run away; mv ci away2; rm -rf run ci")
    assert (cell.workspace / "run/env").read_text() == BEFORE
    assert os.listdir(cell.workspace / "ci") == ["test.yml"]
    assert (cell.workspace / "ci/test.yml").read_text() == BEFORE
    assert not (cell.workspace / "run/other").exists()


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_work_around_guarded_places_goes_on(furnished: Cell):
    ended = furnished.shell(
        "echo a > .github/dependabot.yml && mkdir -p .hermes/scratch && echo b > lib/code.py "
        "&& mv lib/code.py . && cat .vscode/settings.json .envrc && cp -r .vscode /tmp/copy "
        "&& rm -r .github/dependabot.yml"
    )
    assert ended.code == 0, ended.output


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_nothing_is_left_and_git_sees_nothing(furnished: Cell):
    def git(*words: str) -> str:
        argv = ["git", "-C", str(furnished.workspace), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    shutil.rmtree(furnished.workspace / "lib/.git")
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "first")
    before = sorted(os.listdir(furnished.workspace))
    ended = furnished.shell("git status --porcelain; ls -A | wc -l")
    assert ended.output.split() == [str(len(before))]
    assert git("status", "--porcelain") == "" and sorted(os.listdir(furnished.workspace)) == before


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_the_refusal_names_the_place_and_how_to_go_on(furnished: Cell):
    scripts = {
        "echo evil > .envrc": ".envrc",
        "rm -rf .github": ".github/workflows",
        "mv lib/.vscode x": "lib/.vscode",
        "python3 -c \"open('.npmrc', 'w')\"": ".npmrc",
    }
    for script, name in scripts.items():
        ended = furnished.shell(script)
        told = furnished.boundary.refusal(ended.output, network=False)
        assert ended.code != 0 and told.startswith(f"{name} runs something later"), (ended.output, told)
        assert "write_file" in told and "outside=true" in told


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_what_a_person_said_yes_to_is_changed_and_nothing_else(furnished: Cell):
    reads = _place_reader(furnished.workspace, furnished.user / ".hermes")
    command = "echo mine > .envrc; python3 -c \"open('.npmrc', 'w').write('evil')\"; echo evil > .git/hooks/x"
    opened = reads("echo mine > .envrc", furnished.workspace)
    assert opened.named == (furnished.workspace / ".envrc",) and not opened.versions
    furnished.shell(command, need=Need(guarded_paths=opened.named, dies_with_parent=True))
    assert (furnished.workspace / ".envrc").read_text() == "mine\n"
    assert (furnished.workspace / ".npmrc").read_text() == BEFORE


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_git_brings_other_versions_whole_and_cannot_change_its_own_settings(cell: Cell):
    top = cell.workspace

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-C", str(top), "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True
        )

    git("init", "-q", "-b", "main")
    (top / ".envrc").write_text(BEFORE)
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "other")
    (top / ".envrc").write_text("other\n")
    (top / "code").write_text("other\n")
    git("add", ".")
    git("commit", "-qm", "second")
    git("checkout", "-q", "main")
    cell.boundary._reads = replace(
        cell.boundary._reads, guarded_changes=_place_reader(top, cell.user / ".hermes")
    )
    command = "git checkout -q other"
    need = Need(guarded_paths=cell.boundary.guarded_paths(command, top), dies_with_parent=True)
    ended = cell.shell(f"{command} && git status --porcelain; echo evil > .git/hooks/x", need=need)
    assert "evil" not in os.listdir(top / ".git/hooks") and not (top / ".git/hooks/x").exists()
    assert (top / "code").read_text() == (top / ".envrc").read_text() == "other\n", ended.output


def test_the_home_of_many_settings_is_no_list_without_end(tmp_path: Path):
    for number in range(200):
        (tmp_path / f"p{number:03}").mkdir()
        (tmp_path / f"p{number:03}" / ".envrc").write_text("")
    assert 1 <= len(GuardedFinder(tmp_path).find().read_only) <= 24


def test_what_came_and_went_is_seen_at_the_next_start(tmp_path: Path):
    (tmp_path / "lib").mkdir()
    finder = GuardedFinder(tmp_path)
    assert finder.find().read_only == ()
    (tmp_path / "lib" / ".envrc").write_text("")
    (tmp_path / ".vscode").mkdir()
    assert finder.find().read_only == (tmp_path / ".vscode", tmp_path / "lib/.envrc")
    (tmp_path / ".vscode").rmdir()
    (tmp_path / ".vscode").symlink_to("lib")
    assert finder.find().read_only == (tmp_path / "lib/.envrc", tmp_path / "lib")
    assert GuardedFinder(tmp_path / "missing").find().read_only == ()


def test_what_package_managers_write_every_day_stays_writable(tmp_path: Path):
    for name in ("node_modules/x/.npmrc", ".yarn/install-state.gz", ".venv/lib/site-packages/x.pth"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".yarn" / "releases").mkdir()
    assert GuardedFinder(tmp_path).find().read_only == (tmp_path / ".yarn/releases",)
