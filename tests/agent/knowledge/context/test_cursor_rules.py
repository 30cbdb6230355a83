"""Rules of a project for Cursor: what always holds is in the prompt, the rest comes when a file fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.knowledge.context.context_files import project_files, rules_of
from agent.knowledge.context.context_table import KEY
from tests.support.engines import bench
from tests.support.model_server import call, say


def rule(workspace: Path, name: str, text: str) -> Path:
    path = workspace / ".cursor" / "rules" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("head", "always", "fits", "misses"),
    [
        ("alwaysApply: true", True, [], ["a.ts"]),
        ("globs: **/*.ts, docs/**", False, ["a.ts", "x/y/b.ts", "docs/c/d.md"], ["a.tsx", "e.md"]),
        ('globs: ["*.{js,jsx}"]\nalwaysApply: false', False, ["a.js", "x/b.jsx"], ["a.json"]),
        ("globs:\n  - src/**/*.py\n  - tests/**", False, ["src/a/b.py", "tests/c"], ["b.py"]),
        ("description: When asked", False, [], ["a.ts"]),
        ("globs: [unclosed, {a,b", False, [], ["a.ts"]),
        ("", True, [], ["a.ts"]),
    ],
)
def test_the_head_says_when_a_rule_holds(
    tmp_path: Path, head: str, always: bool, fits: list[str], misses: list[str]
) -> None:
    rule(tmp_path, "one.mdc", f"---\n{head}\n---\nUse tabs.")
    (found,) = rules_of([tmp_path], tmp_path)
    assert found.always is always
    assert [place for place in (*fits, *misses) if found.fits(tmp_path / place)] == fits
    assert not found.fits(tmp_path.parent / "a.ts")


def test_what_is_torn_foreign_or_leads_out_of_the_project_is_left_out(tmp_path: Path) -> None:
    project = tmp_path / "project"
    rule(project, "a.mdc", "no head at all")
    rule(project, "b.mdc", "---\nalwaysApply: true")
    rule(project, "c.txt", "no rule")
    (tmp_path / "secret.mdc").write_text("outside")
    (project / ".cursor" / "rules" / "d.mdc").symlink_to(tmp_path / "secret.mdc")
    (project / ".cursor" / "rules" / "e.mdc").write_bytes(b"\xff\x00\xfe")
    names = [each.path.name for each in rules_of([project], project)]
    assert names[:2] == ["a.mdc", "b.mdc"]
    assert "c.txt" not in names
    assert "d.mdc" not in names
    assert "outside" not in "".join(each.text for each in project_files(project, 1_000))


@pytest.mark.thorough
async def test_a_rule_with_patterns_comes_once_with_the_first_file_that_fits(tmp_path: Path) -> None:
    steps = [call("read_file", path=path) for path in ("notes.md", "src/a.ts", "src/b.ts", "web/c.ts")]
    async with bench(tmp_path, [*steps, say("Done.")]) as b:
        (b.workspace / ".git").mkdir()
        rule(b.workspace, "always.mdc", "---\nalwaysApply: true\n---\nRule for all.")
        rule(b.workspace, "types.mdc", "---\nglobs: **/*.ts\n---\nRule for types.")
        rule(b.workspace / "web", "web.mdc", "---\nglobs: *.ts\n---\nRule of the web.")
        for place in ("notes.md", "src/a.ts", "src/b.ts", "web/c.ts"):
            (b.workspace / place).parent.mkdir(exist_ok=True)
            (b.workspace / place).write_text("x\n")
        ended = await b.turn("Go through all of them.")
        assert ended.outcome == "done", ended.error
        messages = list(b.server.requests[-1].messages)
        told = [json.loads(str(each["content"])).get(KEY, "") for each in messages if each["role"] == "tool"]
        assert [("types" in each, "web" in each) for each in told] == [
            (False, False),
            (True, False),
            (False, False),
            (False, True),
        ]
        assert "Rule for all." in str(messages[0])
        assert "Rule for types." not in str(messages[0])
