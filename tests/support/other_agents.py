"""Folders as other agents leave them, in the forms that their programs write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

SKILL = "---\nname: {0}\ndescription: How to {0} well.\n---\n\nDo {0}, then look at what came of it.\n"


def write(path: Path, content: str) -> Path:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def lines(path: Path, records: Iterable[Any]) -> Path:
    """A file of JSON lines."""
    return write(path, "".join(json.dumps(each) + "\n" for each in records))


def claude(home: Path) -> Path:
    """`.claude` and `.claude.json` of a person with one project, a rewind in it, and a torn last line."""
    root = home / ".claude"

    def line(number: int, parent: int | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        said = {"role": kind, "content": content, **more.pop("said", {})}
        return {
            "type": kind,
            "uuid": f"u{number}",
            "parentUuid": None if parent is None else f"u{parent}",
            "timestamp": f"2026-10-01T08:{number:02}:00.000Z",
            "cwd": "/srv/shop",
            "sessionId": "5d3c",
            "isSidechain": False,
            "message": said,
            **more,
        }

    model = {"id": "msg_1", "model": "claude-opus-5"}
    path = lines(
        root / "projects" / "-srv-shop" / "5d3c.jsonl",
        [
            {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
            line(1, None, "user", "Round the prices."),
            line(2, 1, "user", "<command-name>/cost</command-name>"),
            line(3, 2, "user", "Caveat: what follows was typed by nobody.", isMeta=True),
            line(
                4, 3, "assistant", [{"type": "thinking", "thinking": "Where?", "signature": "x"}], said=model
            ),
            line(5, 4, "assistant", [{"type": "text", "text": "I look."}], said=model),
            line(
                6,
                5,
                "assistant",
                [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}],
                said=model,
            ),
            line(
                7,
                6,
                "assistant",
                [{"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": "a.py"}}],
                said=model,
            ),
            line(8, 7, "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py"}]),
            line(
                9,
                8,
                "user",
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no such file"}],
                    }
                ],
            ),
            line(10, 9, "assistant", [{"type": "text", "text": "Done."}], said={"id": "msg_2"}),
            line(11, 4, "user", "A side remark of an agent.", isSidechain=True),
            # A rewind: another message after the first answer.
            line(
                12, 1, "user", [{"type": "text", "text": "Rather cut them."}, {"type": "image", "source": {}}]
            ),
            line(13, 12, "assistant", [{"type": "text", "text": "Cut."}], said={"id": "msg_3"}),
            {"type": "summary", "summary": "Prices of the shop", "leafUuid": "u13"},
        ],
    )
    path.write_text(path.read_text() + '{"type": "user", "mess', "utf-8")
    lines(root / "projects" / "-srv-shop" / "agent-77.jsonl", [line(1, None, "user", "An agent's own.")])
    lines(root / "projects" / "-srv-shop" / "empty.jsonl", [{"type": "summary", "summary": "Nothing"}])
    write(root / "projects" / "-srv-shop" / "memory" / "MEMORY.md", "The tests need a database.\n")
    write(root / "CLAUDE.md", "# Habits\n\nUse British spelling.\n\nNo emojis.\n")
    write(root / "skills" / "deploying" / "SKILL.md", SKILL.format("deploying"))
    write(
        root / "settings.json",
        json.dumps(
            {
                "permissions": {
                    "allow": [
                        "Bash(npm run test:*)",
                        "WebFetch(domain:docs.python.org)",
                        "Read(//etc/hosts)",
                    ],
                    "ask": ["mcp__github__delete_repo", "Bash"],
                    "deny": ["Read(./.env)", "Task", "Edit"],
                },
                "hooks": {"PreToolUse": []},
            }
        ),
    )
    write(
        home / ".claude.json",
        json.dumps(
            {
                "mcpServers": {
                    "github": {
                        "type": "stdio",
                        "command": "gh-mcp",
                        "args": ["--ro"],
                        "env": {"TOKEN": "t0p"},
                    },
                    "docs": {"type": "http", "url": "https://docs.example.org/mcp"},
                    "broken": {"type": "stdio"},
                },
                "projects": {"/srv/shop": {"mcpServers": {"local": {"command": "x"}}}},
            }
        ),
    )
    return root


def codex(home: Path) -> Path:
    """`.codex` with one session in today's form."""
    root = home / ".codex"

    def item(minute: int, **payload: Any) -> dict[str, Any]:
        return {
            "timestamp": f"2026-10-02T09:{minute:02}:00.000Z",
            "type": "response_item",
            "payload": payload,
        }

    def text(role: str, words: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}

    lines(
        root / "sessions" / "2026" / "10" / "02" / "rollout-2026-10-02T09-00-00-0199.jsonl",
        [
            {
                "timestamp": "2026-10-02T09:00:00Z",
                "type": "session_meta",
                "payload": {"id": "0199", "cwd": "/srv/api", "timestamp": "2026-10-02T09:00:00Z"},
            },
            item(0, **text("developer", "Rules of the sandbox.")),
            item(0, **text("user", "<environment_context>\n  <cwd>/srv/api</cwd>\n</environment_context>")),
            {
                "timestamp": "2026-10-02T09:01:00Z",
                "type": "turn_context",
                "payload": {"model": "gpt-6-codex"},
            },
            item(1, **text("user", "Add a health check.")),
            {"timestamp": "2026-10-02T09:01:00Z", "type": "event_msg", "payload": {"type": "user_message"}},
            item(
                2,
                type="reasoning",
                summary=[{"type": "summary_text", "text": "A route."}],
                encrypted_content="e",
            ),
            item(3, type="function_call", name="shell", call_id="call_1", arguments='{"command":["ls"]}'),
            item(3, type="custom_tool_call", name="apply_patch", call_id="call_2", input="*** Begin Patch"),
            item(4, type="function_call_output", call_id="call_1", output="app.py"),
            item(
                4,
                type="custom_tool_call_output",
                call_id="call_2",
                output={"content": "Done", "success": True},
            ),
            item(4, type="function_call_output", call_id="nobody", output="lost"),
            item(5, **text("assistant", "There is one now.")),
        ],
    )
    write(
        root / "config.toml",
        'model = "gpt-6-codex"\napproval_policy = "never"\n\n[mcp_servers.files]\ncommand = "npx"\n'
        'args = ["-y", "files"]\n[mcp_servers.files.env]\nROOT = "/srv"\n\n[mcp_servers.off]\n'
        'url = "https://off.example.org/mcp"\nenabled = false\n',
    )
    write(root / "AGENTS.md", "Write tests first.\n")
    write(root / "skills" / "reviewing" / "SKILL.md", SKILL.format("reviewing"))
    write(root / "skills" / ".system" / "plan" / "SKILL.md", SKILL.format("plan"))
    write(root / "rules" / "default.rules", 'prefix_rule(pattern=["git"], decision="allow")\n')
    return root


_MESSAGES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"id": "msg_1", "role": "user", "time": {"created": 1_790_000_000_000}},
        [
            {"id": "prt_1", "type": "text", "text": "Explain the queue."},
            {"id": "prt_2", "type": "text", "text": "Contents of a file", "synthetic": True},
            {"id": "prt_3", "type": "file", "filename": "q.py", "url": "file:///q.py"},
        ],
    ),
    (
        {
            "id": "msg_2",
            "role": "assistant",
            "time": {"created": 1_790_000_001_000},
            "providerID": "anthropic",
            "modelID": "claude-sonnet-5",
        },
        [
            {"id": "prt_1", "type": "step-start"},
            {"id": "prt_2", "type": "reasoning", "text": "Look first."},
            {
                "id": "prt_3",
                "type": "tool",
                "callID": "c1",
                "tool": "read",
                "state": {"status": "completed", "input": {"filePath": "q.py"}, "output": "import queue"},
            },
            {
                "id": "prt_4",
                "type": "tool",
                "callID": "c2",
                "tool": "bash",
                "state": {"status": "error", "input": {"command": "false"}, "error": "exit 1"},
            },
            {"id": "prt_5", "type": "text", "text": "It is a list."},
        ],
    ),
]


def opencode(home: Path) -> tuple[Path, Path]:
    """Data and settings: one session in files, one in a database, and the session of an agent."""
    root, settings = home / ".local/share/opencode", home / ".config/opencode"
    time = {"created": 1_790_000_000_000, "updated": 1_790_000_009_000}
    for id, more in (("ses_a", {}), ("ses_sub", {"parentID": "ses_a"})):
        about = {"id": id, "title": "The queue", "directory": "/srv/q", "time": time, **more}
        write(root / "storage" / "session" / "p1" / f"{id}.json", json.dumps(about))
    for message, parts in _MESSAGES:
        write(root / "storage" / "message" / "ses_a" / f"{message['id']}.json", json.dumps(message))
        for part in parts:
            write(root / "storage" / "part" / message["id"] / f"{part['id']}.json", json.dumps(part))
    with closing(sqlite3.connect(root / "opencode.db")) as connection, connection:
        connection.execute(
            "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, title TEXT, directory TEXT, "
            "time_created INTEGER, time_updated INTEGER)"
        )
        connection.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        connection.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        row = ("ses_b", None, "The queue again", "/srv/q", time["created"], time["updated"])
        connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        for message, parts in _MESSAGES:
            data = json.dumps({key: value for key, value in message.items() if key != "id"})
            at = message["time"]["created"]
            connection.execute("INSERT INTO message VALUES (?, 'ses_b', ?, ?)", (message["id"], at, data))
            for part in parts:
                values = (part["id"], message["id"], json.dumps(part))
                connection.execute("INSERT INTO part VALUES (?, ?, 'ses_b', ?)", values)
    write(
        settings / "opencode.jsonc",
        """{
  // servers
  "mcp": {
    "files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"A": "1"},},
    "docs": {"type": "remote", "url": "https://docs.example.org/mcp", "enabled": false},
  },
  /* what may be done */
  "permission": {"edit": "ask", "bash": {"*": "allow", "git push *": "ask"}, "webfetch": "deny"},
}
""",
    )
    write(settings / "AGENTS.md", "Answer briefly.\n")
    write(settings / "skill" / "drawing" / "SKILL.md", SKILL.format("drawing"))
    return root, settings


def hermes(home: Path) -> Path:
    """A home of the Hermes Agent that came before."""
    root = home / "old-hermes"
    write(root / "memories" / "MEMORY.md", "Uses uv.\n§\nThe server is called anvil.\n")
    write(root / "memories" / "USER.md", "Likes short answers.\n")
    write(root / "config.yaml", "mcp_servers:\n  time:\n    command: uvx\n    args: [mcp-server-time]\n")
    write(root / "skills" / "ops" / "watching" / "SKILL.md", SKILL.format("watching"))
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
    ]
    with closing(sqlite3.connect(root / "state.db")) as connection, connection:
        connection.execute(
            "CREATE TABLE sessions (id TEXT, title TEXT, cwd TEXT, started_at REAL, model TEXT, source TEXT)"
        )
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, "
            "tool_call_id TEXT, tool_calls TEXT, timestamp REAL, active INTEGER)"
        )
        for id, source in (("20261001_080000_abc123", "cli"), ("20261001_080001_abc124", "subagent")):
            row = (id, "Files here", "/srv", 1.79e9, "nous/hermes-5", source)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
        for role, content, call, made, active in (
            ("system", "You are Hermes.", None, None, 1),
            ("user", "What is here?", None, None, 1),
            ("assistant", "", None, json.dumps(calls), 1),
            ("tool", '{"output": "a.py"}', "c1", None, 1),
            ("assistant", "One file.", None, None, 1),
            ("user", "Taken back.", None, None, 0),
        ):
            connection.execute(
                "INSERT INTO messages "
                "(session_id, role, content, tool_call_id, tool_calls, timestamp, active) "
                "VALUES ('20261001_080000_abc123', ?, ?, ?, ?, 1.79e9, ?)",
                (role, content, call, made, active),
            )
    return root
