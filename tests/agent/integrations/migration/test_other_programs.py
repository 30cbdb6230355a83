"""Sessions of Gemini CLI, Pi, Mistral Vibe, Cline and Qwen Code, and what forks and compactions become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import Node
from agent.integrations.migration import claude, cline, codex, gemini, pi, qwen, vibe
from agent.integrations.migration.reading import codex_servers
from agent.knowledge.context.message_history import conversation
from tests.support.other_agents import lines, write


def entries(record: SessionRecord | None) -> list[tuple[Any, ...]]:
    """Kind, text and outcome of the branch in use."""
    assert record is not None
    nodes = {node.id: node for node in record.nodes}
    at, rows = record.heads["main"], []
    while at:
        node = nodes[at]
        calls = tuple(call["id"] for call in node.data.get("calls", ()))
        rows.append((node.kind, node.content, node.data.get("outcome", calls)))
        at = node.parent or 0
    return rows[::-1]


def model_messages(record: SessionRecord | None) -> list[tuple[str, str]]:
    """What the model gets of the branch in use."""
    assert record is not None
    nodes = {node.id: node for node in record.nodes}
    path: list[Node] = []
    at = record.heads["main"]
    while at:
        node = nodes[at]
        path.append(Node(node.id, "s", node.parent, node.kind, node.created, node.content, node.data))
        at = node.parent or 0
    return [(each.message.role, each.message.content) for each in conversation(path[::-1])]


SAID = [
    ("user", "list", ()),
    ("assistant", "", ("c1", "c2")),
    ("tool", "a", "done"),
    ("tool", "no b", "failed"),
    ("assistant", "two files", ()),
]


def gemini_session(home: Path) -> SessionRecord | None:
    def answer(id: str, output: dict[str, str]) -> dict[str, Any]:
        return {"functionResponse": {"id": id, "name": "sh", "response": output}}

    responses = [answer("c1", {"output": "a"}), answer("c2", {"error": "no b"})]
    called: dict[str, Any] = {
        "id": "g1",
        "type": "gemini",
        "content": "",
        "tokens": {"input": 9, "output": 2},
    }
    tools = [
        {"id": "c1", "name": "sh", "args": {}, "status": "success", "result": responses[:1]},
        {"id": "c2", "name": "sh", "args": {}, "status": "error", "result": responses[1:]},
    ]
    folder = home / "tmp" / "w" / "chats"
    write(folder.parent / ".project_root", "/srv/w")
    lines(
        folder / "session-1.jsonl",
        [
            {"sessionId": "s", "startTime": "2026-11-01T00:00:00Z", "kind": "main"},
            {"$set": {"messages": [{"id": "u0", "type": "user", "content": "<session_context>x"}]}},
            {"id": "u1", "type": "user", "content": [{"text": "list"}]},
            {"id": "gone", "type": "gemini", "content": "taken back"},
            {"$rewindTo": "gone"},
            called,
            {**called, "toolCalls": tools},
            {"id": "r1", "type": "user", "content": responses},
            {"id": "g2", "type": "gemini", "content": "two files"},
            # A resume writes all of it again, with the results under the id of the answer too.
            {
                "$set": {
                    "messages": [
                        {"id": "u1", "type": "user", "content": "list"},
                        {**called, "toolCalls": tools},
                        {"id": "g1", "type": "user", "content": responses},
                        {"id": "r1", "type": "user", "content": responses},
                        {"id": "g2", "type": "gemini", "content": "two files"},
                    ]
                }
            },
        ],
    )
    # What a resume leaves beside it.
    lines(folder / "session-2.jsonl", [{"sessionId": "s", "startTime": "2026-11-02T00:00:00Z"}])
    (session,) = gemini.find_data(home).sessions
    assert (session.id, session.workspace) == ("gemini-s", "/srv/w")
    return session.read()


def pi_session(home: Path) -> SessionRecord | None:
    def entry(id: str, parent: str | None, **said: Any) -> dict[str, Any]:
        return {"type": "message", "id": id, "parentId": parent, "message": said}

    def result(call: str, text: str, failed: bool) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"role": "toolResult", "toolCallId": call, "content": content, "isError": failed}

    calls = [{"type": "toolCall", "id": id, "name": "bash", "arguments": {}} for id in ("c1", "c2")]
    lines(
        home / "sessions" / "--srv--" / "1_s.jsonl",
        [
            {"type": "session", "version": 3, "id": "s", "cwd": "/srv/w"},
            entry("u1", None, role="user", content="list"),
            entry("x1", "u1", role="assistant", content=[{"type": "text", "text": "left behind"}]),
            entry("a1", "u1", role="assistant", content=calls, usage={"input": 1, "output": 2}),
            entry("r1", "a1", **result("c1", "a", False)),
            entry("r2", "r1", **result("c2", "no b", True)),
            entry("a2", "r2", role="assistant", content=[{"type": "text", "text": "two files"}]),
            {"type": "session_info", "id": "i", "parentId": "a2", "name": "Files"},
        ],
    )
    (session,) = pi.find_data(home).sessions
    return session.read()


def qwen_session(home: Path) -> SessionRecord | None:
    def line(id: str, parent: str | None, kind: str, parts: list[Any], **more: Any) -> dict[str, Any]:
        return {"uuid": id, "parentUuid": parent, "type": kind, "message": {"parts": parts}, **more}

    def result(id: str, parent: str, call: str, told: dict[str, str], status: str) -> dict[str, Any]:
        parts = [{"functionResponse": {"id": call, "name": "sh", "response": told}}]
        return line(id, parent, "tool_result", parts, toolCallResult={"callId": call, "status": status})

    calls = [{"functionCall": {"id": id, "name": "sh", "args": {}}} for id in ("c1", "c2")]
    lines(
        home / "projects" / "-srv" / "chats" / "s.jsonl",
        [
            line("u1", None, "user", [{"text": "list"}]),
            {"uuid": "t", "parentUuid": "u1", "type": "system", "subtype": "ui_telemetry"},
            line("a1", "t", "assistant", [{"text": "hm", "thought": True}, *calls]),
            result("r1", "a1", "c1", {"output": "a"}, "success"),
            result("r2", "r1", "c2", {"error": "no b"}, "error"),
            line("a2", "r2", "assistant", [{"text": "two files"}]),
        ],
    )
    (session,) = qwen.find_data(home).sessions
    return session.read()


def cline_session(home: Path) -> SessionRecord | None:
    def result(call: str, content: Any, failed: bool = False) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": failed}
        return {"role": "user", "content": [block]}

    text = [{"type": "text", "text": '<user_input mode="act">list</user_input>'}]
    calls = [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in ("c1", "c2")]
    messages = [
        {"role": "user", "content": text, "ts": 1_790_000_000_000},
        {"role": "assistant", "content": calls},
        result("c1", "a"),
        result("c2", [{"type": "text", "text": "no b"}], failed=True),
        {"role": "assistant", "content": [{"type": "text", "text": "two files"}]},
    ]
    folder = home / "data" / "sessions" / "s"
    write(folder / "s.messages.json", json.dumps({"messages": messages}))
    write(folder / "s.json", json.dumps({"cwd": "/srv/w", "prompt": "list"}))
    (session,) = cline.find_data(home).sessions
    return session.read()


def vibe_session(home: Path) -> SessionRecord | None:
    folder = home / "logs" / "session" / "unified" / "s"
    place = folder / "generations" / "0000000000000002"
    text = [{"type": "text", "text": "list"}]
    calls = [
        {"type": "tool_call", "id": id, "name": "bash", "arguments": {"value": {}}} for id in ("c1", "c2")
    ]
    held = [
        {"message": {"role": "user", "content": text}},
        {"message": {"role": "assistant", "content": calls}},
    ]
    write(folder / "meta.json", json.dumps({"session_id": "s", "start_time": "2026-11-01T00:00:00Z"}))
    write(folder / "CURRENT", json.dumps({"generation": "0000000000000002"}))
    write(folder / "chunks" / "ab12.json", json.dumps(held))
    manifest = {
        "checkpoint": {"chunks": ["ab12", "../../../secret"]},
        "recovery_journal_segment": {"path": "journal/3.jsonl"},
    }
    write(place / "manifest.json", json.dumps(manifest))
    write(place / "checkpoint.json", json.dumps({"context": {"messages": []}}))

    def command(**command: Any) -> dict[str, Any]:
        return {"type": "core_input", "payload": {"input": {"command": command}}}

    good, bad = ([{"type": "text", "text": words}] for words in ("a", "no b"))
    end = [{"type": "text", "text": "two files"}]
    lines(
        folder / "journal" / "3.jsonl",
        [
            command(type="tool_succeeded", call_id="c1", result={"content": good, "type": "success"}),
            command(type="tool_failed", call_id="c2", result={"content": bad, "type": "error"}),
            command(type="completion_succeeded", result={"parts": end}),
        ],
    )
    (session,) = vibe.find_data(home).sessions
    return session.read()


MAKERS = {
    "gemini": gemini_session,
    "pi": pi_session,
    "qwen": qwen_session,
    "cline": cline_session,
    "vibe": vibe_session,
}


@pytest.mark.parametrize("agent", MAKERS)
def test_calls_and_results_stand_in_order_with_their_outcomes(agent: str, tmp_path: Path) -> None:
    record = MAKERS[agent](tmp_path)
    assert entries(record) == SAID
    assert [role for role, _ in model_messages(record)] == ["user", "assistant", "tool", "tool", "assistant"]


def test_what_is_said_to_gemini_after_a_resume_follows_the_last_answer(tmp_path: Path) -> None:
    gemini_session(tmp_path)
    path = tmp_path / "tmp" / "w" / "chats" / "session-1.jsonl"
    *before, resumed = map(json.loads, path.read_text().splitlines())
    (repeated,) = (
        each for each in resumed["$set"]["messages"] if (each["id"], each["type"]) == ("g1", "user")
    )
    repeated["id"] = "g1_response"
    resumed["$set"]["messages"].insert(0, before[1]["$set"]["messages"][0])
    lines(path, [*before, resumed, {"id": "u2", "type": "user", "content": "go on"}])
    (session,) = gemini.find_data(tmp_path).sessions
    assert model_messages(session.read())[-2:] == [("assistant", "two files"), ("user", "go on")]


def test_a_fork_of_codex_begins_with_the_lines_it_points_to(tmp_path: Path) -> None:
    first, second = "a" * 36, "b" * 36

    def say(at: int, role: str, text: str) -> dict[str, Any]:
        item = {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}
        return {"ordinal": at, "type": "response_item", "payload": item}

    def meta(id: str, **more: Any) -> dict[str, Any]:
        return {"ordinal": 0, "type": "session_meta", "payload": {"id": id, "cwd": "/w", **more}}

    folder = tmp_path / "sessions" / "2026"
    said = [say(1, "user", "one"), say(2, "assistant", "eins"), say(3, "user", "two")]
    original = lines(folder / f"rollout-x-{first}.jsonl", [meta(first), *said])
    base = {"thread_id": first, "end_ordinal_exclusive": 3}
    lines(folder / f"rollout-y-{second}.jsonl", [meta(second, history_base=base), say(1, "user", "else")])
    by_id = {session.id: session for session in codex.find_data(tmp_path).sessions}
    assert [text for _, text, _ in entries(by_id[f"codex-{second}"].read())] == ["one", "eins", "else"]
    original.unlink()
    (fork,) = codex.find_data(tmp_path).sessions
    record = fork.read()
    assert record is not None and any("beginning" in each for each in record.left)


def test_the_summary_of_codex_is_shown_once_without_the_programs_own_instructions(tmp_path: Path) -> None:
    def say(role: str, text: str) -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}

    used = {"last_token_usage": {"input_tokens": 70, "output_tokens": 7}}
    kept = [say("developer", "instructions"), say("user", "first")]
    lines(
        tmp_path / "sessions" / f"rollout-x-{'c' * 36}.jsonl",
        [
            {"type": "session_meta", "payload": {"id": "c" * 36, "cwd": "/w"}},
            {"type": "response_item", "payload": say("user", "first")},
            {"type": "response_item", "payload": say("assistant", "what was done")},
            {"type": "event_msg", "payload": {"type": "token_count", "info": used}},
            {
                "type": "compacted",
                "payload": {"message": "In short: what was done", "replacement_history": kept},
            },
            {"type": "response_item", "payload": say("user", "two")},
        ],
    )
    (session,) = codex.find_data(tmp_path).sessions
    record = session.read()
    assert record is not None
    shown = [(node.kind, node.content) for node in record.nodes]
    assert shown == [("user", "first"), ("compaction", "first\n\nIn short: what was done"), ("user", "two")]
    assert record.nodes[1].data["usage"]["input"] == 70


def test_what_was_compacted_is_shown_and_only_its_summary_is_sent(tmp_path: Path) -> None:
    def line(kind: str, uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
        said = {"id": uuid, "content": [{"type": "text", "text": text}]}
        return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": said, **more}

    kept = {"preservedSegment": {"headUuid": "a2"}}
    path = lines(
        tmp_path / "s.jsonl",
        [
            line("user", "u1", None, "secret plan"),
            line("assistant", "a1", "u1", "long answer"),
            line("assistant", "a2", "a1", "kept answer"),
            {
                "type": "system",
                "subtype": "compact_boundary",
                "uuid": "b",
                "parentUuid": None,
                "logicalParentUuid": "a2",
                "compactMetadata": kept,
            },
            line("user", "s", "b", "the summary", isCompactSummary=True),
            line("user", "u2", "s", "[Request interrupted by user]"),
            line("user", "u3", "u2", "more"),
        ],
    )
    record = claude.read_session(path, "s")
    assert [text for _, text, _ in entries(record)][:3] == ["secret plan", "long answer", "kept answer"]
    words = "\n".join(text for _, text in model_messages(record))
    assert "secret plan" not in words and "long answer" not in words
    assert "the summary" in words and words.index("the summary") < words.index("kept answer")
    assert record is not None and [node.kind for node in record.nodes if "Request" in node.content] == [
        "notice"
    ]


def test_lines_that_cannot_be_read_are_counted_and_links_out_are_left(tmp_path: Path) -> None:
    home = tmp_path / "pi"
    path = home / "sessions" / "--srv--" / "1_s.jsonl"
    lines(path, [{"type": "session", "id": "s"}, {"type": "message", "id": "u", "message": {"role": "user"}}])
    good = {
        "type": "message",
        "id": "u1",
        "parentId": None,
        "message": {"role": "user", "content": "a\x1b[2Jb"},
    }
    write(path, f'{path.read_text()}{{broken\n{json.dumps(good)}\n{{"type": "message", "mess')
    (path.parent / "2_t.jsonl").symlink_to(write(tmp_path / "out.jsonl", json.dumps(good)))
    findings = pi.find_data(home)
    (session,) = findings.sessions
    record = session.read()
    assert record is not None and sorted(record.left) == [
        "1 × line that is not JSON",
        "1 × unfinished last line",
    ]
    assert "\x1b" not in record.nodes[0].content
    assert any("2_t.jsonl is not a plain file" in each for each in findings.left_out)


def test_servers_of_codex_keep_their_keys_times_and_tools() -> None:
    servers, left = codex_servers(
        {
            "web": {
                "url": "https://x.example/mcp",
                "bearer_token_env_var": "MY_TOKEN",
                "env_http_headers": {"X-Team": "TEAM_VAR"},
                "strange": 1,
            },
            "st": {
                "command": "npx",
                "env_vars": ["GITHUB_TOKEN"],
                "startup_timeout_sec": 60,
                "tool_timeout_sec": 300,
                "disabled_tools": ["delete_all"],
            },
        }
    )
    assert servers["web"]["headers"] == {"Authorization": "Bearer ${MY_TOKEN}", "X-Team": "${TEAM_VAR}"}
    assert servers["st"] == {
        "command": "npx",
        "env_passthrough": ["GITHUB_TOKEN"],
        "connect_timeout": 60,
        "timeout": 300,
        "exclude": ["delete_all"],
    }
    assert len(left) == 1 and "strange" in left[0]
