"""Verdicts on long commands: they are those of the short ones, whatever the length of their data."""

from __future__ import annotations

import random
import re
import subprocess
from itertools import count
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.safety.gate import Gate
from agent.safety.reader import rough, tree
from agent.safety.reader.rough import rough_commands
from agent.safety.reader.script import LONGEST
from agent.safety.rules import Verdict
from tests.agent.safety.corpus_files import FOLDER
from tools.services.actions import RunCommand

_LINES = [
    line.split("\t")[0].strip()
    for file in sorted(FOLDER.glob("*.txt"))
    for line in file.read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
_SCRAPS = (
    *("{a,b} ", "{x} ", "; ", "\n", "'", '"', "| ", "rm -rf ~ ", " > f", "cat <<E\n", "E\n", "sudo ", "~/x"),
    *(
        "\\\n",
        "$(",
        "`",
        ")",
        "# c",
        "if ",
        "then ",
        " ",
        "time ",
        "*.py",
        "[a] ",
        "&& ",
        "& ",
        "&> g ",
        "é ",
    ),
)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    (tmp_path / "own").mkdir()
    return Gate.for_home(Home(tmp_path / "own"), tmp_path)


def _verdict(gate: Gate, command: str, cwd: Path) -> Verdict:
    return gate.decide(RunCommand(tool="terminal", command=command, cwd=cwd))


_FORMS = (
    "cat > notes.md <<'END'\n{data}END\n{command}\n",
    "{command}\ntee notes.md <<'END'\n{data}END\n",
    "# {line}\n{command}\n",
    "printf '%s' '{line}' > notes.md\n{command}\n",
)


def test_a_verdict_stays_the_same_when_the_data_of_a_command_grows(gate: Gate, tmp_path: Path) -> None:
    chance = random.Random(15)
    # Of a text that is not shell, the pieces that are found are named, which are others in a longer one.
    parsed = [(each, tree.parse(each)) for each in _LINES if "\\" not in each and "<<" not in each]
    commands = [each for each, source in parsed if source is not None and source.complete]
    for at, command in enumerate(chance.sample(commands, 32)):
        verdicts: list[tuple[object, ...]] = []
        for lines in (2, 3_000):
            data = "A line that names rm -rf ~ and {a,b}, in words.\n" * lines
            text = _FORMS[at % 4].format(data=data, command=command, line=data.replace("\n", " "))
            verdict = _verdict(gate, text, tmp_path)
            verdicts.append((verdict.kind, frozenset(verdict.reasons)))
        assert verdicts[0] == verdicts[1], (_FORMS[at % 4], command)


@pytest.mark.parametrize("before", ["# {}\n", "cat > f <<'END'\n{}\nEND\n", "true '{}'\n", "many\n{}\n"])
def test_what_stands_behind_a_very_long_text_is_judged(gate: Gate, tmp_path: Path, before: str) -> None:
    text = before.format("x" * 1_200_000).replace("many", "ls\n" * 40_000)
    assert _verdict(gate, f"{text}sudo rm -rf ~", tmp_path).kind == "hardline"


def test_a_command_longer_than_what_is_read_is_never_allowed(gate: Gate, tmp_path: Path) -> None:
    verdict = _verdict(gate, "#" + "x" * LONGEST + "\nls", tmp_path)
    assert verdict.kind == "hardline"
    assert "write its data to a file" in verdict.reasons[0]


@pytest.mark.parametrize("bar", [" | ", " |\n", " \\\n| "])
@pytest.mark.parametrize(("start", "end"), [("", ""), ("( ", ""), ("", " |"), ("", " )\n")])
def test_a_pipeline_too_long_to_be_parsed_hides_nothing(
    gate: Gate, tmp_path: Path, bar: str, start: str, end: str
) -> None:
    parts = bar.join(["cat log", *[f"grep x{n}" for n in range(tree.MOST_PIPES)], "sudo rm -rf ~"])
    assert tree.parse(start + parts + end) is None
    assert _verdict(gate, start + parts + end, tmp_path).kind == "hardline"


def test_a_long_pipeline_at_the_end_is_understood_without_a_line_feed() -> None:
    source = tree.parse("cat log" + " | grep x" * (tree.FEW_PIPES + 1))
    assert source is not None and source.complete
    assert source.text(source.root.children[0]).endswith("grep x")


def test_a_long_table_in_a_here_document_is_only_text(gate: Gate, tmp_path: Path) -> None:
    table = "| name | rm -rf ~ |\n" * tree.MOST_PIPES
    assert _verdict(gate, f"cat > notes.md <<'END'\n{table}END\n", tmp_path).kind != "hardline"


def test_reading_the_start_of_a_long_text_first_leaves_no_trace(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    long = f"cd a\nf() {{ echo; }}\nv=x\n# {'c' * 50_000}\ncat > g <<'END'\n" + "text\n" * 40_000 + "END\n"
    # If the folder were changed twice, `..` would still be in the workspace with two of them.
    for rest in ("rm -r ../b", "rm -r ../../b"):
        short, whole = (_verdict(gate, text + rest, tmp_path) for text in ("cd a\ncat > g\n", long))
        assert (short.kind, short.reasons) == (whole.kind, whole.reasons)


def test_plain_commands_are_split_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    texts = ["\n".join(chance.choices(_LINES, k=chance.randint(1, 4))) for _ in range(400)]
    texts += ["".join(chance.choices(_SCRAPS, k=chance.randint(1, 25))) for _ in range(1_500)]
    quick = [list(rough_commands(text)) for text in texts]
    monkeypatch.setattr(rough, "_SIMPLE", re.compile(r"(?!)"))
    for text, found in zip(texts, quick, strict=True):
        assert found == list(rough_commands(text)), text


class _BrokenScripts:
    """Random scripts of harmless programs in which something is left open, or closed twice."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._numbers = count()

    def broken(self) -> str:
        end = self._chance.choice([" (", ")", '"', "'", "fi", "`", "}", "${", "case", "<<", ";;"])
        return f"{self._script(3)}\n{end}"

    def _mark(self) -> str:
        return f"mark m{next(self._numbers)}"

    def _script(self, depth: int) -> str:
        gaps = ["; ", "\n", " && ", " | ", "\n# don't\n", '\n# 5" $( `\n']
        lines = [self._chance.choice(gaps) + self._command(depth) for _ in range(self._chance.randrange(3))]
        return self._command(depth) + "".join(lines)

    def _command(self, depth: int) -> str:
        words = " ".join(self._word(depth) for _ in range(self._chance.randrange(3)))
        plain = [f"{self._mark()} {words}", f"echo {words}"]
        if depth == 0:
            return self._chance.choice(plain)
        inside = self._script(depth - 1)
        groups = [
            f"( {inside} )",
            f"{{ {inside}; }}",
            f"if true; then {inside}; fi",
            f"case a in a) {inside};; esac",
        ]
        document = f"cat <<'EOF'\nit's 5\" $(x) `y\nEOF\n{self._mark()}"
        return self._chance.choice([*plain, *groups, document])

    def _word(self, depth: int) -> str:
        plain = ["w", "'q q'", '"d q"', "it\\'s", "$'a\\'b'", f'"x `{self._mark()}` y"', f"`{self._mark()}`"]
        if depth == 0:
            return self._chance.choice(plain)
        run = f"$({self._script(depth - 1)})"
        case = f'"$(case a in a) {self._mark()};; esac)"'
        inside = [
            f"\"it's {run} it's\"",
            run,
            f"${{x:-{run}}}",
            f'"${{x:-{run}}}"',
            f"<{run[1:]}",
            f'"a\n {run}\n"',
            case,
        ]
        return self._chance.choice([*plain, *inside])


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(12))
def test_all_that_the_shell_runs_of_a_broken_text_is_read(tmp_path: Path, seed: int) -> None:
    ran = tmp_path / "ran"
    define = f"mark() {{ echo $1 >> {ran}; echo out; }}\n"
    scripts = _BrokenScripts(seed)
    for _ in range(10):
        text = scripts.broken()
        ran.write_text("")
        subprocess.run(
            ["bash", "-c", define + text], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL
        )
        found = {command.words for command in rough_commands(text) if command.words[:1] == ("mark",)}
        assert set(ran.read_text().split()) <= {words[1] for words in found}, text


@pytest.mark.parametrize(
    "text",
    [
        'echo "`rm -rf /usr`" (',
        "echo \"a $(rm -rf '/usr') b\" (",
        'echo "${x:-`rm -rf /usr`}" (',
        'rm -rf "$(pwd)" /usr (',
        "cat <<E\nit's\nE\nrm -rf '/usr' (",
        "# don't\nrm -rf '/usr'\n# can't (",
        "echo $'it\\'s'; rm -rf /usr; echo 'b' (",
    ],
)
def test_a_broken_text_hides_nothing_in_quotes(gate: Gate, tmp_path: Path, text: str) -> None:
    assert ("rm", "-rf", "/usr") in {
        (*command.words[:2], *command.words[-1:]) for command in rough_commands(text)
    }
    assert _verdict(gate, text, tmp_path).kind == "hardline"


def test_a_broken_text_with_a_path_that_only_begins_with_the_root_is_not_refused(
    gate: Gate, tmp_path: Path
) -> None:
    for text in ('rm -rf /"$(x)"/y (', "rm -rf /`x`/ (", 'echo "$(x)/" rm (', "cat <<E\n it's\nE\n(("):
        assert _verdict(gate, text, tmp_path).kind != "hardline", text


@pytest.mark.parametrize(
    "part",
    ["# ", "cat <<A\n", "$(b) c ", "$(b)c", '"\n$(b)\n" '],
    ids=["comments", "documents", "words", "joined", "quoted"],
)
def test_what_is_read_of_a_broken_text_grows_with_its_length(part: str) -> None:
    text = f"a {part * 6_000}"
    words = sum(len(word) for command in rough_commands(text) for word in command.words)
    assert words < 400 * len(text)


def test_a_broken_text_of_many_comments_is_judged(gate: Gate, tmp_path: Path) -> None:
    assert _verdict(gate, "rm -rf /\n" + "# " * 3_000 + "\n(", tmp_path).kind == "hardline"
