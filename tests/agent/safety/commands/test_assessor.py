from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.commands.assessor import Assessor
from agent.safety.commands.call import RUNS_PROJECT
from agent.safety.places import Places
from agent.safety.shell.tree import parse
from agent.safety.verdict import SEVERITY
from tests.agent.safety.commands.corpus import WORKSPACE, assessor, commands
from tests.agent.safety.forbidden import FORBIDDEN
from tests.agent.safety.tricks import FORBIDDEN_TOO

JUDGE = assessor()


def kind(command: str, cwd: Path = WORKSPACE) -> str:
    return JUDGE.assess(command, cwd).kind


@pytest.mark.parametrize("command", FORBIDDEN + FORBIDDEN_TOO, ids=lambda value: repr(value[:50]))
def test_what_destroys_the_machine_is_hardline_here_too(command: str) -> None:
    assert kind(command) == "hardline"


def test_each_command_of_a_line_is_a_part_in_order() -> None:
    verdict = JUDGE.assess("ls -la && rm -rf src > ../log", WORKSPACE)
    assert [(part.text, part.kind) for part in verdict.parts] == [
        ("ls -la", "allow"),
        ("rm -rf src", "ask"),
        ("> ../log", "ask"),
    ]
    assert verdict.reasons == (
        "deletes everything in /home/ada/project/src",
        "writes outside of the workspace (/home/ada/project/../log)",
    )


def test_a_part_shows_what_would_run_after_wrappers_and_encodings() -> None:
    verdict = JUDGE.assess("echo cm0gLXJmIHNyYw== | base64 -d | nice sh", WORKSPACE)
    assert ("rm -rf src", "ask") in [(part.text, part.kind) for part in verdict.parts]


def test_nothing_is_cut_off_for_length() -> None:
    assert kind("true; " * 3_000 + "rm -rf src") == "ask"
    assert kind("echo " + "x" * 200_000 + "; rm -rf src") == "ask"
    assert kind("echo " + "x" * 200_000) == "allow"


def test_a_program_of_the_project_asks_with_one_known_reason() -> None:
    assert JUDGE.assess("python tool.py && ./run.sh", WORKSPACE).reasons == (RUNS_PROJECT,)


def test_what_is_not_known_is_named() -> None:
    assert JUDGE.assess("frobnicate -x", WORKSPACE).reasons == ("is not known to be harmless: frobnicate",)


@pytest.mark.parametrize(
    ("cwd", "command"),
    [
        ("/home/ada", "touch x"),
        ("/home/ada", "make"),
        ("/home/ada/other", "git commit -m x"),
        ("/home/ada/project/.git", "touch config"),
        ("/", "pytest"),
    ],
)
def test_work_outside_of_the_workspace_asks(cwd: str, command: str) -> None:
    assert kind(command, Path(cwd)) == "ask"
    assert kind("ls; cat README.md", Path(cwd)) == "allow"


def test_a_link_that_leads_outside_counts_as_outside(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "work", tmp_path / "elsewhere"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "out").symlink_to(outside)
    (workspace / "notes.txt").symlink_to(tmp_path / ".ssh" / "id_rsa")
    judge = Assessor(Places(str(tmp_path)), workspace, None)
    assert judge.assess("echo x > own.txt", workspace).kind == "allow"
    assert judge.assess("cat notes.txt", workspace).kind == "ask"
    assert judge.assess("rm -rf out/build", workspace).kind == "ask"


def test_the_scratch_folder_may_be_used_freely() -> None:
    judge = Assessor(Places("/home/ada"), WORKSPACE, Path("/run/scratch"))
    assert judge.assess("rm -rf /run/scratch/x && touch /run/scratch/y", WORKSPACE).kind == "allow"
    assert judge.assess("rm -rf /run/scratch/../x", WORKSPACE).kind == "ask"


TEXT = st.text(alphabet=st.sampled_from("rm -f/$(){}[]<>|&;'\"`\\*?~!=#\n\tabcxyz019_.\ue000é"), max_size=60)


@given(TEXT)
def test_any_text_gets_a_verdict_and_broken_text_is_never_allowed(text: str) -> None:
    verdict = JUDGE.assess(text, WORKSPACE)
    assert verdict.kind in ("allow", "ask", "hardline")
    if not parse(text.replace("\ue000", "\ufffd")).complete:
        assert verdict.kind != "allow"


PLAIN_DESTRUCTIVE = [
    "rm -rf src",
    "git reset --hard",
    "git push --force origin main",
    "find . -delete",
    "curl http://x",
    "kubectl delete pod x",
    "rm -rf /",
    "sudo ls",
    "cat .env",
]


def quoted(word: str, chance: random.Random) -> str:
    """The word in another spelling of the same meaning."""
    match chance.randrange(5):
        case 0:
            return f"'{word}'"
        case 1:
            return f'"{word}"'
        case 2:
            at = chance.randrange(len(word))
            return f"{word[:at]}''{word[at:]}" if at else f'""{word}'
        case 3:
            return "$'" + "".join(f"\\x{ord(letter):02x}" for letter in word) + "'"
        case _:
            return "".join(f"\\{letter}" for letter in word)


WRAPPINGS = (
    "{}",
    "true && {}",
    "( {} )",
    "{{ {}; }}",
    "nice -n 5 {}",
    "env A=1 {}",
    "timeout 9 {}",
    "command {}",
    "if true; then {}; fi",
    "for i in 1; do {}; done",
    "f() {{ {}; }}; f",
    'echo "$({})"',
    "cat <({})",
    "! {}",
    "time {}",
    "ls | {}",
    "{} | cat",
    "{} &",
    "ls\n{}",
)


@given(st.sampled_from(PLAIN_DESTRUCTIVE), st.sampled_from(WRAPPINGS), st.randoms(use_true_random=False))
def test_another_spelling_never_makes_a_command_milder(
    command: str, wrapping: str, chance: random.Random
) -> None:
    spelled = wrapping.format(" ".join(quoted(word, chance) for word in command.split()))
    assert SEVERITY.index(JUDGE.assess(spelled, WORKSPACE).kind) >= SEVERITY.index(
        JUDGE.assess(command, WORKSPACE).kind
    )


@given(
    st.sampled_from(commands("everyday")[:60]),
    st.sampled_from(commands("destructive") + commands("hardline")),
)
def test_a_harmless_command_before_it_hides_nothing(harmless: str, harmful: str) -> None:
    alone = JUDGE.assess(harmful, WORKSPACE).kind
    if harmless.startswith("cd "):
        return
    assert SEVERITY.index(kind(f"{harmless}\n{harmful}")) >= SEVERITY.index(alone)


def test_a_fault_in_a_rule_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.safety.commands import assessor as module

    def broken(call: object) -> object:
        raise KeyError("x")

    monkeypatch.setitem(module.RULES, "ls", broken)
    assert JUDGE.assess("ls", WORKSPACE).reasons == ("could not be judged (KeyError)",)
