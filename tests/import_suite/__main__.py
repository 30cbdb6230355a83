"""Makes sessions with the real programs of other agents, imports them, and compares them with what went over
the wire: `python -m tests.import_suite [NAME …] [--sessions 10] [--cache DIR]`. Two more sessions of each are
so long that the program makes room (compaction).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.core.messages import Message
from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import Node
from agent.integrations.migration.taking_over import find_data
from agent.knowledge.context.message_history import conversation
from benchmarks.peers.catalogue import Missing
from tests.import_suite.programs import PROGRAMS, Setting, install
from tests.import_suite.scripted import SUMMARY, ScriptedModel, Step
from tests.support.wire_rules import Refused, check_request

PLANS = (
    "say plain answer",
    "call echo one | say after one",
    "call echo a & call echo b | say after two at once",
    "call cat gone-file | say it is gone",
    "say first & call echo beside | say done",
    "call echo a | call echo b | call false | say three calls",
    "call printf 'x%.0s' 1 2 3 & call cat gone & call echo end | say mixed",
    "call echo grüße 漢字 | say fertig ✓",
    "call sh -c 'echo out; echo err >&2; exit 3' | say code three",
    "call echo one & call echo one | say the same twice",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.import_suite", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--sessions", type=int, default=10, help="sessions of each program")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/hermes-import-suite")
    args = parser.parse_args()
    wrong = 0
    for name in args.names or PROGRAMS:
        try:
            bin = install(name, PROGRAMS[name].package, args.cache)
        except (OSError, subprocess.CalledProcessError, Missing) as error:
            print(f"{name:9} could not be had: {error}")
            continue
        made, alike, problems = _try(name, bin, args.sessions)
        wrong += made - alike
        print(f"{name:9} {made:3} sessions, {alike:3} as they went over the wire")
        for problem in problems:
            print(f"{'':9} {problem}")
    return 1 if wrong else 0


def _try(name: str, bin: Path, count: int) -> tuple[int, int, list[str]]:
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "w").mkdir()
        model = ScriptedModel()
        setting = PROGRAMS[name].prepare(bin, home, model.address)
        try:
            problems += _make(name, setting, count)
        finally:
            model.close()
        records = [
            session.read() for session in find_data(name, "", home / "none", {"HOME": folder}).sessions
        ]
        alike = 0
        for record in filter(None, records):
            difference = _difference(record, model)
            alike += not difference
            problems += [f"{record.name}: {difference}"] if difference else []
    return len([each for each in records if each]), alike, problems


def _make(name: str, setting: Setting, count: int) -> list[str]:
    """Run the program, resuming and forking every third session; return what went wrong."""
    program, problems = PROGRAMS[name], []

    def run(words: tuple[str, ...], prompt: str) -> None:
        given = {"PROMPT": prompt, "ID": program.newest(setting.home)}
        if error := setting.run([given.get(word, word) for word in words]):
            problems.append(f"{prompt[:12]}: {error}")

    for number in range(count):
        plan = PLANS[number % len(PLANS)]
        runs = [(program.begin, f"session {number} plan: {plan}")]
        if number % 3 == 0 and program.resume:
            runs.append((program.resume, f"resumed {number} plan: call echo again | say more"))
        if number % 3 == 0 and program.fork:
            runs.append((program.fork, f"forked {number} plan: call cat gone | say other"))
        for words, prompt in runs:
            run(words, prompt)
    if program.full:
        pad = "\n" + "word " * 25_000 if program.pads else ""  # below the longest argument of Linux
        run(
            program.begin,
            f"full a plan: call echo one | big {program.full} & call echo two | say at last{pad}",
        )
        run(program.begin, "full b plan: call echo one | say early")
        if program.resume:
            run(program.resume, f"full c plan: big {program.full} & say large{pad}")
            if program.compact:
                run(program.compact, "")
            run(program.resume, f"full d plan: call echo three | say late{pad}")
    return problems


Row = tuple[str, str]


def _difference(record: SessionRecord, model: ScriptedModel) -> str:
    """Return the first difference between a session and the wire, or what a strict server refuses."""
    nodes = {node.id: node for node in record.nodes}
    path: list[Node] = []
    at = record.heads["main"]
    while at:
        node = nodes[at]
        path.append(Node(node.id, "s", node.parent, node.kind, node.created, node.content, node.data))
        at = node.parent or 0
    messages = [each.message for each in conversation(path[::-1])]
    try:
        asked = [*map(_wire, messages), {"role": "user", "content": "go on"}]
        check_request({"model": "m", "messages": asked})
    except Refused as refused:
        return f"refused: {refused}"
    ours = list(_rows(messages))
    token = SUMMARY.split()[0]
    told = sum(token in each.content for each in messages)
    prompts = [text for kind, text in ours if kind == "user"]
    for exchange in reversed(model.exchanges):
        theirs = _wire_rows(exchange.said, exchange.step)
        if [text for kind, text in theirs if kind == "user"] == prompts:
            break
    else:
        return f"no request has the prompts {prompts}"
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"entry {number}: {one} here, {other} on the wire"
    if len(ours) != len(theirs):
        return f"{len(ours)} entries here, {len(theirs)} on the wire"
    if told != (sent := sum(token in each.text for each in (*exchange.said, exchange.step))):
        return f"the summary is there {told} times, {sent} times on the wire"
    lost = [each for each in record.left if "compact" in each]
    return "" if not lost else f"left out: {lost}"


def _wire(message: Message) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        told["tool_call_id"] = message.call_id
    return {**told, **({"tool_calls": calls} if calls else {})}


def _rows(messages: list[Message]) -> Any:
    for message in messages:
        match message.role:
            case "user":
                yield from _prompts(message.content)
            case "assistant":
                if message.content.strip() not in ("", SUMMARY):  # that is counted
                    yield "assistant", message.content.strip()
                yield from (("call", _plain(call.arguments)) for call in message.tool_calls)
            case "tool":
                yield "result", _plain(message.content)


def _wire_rows(said: list[Any], step: Step) -> list[Row]:
    """Return the rows of a request and its answer. Results follow their calls in the order of the calls; a
    second result of one call, as Gemini CLI sends it, is left out.
    """
    results = {each.call: _plain(each.text) for each in said if each.role == "result"}
    rows: list[Row] = []
    open_calls: list[str] = []
    for each in said:
        if each.role not in ("call", "assistant") or (each.role == "assistant" and open_calls):
            rows += [("result", results[call]) for call in open_calls if call in results]
            open_calls = []
        if each.role == "call":
            rows.append(("call", _plain(each.text)))
            open_calls.append(each.call)
        elif each.role == "assistant" and each.text.strip() not in ("", SUMMARY):
            rows.append(("assistant", each.text.strip()))
        elif each.role == "user":
            rows += _prompts(each.text)
    rows += [("result", results[call]) for call in open_calls if call in results]
    if step.text.strip() not in ("", SUMMARY):
        rows.append(("assistant", step.text.strip()))
    return rows + [("call", _plain(json.dumps(given))) for _, _, given in step.calls]


def _prompts(text: str) -> Iterator[Row]:
    """Yield the prompts in a message: after a compaction one message may hold several."""
    return (("user", _plain(line)) for line in text.split("\n") if "plan:" in line)


def _plain(text: str) -> str:
    """Return a prompt without what stands around it, and JSON in one form."""
    if "plan:" in text:
        return text[text.index("plan:") :].split("\n")[0].split("</user_input>")[0].strip().strip('"')
    try:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=True)
    except ValueError:
        return text.strip()


if __name__ == "__main__":
    sys.exit(main())
