"""Settings of git that commands change: what runs nothing goes through, the rest is asked about by key."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agent.safety.sandbox.opening import NoSandbox
from agent.workspace.checkpoints.git_settings import examples, keys_to_ask, passes
from tests.agent.safety.sandbox.kinds import KINDS
from tests.agent.session.turns.test_git_brings import run, shell
from tests.agent.session.turns.test_guarded_changes import attended, result
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

PROJECT = """
git init -q -b main; git config user.name A; git config user.email a@example.org; echo a > a; git add a
git commit -qm a; git branch other; git remote add origin https://example.org/a.git
"""
HARMLESS = (
    "git branch -m other renamed",
    "git remote add fork https://example.org/fork.git",
    "git remote add near ../near && git config user.name B",
    "git checkout -q -b topic --track main",
    "git config pull.rebase true && git config --unset pull.rebase",
    "git sparse-checkout set --no-cone a && git sparse-checkout disable",
    "git remote rename fork other-fork",
    "git remote remove near",
    "git branch -d -q topic 2>&1 || git checkout -q main && git branch -D topic -q",
    "git init -q sub && git -C sub commit -q --allow-empty -m s",
    "git -C sub config user.name C && git -C sub remote add x https://example.org/x",
)
"""What everybody does; the sample of `test_everyday_git`."""


@pytest.mark.parametrize(("key", "value", "is_harmless"), list(examples()))
def test_the_table_knows_its_examples(key: str, value: str, is_harmless: bool) -> None:
    assert passes(key, str(value)) == is_harmless


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        ({}, {"remote.new.url": ("https://x/y",)}, []),
        ({"remote.o.url": ("https://x/y",)}, {"remote.o.url": ("https://x/z",)}, ["remote.o.url"]),
        ({}, {"remote.origin.url": ("https://x/other",)}, ["remote.origin.url"]),
        ({}, {"remote.origin.url": ("https://had/it",)}, []),
        ({}, {"remote.n.url": ("https://x/y", "https://z")}, ["remote.n.url"]),
        ({}, {"branch.b.remote": ("nowhere",)}, ["branch.b.remote"]),
        ({}, {"branch.b.remote": ("https://x/y",)}, ["branch.b.remote"]),
        ({"core.hookspath": ("mine",)}, {}, ["core.hookspath"]),
        ({"remote.o.url": ("https://x",), "remote.o.pushurl": ("y",)}, {}, []),
        ({"remote.o.url": ("https://x",), "remote.o.pushurl": ("y",)}, {"remote.o.url": ("https://x",)},
         ["remote.o.pushurl"]),
        ({"branch.a.remote": (".",)}, {"branch.b.remote": (".",)}, []),
        ({}, {"alias.x": ("!id",), "core.sshcommand": ("x",)}, ["alias.x", "core.sshcommand"]),
    ],
)  # fmt: skip
def test_what_is_asked_about(
    before: dict[str, tuple[str, ...]], after: dict[str, tuple[str, ...]], keys: list[str]
) -> None:
    assert keys_to_ask(before, after, {"origin": "https://had/it"}) == keys


@pytest.mark.thorough
async def test_harmless_changes_are_as_outside(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        shell(tmp_path, "cp -a work other")
        await run(b, *HARMLESS)
        for number, each in enumerate(HARMLESS, 1):
            done = subprocess.run(
                ["bash", "-c", each], cwd=tmp_path / "other", capture_output=True, check=False
            )
            assert result(b, number).get("exit_code") == done.returncode, (each, result(b, number))
            assert "note" not in result(b, number), result(b, number)
        for file in (".git/config", ".git/config.worktree", "sub/.git/config"):
            ours, theirs = b.workspace / file, tmp_path / "other" / file
            assert ours.exists() == theirs.exists(), file
            assert not ours.exists() or ours.read_text() == theirs.read_text()
        assert not (b.workspace / ".git/commondir").exists()


def hidden(b: Bench, text: str) -> None:
    """A script that a reader of commands does not understand."""
    (b.workspace / "act.py").write_text(f"import os\nos.system({text!r})")


@pytest.mark.thorough
async def test_what_runs_something_is_asked_about_once_by_key(tmp_path: Path) -> None:
    text = "git config core.fsmonitor ./x; git config filter.f.clean y; git config user.name New"
    for choice in ("once", "deny"):
        folder = tmp_path / choice
        folder.mkdir()
        async with bench(folder, lambda *_: None) as b:
            shell(b.workspace, PROJECT)
            hidden(b, text)
            b.server.script = by_step([call("terminal", command="python3 act.py"), say("done")])
            async with attended(b, choice) as (engine, asked):
                await engine.run("go")
            [question] = asked
            assert "git-config(core.fsmonitor), git-config(filter.f.clean)" in question.headline
            assert "user.name" not in question.headline
            found = shell(b.workspace, "git config --file .git/config -l")
            assert "user.name=New" in found
            assert ("core.fsmonitor" in found and "filter.f" in found) == (choice == "once")
            assert result(b, 1)["exit_code"] == (0 if choice == "once" else 1)
            assert ("git-config(core.fsmonitor)" in result(b, 1).get("note", "")) == (choice == "deny")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "way",
    [
        "git config include.path x",
        "git config remote.origin.url https://elsewhere.example/x",
        "printf '[core]\\n\\tfsmonitor = ./x\\n' >> .git/config",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./x",
        "printf '[core]\\n\\tfsmonitor = ./x\\n' > .git/config.worktree",
        "mv .git/config c; cp c .git/config; echo '[core] fsmonitor=x' >> .git/config",
        "ln -sf $PWD/evil .git/config",
        "echo .. > .git/commondir",
        "git -C sub config core.hooksPath x",
    ],
)
async def test_nothing_that_runs_stands_in_the_settings_at_any_moment(tmp_path: Path, way: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, f"{PROJECT}\ngit init -q sub; echo '[core] fsmonitor = x' > evil")
        hidden(b, f"{way}; mkfifo /tmp/p; echo ready > ready; sleep 0.3")
        before = shell(b.workspace, "cat .git/config sub/.git/config")
        seen: list[str] = []
        b.server.script = by_step([call("terminal", command="python3 act.py"), say("done")])
        async with b.engine(attended=False, approve="yolo") as engine:
            import asyncio

            task = asyncio.ensure_future(engine.run("go"))
            while not task.done():
                files = [b.workspace / ".git" / name for name in ("config", "config.worktree")]
                seen += [
                    each.read_text() for each in (*files, b.workspace / "sub/.git/config") if each.exists()
                ]
                await asyncio.sleep(0.02)
            await task
        assert not [text for text in seen if "fsmonitor" in text or "elsewhere" in text or "include" in text]
        after = shell(b.workspace, "cat .git/config sub/.git/config")
        assert after.replace("\tworktreeConfig = true\n", "").replace("[extensions]\n", "") == before
        assert "fsmonitor" not in shell(b.workspace, "git config -l --show-origin")
        assert not (b.workspace / ".git/commondir").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("git lfs install --local", "filter.lfs.clean), git-config(filter.lfs.smudge), git-config"),
        ("git annex init here", "annex.uuid), git-config(annex.version), git-config(filter.annex.smudge)"),
    ],
)
@pytest.mark.parametrize("choice", ["once", "deny"])
async def test_what_sets_up_an_extension_is_one_question_for_all_keys(
    tmp_path: Path, command: str, keys: str, choice: str
) -> None:
    if shutil.which(f"git-{command.split()[1]}") is None:
        pytest.skip("not on this machine")
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        before = shell(b.workspace, "cat .git/config; ls .git/hooks")
        b.server.script = by_step([call("terminal", command=command), say("done")])
        async with attended(b, choice) as (engine, asked):
            await engine.run("go")
        assert len(asked) == 1 and keys in str(asked[0].reasons), asked
        after = shell(b.workspace, "cat .git/config; ls .git/hooks")
        assert (after == before) == (choice == "deny")
        assert choice == "deny" or result(b, 1).get("exit_code") == 0, result(b, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock-alone", "none"])
async def test_repositories_are_deleted_unasked_in_every_boundary(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind not in KINDS and kind != "none":
        pytest.skip("not on this machine")
    monkeypatch.setattr("agent.safety.sandbox.opening.probe", lambda mode: KINDS.get(kind, NoSandbox()))
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        shell(
            b.workspace,
            "for each in one two three; do git clone -q . $each; mkdir $each/.vscode; "
            "echo {} > $each/.vscode/settings.json; done",
        )
        last = "cd three && git status -s && cd .. && rm -fr $PWD/three"
        await run(b, "rm -rf one", "rm -rf ./tw* && echo gone", last)
        for number in (1, 2, 3):
            assert result(b, number).get("exit_code") == 0, result(b, number)
            assert "note" not in result(b, number), result(b, number)
        assert sorted(path.name for path in b.workspace.iterdir()) == [".git", "a"]


@pytest.mark.thorough
async def test_the_repository_of_the_workspace_is_deleted_after_a_yes(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        b.server.script = by_step([call("terminal", command="rm -rf .git"), say("done")])
        async with attended(b, "once") as (engine, asked):
            await engine.run("go")
        assert len(asked) == 1 and result(b, 1).get("exit_code") == 0, result(b, 1)
        assert not (b.workspace / ".git").exists()


@pytest.mark.thorough
async def test_what_a_deletion_lets_be_written_does_not_stay(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, f"{PROJECT}\ngit clone -q . copy")
        hidden(b, "git -C copy config core.fsmonitor x; echo x > copy/.git/hooks/pre-commit")
        await run(b, "python3 act.py; false && rm -rf copy")
        assert "fsmonitor" not in shell(b.workspace, "cat copy/.git/config")
        assert not (b.workspace / "copy/.git/hooks/pre-commit").exists()


@pytest.mark.thorough
async def test_a_rule_allows_a_key(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        b.home.mkdir(exist_ok=True)
        (b.home / "permissions.yaml").write_text("rules:\n  - git-config(filter.f.*): allow\n")
        hidden(b, "git config filter.f.clean x; git config filter.f.smudge y")
        await run(b, "python3 act.py")
        assert "filter.f.smudge=y" in shell(b.workspace, "git config -l"), result(b, 1)
