"""What is found of other agents, from folders as they leave them."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.importing import SessionRecord
from agent.errors import ConfigError
from agent.integrations.migration import claude, codex, hermes, opencode
from agent.integrations.migration.reading import Findings, without_comments
from agent.integrations.migration.taking_over import find_data
from agent.integrations.migration.transcript import seconds
from tests.support import other_agents


def found(agent: str, home: Path) -> Findings:
    """What the example of an agent gives."""
    match agent:
        case "claude":
            return claude.find_data(other_agents.claude(home))
        case "codex":
            return codex.find_data(other_agents.codex(home))
        case "opencode":
            return opencode.find_data(*other_agents.opencode(home))
    return hermes.find_data(other_agents.hermes(home))


def told(record: SessionRecord | None) -> list[tuple[Any, ...]]:
    """A session in short: kind, parent, text, and the calls or the call."""
    assert record is not None
    rows = []
    for node in record.nodes:
        calls = [f"{call['name']}{call['arguments']}" for call in node.data.get("calls", ())]
        more = calls or ([f"{node.data['tool']} {node.data['outcome']}"] if node.kind == "tool" else [])
        rows.append((node.kind, node.parent, node.content, *more))
    return rows


def test_a_session_of_claude_code_keeps_its_branches_and_leaves_out_what_nobody_said(tmp_path: Path) -> None:
    findings = found("claude", tmp_path)
    by_id = {session.id: session for session in findings.sessions}
    assert set(by_id) == {"claude-5d3c", "claude-empty"}
    session = by_id["claude-5d3c"]
    assert (session.title, session.workspace) == ("Round the prices.", "/srv/shop")
    record = session.read()
    assert told(record) == [
        ("user", None, "Round the prices."),
        ("assistant", 1, "I look.", 'Bash{"command": "ls"}', 'Read{"file_path": "a.py"}'),
        ("tool", 2, "a.py", "Bash done"),
        ("tool", 3, "no such file", "Read failed"),
        ("assistant", 4, "Done."),
        ("user", 1, "Rather cut them.\n\n[image]"),
        ("assistant", 6, "Cut."),
    ]
    assert record is not None
    assert (record.title, record.model) == ("Prices of the shop", "claude-opus-5")
    assert record.nodes[1].data["reasoning"] == "Where?"
    assert record.nodes[0].created == seconds("2026-10-01T08:01:00Z") == 1_790_841_660
    assert by_id["claude-empty"].read() is None


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("next_on", ["last result", "last call"])
@pytest.mark.parametrize("early", [False, True], ids=["results after all calls", "a result between calls"])
def test_results_that_hang_on_their_own_calls_stand_in_a_row(
    tmp_path: Path, order: tuple[int, ...], next_on: str, early: bool
) -> None:
    def line(kind: str, uuid: str, parent: str | None, content: Any, id: str = "") -> dict[str, Any]:
        return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": {"id": id, "content": content}}

    calls = [
        line("assistant", f"a{at}", f"a{at - 1}" if at else "u0", [_call(f"t{at}")], "m1") for at in range(3)
    ]
    results = [
        line(
            "user", f"r{at}", f"a{at}", [{"type": "tool_result", "tool_use_id": f"t{at}", "content": f"{at}"}]
        )
        for at in order
    ]
    said = [calls[0], results.pop(order.index(0)), *calls[1:], *results] if early else calls + results
    last = said[-1]["uuid"] if next_on == "last result" else "a2"
    said += [line("user", "u1", last, "go on"), line("assistant", "a9", "u1", [_text("done")], "m2")]
    # A rewind of the person stays a branch.
    said += [line("user", "u2", None, "else"), line("user", "u3", "a9", "after all")]
    record = claude.read_session(
        other_agents.lines(tmp_path / "s.jsonl", [line("user", "u0", None, "go"), *said]), "s"
    )
    assert record is not None
    by_id = {node.id: node for node in record.nodes}
    branch, at = [], by_id[len(by_id)]
    while at.parent is not None:
        branch.append(at.content)
        at = by_id[at.parent]
    came = [str(each) for each in order]
    if early:
        came = ["0", *(each for each in came if each != "0")]
    assert branch[::-1] == ["", *came, "go on", "done", "after all"]


def _call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_a_session_of_codex_begins_with_what_the_person_said(tmp_path: Path) -> None:
    (session,) = found("codex", tmp_path).sessions
    assert (session.id, session.title, session.workspace) == (
        "codex-0199",
        "Add a health check.",
        "/srv/api",
    )
    record = session.read()
    assert told(record) == [
        ("user", None, "Add a health check."),
        ("assistant", 1, "", 'shell{"command": ["ls"]}', 'apply_patch{"input": "*** Begin Patch"}'),
        ("tool", 2, "app.py", "shell done"),
        ("tool", 3, "Done", "apply_patch done"),
        ("assistant", 4, "There is one now."),
    ]
    assert record is not None and record.nodes[1].data["reasoning"] == "A route."


def test_sessions_of_opencode_are_found_in_files_and_in_its_database(tmp_path: Path) -> None:
    by_id = {session.id: session for session in found("opencode", tmp_path).sessions}
    assert set(by_id) == {"opencode-ses_a", "opencode-ses_b"}
    for session in by_id.values():
        record = session.read()
        assert told(record) == [
            ("user", None, "Explain the queue.\n\n[file q.py]"),
            ("assistant", 1, "It is a list.", 'read{"filePath": "q.py"}', 'bash{"command": "false"}'),
            ("tool", 2, "import queue", "read done"),
            ("tool", 3, "exit 1", "bash failed"),
        ]
        assert record is not None and record.model == "anthropic/claude-sonnet-5"
        assert session.updated == 1_790_000_009


def test_a_session_of_the_older_hermes_is_without_what_was_taken_back(tmp_path: Path) -> None:
    (session,) = found("hermes", tmp_path).sessions
    assert told(session.read()) == [
        ("user", None, "What is here?"),
        ("assistant", 1, "", 'terminal{"command": "ls"}'),
        ("tool", 2, '{"output": "a.py"}', "terminal done"),
        ("assistant", 3, "One file."),
    ]


SERVERS: dict[str, dict[str, Any]] = {
    "claude": {
        "github": {"command": "gh-mcp", "args": ["--ro"], "env": {"TOKEN": "t0p"}},
        "docs": {"url": "https://docs.example.org/mcp", "transport": "http"},
    },
    "codex": {
        "files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}},
        "off": {"url": "https://off.example.org/mcp", "transport": "http", "enabled": False},
    },
    "opencode": {
        "files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}},
        "docs": {"url": "https://docs.example.org/mcp", "transport": "http", "enabled": False},
    },
    "hermes": {"time": {"command": "uvx", "args": ["mcp-server-time"]}},
}
NOTES = {
    "claude": [
        ("user", "# Habits\n\nUse British spelling.\n\nNo emojis."),
        ("project", "The tests need a database."),
    ],
    "codex": [("user", "Write tests first.")],
    "opencode": [("user", "Answer briefly.")],
    "hermes": [
        ("memory", "Uses uv."),
        ("memory", "The server is called anvil."),
        ("user", "Likes short answers."),
    ],
}
SKILLS = {"claude": "deploying", "codex": "reviewing", "opencode": "drawing", "hermes": "watching"}


@pytest.mark.parametrize("agent", SERVERS)
def test_servers_notes_and_skills_are_found(agent: str, tmp_path: Path) -> None:
    findings = found(agent, tmp_path)
    assert findings.servers == SERVERS[agent]
    assert [(note.scope, note.text) for note in findings.notes] == NOTES[agent]
    assert [folder.name for folder in findings.skills] == [SKILLS[agent]]


def test_rules_of_claude_code_become_ours_and_a_yes_never_grows(tmp_path: Path) -> None:
    findings = found("claude", tmp_path)
    assert [(rule.verdict, rule.rule) for rule in findings.rules] == [
        ("allow", "terminal(npm run test *)"),
        ("allow", "fetch(https://docs.python.org/**)"),
        ("allow", "read_file(/etc/hosts)"),
        ("ask", "mcp(github/delete_repo)"),
        ("ask", "terminal"),
        ("deny", "read_file(.env)"),
        ("deny", "write_file"),
    ]
    assert any("deny Task has no counterpart" in sentence for sentence in findings.left_out)
    assert claude.translate_rule("Bash", "allow") == claude.translate_rule("Bash(*)", "allow") == ""


def test_rules_of_opencode_that_allow_everything_stay_behind(tmp_path: Path) -> None:
    findings = found("opencode", tmp_path)
    assert [(rule.verdict, rule.rule) for rule in findings.rules] == [
        ("ask", "terminal(git push *)"),
        ("deny", "fetch"),
    ]
    assert sorted(sentence.split(" has no")[0] for sentence in findings.left_out) == [
        "The permission bash *: allow",
        "The permission edit *: ask",
    ]


def test_what_belongs_to_one_project_or_has_no_form_here_is_named(tmp_path: Path) -> None:
    said = " ".join(found("claude", tmp_path).left_out)
    assert "broken has neither a command nor an address" in said
    assert "local belong to /srv/shop alone" in said and "hooks are other events" in said
    said = " ".join(found("codex", tmp_path).left_out)
    assert "approval policy is never" in said and "command rules are programs" in said


def test_nothing_of_the_other_agent_is_changed(tmp_path: Path) -> None:
    for agent in SERVERS:
        home = tmp_path / agent
        home.mkdir()
        found(agent, home)
        before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        match agent:
            case "opencode":
                findings = opencode.find_data(home / ".local/share/opencode", home / ".config/opencode")
            case _:
                folder = {"claude": ".claude", "codex": ".codex", "hermes": "old-hermes"}[agent]
                findings = find_data(agent, str(home / folder), tmp_path / "mine", {"HOME": str(home)})
        for session in findings.sessions:
            session.read()
        assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("agent", "folder", "said"),
    [
        (
            "cursor",
            "",
            "There is no import from cursor; there is one from claude, codex, opencode, hermes, gemini, pi, ",
        ),
        ("claude", "", "is not a folder; name the folder of claude with --from."),
        ("codex", "mine", "is the home of this Hermes; name the folder of codex."),
    ],
)
def test_what_cannot_be_looked_at_is_one_sentence(agent: str, folder: str, said: str, tmp_path: Path) -> None:
    home = tmp_path / "mine"
    home.mkdir()
    with pytest.raises(ConfigError) as raised:
        find_data(agent, str(tmp_path / folder) if folder else "", home, {"HOME": str(tmp_path)})
    assert said in str(raised.value)


def test_links_that_lead_out_and_broken_files_are_named_and_the_rest_counts(tmp_path: Path) -> None:
    root = other_agents.claude(tmp_path)
    secret = other_agents.write(tmp_path / "outside.md", "secret words")
    (root / "CLAUDE.md").unlink()
    (root / "CLAUDE.md").symlink_to(secret)
    other_agents.write(root / "settings.json", '{"permissions": ')
    findings = claude.find_data(root)
    assert [note.scope for note in findings.notes] == ["project"]
    assert findings.rules == () and len(findings.sessions) == 2
    said = " ".join(findings.left_out)
    assert "CLAUDE.md leads out of the folder" in said and "settings.json is not JSON" in said


def test_a_database_that_is_none_is_named(tmp_path: Path) -> None:
    root = other_agents.hermes(tmp_path)
    (root / "state.db").write_bytes(b"this is not a database at all" * 100)
    findings = hermes.find_data(root)
    assert findings.sessions == () and len(findings.notes) == 3
    assert any("state.db cannot be read: file is not a database" in each for each in findings.left_out)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("meta", [False, True])
def test_who_went_back_to_the_first_message_of_claude_code_goes_on_from_the_new_one(
    tmp_path: Path, meta: bool
) -> None:
    def line(kind: str, uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
        said = {"id": uuid, "content": [{"type": "text", "text": text}]}
        return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": said, **more}

    first = [line("user", f"c{at}", None, "a caveat", isMeta=True) for at in range(2 * meta)]
    tops = [each["uuid"] for each in first] or [None, None]
    lines = [
        *first[:1],
        line("user", "u1", tops[0], "old opening"),
        line("assistant", "a1", "u1", "old answer"),
        *first[1:],
        line("user", "u2", tops[1], "new opening"),
        line("assistant", "a2", "u2", "new answer"),
        {"type": "system", "uuid": "b", "parentUuid": None, "logicalParentUuid": "a2"},
        line("user", "s", "b", "what was said", isCompactSummary=True),
        line("user", "u3", "s", "more"),
    ]
    record = claude.read_session(other_agents.lines(tmp_path / "s.jsonl", lines), "s")
    assert record is not None
    nodes = {node.id: node for node in record.nodes}
    at, branch = record.heads["main"], []
    while at:
        branch.append(nodes[at].content)
        at = nodes[at].parent
    assert branch[::-1] == ["new opening", "new answer", "what was said", "more"]
    assert len(nodes) == 6


_KEYS = st.sampled_from(
    ["type", "message", "uuid", "parentUuid", "timestamp", "payload", "content", "role", "id", "cwd", "input"]
)
_WORDS = st.sampled_from(
    ["user", "assistant", "summary", "response_item", "message", "tool_use", "tool_result", "function_call"]
)


@pytest.mark.thorough
@given(st.lists(st.dictionaries(_KEYS, _JSON | _WORDS | st.dictionaries(_KEYS, _JSON | _WORDS)), max_size=5))
def test_no_line_however_odd_breaks_the_reading_of_a_session(records: list[dict[str, Any]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = other_agents.lines(Path(folder) / "s.jsonl", records)
        for read in (claude.read_session, codex.read_session):
            record = read(path, "x")
            for node in record.nodes if record else ():
                assert node.parent is None or node.parent < node.id


@given(st.text() | _JSON)
def test_comments_go_and_texts_stay(value: Any) -> None:
    text = json.dumps(value)
    assert json.dumps(json.loads(without_comments(f"/* a */ {text} // b"))) == text
