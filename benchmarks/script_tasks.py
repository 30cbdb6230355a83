"""Twenty tasks, each as single calls and as one script: round trips, and what the model has to read.

The model is scripted, tools, engine and files are real. As calls, the model makes one after the other, as
a model without scripts does; as a script, it sends one program, whose answer is checked against the truth.
Visible is what stands in the conversation when the model answers: calls and results, in tokens of four
characters. Read in all adds up what is sent with every request, which is what providers charge for.
Target: 80 % less of both in the median.

    python benchmarks/script_tasks.py
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.engines import bench
from tests.support.replies import Reply, by_step, call, say

MODULES = 24
WORDS = [
    "amount",
    "balance",
    "client",
    "daily",
    "entry",
    "fee",
    "gross",
    "holder",
    "invoice",
    "ledger",
    "net",
]

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """A question about the project, the calls that answer it, and the script that does."""

    name: str
    calls: list[Step]
    script: str
    answer: str
    """What the script has to print."""


class Project:
    """A made-up project, the same on every run."""

    def __init__(self, root: Path) -> None:
        chance = random.Random(7)
        self.files: dict[str, str] = {}
        for number in range(MODULES):
            lines = [f'"""Module {number}: {chance.choice(WORDS)} rules."""', "", "import json", ""]
            for part in range(chance.randint(4, 9)):
                name = f"{chance.choice(WORDS)}_{part}"
                lines += [f"def {name}(value, rate={chance.randint(1, 9)}):"]
                lines += [f'    """Give the {chance.choice(WORDS)} of a {chance.choice(WORDS)}."""']
                lines += [f"    # TODO: check {name}"] if chance.random() < 0.3 else []
                lines += [f"    step_{step} = value * {chance.randint(2, 99)}" for step in range(8)]
                lines += ["    return value * rate", ""]
            self.files[f"src/module_{number:02}.py"] = "\n".join(lines)
        for number in range(12):
            entries = [
                {"id": at, "user": chance.choice(WORDS), "ms": chance.randint(1, 900)} for at in range(40)
            ]
            self.files[f"logs/day_{number:02}.jsonl"] = "\n".join(map(json.dumps, entries)) + "\n"
        for number in range(10):
            settings = {
                "name": f"service-{number}",
                "port": 8000 + chance.randint(0, 5),
                "debug": number % 4 == 0,
            }
            self.files[f"config/service_{number}.json"] = json.dumps(
                settings | {"notes": WORDS * 6}, indent=2
            )
        self.files["CHANGES.md"] = "\n".join(
            f"## {n}.0\n\n- {chance.choice(WORDS)} changed\n" for n in range(40)
        )
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def named(self, start: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(start))


HEAD = "from hermes_tools import read_file, search, terminal, write_file, patch\nimport json, re\n"
LINES = """
def lines(path):
    numbered = read_file(path, limit=2000)["content"].splitlines()
    return [line.split("|", 1)[1] for line in numbered if "|" in line]
"""


def reads(names: list[str]) -> list[Step]:
    return [("read_file", {"path": name}) for name in names]


def over(names: list[str], body: str, end: str) -> str:
    """A script that looks at the lines of each file."""
    return f"{HEAD}{LINES}found = []\nfor path in {names!r}:\n    all = lines(path)\n{body}\n{end}\n"


def tasks(project: Project) -> list[Task]:
    source, logs, configs = project.named("src/"), project.named("logs/"), project.named("config/")
    text = project.files

    def functions(name: str) -> list[str]:
        return [line[4:].partition("(")[0] for line in text[name].splitlines() if line.startswith("def ")]

    entries = {name: [json.loads(line) for line in text[name].splitlines()] for name in logs}
    settings = {name: json.loads(text[name]) for name in configs}
    every = [entry for day in entries.values() for entry in day]
    made: list[Task] = []

    def add(name: str, calls: list[Step], script: str, answer: object) -> None:
        made.append(Task(name, calls, script, str(answer)))

    def look(name: str, names: list[str], body: str, end: str, answer: object) -> None:
        add(name, reads(names), over(names, body, end), answer)

    defs = "    found += [line for line in all if line.startswith('def ')]"
    look("count all functions", source, defs, "print(len(found))", sum(len(functions(n)) for n in source))
    most = max(source, key=lambda n: (len(functions(n)), n))
    look(
        "module with most functions",
        source,
        "    found.append((sum(line.startswith('def ') for line in all), path))",
        "print(max(found)[1])",
        most,
    )
    look(
        "count open TODOs",
        source,
        "    found += [line for line in all if 'TODO' in line]",
        "print(len(found))",
        sum(text[n].count("TODO") for n in source),
    )
    look(
        "modules without TODO",
        source,
        "    found += [path] if not any('TODO' in line for line in all) else []",
        "print(len(found))",
        sum("TODO" not in text[n] for n in source),
    )
    look(
        "longest module",
        source,
        "    found.append((len(all), path))",
        "print(max(found)[1])",
        max(source, key=lambda n: (len(text[n].splitlines()), n)),
    )
    look(
        "names defined twice",
        source,
        "    found += [line[4:].partition('(')[0] for line in all if line.startswith('def ')]",
        "print(len({name for name in found if found.count(name) > 1}))",
        _twice([f for m in source for f in functions(m)]),
    )
    look(
        "highest default rate",
        source,
        "    found += [int(n) for line in all for n in re.findall(r'rate=(\\d+)', line)]",
        "print(max(found), found.count(max(found)))",
        _highest([text[n] for n in source]),
    )
    look(
        "slowest request",
        logs,
        _JSON,
        "print(max(e['ms'] for e in found))",
        max(e["ms"] for e in every),
    )
    look(
        "requests above 800 ms",
        logs,
        _JSON,
        "print(sum(e['ms'] > 800 for e in found))",
        sum(e["ms"] > 800 for e in every),
    )
    look(
        "busiest user",
        logs,
        _JSON,
        "users = [e['user'] for e in found]\nprint(max(sorted(set(users)), key=users.count))",
        _busiest([e["user"] for e in every]),
    )
    look(
        "mean time",
        logs,
        _JSON,
        "print(round(sum(e['ms'] for e in found) / len(found)))",
        round(statistics.mean(e["ms"] for e in every)),
    )
    look(
        "slowest day",
        logs,
        _MEANS,
        "print(max(found)[1])",
        max(logs, key=lambda n: (statistics.mean(e["ms"] for e in entries[n]), n)),
    )
    look(
        "ports used twice",
        configs,
        _SETTINGS,
        "ports = [s['port'] for s in found]\nprint(len({p for p in ports if ports.count(p) > 1}))",
        _twice([s["port"] for s in settings.values()]),
    )
    look(
        "services in debug",
        configs,
        _SETTINGS,
        "print([s['name'] for s in found if s['debug']])",
        [settings[n]["name"] for n in configs if settings[n]["debug"]],
    )
    words = ["ledger", "invoice", "holder", "gross", "net", "entry", "fee", "client"]
    counts = {word: sum(word in line for n in source for line in text[n].splitlines()) for word in words}
    add(
        "lines of eight words",
        [("search", {"pattern": word, "path": "src", "limit": 500}) for word in words],
        f"{HEAD}for word in {words!r}:\n"
        "    print(terminal(f'cat src/*.py | grep -c {word}')['output'].strip(), end=' ')\n",
        " ".join(str(counts[word]) for word in words) + " ",
    )
    add(
        "sizes of twelve logs",
        [("terminal", {"command": f"wc -c {name}; head -n 20 {name}"}) for name in logs],
        f"{HEAD}print(sum(int(terminal(f'wc -c < {{path}}')['output']) for path in {logs!r}))\n",
        sum(len(text[n]) for n in logs),
    )
    for title, names, old, new in (
        ("rename in ten files", source[:10], "import json", "import orjson as json"),
        ("turn debug off", configs, '"debug": true', '"debug": false'),
    ):
        changing = [name for name in names if old in text[name]]
        calls = [step for n in names for step in reads([n])] + [_replace(n, old, new) for n in changing]
        script = (
            f"{HEAD}done = 0\nfor path in {names!r}:\n    if {old!r} in read_file(path)['content']:\n"
            f"        new = patch(mode='replace', path=path, old_string={old!r}, new_string={new!r})\n"
            "        done += 'error' not in new\n"
            "print(done)\n"
        )
        add(title, calls, script, len(changing))
    add(
        "check that all modules compile",
        [("terminal", {"command": f"python3 -m py_compile {name} && cat {name}"}) for name in source],
        f"{HEAD}run = 'python3 -m py_compile '\n"
        f"print([path for path in {source!r} if terminal(run + path)['exit_code']])\n",
        [],
    )
    add(
        "an index of all modules",
        [*reads(source), ("write_file", {"path": "INDEX.md", "content": "\n".join(source)})],
        over(
            source,
            "    found.append(path + ' ' + all[0].strip('\"'))",
            "write_file('INDEX.md', '\\n'.join(found))\nprint(len(found))",
        ),
        len(source),
    )
    return made


_JSON = "    found += [json.loads(line) for line in all if line.strip()]"
_MEANS = """\
    ms = [json.loads(line)['ms'] for line in all if line.strip()]
    found.append((sum(ms) / len(ms), path))"""
_SETTINGS = "    found.append(json.loads(chr(10).join(all)))"


def _highest(texts: list[str]) -> str:
    rates = [int(part[0]) for text in texts for part in text.split("rate=")[1:]]
    return f"{max(rates)} {rates.count(max(rates))}"


def _twice(values: list[Any]) -> int:
    return len({value for value in values if values.count(value) > 1})


def _busiest(users: list[str]) -> str:
    return max(sorted(set(users)), key=users.count)


def _replace(path: str, old: str, new: str) -> Step:
    return "patch", {"mode": "replace", "path": path, "old_string": old, "new_string": new}


@dataclass(frozen=True)
class Cost:
    """What one way of doing a task took."""

    requests: int
    visible: float
    """Tokens of calls and results in the last request."""
    read: float
    """Tokens of all requests together, tools and prompt left out."""


async def carry_out(folder: Path, replies: list[Reply], answer: str | None) -> Cost:
    """Do one task; `answer` is what the script has to print, None where there is none."""
    async with bench(folder, by_step([*replies, say("Done.")])) as b:
        b.config("code:\n  max_calls: 100\nagent:\n  max_turns: 100\n")
        Project(b.workspace)
        turn = await b.turn("Do it.")
        assert turn.outcome == "done", turn
        sizes = [len(json.dumps(request.messages[2:])) / 4 for request in b.server.requests]
        if answer is not None:
            printed = json.loads(b.server.requests[-1].messages[-1]["content"])
            assert printed.get("output", "").rstrip("\n") == answer, (answer, printed)
    return Cost(len(sizes), sizes[-1], sum(sizes))


def saved(before: float, after: float) -> float:
    return 1 - after / before


async def measure(show: Callable[[str], None]) -> list[tuple[float, float, float]]:
    """What each task saves: round trips, visible tokens, tokens read in all."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        made = tasks(Project(Path(name) / "plan"))
        for number, task in enumerate(made):
            folders = [Path(name) / f"{number}-{way}" for way in ("calls", "script")]
            for folder in folders:
                folder.mkdir()
            steps = [call(tool, **arguments) for tool, arguments in task.calls]
            one = await carry_out(folders[0], steps, None)
            two = await carry_out(folders[1], [call("execute_code", code=task.script)], task.answer)
            saving = (
                saved(one.requests, two.requests),
                saved(one.visible, two.visible),
                saved(one.read, two.read),
            )
            found.append(saving)
            show(
                f"{task.name:32} {one.requests:3} -> {two.requests}"
                f"   {one.visible:8,.0f} -> {two.visible:5,.0f}"
                f"   {one.read:10,.0f} -> {two.read:5,.0f}"
                f"   -{saving[0]:.0%} -{saving[1]:.0%} -{saving[2]:.1%}"
            )
    return found


def main() -> None:
    print(f"{'task':32} round trips   visible tokens        read in all")
    found = asyncio.run(measure(print))
    trips, visible, read = (statistics.median(column) for column in zip(*found, strict=True))
    print(
        f"median of {len(found)}: round trips -{trips:.0%}, visible tokens -{visible:.0%},"
        f" read in all -{read:.1%}"
    )


if __name__ == "__main__":
    main()
