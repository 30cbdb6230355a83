"""Sends real agents of other programs through Hermes and reports the outcome:
`python -m tests.foreign_agents [NAME …] [--only SITUATION,…] [--cache DIR]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.events import AgentEnded, Decision, ToolFinished
from benchmarks.peers.catalogue import Missing
from tests.agent.session.subagents.test_delegation import results, team
from tests.foreign_agents.agents import AGENTS
from tests.import_suite.programs import Setting, install
from tests.import_suite.scripted import ScriptedModel
from tests.support.engines import Bench
from tests.support.model_server import call, say

TEE = Path(__file__).parents[1] / "acp_suite" / "tee.py"
NOWHERE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
DOCS = Path(__file__).parents[2] / "docs" / "subagents.md"
BEGIN, END = "<!-- agents: begin -->", "<!-- agents: end -->"
LONGEST = 100.0
"""Seconds that one situation has."""


@dataclass
class Run:
    """The outcome of one situation: files, cards, questions, the report, and what went over the wire."""

    name: str
    folder: Path
    work: Path
    setting: Setting
    model: ScriptedModel
    cards: list[tuple[str, str]] = field(default_factory=list)
    """Title and outcome of each call of the agent."""
    questions: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    wire: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ended: str = ""
    left: list[str] = field(default_factory=list)
    """Commands of the agent that run after its end."""

    def has_file(self, name: str = "made.txt") -> bool:
        return (self.work / name).exists()

    def outcomes(self) -> list[str]:
        return [outcome for _, outcome in self.cards]

    def question_count(self) -> int:
        """Return how often the agent asked for permission."""
        return sum(message.get("method") == "session/request_permission" for _, message in self.wire)

    def told_usage(self) -> tuple[int | None, float | None]:
        """Return tokens and cost as the agent told them."""
        tokens = cost = None
        for _, message in self.wire:
            if "stopReason" in (message.get("result") or {}):
                break  # what comes after the answer does not count
            update = (message.get("params") or {}).get("update") or {}
            if update.get("sessionUpdate") == "usage_update":
                tokens = max(tokens or 0, update.get("used") or 0)
                cost = (update.get("cost") or {}).get("amount", cost)
        for _, message in self.wire:
            if usage := (message.get("result") or {}).get("usage"):
                tokens = usage.get("totalTokens")
        return tokens, cost


@dataclass(frozen=True, slots=True)
class Situation:
    """What the model says, what the person has set and answers, and what has to come of it."""

    plan: str
    judge: Callable[[Run], str]
    """What is wrong, or nothing."""
    rules: str = ""
    answer: str = "once"
    """The person's answer to each question; nothing: nobody is there."""
    approve: str | None = None
    during: Callable[[Run, Any], None] | None = None
    """Called once the model works on what it waits in."""
    set_up: Callable[[Setting], None] | None = None


TOUCH = "touch made.txt"
WAIT = "tail -f /dev/null"
DENY = "rules:\n  terminal(touch *): deny\n"


def _wrong(run: Run, *, made: bool, outcome: str, cards: list[tuple[str, str]] | None = None) -> str:
    if run.has_file() != made:
        asked = "" if run.question_count() else ", and permission was never asked for"
        return f"the file is {'there' if run.has_file() else 'missing'}{asked}; {run.cards} {run.report}"
    if cards is not None and run.cards != cards:
        return f"the cards are {run.cards}"
    if run.report.get("outcome") != outcome:
        return f"the report is {run.report.get('outcome')}: {run.report.get('reason')}"
    return ""


def _allowed(run: Run) -> str:
    if not run.question_count():
        return f"permission was never asked for; {run.cards}, {run.report}"
    return _wrong(run, made=True, outcome="completed", cards=[(TOUCH, "done")])


def _refused(run: Run) -> str:
    # What it reached is told by the model's last words.
    outcome = str(run.report.get("outcome"))
    if outcome not in ("completed", "failed"):
        return f"the report is {outcome}: {run.report}"
    return _wrong(run, made=False, outcome=outcome, cards=[(TOUCH, "denied")])


def _unattended(run: Run) -> str:
    return _refused(run) or ("somebody was asked" if run.questions else "")


def _parallel(run: Run) -> str:
    if run.has_file("no.txt"):
        return "what a rule denies was done"
    if not run.has_file():
        return f"what is allowed was not done; {run.cards}, {run.report}"
    cards = sorted(run.cards)
    return "" if cards == [(TOUCH, "done"), ("touch no.txt", "denied")] else f"the cards are {run.cards}"


def _again(run: Run) -> str:
    if not run.has_file() or not run.has_file("two.txt"):
        return f"not both calls were done; {run.cards}, {run.report}"
    cards = [(TOUCH, "done"), ("touch two.txt", "done")]
    return "" if run.cards == cards else f"the cards are {run.cards}"


def _title(run: Run) -> str:
    line = "printf '%s' later > made.txt"
    return _wrong(run, made=True, outcome="completed", cards=[(line, "done")])


def _cancelled(run: Run) -> str:
    if run.ended != "interrupted":
        return f"the agent is {run.ended}: {run.report}"
    return f"it leaves {run.left}" if run.left else ""


def _crashed(run: Run) -> str:
    outcome, why = run.report.get("outcome"), str(run.report.get("reason"))
    if outcome != "failed" or "ended with" not in why:
        return f"the report is {outcome}: {why}"
    return f"it leaves {run.left}" if run.left else ""


def _sign_in(run: Run) -> str:
    outcome, why = run.report.get("outcome"), str(run.report.get("reason"))
    if outcome != "failed" or "signed in" not in why:
        return f"the report is {outcome}: {why or run.report.get('summary')}"
    return ""


def _usage(run: Run) -> str:
    tokens, cost = run.told_usage()
    told = run.report.get("usage") or {}
    if (told.get("tokens"), told.get("cost")) != (tokens, cost):
        return f"it told {tokens} tokens and {cost}, the report has {told}"
    used = sum(150 if each.path.endswith("/messages") else 120 for each in run.model.exchanges if each.said)
    return "" if tokens in (None, used) else f"it told {tokens} tokens; the model counted {used}"


def _files(run: Run) -> str:
    if run.has_file("kept.txt") or not run.has_file():
        done = [name for name in ("made.txt", "kept.txt") if run.has_file(name)]
        return f"it wrote {done}; asked {run.question_count()} times; {run.cards}, {run.report}"
    return ""


def _interrupt(run: Run, engine: Any) -> None:
    engine.interrupt()


def _kill(run: Run, engine: Any) -> None:
    for pid, words in _processes(run.setting.home):
        if os.fsencode(str(TEE)) not in words.split(b"\0"):
            with suppress(ProcessLookupError):  # it went with the one before
                os.kill(pid, signal.SIGKILL)


def _forget(setting: Setting) -> None:
    for name in list(setting.variables):
        if name.endswith(("_KEY", "_TOKEN", "_BASE_URL", "_OFFLINE")):
            setting.variables[name] = ""
    if "--openai-api-key" in setting.command:
        at = setting.command.index("--openai-api-key")
        del setting.command[at : at + 2]
    for file in setting.home.rglob("*"):
        if file.is_file() and file.parent.name != "w":
            file.unlink()


SITUATIONS = {
    "allowed": Situation(f"call {TOUCH} | say Outcome: completed", _allowed),
    "rule": Situation(f"call {TOUCH} | say It was refused.", _refused, rules=DENY),
    "person": Situation(f"call {TOUCH} | say It was refused.", _refused, answer="deny"),
    "yolo": Situation(
        f"call {TOUCH} | say It was refused.", _unattended, rules=DENY, answer="", approve="yolo"
    ),
    "again": Situation(f"call {TOUCH} | again touch two.txt | say Outcome: completed", _again),
    "title": Situation("call printf '%s' later > made.txt | say Outcome: completed", _title),
    "parallel": Situation(
        f"call {TOUCH} & call touch no.txt | say Outcome: completed",
        _parallel,
        rules="rules:\n  terminal(touch no.txt): deny\n",
    ),
    "cancel": Situation(f"call {WAIT} | say late", _cancelled, during=_interrupt),
    "crash": Situation("sleep 30 & say late", _crashed, during=_kill),
    "sign-in": Situation("say hello", _sign_in, set_up=_forget),
    "usage": Situation(f"call {TOUCH} | say Outcome: completed", _usage),
    "files": Situation(
        "write WORK/made.txt one | write WORK/kept.txt two | say Outcome: completed",
        _files,
        rules="rules:\n  write_file(kept.txt): deny\n",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign_agents", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(AGENTS))
    parser.add_argument("--only", default="", help=f"situations: {', '.join(SITUATIONS)}")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/hermes-import-suite")
    parser.add_argument("--wire", type=Path, help="folder in which what went over the wire is kept")
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    args = parser.parse_args()
    rows: list[str] = []
    chosen = args.only.split(",") if args.only else list(SITUATIONS)
    wrong = 0
    for name in args.names or AGENTS:
        try:
            bin = install(name, AGENTS[name].packages, args.cache)
        except (OSError, subprocess.CalledProcessError, Missing) as error:
            print(f"{name:17} could not be had: {error}", flush=True)
            continue
        told: dict[str, list[str]] = {}
        good = 0
        for each in chosen:
            fault = asyncio.run(_play(name, each, bin, args.wire))
            known = AGENTS[name].faults.get(each, "")
            wrong += bool(fault) and not known
            good += not fault
            if fault:
                told.setdefault(known or f"**{fault}**", []).append(each)
            print(f"{name:17} {each:9} {f'{known} | {fault}' if fault else 'ok'}", flush=True)
        faults = "; ".join(f"{', '.join(where)}: {why}" for why, where in told.items())
        rows.append(f"| {name} | {AGENTS[name].version} | {good} of {len(chosen)} | {faults} |")
    if args.write:
        before, _, rest = DOCS.read_text().partition(BEGIN)
        told_before, _, after = rest.partition(END)
        kept = {row.split("|")[1].strip(): row for row in (*told_before.splitlines()[3:], *rows) if row}
        head = "| Agent | Version | As it should be | Its own |\n|---|---|---|---|\n"
        table = "\n".join(kept[name] for name in AGENTS if name in kept)
        DOCS.write_text(f"{before}{BEGIN}\n{head}{table}\n{END}{after}")
    return 1 if wrong else 0


async def _play(name: str, which: str, bin: Path, kept: Path | None) -> str:
    situation = SITUATIONS[which]
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        home = folder / "theirs"
        (home / "w").mkdir(parents=True)
        model = ScriptedModel(escalates=True)
        setting = AGENTS[name].prepare(bin, home, model.address)
        if situation.set_up:
            situation.set_up(setting)
        run = Run(name, folder, folder / "work", setting, model)
        try:
            async with asyncio.timeout(LONGEST):
                await _send(run, situation)
        except TimeoutError:
            return f"not over within {LONGEST:.0f} s; {run.cards}"
        finally:
            model.close()
            left = _processes(home)
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            log = folder / "wire"
            if kept is not None and log.exists():
                kept.mkdir(parents=True, exist_ok=True)
                (kept / f"{name}-{which}.log").write_bytes(log.read_bytes())
        return situation.judge(run)


async def _send(run: Run, situation: Situation) -> None:
    log = run.folder / "wire"
    line = shlex.join([sys.executable, str(TEE), str(log), *run.setting.command])
    path = f"{Path(run.setting.command[0]).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(run.setting.home), **NOWHERE, **run.setting.variables}
    told = {
        "subagents": {"forecast_tokens": None},
        "agents": {"other": {"command": line, "env": env, **AGENTS[run.name].settings}},
    }
    goal = "plan: " + situation.plan.replace("WORK", str(run.work))
    script = {"main": [call("delegate_task", goal=goal, agent="other"), say("Over.")]}
    async with team(run.folder, script, json.dumps(told)) as made:
        if situation.rules:
            (made.home / "permissions.yaml").write_text(situation.rules)
        async with made.engine(approve=situation.approve, attended=bool(situation.answer)) as engine:

            def hear(event: Any) -> None:
                if not (hasattr(event, "reply") and hasattr(event, "headline")):
                    return
                sending = "other" in event.headline and str(TEE) in event.headline
                if not sending:
                    run.questions.append(event.headline)
                event.reply.set_result(Decision("once" if sending else situation.answer))  # type: ignore[arg-type]

            engine.stream.subscribe(hear)
            turn = asyncio.create_task(engine.run("Send it."))
            if situation.during is not None:
                await _until_under_way(run, situation, turn)
                situation.during(run, engine)
            await turn
    run.cards = _cards(made)
    run.ended = "".join(each.outcome for each in made.seen(AgentEnded))
    found = results(made)
    run.report = (found[0].get("results") or [found[0]])[0] if found else {}
    for text in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
        try:
            message = json.loads(text[1:])
        except ValueError:
            continue
        if isinstance(message, dict):
            run.wire.append((text[0], message))
    await asyncio.sleep(0.5)
    run.left = [words.replace(b"\0", b" ").decode()[:80] for _, words in _processes(run.setting.home)]


async def _until_under_way(run: Run, situation: Situation, turn: asyncio.Task[Any]) -> None:
    """Wait until the model was asked, and, if it sends a command, until that runs."""
    while not turn.done():
        running = any(WAIT.replace(" ", "\0").encode() in words for _, words in _processes(run.setting.home))
        if running or (situation.plan.startswith("sleep") and any(each.said for each in run.model.exchanges)):
            return
        await asyncio.sleep(0.1)


def _cards(made: Bench) -> list[tuple[str, str]]:
    ended = [each for each in made.seen(ToolFinished) if each.agent != "main"]
    return [(str(each.display.subject), each.outcome) for each in ended]


def _processes(home: Path) -> list[tuple[int, bytes]]:
    """Return the processes whose home is this folder, with their words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"HOME=" + os.fsencode(str(home)) in (entry / "environ").read_bytes().split(b"\0"):
                found.append((int(entry.name), (entry / "cmdline").read_bytes()))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
