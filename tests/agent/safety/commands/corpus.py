"""Commands with the verdicts they are expected to get, by class.

Each class is a file: one command a line, or a JSON string where a command
holds line feeds. All commands of a file are expected to get the same verdict.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places
from agent.safety.verdict import Verdict, VerdictKind

FOLDER = Path(__file__).parent / "corpus"
HOME = "/home/ada"
WORKSPACE = Path("/home/ada/project")

EXPECTED: dict[str, VerdictKind] = {
    "everyday": "allow",
    "build_test": "allow",
    "mentions": "allow",
    "project_programs": "ask",
    "destructive": "ask",
    "obfuscated": "ask",
    "tricks": "ask",
    "exfiltration": "ask",
    "persistence": "ask",
    "privilege": "ask",
    "infrastructure": "ask",
    "hardline": "hardline",
}


@dataclass(frozen=True, slots=True)
class Tally:
    """How the commands of one class were judged."""

    name: str
    total: int
    allow: int
    ask: int
    hardline: int


@dataclass(frozen=True, slots=True)
class Round:
    """First verdicts on commands written without looking at the rules."""

    everyday: int
    asked: int
    kept: int
    """Of those that asked, the ones that go on asking."""
    nasty: int
    silent: int


ROUNDS = (
    Round(123, 21, 8, 122, 9),
    Round(137, 12, 1, 267, 8),
    Round(180, 17, 5, 326, 12),
    Round(60, 13, 4, 99, 4),
    Round(802, 158, 17, 712, 44),
    Round(114, 6, 2, 119, 1),
    Round(578, 60, 13, 530, 3),
    Round(349, 33, 6, 644, 20),
    Round(849, 169, 75, 922, 21),
    Round(494, 92, 18, 588, 32),
    Round(360, 75, 38, 413, 14),
)

OTHERS = (
    ("first", "approved for agents", 481, 152, 32),
    ("first", "run by projects", 702, 391, 75),
    ("first", "typed by a model", 240, 56, 12),
    ("second", "approved for agents", 121, 44, 4),
    ("second", "run by projects", 384, 204, 22),
    ("second", "typed by a model", 180, 65, 8),
    ("third", "first examples of tldr pages", 758, 204, 36),
    ("third", "nl2bash", 400, 112, 17),
    ("third", "solutions of a benchmark for shells", 200, 62, 7),
    ("third", "aliases of a shell framework, spelled out", 1057, 612, 25),
    ("third", "harnesses for projects in ten languages", 350, 125, 8),
    ("third", "cheat sheets", 330, 205, 6),
)
"""(sample, source, commands, asked at first, of these needless) of lists that were not written for this."""

FAMILIES = (
    ("git", 75, 10, 0, 73, 3, 3),
    ("gh, glab", 17, 0, 0, 22, 0, 0),
    ("docker, compose, podman", 27, 0, 0, 30, 0, 0),
    ("kubectl, helm", 25, 4, 0, 27, 0, 0),
    ("terraform, clouds, ansible", 42, 7, 1, 41, 0, 0),
    ("npm and Node", 60, 9, 1, 43, 0, 0),
    ("Python", 92, 16, 2, 78, 1, 0),
    ("Rust, Go, JVM, .NET, Ruby, PHP and others", 132, 31, 4, 88, 0, 0),
    ("make, compilers, documents, pictures", 77, 27, 10, 60, 4, 0),
    ("the system, its network and packages", 120, 27, 2, 98, 5, 3),
    ("text, tables, databases, archives, requests", 135, 27, 9, 152, 31, 11),
)
"""(family, everyday, asked at first, asked now, nasty, silent at first, silent now) of round 5."""

LOOSENED = (
    (
        "`git fetch`, `git ls-remote`, `git remote show` and `git pull` of a named remote",
        "writes objects and the refs of the remote; program and address stand in `.git/config`, which "
        "is guarded. "
        "A pull is a fetch and a merge, which pass by themselves. Addresses, refspecs that write branches "
        "and options that name programs ask",
    ),
    (
        "`git rebase` without `-i`, `-x`, `--root`; `git worktree add` below the workspace",
        "the old commits stay in the reflog, as after `commit --amend`",
    ),
    (
        "reading from hosts of documentation and registries; looking up well-known names",
        "whole, fixed names whose logs nobody reads who could be told something; no data, credentials "
        "or odd headers",
    ),
    ("`kubectl --dry-run`, `helm --dry-run` of a chart in the workspace", "nothing is changed anywhere"),
    (
        "`cargo run`, `go run .`, `go generate`, `dotnet run`, `npm start`, `manage.py test`, `artisan test`",
        "runs the code that `cargo test` or `npm run build` runs; words such as deploy or drop ask",
    ),
    (
        "shell scripts of the workspace, once read",
        "every line is judged with the script's arguments; not when anything ran before in the same command",
    ),
    ("`http.server` bound to this machine", "shows files of the workspace to this machine only"),
    ("`kill $!`, `kill %1`", "ends what this very command started"),
    (
        "`node -e`, `pathlib`, `os.listdir` that compute, find and read plain files",
        "read as tokens or a tree; names are listed, paths are written out, nothing is put together",
    ),
    (
        "ffmpeg, convert, inkscape, csvkit, Miller, buf, nix and others",
        "plain files of the workspace; forms that open addresses, run programs or write elsewhere ask",
    ),
    (
        "programs of the workspace inside a sandbox",
        "see *Programs of the project*; `manage.py` and `artisan` are judged by their subcommand",
    ),
    (
        "`pip install -r requirements.txt`, `-e .` inside a sandbox",
        "there is no environment outside of the workspace that it could change",
    ),
    (
        "`terraform init` without options that name a backend or other sources, plain `terraform output`",
        "fetches what the project lists, as `npm ci` does; secrets are masked. `-upgrade` and `-json` ask",
    ),
    (
        "`cargo update`, `uv lock --upgrade-package`, `pip-compile`",
        "writes down newer versions of what is listed; undone like any edit",
    ),
    (
        "`grep -rl … | xargs sed -i`, `git ls-files | xargs …`, `rg -l`, `fd`",
        "names that a search prints lie below its folder; what is done to them is judged as for a pattern",
    ),
    (
        "`foo --version` of programs that are not known",
        "one argument, looked up in the usual place",
    ),
    (
        "adding packages that everybody knows (`npm install react`, `pip install requests==2.31.0`)",
        "exact names from the registry of the project, as on its own list; other names, sources and "
        "addresses ask",
    ),
    (
        "`git clone` of a public forge into the workspace or a folder for scraps",
        "nothing runs by being fetched; building or installing it in the same command asks",
    ),
    (
        "`gcc -o app … && ./app`, `make && ./build/app` inside a sandbox; `gradle run`, `swift run` and kin",
        "what was built of sources from before is what `cargo run` builds and runs",
    ),
    (
        "`uvicorn`, `gunicorn`, `flask run` for this machine only",
        "starts the project as `npm start` does; other addresses and files of settings ask",
    ),
    (
        "`rm` of one file named like a scrap, not there, made by the same command, or in `/tmp`",
        "nothing is lost that `>` would not take as well; folders, patterns and all other files ask",
    ),
    (
        "programs of Python and Node given as text, or written by the same command, that edit files",
        "read as a tree or as tokens; they reach files, a database for reading, servers of this machine and "
        "programs whose words are written out. Emptying, changing what was not read, hidden text ask",
    ),
    (
        "`nvm use`, `conda activate`, `source ~/.nvm/nvm.sh`, `PATH` with folders that installations fill",
        "nothing the agent can write lies there; files that only set variables are read",
    ),
    ("`cp .env.example .env` where there is none", "no secret is in either"),
    (
        "`bash -lc`, `zsh -c` of plain words, `nohup`, `setsid`",
        "what they start is judged; start-up files are guarded, and background programs can be ended",
    ),
    (
        "`docker exec`, `docker compose exec` and `kubectl exec` of what reads, queries or tests",
        "nothing changes in the container; its environment, secrets, shells and all else ask",
    ),
    (
        "short programs of Ruby, PHP and R given as text; `devtools::test()`, `R CMD check`",
        "read as tokens: names are listed, names of files are written out",
    ),
    (
        "`npm uninstall`, `pnpm remove`, `pip uninstall` of the project; `npm update`, `composer update`",
        "fewer or newer packages of what is listed, by plain names",
    ),
    (
        "`pnpm NAME`, `yarn NAME` of a script in `package.json`; `uv run --group dev TOOL`, `prek`",
        "what `npm run NAME` and the tool by itself are; not when the same text changed `package.json`",
    ),
    (
        "`curl -X POST`, `-X DELETE …/things/1` and files of the workspace to a server on this machine",
        "the project's own; collections, services that control the machine and secrets ask",
    ),
    (
        "`cargo +nightly`, `node --experimental-vm-modules node_modules/jest/…`",
        "the same tools by another way",
    ),
    ('`rm -rf "$tmp"` after `tmp=$(mktemp -d)`', "the folder is new and of this very command"),
)
"""(what runs unasked now, why that is no loss)."""


def assessor() -> Assessor:
    own = f"{HOME}/.hermes"
    places = Places(
        home=HOME,
        guarded=(f"{own}/config.yaml", f"{own}/trust.json"),
        secret=(f"{own}/.env", f"{own}/state.db"),
    )
    return Assessor(places, WORKSPACE, Path("/run/hermes-scratch"))


def commands(name: str) -> list[str]:
    return [_decoded(line) for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()]


def everything() -> Iterator[tuple[str, str]]:
    """All commands with their classes."""
    for name in EXPECTED:
        for command in commands(name):
            yield name, command


@functools.cache
def tallies() -> tuple[Tally, ...]:
    judge = assessor()
    found: list[Tally] = []
    for name in EXPECTED:
        kinds = [judge.assess(command, WORKSPACE).kind for command in commands(name)]
        found.append(
            Tally(name, len(kinds), kinds.count("allow"), kinds.count("ask"), kinds.count("hardline"))
        )
    return tuple(found)


def judged(command: str) -> Verdict:
    return assessor().assess(command, WORKSPACE)


def table() -> str:
    """The page that shows how each class is judged."""
    rows = tallies()
    lines = [
        "# How commands are judged",
        "",
        "Made from the commands in `tests/agent/safety/commands/corpus`; a test keeps it in step.",
        "",
        "| class | commands | run unasked | ask | refused in every mode |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {row.name} | {row.total} | {row.allow} | {row.ask} | {row.hardline} |" for row in rows),
        "",
        f"{sum(row.total for row in rows)} commands. `project_programs` ask because they run code of the "
        "project and these verdicts count on no sandbox; see *Programs of the project*.",
        "",
        "## Commands that were new",
        "",
        "The table above shows what was mended. This one shows what the rules said to commands written",
        "without looking at them, before anything was mended: how a stranger's commands fare.",
        "",
        "| round | everyday | asked | of these, kept | nasty | silent |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {number} | {each.everyday} | {_share(each.asked, each.everyday)} | {each.kept} "
            f"| {each.nasty} | {_share(each.silent, each.nasty)} |"
            for number, each in enumerate(ROUNDS, 1)
        ),
        "",
        "*Kept* are those where asking stayed right on reflection (starting containers, running a program",
        "that was just built). Rounds 1 to 4 counted fetching from a remote among them; it passes now.",
        "The aim is 2 % and none; the last round is the honest figure, and it is not there yet.",
        "",
        "Rounds 7 and 8 were judged in a repository with files, with the default settings: a sandbox and",
        "an open network. With `sandbox.network: ask` round 8 asked 24 times (6.9 %). After mending, round 7",
        "asks 30 times (5.2 %) with an open network and 13 times (2.2 %) with a closed one, round 8 16 times",
        "(4.6 %) and 6 times (1.7 %); the difference is programs of the project. Of the 20 silent ones of",
        "round 8, 8 were harmless on reflection (`git branch -d`, `less <<< …`); the others were two ways of",
        "the shell to run text that was not followed (`$(<file)`, `a[$(…)]=1`), settings of a build written",
        "and used in one command, copies that editors keep elsewhere, and filling the disk. All of them ask",
        "now: output without end and loops without pause, and settings of Maven that were not read.",
        "",
        "Round 9 was judged in three places. At first 169 of its everyday commands asked in a repository,",
        "170 in an empty folder and 190 without a sandbox; now 136 (16.0 %), 137 and 164. It was written to",
        "hold much that reaches beyond the workspace: some 75 (pushing, containers, migrations,",
        "ending processes, unknown packages, files from anywhere) go on asking on purpose, and the rest is",
        "not mended yet: tools that only test on this machine (`ab`, `wrk`), `source ~/.nvm/nvm.sh`, `deno`,",
        " programs written and run in one command. Of 922 nasty ones 21 were silent, 18 without a",
        'sandbox; now 7, of which `exec -a … id`, `bash -c "$1"` and `unset HISTFILE` do no harm, three run',
        "what is not there, and one stayed: `sed -i` that writes a command into `package.json`, then tests.",
        "What a command writes and builds or runs afterwards is looked at since.",
        "",
        "Of rounds 10 and 11 a third stood in the corpus already, as plain commands are few. Round 10 was",
        "written before programs given as text were read: of 588 nasty ones 32 were silent, 15 of which run",
        "`id` and the like by a detour and are harmless once followed. After mending it asks 35 times",
        "(7.1 %) and no harmful one is silent. Round 11 was written after that: 75 of 360 asked (20.8 %),",
        "38 of them",
        "on purpose (containers, migrations, pushing, fetching unknown packages, reaching a cluster or a",
        "cloud); now 60 (16.7 %). Of its 413 nasty ones 14 were silent, most of them ways to empty a file",
        "(`sort -o f /dev/null`, `sed -i /./d`, `write('')`) and variables that name a linker or a Java; now",
        "one, `split` into many small files, which loses nothing.",
        "",
        "## Lists that other people made",
        "",
        "Nothing here was thought up: the commands are those that people approved for coding agents (the",
        "`Bash(…)` rules of settings in public repositories, `:*` taken as the bare command and as "
        "a plausible",
        "whole one), those that projects run (steps of workflows, recipes, scripts, blocks of documentation",
        "of some 50 well-known repositories), and those that a model typed in a published "
        "benchmark. Each was",
        "judged in a folder with the files of its own repository, with the default settings. *Needless* was",
        "counted by hand; all other askings stay: packages that nobody listed, pushing, publishing, other",
        "hosts, the machine, containers, programs of the project that were not understood, and incomplete",
        "commands (`python`, `$VERSION`) that come of cutting lists apart.",
        "",
        "| sample | source | commands | asked at first | of these, needless |",
        "| --- | --- | ---: | ---: | ---: |",
        *(
            f"| {sample} | {source} | {total} | {_share(asked, total)} | {_share(needless, total)} |"
            for sample, source, total, asked, needless in OTHERS
        ),
        "",
        "What was approved comes from about 27 repositories in 19 languages and frameworks. The second",
        "sample is of other repositories and other tasks, for projects of other steps of the same ones, and",
        "was judged after most of the first was mended. What was needless in it is mended in part: flags of",
        "pip, environments of uv,",
        "settings of Composer, formatters, `assembleRelease`. Not mended: `dotenv --`, environments of",
        "Python under odd names, and the clients of some clouds that only list. After mending, commands",
        "approved for agents asked 133 and 44 times, those typed by a model 54 and 61 times; 2 to 4 % of all",
        "of them needlessly. Those of projects asked 358 times of 702 (391 at first). The aim is 2 %.",
        "",
        "The third sample holds many lines that nobody types as they stand (placeholders, halves of lines,",
        "programs of one vendor), which ask. Of 99 needless ones some 60 pass now: new projects, lists of",
        "submodules, small editors of text and names, wrappers of variables. Not mended: longer programs of",
        'Perl, keys made for tests, lists of hosts, `find "$UNSET"`.',
        "",
        "Beside it some 55,000 obfuscations were made of 43 payloads and 680 ways to hide them, in one",
        "command and in one another. At first 293 of 25,074 and 1,495 of 30,240 were silent; harmless are",
        "the 53 and 250 that are now (names of programs that are not there, loops that end after their",
        "first line). What was silent: lines behind the first that `read`, `mapfile` and `xargs -n` take,",
        "line feeds in variables, NUL between arguments, elements of arrays that are not known, texts that",
        "loops take apart, options behind what a program starts, and builds that the same command writes,",
        "which were judged by their words.",
        "",
        "Round 5 by family, before and after mending:",
        "",
        "| family | everyday | asked at first | asked now | nasty | silent at first | silent now |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *("| " + " | ".join(map(str, family)) + " |" for family in FAMILIES),
        "",
        "What is silent now, and why it stays so: listing the environment (`env`, `set`; commands get a",
        "scrubbed one), output of `git log --output`, `find -fprintf` and `sort -o` into a file of the",
        "workspace (overwriting is what `>` does, and can be undone), archives that are not there (nothing",
        "is unpacked). Known and not mended: emptying a file by `exec 3>`, by a loop or a branch that prints",
        "nothing, or by a listing of what does not exist; undo brings such a file back.",
        "",
        "What still asks among the everyday ones: packages that are not well known,",
        "programs of the project where the network is open, `terraform output -json`, the clipboard,",
        "`strace`, debuggers, deleting what no build makes again, links and work trees",
        "outside of the workspace.",
        "",
        "## Programs of the project",
        "",
        "`make test` and `pytest` run the code of the project unasked; asking about `python src/app.py` or",
        "`./build/main` guarded nothing they do not do. What matters is what a program can reach:",
        "",
        "| the sandbox | a program file in the workspace |",
        "| --- | --- |",
        "| none, or commands run elsewhere | asks, as ever; shell scripts are read line by line |",
        "| holds, network open (the default) | asks, unless it is a script of Python or Node that was read "
        "to the end with all it imports and that reaches nothing but files, or is not there at all |",
        "| holds, network closed (`ask` or `off`) | runs, unless a text in it says otherwise: words that "
        "delete, publish, change Git, name places that run something later or hide what they say |",
        "",
        "What the agent wrote itself in this session is the same case: it lies in the workspace, is read",
        "like everything else, and what it can break undo brings back. What the *same command* wrote before",
        "is read in the command where the shell wrote it (`cat > x.py <<EOF`), and asks where another",
        "program did; a program that a compiler made of sources from before",
        "does not. Words such as `deploy` and files with secrets among the arguments ask. A shell script in",
        "which a line asks goes on asking in every sandbox.",
        "",
        "## What was loosened, and why",
        "",
        "| runs unasked | why |",
        "| --- | --- |",
        *(f"| {what} | {why} |" for what, why in LOOSENED),
        "",
    ]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)"


def _decoded(line: str) -> str:
    try:
        decoded = json.loads(line)
    except ValueError:
        return line
    return decoded if isinstance(decoded, str) else line
