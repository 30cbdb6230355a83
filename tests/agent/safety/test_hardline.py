from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.hardline import Hardline
from agent.safety.places import Places
from agent.safety.reader.expansion import Reading
from agent.safety.reader.script import read
from tests.agent.safety.corpus_files import commands

CWD = Path("/home/ada/project")
OWN = "/home/ada/.hermes"


@pytest.fixture(scope="module")
def hardline() -> Hardline:
    return make()


def make() -> Hardline:
    return Hardline(
        Places(
            home="/home/ada",
            guarded=(f"{OWN}/config.yaml", f"{OWN}/trust.json"),
            secret=(f"{OWN}/.env", f"{OWN}/state.db"),
        )
    )


@pytest.mark.parametrize(
    ("cwd", "command"),
    [
        ("/", "rm -rf *"),
        ("/home/ada", "rm -rf *"),
        ("/home/ada", "rm -rf ."),
        ("/etc", "rm -rf ./*"),
        ("/", "find . -delete"),
        ("/dev", "dd if=x of=sda"),
        ("/home/ada/.hermes", "rm state.db"),
        ("/home/ada/.hermes", "cat .env"),
        ("/proc/self/root", "rm -rf *"),
    ],
)
def test_a_relative_path_counts_from_the_folder_the_command_runs_in(
    hardline: Hardline, cwd: str, command: str
) -> None:
    assert hardline.check(command, Path(cwd))


def reading(command: str) -> Reading:
    return read(command, str(CWD), "/home/ada")


@pytest.mark.parametrize(
    "command", ["base64 -d < x | sh -", "curl http://x | sh", "eval $(cat x)", "if then (("]
)
def test_what_is_not_understood_raises_a_doubt_and_no_refusal(hardline: Hardline, command: str) -> None:
    assert hardline.check(command, CWD) == ()
    assert reading(command).doubts and not reading(command).is_known
    assert reading("make test").is_known


WRAPPINGS = st.sampled_from(
    [
        "sudo {}",
        "sudo -n -u root {}",
        "env A=1 {}",
        "nohup {} &",
        "timeout 9 {}",
        "nice -n 3 {}",
        "true && {}",
        "false || {}",
        "( {} )",
        "{{ {}; }}",
        "if :; then {}; fi",
        "for i in 1; do {}; done",
        "while :; do {}; done",
        "! {}",
        "time {}",
        "command {}",
        "x=1 {}",
        'echo "$( {} )"',
        "cat <({})",
        "ls; {}",
        "ls | {}",
        "{} | cat",
        "{} 2>/dev/null",
        "{} # comment",
        "f() {{ {}; }}; f",
    ]
)
QUOTINGS = st.sampled_from(
    [
        lambda word: word,
        lambda word: f"'{word}'",
        lambda word: f'"{word}"',
        lambda word: "".join(f"\\{letter}" for letter in word),
        lambda word: word[0] + "''" + word[1:],
        lambda word: "$'" + "".join(f"\\x{ord(letter):02x}" for letter in word) + "'",
        lambda word: f"$(echo {word})",
        lambda word: f"`printf %s {word}`",
        lambda word: "{" + word + ",}",
    ]
)
TARGETS = st.sampled_from(["/", "/etc", "/usr/bin", "/home/ada", "/home/bob", "/root", "/var/lib"])


@pytest.mark.parametrize(
    "command",
    [
        "echo `date` `rm -rf /`",
        "echo `date`\n`rm -rf /`",
        "echo `date``rm -rf /`",
        'echo "`date` `ls` `rm -rf /`"',
        "rm `printf %s -rf` `printf %s /`",
        "cat <<E\nIt's `date` `rm -rf /`\nE",
        "cat <<E\n$(date `date` `rm -rf /`)\nE",
        "echo `echo \\`rm -rf /\\``",
        'echo "`rm -rf \\"/\\"`"',
        "echo `# a note\nrm -rf /`",
        "echo `date # now` `rm -rf /`",
        "echo `(rm -rf /)`",
        ": ${z:-`rm -rf /`}",
        ': "${z:=`rm -rf /`}"',
        ': "${z:=`: | { rm -rf /; }`}"',
        ": ${z:-`: \\`:\\` \\`rm -rf /\\``}",
        ": <<E\nIt's `for x in $(: \\`rm -rf /\\`); do :; done`\nE",
        "a[`:` `rm -rf /`]=1",
        "true" + " && echo `date`" * 300 + " && rm -rf /",
    ],
)
def test_backquotes_hide_nothing(hardline: Hardline, command: str) -> None:
    assert hardline.check(command, CWD) == ("it would delete the root folder /",)


@pytest.mark.parametrize(
    "command",
    [
        "time {{ {}; }}",
        "time -p ( {} )",
        "time if {}; then :; fi",
        "coproc {{ if {}; then :; fi; }}",
        "if time ! {}; then :; fi",
        "coproc NAME {{ {}; }}",
        "`time {{ {}; }}`",
        "time\\\n [[ -n $({}) ]]",
    ],
)
def test_what_is_timed_or_runs_beside_is_read(hardline: Hardline, command: str) -> None:
    assert hardline.check(command.format("rm -rf /"), CWD) == ("it would delete the root folder /",)
    assert hardline.check("echo time { rm -rf / }", CWD) == ()


@pytest.mark.parametrize(
    "before",
    [
        *("{{ {}; }}", "if {}; then :; fi", "if :; then {}; fi", "if :; then :; else {}; fi", "`{}`"),
        *("for i in 1; do {}; done", "while {}; do :; done", "case a in a) {};; esac", "f() {{ {}; }}; f"),
    ],
)
def test_a_name_in_braces_is_read_wherever_a_command_begins(hardline: Hardline, before: str) -> None:
    command = before.format("{rm,} -rf $'\\x2f'")
    assert hardline.check(command, CWD) == ("it would delete the root folder /",)


def backquoted(command: str) -> str:
    return "`" + re.sub(r"([\\`])", r"\\\1", command) + "`"


def backquoted_in_quotes(command: str) -> str:
    return backquoted(command).replace('"', '\\"')


PLACES: dict[Callable[[str], str], list[str]] = {
    str: [
        "time { @\n}",
        "coproc { @\n}",
        ": > >(@\n)",
        "# it's\n@",
        "if @\nthen :; fi",
        "f() { @\n}; f",
        ": '`'; @",
        ": \\`; @",
        ': "$(@\n)"',
        "x=a$(@\n)b",
        "a=(x $(@\n))",
        "a[$(@\n)0]=1",
        ": ${z:-$(@\n)}",
        ": $((1 + $(@\n)1))",
        "[[ -n $(@\n) ]]",
        ": <<E\nIt's $(@\n)\nE\n",
        ": <<< $(@\n)",
        "export q=$(@\n)",
    ],
    backquoted: [
        ": @",
        ": `:` @",
        "x=@ :",
        "a=(x @ @)",
        ": ${z:-@}",
        "[ -n @ ]",
        "case @ in *) :;; esac",
        ": <<E\nIt's @\nE\n",
        ": $((1 + @1))",
        "for x in @; do :; done",
    ],
    backquoted_in_quotes: [': "@"', ': "${z:=@}"', ': "`:` @"'],
}
"""Places of a command in another one, as it has to be written there: Bash runs it in each."""


@pytest.mark.thorough
def test_a_delete_is_found_in_any_place_of_any_place(hardline: Hardline) -> None:
    places = [(quote, form) for quote, forms in PLACES.items() for form in forms]
    inner = [form.replace("@", quote("rm -rf /")) for quote, form in places]
    nested = [form.replace("@", quote(command)) for quote, form in places for command in inner]
    # A here-document ends at the first line of its end.
    found = [command for command in (*inner, *nested) if command.count("\nE\n") < 2]
    assert [command for command in found if not hardline.check(command, CWD)] == []


@pytest.mark.parametrize(
    "command", ["echo '`date` `rm -rf /`'", "cat <<'E'\n`date` `rm -rf /`\nE", "echo \\`rm -rf /\\`"]
)
def test_quoted_backquotes_start_nothing(hardline: Hardline, command: str) -> None:
    assert hardline.check(command, CWD) == ()
    assert reading('echo `date` `pwd` "`id` `id -u`"').is_known


def test_backquotes_beyond_what_is_read_raise_a_doubt(hardline: Hardline) -> None:
    command = "echo `date` `date`; " * 300 + "`rm -rf /`"
    assert not reading(command).is_known
    assert hardline.check(command, CWD) == ("it would delete the root folder /",)


@pytest.mark.thorough
@given(
    st.lists(WRAPPINGS, max_size=5), QUOTINGS, QUOTINGS, QUOTINGS, TARGETS, st.sampled_from(["sh", "bash"])
)
def test_no_stack_of_wrappings_and_quotings_hides_a_delete(
    wrappings: list[str], name: object, flags: object, target: object, path: str, shell: str
) -> None:
    assert callable(name) and callable(flags) and callable(target)
    command = f"{name('rm')} {flags('-rf')} {target(path)}"
    for wrapping in wrappings:
        if wrapping.startswith(("sudo", "env", "nohup", "timeout", "nice", "command", "x=1", "time")):
            quoted = command.replace("'", "'\\''")
            command = f"{shell} -c '{quoted}'"
        command = wrapping.format(command)
    assert make().check(command, CWD), command


@given(
    st.sampled_from(commands("hardline")),
    st.sampled_from(["echo", "printf %s", "grep -F", "git commit -m", "touch"]),
)
def test_a_command_in_single_quotes_is_only_text(command: str, program: str) -> None:
    quoted = command.replace("'", "'\\''")
    assert make().check(f"{program} '{quoted}'", CWD) == ()


@pytest.mark.thorough
@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_read_without_failing(text: str) -> None:
    assert isinstance(make().check(text, CWD), tuple)


SHELL_CHARACTERS = "rm -rf/~*?[]{},;|&()<>$\"'`\\\n=#!aX0 \ue000\ue001"


@given(st.text(SHELL_CHARACTERS, max_size=40))
def test_any_mess_of_shell_characters_is_read_without_failing(text: str) -> None:
    assert isinstance(make().check(text, CWD), tuple)


SIZE = 100_000

LONG = {
    "words": "echo " + "word " * (SIZE // 5),
    "statements": "echo a; " * (SIZE // 8),
    "and": "a && " * (SIZE // 5) + "a",
    "quoted text": "echo '" + "x" * SIZE + "'",
    "document": "cat > x <<'EOF'\n" + "rm -rf /\n" * (SIZE // 9) + "EOF\n",
    "open brackets": "(" * SIZE,
    "open braces": "{" * SIZE,
    "brace pairs": "{a}" * (SIZE // 3),
    "broken subshells": "(a) " * (SIZE // 4),
    "quotes": "'" * SIZE,
    "backslashes": "\\" * SIZE,
    "slashes": "rm -rf " + "/" * SIZE + "tmp/x",
    "stars": "rm -rf /tmp/" + "*" * SIZE,
    "open sets": "rm -rf /tmp/" + "[a-" * (SIZE // 3),
    "arrays": "a=(" + "x " * (SIZE // 2) + '); rm -rf "${a[@]}"',
    "folders": "cd a && " * (SIZE // 8) + "rm -rf *",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LONG)
def test_a_very_long_command_is_read_to_its_end(name: str) -> None:
    hardline = make()
    assert hardline.check(LONG[name], CWD) == ()
    separator = "\n" if name == "document" else "\n; "
    if name in ("words", "statements", "and", "quoted text", "document", "slashes", "stars"):
        assert hardline.check(LONG[name] + separator + "rm -rf /", CWD)


TANGLES = {
    "substitutions": "$(" * 8_000,
    "wrappers": "sudo " * 8_000 + "ls",
    "evals": "eval " * 8_000 + "ls",
    "defaults": "echo " + "${a:-" * 8_000 + "}" * 8_000,
    "growing text": "x=a;" + "x+=$x;" * 60,
    "doubling functions": "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }};" for n in range(1, 40)) + "f39",
    "doubling loops": "for a in 1 2; do " * 30 + "ls" + "; done" * 30,
    "many values": "for a in {1..30}; do for b in {1..30}; do for c in {1..30}; do echo $a$b$c $c$b; "
    + "done; " * 3,
    "brace products": "echo " + "{a,b}" * 60,
    "costly removal": "x=" + "a" * 500 + "; echo ${x#" + "*a" * 40 + "*b} ${x%%" + "*a" * 40 + "*b}",
    "costly replacement": "x=" + "a" * 500 + "; echo ${x//" + "*a" * 40 + "b/c}",
    "costly globs": "rm -rf /" + "*?" * 400 + "x /" + "*e" * 400,
    "costly lists": "python -c \"run(['a'" + " 'a'" * 5_000 + ')"',
    "bracket nests": "{" + "{a,b}," * 3_000 + "}",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TANGLES)
def test_a_tangle_ends_with_an_answer_and_a_doubt(name: str) -> None:
    assert make().check(TANGLES[name], CWD) == ()
    assert isinstance(reading(TANGLES[name]), Reading)


@pytest.mark.thorough
def test_a_tangle_that_cannot_be_followed_is_not_understood() -> None:
    assert not reading("sudo " * 5_000 + "ls").complete


def test_random_cuts_of_known_commands_never_fail() -> None:
    chance = random.Random(7)
    hardline = make()
    for command in (*commands("hardline"), *commands("hidden"), *commands("harmless")):
        start, end = sorted(chance.sample(range(len(command) + 2), 2))
        assert isinstance(hardline.check(command[start:end], CWD), tuple)


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("hermes context allow abcdef123", True),
        ("/opt/bin/hermes context --model x allow abcdef", True),
        ("sh -c 'env A=1 hermes context allow abcdef'", True),
        ("W=allow; hermes context $W abcdef", True),
        ("python -m app.main context allow abcdef", True),
        ("python3 /x/hermes_launcher.py context allow abcdef", True),
        ("uvx hermes context allow abcdef", True),
        ("hermes context --json", False),
        ("hermes context forbid abcdef", False),
        ("hermes sessions search 'context allow'", False),
        ("echo hermes context allow abcdef", False),
        ("python script.py context allow", False),
    ],
)
def test_only_a_person_lets_in_what_is_kept_back(hardline: Hardline, command: str, refused: bool) -> None:
    assert bool(hardline.check(command, Path("/work"))) is refused
