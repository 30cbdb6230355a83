"""What outlives a call: folder, environment, variables, functions, aliases, options, come what may."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.tools.terminal.conftest import DASH, Task
from tools.services.actions import RunCommand
from tools.terminal.local import LocalBackend

KEPT: list[tuple[str, str, str]] = [
    ("cd /usr", "pwd", "/usr\n"),
    ("cd /usr; cd /", "cd - >/dev/null; pwd", "/usr\n"),
    ("export A='two words'", "sh -c 'echo \"$A\"'", "two words\n"),
    ("B=plain", "echo $B; sh -c 'echo [$B]'", "plain\n[]\n"),
    ("unset NVM_OWN", "echo [$NVM_OWN]", "[]\n"),
    ("export -n NVM_OWN", "echo $NVM_OWN; sh -c 'echo [$NVM_OWN]'", "value one\n[]\n"),
    ("Q=$'a\\'b\"c`d$e\\\\f\\n\\ng\\t\\x01é'", 'printf %s "$Q" | od -An -c | head -1', "   a   '   b"),
    ("declare -a L=(one 'two three' '')", 'echo ${#L[@]} "${L[1]}"', "3 two three\n"),
    ("declare -A M=([a b]=1 [c]='2 3')", 'echo ${M[a b]} "${M[c]}"', "1 2 3\n"),
    ("declare -i N=1", "N=2+3; echo $N", "5\n"),
    ("target=7; declare -n ref=target", "ref=8; echo $target", "8\n"),
    ("readonly R=1", "R=2; echo unreached", "R: readonly variable"),
    ("readonly R=1", "echo $R", "1\n"),
    ("IFS=:", "x=a:b; set -- $x; echo $#", "2\n"),
    ('f() { echo "f:$1"; }', "f x", "f:x\n"),
    ("f() { cat <<X\nhere $1\nX\n}", "f doc", "here doc\n"),
    ("shopt -s extglob\nf() { case $1 in @(a|b)) echo yes;; esac; }", "f a", "yes\n"),
    ("f() { echo exported; }; export -f f", "bash -c f", "exported\n"),
    ("declare() { echo shadowed; }; V=kept", "echo $V", "kept\n"),
    ("alias greet='echo hello'", "greet", "hello\n"),
    ("alias f=echo; unalias f; f() { echo func; }; alias f='echo alias'", "f", "alias\n"),
    ("set -f", "echo /*", "/*\n"),
    ("set -u", "echo before; echo $nothing; echo unreached", "nothing: unbound variable"),
    ("set -e", "echo before; false; echo unreached", "before\n"),
    ("set -e", "set +e; false; echo reached", "reached\n"),
    ("set -o pipefail", "false | true; echo $?", "1\n"),
    ("set +B", "echo {a,b}", "{a,b}\n"),
    ("set -x", "echo traced", "++ echo traced\ntraced\n"),
    ("set -C", "echo a >new; echo b >new; cat new", "new: cannot overwrite existing file\na\n"),
    ("set -n; C=1", "echo still alive [$C]", "still alive []\n"),
    ("set -t; true", "echo one; echo two", "one\ntwo\n"),
    ("set -o posix; P=1", "set +o posix; echo $P", "1\n"),
    ("shopt -s nullglob", "echo [no*such]", "\n"),
    ("umask 027", "umask", "0027\n"),
    ("OLDPWD=/tmp; PWD=/nowhere", "pwd", "work space\n"),
    ("unset PATH", "echo [$PATH]", "[]\n"),
    ("RANDOM=1; SECONDS=1000", "[ $SECONDS -lt 900 ] && echo new", "new\n"),
    ("BIG=$(head -c 300000 /dev/zero | tr '\\0' x)", "echo ${#BIG}", "300000\n"),
    ("export D=1; exit 3", "echo $D", "1\n"),
    ("export D=1; (exit 4)", "echo $D", "1\n"),
    ("export D=1; echo 'unbalanced", "echo [$D]", "[]\n"),
    ("export D=1\necho 'unbalanced", "echo [$D]", "[1]\n"),
    ("export D=1\nif then", "echo [$D]", "[1]\n"),
    ("f() { export D=1; exit 2; }; f", "echo $D", "1\n"),
    ("export D=1; set -e; false", "set +e; echo $D", "1\n"),
    ("export D=1; exec 1>&- 2>&-", "echo $D", "1\n"),
    ("export D=1; exec >/dev/null", "echo $D", "1\n"),
    ("export D=1; kill -TERM $$; sleep 9", "echo $D", "1\n"),
    ("export D=1; trap 'true' EXIT", "echo $D", "1\n"),
    ("export D=1; trap 'true' EXIT; exit 5", "echo $D", "1\n"),
    ("export D=1; trap - EXIT; exit 5", "echo $D", "1\n"),
    ("export D=1; trap 'true' 0; set -e; false", "set +e; echo $D", "1\n"),
    ("export D=1; builtin trap - EXIT", "echo $D", "1\n"),
    ("export D=1; (trap 'true' EXIT; D=sub; exit 1)", "echo $D", "1\n"),
    ("export D=1; D=2 exec true", "echo [$D]", "[]\n"),
    ("D=1; sleep 0.01 & wait; coproc cat; echo x", "echo $D", "1\n"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("first", "second", "seen"), KEPT, ids=[one[0][:40] for one in KEPT])
async def test_the_state_of_one_call_is_there_in_the_next(task: Task, first: str, second: str, seen: str):
    await task.run(first)
    assert seen in await task.output(second)
    assert "done" in await task.output("set +efux; unset -f declare; echo done")


async def test_state_accumulates_over_many_calls(task: Task):
    for number in range(12):
        await task.run(
            f"V{number}={number}; export E{number}=e$V{number}; f{number}() {{ echo f{number}; }}; cd .."
        )
    assert await task.output("echo $V0$V11 $E5; f3; f9; sh -c 'echo $E7'") == "011 e5\nf3\nf9\ne7\n"


async def test_the_exit_trap_of_a_command_runs_once_and_sees_its_exit_code(task: Task):
    result = await task.run("trap 'echo bye $?' EXIT; exit 5")
    assert (result["output"], result["exit_code"]) == ("bye 5\n", 5)
    assert await task.output("trap 'echo a' EXIT; trap 'echo b' EXIT INT; true") == "b\n"
    assert await task.output("trap 'echo x' EXIT; trap - EXIT; true") == ""
    result = await task.run("set -e; trap 'echo cleanup; exit 9' EXIT; false")
    assert (result["output"], result["exit_code"]) == ("cleanup\n", 9)
    assert await task.output("set +e; (trap 'echo inner' EXIT); echo outer") == "inner\nouter\n"
    assert await task.output("echo quiet") == "quiet\n"


async def test_return_traps_work_as_in_any_bash(task: Task):
    assert (
        await task.output("g() { trap 'echo ret' RETURN; echo body; }; g; echo after") == "body\nret\nafter\n"
    )


async def test_a_replaced_shell_keeps_the_last_good_state(task: Task):
    await task.run("export D=1")
    assert await task.output("export D=2; exec echo replaced") == "replaced\n"
    result = await task.run("export D=3; kill -9 $$")
    assert result["exit_code"] == 137
    assert await task.output("echo $D") == "1\n"


async def test_line_numbers_in_errors_are_those_of_the_command(task: Task):
    assert "line 3: no_such_thing" in await task.output("echo a\necho b\nno_such_thing")
    await task.run("set -u")
    assert "line 2: no_such_thing" in await task.output("echo a\nno_such_thing")


async def test_commands_begin_with_a_plain_shell(task: Task):
    seen = await task.output(
        'echo "[$0] [$#] [$-]"; trap -p INT; echo "${BASH_ENV-unset}"; shopt -q login_shell || echo no'
    )
    assert seen == "[bash] [0] [hBc]\nunset\nno\n"


async def test_a_command_of_a_megabyte_arrives_whole(task: Task):
    assert await task.output("cat <<'END' | wc -c\n" + "x'\"$`\\\n" * 150_000 + "END") == f"{150_000 * 7}\n"


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "text", ["it's", 'say "hi"', "$HOME `id` $(id)", "back\\slash", "a\tb", "ünï 漢字 🙂", "!x"]
)
async def test_no_character_of_a_command_is_damaged(task: Task, text: str):
    assert await task.output(f"cat <<'END'\n{text}\nEND") == f"{text}\n"


async def test_a_workdir_holds_for_one_call_unless_the_command_goes_on_from_there(task: Task):
    (task.workspace / "sub" / "deep").mkdir(parents=True)
    assert (await task.output("pwd", workdir="sub")).endswith("work space/sub\n")
    assert (await task.output("pwd")).endswith("work space\n")
    result = await task.run("cd deep", workdir="sub")
    assert result["cwd"].endswith("sub/deep")
    assert (await task.output("pwd")).endswith("sub/deep\n")
    assert "not a folder" in (await task.run("pwd", workdir="missing"))["error"]
    assert "cannot be used" in (await task.run("pwd", workdir="a\0b"))["error"]


async def test_a_shell_keeps_its_own_name_for_a_folder_and_the_gate_sees_the_real_one(task: Task):
    (task.workspace / "real").mkdir()
    (task.workspace / "link").symlink_to("real")
    await task.run("cd link")
    assert (await task.output("pwd; pwd -P")) == f"{task.workspace}/link\n{task.workspace}/real\n"
    asked = task.context.actions[-1]
    assert isinstance(asked, RunCommand) and asked.cwd == task.workspace / "real"


async def test_a_vanished_folder_leads_back_to_the_workspace_and_says_so(task: Task):
    result = await task.run("mkdir gone && cd gone && rmdir ../gone")
    assert result["exit_code"] == 0
    result = await task.run("pwd")
    assert result["output"] == f"{task.workspace}\n"
    assert "gone" in result["note"] and str(task.workspace) in result["note"]
    assert "note" not in await task.run("pwd")
    task.workspace.rmdir()
    assert "does not exist" in (await task.run("pwd"))["error"]


async def test_a_command_that_ran_out_of_time_leaves_its_state(task: Task):
    assert (await task.run("cd /usr; export T=1; sleep 60", timeout=5))["exit_code"] == 124
    assert await task.output("pwd; echo $T") == "/usr\n1\n"


async def test_tasks_share_nothing_and_run_beside_each_other(tmp_path: Path, terminals):
    shared = terminals()
    one, two = Task(tmp_path, shared, "one"), Task(tmp_path, shared, "two")
    fifo = tmp_path / "fifo"
    await one.run(f"mkfifo {fifo}")
    # Each end of a fifo waits for the other: run one after the other, neither would end.
    results = await asyncio.gather(
        one.run(f"X=one; cd /usr; echo from one >{fifo}"), two.run(f"X=two; cat {fifo}")
    )
    assert results[1]["output"] == "from one\n"
    assert await one.output("echo $X; pwd") == "one\n/usr\n"
    assert await two.output("echo $X; pwd") == f"two\n{tmp_path}\n"


async def test_calls_of_one_task_run_one_after_another(task: Task):
    await task.run("count=0")
    await asyncio.gather(*(task.run("old=$count; sleep 0.02; count=$((old + 1))") for _ in range(6)))
    assert await task.output("echo $count") == "6\n"


async def test_state_files_are_private_and_vanish_with_the_engine(task: Task):
    await task.run("export A=1")
    files = [path for path in task.context.scratch.rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["state"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in [*files, files[0].parent])
    await task.context.terminals.aclose()
    assert not files[0].exists()


@pytest.fixture
def plain(tmp_path: Path, terminals) -> Task:
    return Task(tmp_path, terminals({"PATH": "/usr/bin:/bin", "NVM_OWN": "1"}, LocalBackend(DASH)))


async def test_without_bash_folder_and_variables_persist_and_the_loss_is_named(plain: Task):
    result = await plain.run("cd /usr; export A=\"x 'y'\nz\"; B=2; unset NVM_OWN; umask 077; exit 3")
    assert result["exit_code"] == 3
    assert "no bash" in result["note"]
    result = await plain.run('pwd; echo "$A"; echo $B [$NVM_OWN]; umask; sh -c \'echo "$A" [$B]\'')
    assert result["output"] == "/usr\nx 'y'\nz\n2 []\n0077\nx 'y'\nz []\n"
    assert "note" not in result
    assert (await plain.run("echo 'unbalanced"))["exit_code"] == 2
    assert "not found" in await plain.output("nosuch; echo $B")


def test_a_bash_that_is_there_is_used():
    assert LocalBackend().shell == ("bash" if shutil.which("bash") else "sh")


@pytest.mark.thorough
async def test_variables_too_large_to_start_a_program_with_are_named(task: Task) -> None:
    await task.run("export SMALL=1; export LARGE=$(head -c 3000000 /dev/zero | tr '\\0' x)")
    failed = await task.run("ls")
    assert failed["exit_code"] != 0 and "3.0 MB" in failed["note"] and "`unset LARGE`" in failed["note"]
    ran = await task.run("unset LARGE; ls")
    assert ran["exit_code"] == 0 and "note" not in ran
    told = await task.run("echo Argument list too long; false")
    assert "note" not in told
