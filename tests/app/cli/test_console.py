"""Approvals on a plain terminal: what is printed, and what each answer means."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from agent.core.event_data import VerdictPart
from agent.events import AgentStarted, ApprovalAsked, CeilingReply, Decision
from app.cli.console import Console
from tests.support import story

PARTS = (
    VerdictPart("ls", "allow", "only looks"),
    VerdictPart("rm -rf src", "ask", "deletes everything in src"),
    VerdictPart("curl http://h/", "ask", "reaches the network"),
)


async def answered(monkeypatch: pytest.MonkeyPatch, text: str, **fields: Any) -> Decision:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n" if text else ""))
    request = ApprovalAsked(
        id="a",
        **{
            "tool": "terminal",
            "headline": "ls; rm -rf src; curl http://h/",
            "reasons": ("deletes everything in src", "reaches the network"),
            "parts": PARTS,
            "rule": "run exactly this command in ~/work",
            **fields,
        },
        reply=asyncio.get_running_loop().create_future(),
    )
    Console().answer(request)
    return await request.reply


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("y", Decision("once")),
        ("s", Decision("session")),
        ("a", Decision("always")),
        ("always", Decision("always")),
        ("ALWAYS", Decision("always")),
        ("n", Decision("deny")),
        ("", Decision("deny")),
        ("use make clean", Decision("deny", "use make clean")),
    ],
)
async def test_each_answer_is_a_decision(monkeypatch: Any, text: str, decision: Decision) -> None:
    assert await answered(monkeypatch, text) == decision


@pytest.mark.parametrize("text", ["s", "a", "always"])
async def test_a_lasting_yes_where_none_is_offered_is_a_no(monkeypatch: Any, capsys: Any, text: str) -> None:
    assert await answered(monkeypatch, text, rule="") == Decision("deny")
    assert "always" not in capsys.readouterr().err


async def test_always_says_what_it_covers_before_it_is_answered(monkeypatch: Any, capsys: Any) -> None:
    await answered(monkeypatch, "a")
    told = capsys.readouterr().err
    assert "a yes for the session or always covers: run exactly this command in ~/work\n" in told
    assert told.endswith("[y] allow once  [s] for this session  [a] always  [N] deny, or say why not: ")


async def test_parts_are_lines_with_their_reasons(monkeypatch: Any, capsys: Any) -> None:
    await answered(monkeypatch, "n", network="yes", sandbox="none", touches=("src/ (3 files)",))
    lines = capsys.readouterr().err.split("\n")
    at = lines.index("  network: yes · sandbox: off · will touch: src/ (3 files)")
    assert lines[at + 1 : at + 3] == [
        "  ▲ rm -rf src: deletes everything in src",
        "  ▲ curl http://h/: reaches the network",
    ]
    assert not [line for line in lines if "only looks" in line]


async def test_nothing_in_a_part_steers_the_terminal_or_begins_a_line(monkeypatch: Any, capsys: Any) -> None:
    part = VerdictPart("rm\x1b[2K\n  network: no", "ask", "deletes\r\u202e")
    await answered(monkeypatch, "n", parts=(part,), reasons=())
    assert "  ▲ rm\\x1b[2K   network: no: deletes\\r\\u202e\n" in capsys.readouterr().err


async def told(monkeypatch: pytest.MonkeyPatch, request: Any, text: str) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    console = Console()
    console.handle(AgentStarted(agent="agent-1", name="callers", goal="look"))
    assert console.handle(request)
    return await request.reply


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("y\n", Decision("once")),
        ("s\n", Decision("session")),
        ("a\n", Decision("deny")),
        ("\n", Decision("deny")),
        ("", Decision("deny")),
        ("look yourself\n", Decision("deny", "look yourself")),
    ],
)
async def test_agents_are_agreed_to_or_not(
    monkeypatch: Any, capsys: Any, text: str, decision: Decision
) -> None:
    assert await told(monkeypatch, story.forecast(agent="agent-1"), text) == decision
    said = capsys.readouterr().err
    assert "◆ callers (agent-1) wants to send 5 agents:" in said
    assert "  tokens  118k – 940k, as 37 earlier agents took\n  cost    $0.31 – $4.20\n" in said
    assert "  - Check the forms\n" in said


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("y\n", CeilingReply("raised", 4_000_000)),
        ("500k\n", CeilingReply("raised", 2_500_000)),
        ("1\nmany\n1M\n", CeilingReply("raised", 3_000_000)),
        ("n\n", CeilingReply("stopped")),
        ("1\n", CeilingReply("stopped")),
        ("", CeilingReply("stopped")),
    ],
)
async def test_a_ceiling_is_raised_or_stopped_at(
    monkeypatch: Any, capsys: Any, text: str, reply: CeilingReply
) -> None:
    assert await told(monkeypatch, story.ceiling(agent="agent-1"), text) == reply
    said = capsys.readouterr().err
    assert "◆ callers (agent-1) cannot continue. The ceiling of all agents of this session is reached" in said
    assert ("Give at least 18,600 tokens more." in said) == text.startswith("1")


async def test_the_main_agent_is_called_hermes(monkeypatch: Any, capsys: Any) -> None:
    await told(monkeypatch, story.forecast(), "\n")
    await told(monkeypatch, story.ceiling(), "n\n")
    said = capsys.readouterr().err
    assert "◆ Hermes wants to send 5 agents:" in said and "◆ Hermes cannot continue." in said


async def test_an_approval_of_another_agent_names_it(monkeypatch: Any, capsys: Any) -> None:
    assert await told(monkeypatch, story.approval(agent="agent-1"), "n\n") == Decision("deny")
    assert "◆ callers (agent-1): terminal wants to:" in capsys.readouterr().err
