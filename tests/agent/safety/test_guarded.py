"""Which places need a yes in every mode: by name, through links, in any spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.guarded import ANYWHERE, guarded_place, guarded_reason
from agent.safety.places import cached_paths
from agent.safety.reader.tree import ANY, UNKNOWN
from tools.services.actions import Action, ChangeSettings, DeletePath, Fetch, ReadPath, RunCommand, WritePath

HOME = Path("/home/ada")
WORKSPACE = HOME / "project"


def paths(text: str) -> list[str]:
    return text.split()


def place(path: str, *, whole: bool = False, workspace: Path = WORKSPACE) -> str | None:
    full = path if path.startswith("/") else f"{workspace}/{path}"
    return guarded_place(full, workspace, HOME, whole=whole)


GUARDED = paths("""
.git/hooks/pre-commit .git/hooks .git/config .git .git/info/attributes .git/modules/x/config .git/HEAD
.git/objects/info/alternates vendor/lib/.git/hooks/post-checkout vendor/lib/.git .gitmodules .gitconfig
sub/.gitmodules .vscode/tasks.json .vscode/settings.json .vscode .vscode/new/deep.json
app/.vscode/launch.json .idea/workspace.xml .idea/runConfigurations/x.xml .exrc .vimrc .vim/plugin/x.vim
.nvim.lua .envrc .direnv/bin/x .dir-locals.el my.code-workspace .devcontainer/devcontainer.json
.cursor/mcp.json .claude/settings.json .mcp.json .github/workflows/ci.yml .github/workflows
.github/actions/x/action.yml .gitlab-ci.yml Jenkinsfile Jenkinsfile.release .circleci/config.yml
.travis.yml azure-pipelines.yml .buildkite/pipeline.yml .gitea/workflows/a.yaml .npmrc packages/a/.npmrc
.yarnrc.yml .yarn/releases/yarn.cjs .pre-commit-config.yaml .husky/pre-commit pip.conf .cargo/config.toml
crates/x/.cargo/config .bundle/config .mvn/jvm.config lefthook.yml mise.toml sitecustomize.py
lib/usercustomize.py venv/lib/python3.11/site-packages/evil.pth .hermes/config.yaml
.hermes/skills/x/SKILL.md .bashrc dotfiles/.zshrc /home/ada/.bashrc /home/ada/.profile /home/ada/.zshrc
/home/ada/.config/fish/config.fish /home/ada/.config/fish/functions/ls.fish
/home/ada/.ssh/authorized_keys /home/ada/.ssh/config /home/ada/.ssh
/home/ada/.config/systemd/user/x.service /home/ada/.config/autostart/x.desktop
/home/ada/.config/whatever/rc /home/ada/.local/bin/ls /home/ada/bin/git /home/ada/.unknownrc
/home/ada/.gitconfig /home/ada/.aws/config /home/ada/Library/LaunchAgents/x.plist
/home/ada/.local/share/applications/x.desktop /home/bob/.ssh/authorized_keys
/home/ada/.hermes/config.yaml /home/ada/.hermes/permissions.yaml /home/ada/.hermes/skins/x.yaml
/home/ada/.hermes/plugins/x/handler.py /home/ada/.hermes/agents/x.md /home/ada/.hermes/skills/x/SKILL.md
/home/ada/.hermes/trust.json /home/ada/.hermes/audit/audit-000001.jsonl /home/ada/.hermes/SOUL.md
/etc/profile.d/x.sh /etc/crontab /etc/cron.d/x /var/spool/cron/ada /etc/systemd/system/x.service
/usr/local/bin/ls /etc/ld.so.preload /opt/app/run /usr/lib/python3/dist-packages/x.py /root/.bashrc
""")

FREE = paths("""
src/app.py README.md .gitignore .gitattributes .editorconfig .github/ISSUE_TEMPLATE/bug.md
.github/dependabot.yml .github/CODEOWNERS Makefile package.json pyproject.toml conftest.py git/config
hooks/pre-commit config workflows/ci.yml docs/.nojekyll model.pth weights/best.pth .env.example build/x
.pytest_cache/x .venv/bin/python tests/vscode/tasks.json .git/info/exclude .git/COMMIT_EDITMSG
.git/index.lock Dockerfile docker-compose.yml settings.json tasks.json .dockerignore .prettierrc
.eslintrc.json .python-version github/workflows/ci.yml src/hermes/config.yaml .cargo-ok .gitkeep /tmp/x
/dev/null /home/ada/notes.txt /home/ada/.cache/pip/x /home/ada/.local/share/app/data.db
/home/ada/other/a.py /home/ada/.hermes/scratch/s1/out.txt /var/tmp/x /var/log/x
""")


@pytest.mark.sample(84)
@pytest.mark.parametrize("path", GUARDED)
def test_what_runs_something_later_is_guarded(path: str) -> None:
    assert place(path)
    assert place(path, whole=True)


@pytest.mark.parametrize("path", FREE)
def test_plain_files_are_not(path: str) -> None:
    assert place(path) is None


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/hooks/x",
        ".Git/Hooks/pre-commit",
        ".git./config",
        ".git /config",
        ".g\u200cit/config",
        ".git\u200b/hooks/x",
        "\uff0egit/hooks/x",
        "\u2024git/config",
        "GIT~1/hooks/x",
        ".git::$INDEX_ALLOCATION/config",
        ".git\\hooks\\pre-commit",
        ".VSCode/Tasks.json",
        ".vscode\u00ad/tasks.json",
        ".GitHub/Workflows/CI.yml",
        "jenkinsfile",
        "src/../.git/config",
        "./.git//hooks/./x",
        "/proc/self/root/home/ada/.bashrc",
        "/home/ada/../ada/.BASHRC",
        ".gitmodules. .",
    ],
)
def test_other_spellings_are_known(path: str) -> None:
    assert place(path)


@pytest.mark.parametrize(
    "path",
    [
        f".gi{ANY}/hooks/x",
        f".{ANY}",
        f".git/{ANY}",
        f".git/hooks/{UNKNOWN}",
        f"{UNKNOWN}/hooks/pre-commit",
        f"{UNKNOWN}/workflows/ci.yml",
        f".github/{UNKNOWN}/ci.yml",
        f"{UNKNOWN}/tasks.json",
        f".vs{UNKNOWN}/x",
        f"/home/ada/.bash{ANY}",
        f"/home/ada/.ssh/{UNKNOWN}",
    ],
)
def test_globs_and_half_known_names_count_when_they_can_lead_there(path: str) -> None:
    assert place(path, whole=True)


@pytest.mark.parametrize(
    "path", [UNKNOWN, f"src/{UNKNOWN}", f"{ANY}", f"build/{ANY}.o", f"{UNKNOWN}/main.py"]
)
def test_the_wholly_unknown_is_no_reason(path: str) -> None:
    assert place(path) is None


@pytest.mark.parametrize(
    "path", [".github", "/home/ada/.config", "/home/ada/.local", "/home/ada/Library", ".cargo"]
)
def test_the_folder_around_counts_when_all_of_it_goes(path: str) -> None:
    assert place(path, whole=True)


def test_hermes_home_counts_wherever_it_is() -> None:
    own = Path("/srv/hermes")
    assert guarded_place("/srv/hermes/config.yaml", WORKSPACE, HOME, own=own)
    assert guarded_place("/srv", WORKSPACE, HOME, own=own, whole=True)
    assert guarded_place("/srv/hermes/scratch/s/x", WORKSPACE, HOME, own=own) is None
    assert guarded_place("/srv/data", WORKSPACE, HOME, own=own) is None


def test_a_workspace_inside_a_hidden_or_system_folder_can_be_worked_in() -> None:
    hidden = HOME / ".worktrees" / "fix"
    assert place("src/a.py", workspace=hidden) is None
    assert place(".git/config", workspace=hidden)
    assert place(str(HOME / ".worktrees" / "other"), workspace=hidden)
    assert place("app.py", workspace=Path("/usr/src/app")) is None
    assert place("/usr/bin/ls", workspace=Path("/usr/src/app"))
    assert place("init.lua", workspace=HOME / ".config" / "nvim")


def test_links_are_followed(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / "innocent").symlink_to(".git/hooks")
    (workspace / "chain").symlink_to("innocent")
    home = tmp_path / "home"
    home.mkdir()
    (workspace / "notes.txt").symlink_to(home / ".bashrc")  # does not exist yet
    for path in ("innocent/pre-commit", "chain/pre-commit", "notes.txt", f"chain/{UNKNOWN}"):
        assert guarded_place(str(workspace / path), workspace, home), path


def test_a_linked_home_or_workspace_is_known_by_both_names(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    home = tmp_path / "home"
    home.symlink_to(real)
    for root in (home, real):
        assert guarded_place(f"{root}/.somerc", root / "w", home)


def test_a_second_name_of_a_start_up_file_is_known(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (tmp_path / ".bashrc").write_text("")
    os.link(tmp_path / ".bashrc", workspace / "notes.txt")
    (workspace / "plain.txt").write_text("")
    os.link(workspace / "plain.txt", workspace / "twin.txt")
    assert guarded_place(str(workspace / "notes.txt"), workspace, tmp_path)
    assert guarded_place(str(workspace / "twin.txt"), workspace, tmp_path) is None


def test_ordinary_names_share_an_answer_but_links_among_them_do_not(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "home" / "project"
    (workspace / "src").mkdir(parents=True)
    (home / ".bashrc").write_text("x")
    os.link(home / ".bashrc", workspace / "src" / "second.txt")
    (workspace / "src" / "link.txt").symlink_to(home / ".profile")
    (workspace / "src" / "folder").symlink_to(home)
    with cached_paths():
        for name in ("a.txt", "b.txt", "deep/er/c.txt"):
            assert guarded_place(f"{workspace}/src/{name}", workspace, home) is None
        for name in (
            "second.txt",
            "link.txt",
            "folder/.zshrc",
            ".envrc",
            "deep/er/.envrc",
            ".git/hooks/a.txt",
        ):
            assert guarded_place(f"{workspace}/src/{name}", workspace, home), name
        assert guarded_place(f"{workspace}/src/d.txt", workspace, home) is None


def test_the_hooks_of_a_bare_repository_are_known_by_what_is_beside_them(tmp_path: Path) -> None:
    bare = tmp_path / "w" / "fixture"
    for folder in ("objects", "refs", "hooks"):
        (bare / folder).mkdir(parents=True)
    for path in ("hooks/post-update", "config", "HEAD"):
        assert guarded_place(str(bare / path), tmp_path / "w", tmp_path)
    assert guarded_place(str(tmp_path / "w" / "config"), tmp_path / "w", tmp_path) is None


def test_what_other_version_controls_run_is_guarded(tmp_path: Path) -> None:
    work = tmp_path / "w"
    for folder in ("db", "locks", "conf", "hooks"):
        (work / "store" / folder).mkdir(parents=True)
    (work / "link").symlink_to("_darcs")
    for path in (
        "store/hooks/pre-commit",
        "_darcs/prefs/defaults",
        "_darcs/prefs/prefs",
        "link/prefs/defaults",
        ".hg/hgrc-not-shared",
        ".jj/repo/config.toml",
    ):
        assert guarded_place(str(work / path), work, tmp_path), path
    for path in ("hooks/pre-commit", "prefs/defaults", "_darcs/prefs/boring", "_darcs"):
        assert guarded_place(str(work / path), work, tmp_path, whole=path == "_darcs") is None, path


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (WritePath(tool="write_file", path=WORKSPACE / ".git" / "config"), "changes Git's own folder"),
        (DeletePath(tool="patch", path=WORKSPACE / ".github"), "deletes what a CI service runs"),
        (ChangeSettings(tool="config", what="x"), "changes Hermes' own settings"),
        (WritePath(tool="write_file", path=WORKSPACE / "a.py"), None),
        (DeletePath(tool="patch", path=WORKSPACE / "a.py"), None),
        (ReadPath(tool="read_file", path=WORKSPACE / ".git" / "config"), None),
        (Fetch(tool="web_extract", url="https://example.com"), None),
        (RunCommand(tool="terminal", command="ls", cwd=WORKSPACE), None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_reason_names_what_would_happen(action: Action, reason: str | None) -> None:
    found = guarded_reason(action, WORKSPACE, HOME)
    assert found is None if reason is None else (found or "").startswith(reason)


_FOLDERS = st.lists(st.sampled_from(["src", "a", "Ü", "..x"]), max_size=3)


@given(_FOLDERS, st.sampled_from(sorted(ANYWHERE)), st.randoms(use_true_random=False), st.booleans())
def test_a_guarded_name_counts_in_any_folder_and_any_case(
    folders: list[str], name: str, chance: object, inside: bool
) -> None:
    spelled = "".join(chance.choice((c.lower(), c.upper())) for c in name)  # type: ignore[attr-defined]
    assert place("/".join([*folders, spelled, *(["x"] if inside else [])]))


@given(st.text(max_size=60))
def test_any_text_is_judged_without_fail(text: str) -> None:
    place(f"src/{text}")
    place(f"/{text}", whole=True)


def test_a_copy_that_is_the_workspace_is_worked_in_like_any_other() -> None:
    copy = Path("/home/ada/.hermes/copies/1a2b/project")
    for name in ("src/a.py", "README.md", "src"):
        assert guarded_place(f"{copy}/{name}", copy, HOME) is None
        assert guarded_place(f"{copy}/{name}", WORKSPACE, HOME) is not None
        assert guarded_place(f"/home/ada/.hermes/copies/3c4d/project/{name}", copy, HOME) is not None
    for name in (".git/config", ".hermes/config.yaml", ".github/workflows/ci.yml", "../../../config.yaml"):
        assert guarded_place(f"{copy}/{name}", copy, HOME) is not None
    assert guarded_place("/home/ada/.hermes/copies", copy, HOME, whole=True) is not None


LED = {
    ".envrc": ("x", "x"),
    ".vscode": ("settings/editor", "settings/editor/tasks.json"),
    ".github/workflows": ("../ci", "ci/test.yml"),
    ".git/hooks": ("../hooks", "hooks/post-checkout"),
    ".bashrc": ("not-there-yet", "not-there-yet"),
}


@pytest.mark.parametrize("name", LED)
def test_what_a_guarded_name_leads_to_is_guarded_too(name: str, tmp_path: Path) -> None:
    target, written = LED[name]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    assert place(written, workspace=tmp_path) is None
    (tmp_path / name).symlink_to(target)
    guarded = place(name, workspace=tmp_path)
    assert guarded
    assert place(written, workspace=tmp_path) == guarded
    assert place("beside", workspace=tmp_path) is None
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    assert place("elsewhere", workspace=tmp_path)


def test_a_repository_behind_a_link_stays_open_and_a_link_to_all_guards_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / ".bare" / "refs").mkdir(parents=True)
    (tmp_path / ".git").symlink_to(".bare")
    (tmp_path / ".zed").symlink_to(".")
    assert place(".bare/refs/x", workspace=tmp_path) is None
    assert place("main.py", workspace=tmp_path) is None
