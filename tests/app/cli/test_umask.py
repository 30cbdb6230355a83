"""The modes of what the agent makes: those that the person's own shell would give."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support import command
from tests.support.command import ROOT
from tests.support.model_process import ServerProcess
from tests.support.thorough import thoroughly
from tools.kit.files import make_folders, write_atomically
from tools.kit.umask import make_private

SHELL = """
umask; touch by-shell; mkdir -p shell/inner; printf '#!/bin/sh\\ntouch by-script\\n' > s.sh
chmod +x s.sh; ./s.sh; install -D s.sh made/s.sh; (sleep 0; touch by-child) & wait
git init -q repo; cd repo; git config user.email a@example.org; git config user.name A
mkdir deep; echo a > deep/a; cp ../s.sh run; git add .; git commit -qm one; rm -rf deep run
git checkout -q .; git worktree add -q ../tree 2>/dev/null; cd ..; cp -r repo copy
tar cf - s.sh | tar xf - -C made
"""
NPM = """
mkdir dep; echo '{"name":"dep","version":"1.0.0"}' > dep/package.json; cd dep; npm pack -s >/dev/null; cd ..
echo '{"name":"top","version":"1.0.0"}' > package.json
npm install -s --no-audit --no-fund ./dep/dep-1.0.0.tgz
"""
CODE = """
import os, subprocess
from hermes_tools import write_file
open("by-code", "w").close(); os.makedirs("code/inner"); subprocess.run(["touch", "code/child"], check=True)
write_file("code/by-call", "x")
"""
SCRIPT = """
ADD = '''*** Begin Patch
*** Add File: patched/new.txt
+x
*** Update File: s.sh
@@
-touch by-script
+touch by-other
*** End Patch'''
script = by_step([
    call('terminal', command=SHELL),
    call('terminal', command='umask; touch by-shell-again; ' + NPM),
    calls(('write_file', {'path': 'written/below/w.txt', 'content': 'x'}),
          ('write_file', {'path': 'w2', 'content': ''})),
    call('patch', mode='patch', patch=ADD),
    call('execute_code', code=CODE),
    call('execute_code', code='open("by-code-again", "w").close()', keep=True),
    call('terminal', command='sleep 0; touch by-background', background=True),
    call('terminal', command='while [ ! -e by-background ]; do sleep 0.01; done'),
    say('done'),
])
"""
OF_TOOLS = """
mkdir -p written/below patched code/inner
touch written/below/w.txt w2 patched/new.txt by-code code/child code/by-call
touch by-code-again by-shell-again by-background
"""
STARTS = ("subprocess.Popen", "subprocess.run", "create_subprocess_exec", "create_subprocess_shell")
NOBODY = 0xFFFFFFFF
"""The number of an entry of an access list that names nobody."""
UNDONE = [f"--file={name}" for name in ("shell", "made", "written", "patched", "code", "w2", "s.sh")]


def modes(root: Path) -> dict[str, str]:
    """Modes of everything below a folder, without the names in git's store that follow its contents."""
    return {
        str(path.relative_to(root)): stat.filemode(path.lstat().st_mode)
        for path in sorted(root.rglob("*"))
        if ".git/objects" not in str(path)
    }


@pytest.mark.thorough
@pytest.mark.parametrize("umask", ["022", *thoroughly("002"), "027", *thoroughly("077", "000")])
def test_what_the_agent_makes_has_the_modes_of_the_persons_shell(umask: str, tmp_path: Path) -> None:
    npm = NPM if umask == "022" and shutil.which("npm") else ""
    mine, theirs, home = tmp_path / "mine", tmp_path / "theirs", tmp_path / "home"
    mine.mkdir()
    theirs.mkdir()
    environ = command.environment(home) | {"npm_config_cache": str(tmp_path / "npm")}
    text = f"umask {umask}; {SHELL}\n{npm}\n{OF_TOOLS}"
    subprocess.run(["bash", "-ec", text], cwd=mine, env=environ, check=True, capture_output=True)
    source = f"SHELL, NPM, CODE = {SHELL!r}, {npm!r}, {CODE!r}\n{SCRIPT}"
    with ServerProcess(source, tmp_path) as server:
        before = os.umask(int(umask, 8))
        try:
            done = command.run(
                *("-p", "go", "--json", "--approve", "all"),
                env=command.environment(home, server.base_url),
                cwd=theirs,
            )
            seen = command.events(done.stdout)
            made = modes(theirs)
            assert seen[-1]["outcome"] == "done", done.stderr
            assert made == modes(mine)
            assert all(path.stat().st_mode & 0o77 == 0 for path in (home, *home.rglob("*.db")))
            if umask == "027":
                take_back_and_redo(theirs, home)
        finally:
            os.umask(before)
    assert modes(theirs) == made


def take_back_and_redo(folder: Path, home: Path) -> None:
    last = json.loads(rollback(folder, home, "--list", "--json"))["steps"][-1]["step"]
    rollback(folder, home, "--to", "0", "--yes", *UNDONE)
    assert not [each for each in UNDONE if (folder / each.partition("=")[2]).exists()]
    rollback(folder, home, "--to", str(last), "--yes", *UNDONE)


def rollback(folder: Path, home: Path, *arguments: str) -> str:
    """What a `hermes rollback` prints that ends well."""
    done = command.run("rollback", *arguments, env=command.environment(home), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_folder_keeps_the_group_of_the_one_it_is_made_in(tmp_path: Path) -> None:
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o2775)
    before = os.umask(0o002)
    try:
        make_private()
        make_folders(shared / "a" / "b")
        write_atomically(shared / "a" / "file", b"x", for_person=True)
        write_atomically(shared / "own", b"x")
    finally:
        os.umask(before)
    assert modes(shared) == {
        "a": "drwxrwsr-x", "a/b": "drwxrwsr-x", "a/file": "-rw-rw-r--", "own": "-rw-------"
    }  # fmt: skip


def test_a_default_access_list_counts_instead_of_the_umask(tmp_path: Path) -> None:
    # For the owner all, for the group and at most reading and entering, for others nothing.
    rule = struct.pack("<I" + "HHI" * 4, 2, 1, 7, NOBODY, 4, 5, NOBODY, 16, 5, NOBODY, 32, 0, NOBODY)
    folder = tmp_path / "listed"
    folder.mkdir()
    try:
        os.setxattr(folder, "system.posix_acl_default", rule)
    except OSError:
        pytest.skip("the file system keeps no access lists")
    make_private()
    subprocess.run(["bash", "-c", "umask 022; touch shell; mkdir made"], cwd=folder, check=True)
    write_atomically(folder / "tool", b"x", for_person=True)
    make_folders(folder / "tools")
    shown = modes(folder)
    assert (shown["tool"], shown["tools"]) == (shown["shell"], shown["made"])


PRIVATE = {
    "app/cli/health/check.py": "asks programs for their versions",
    "app/tui/terminal/pip_progress.py": "installs packages for Hermes",
    "app/cli/extend/memory.py": "opens a file of the home in the editor",
    "app/cli/extend/skill_hub.py": "asks git who somebody is",
    "app/tui/conversation/clipboard_images.py": "reads the clipboard",
    "agent/model/local/sources.py": "fetches a model into the home",
    "agent/model/local/server.py": "runs a model",
    "agent/knowledge/skills/hub/git.py": "fetches skills into the home",
    "agent/integrations/web/search/providers/ddgs.py": "asks a service",
    "agent/integrations/browser/local.py": "keeps a profile in the home",
    "agent/safety/sandbox/opening.py": "tries a boundary, and asks bwrap for its options",
    "agent/safety/sandbox/filtered.py": "opens a network",
    "agent/automation/schedule/unit.py": "speaks to systemd",
    "agent/integrations/senses/": "reads, hears and speaks",
    "tools/senses/": "reads a picture",
    "tools/files/": "looks at files",
    "tools/terminal/process_tree.py": "ends processes",
    "tools/terminal/backends/": "the far side has a umask of its own",
    "agent/knowledge/skills/bundled/": "runs with the umask already",
    "agent/integrations/plugins/child/": "runs with the umask already",
}
"""Programs that make nothing for the person, by where they are started."""


def test_every_program_for_the_person_is_started_with_their_umask() -> None:
    missing = [
        f"{place}:{node.lineno}"
        for folder in ("app", "agent", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if not (place := str(path.relative_to(ROOT))).startswith(tuple(PRIVATE))
        if "subprocess" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(STARTS)
        if "umask" not in {each.arg for each in node.keywords}
    ]
    assert not missing
