"""The bundled skills: valid, found, not taken for attacks, and their scripts work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.knowledge.skills.catalog import SkillIndex, SkillRoot
from agent.knowledge.skills.scanner import scan_folder
from agent.knowledge.skills.skill import Skill, validate

ROOT = Path(__file__).parents[4]
BUNDLED = ROOT / "agent/knowledge/skills/bundled"
FOUND = SkillIndex().find([SkillRoot(BUNDLED, "bundled")])

WANTED = {
    *("planning", "debugging", "test-first", "code-review", "writing-a-skill", "git-rescue"),
    *("release-notes", "data-analysis", "plots", "diagrams", "documents", "coding-agents"),
    *("containers", "ci-pipelines", "incident-response", "data-cleaning", "ml-baseline"),
    *("secrets-audit", "dependency-audit", "threat-model"),
}


def test_the_skills_that_are_named_in_the_docs_are_there() -> None:
    names = {skill.name for skill in FOUND.skills}
    assert names >= WANTED and len(names) >= 24
    assert FOUND.broken == () and FOUND.shadowed == ()


def named(skill: Skill) -> str:
    return skill.name


@pytest.mark.sample(5)
@pytest.mark.parametrize("skill", FOUND.skills, ids=named)
def test_a_bundled_skill_is_valid_and_no_danger(skill: Skill) -> None:
    assert validate(skill.file.read_text("utf-8"), skill.folder.name) == ()
    assert skill.warnings == () and "Use " in skill.description
    assert scan_folder(skill.folder).verdict != "dangerous"
    for word in skill.body.split():
        path = word.strip("`().,:")
        if path.startswith(("scripts/", "references/", "templates/")) and "." in path:
            assert (skill.folder / path).is_file() or "data-analysis" in skill.body, path


def run(script: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = BUNDLED / script
    command = ["sh", str(path)] if path.suffix == ".sh" else [sys.executable, "-B", str(path)]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def git(cwd: Path, *arguments: str) -> None:
    options = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *options, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "feat(core)!: begin (#7)")
    (tmp_path / "a.py").write_text('x = 2\napi_key = "Zk3vQ9xT7bLm2RwYc8Nd"\n')
    git(tmp_path, "commit", "-qam", "fix: count on")
    return tmp_path


def test_the_survey_of_a_codebase_counts_lines(repository: Path) -> None:
    done = run("software/explain-codebase/scripts/survey.py", cwd=repository)
    assert done.returncode == 0 and "2  .py" in done.stdout and "a.py" in done.stdout


def test_commits_are_grouped_for_release_notes(repository: Path) -> None:
    done = run("software/release-notes/scripts/commits.py", "HEAD", cwd=repository)
    assert '"breaking": true' in done.stdout and '"7"' in done.stdout and '"fix"' in done.stdout


def test_unreachable_commits_are_listed(repository: Path) -> None:
    git(repository, "branch", "gone", "HEAD")
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    git(repository, "branch", "-D", "gone")
    done = run("software/git-rescue/scripts/unreachable.sh", cwd=repository)
    assert "count on" in done.stdout, done.stderr


@pytest.mark.thorough
def test_secrets_are_found_and_masked_also_in_history(repository: Path) -> None:
    script = "security/secrets-audit/scripts/find.py"
    done = run(script, cwd=repository)
    assert done.returncode == 1 and "a.py:2" in done.stdout and "Zk3vQ9xT7bLm2RwYc8Nd" not in done.stdout
    (repository / "a.py").write_text("x = 3\n")
    git(repository, "commit", "-qam", "Remove")
    assert run(script, cwd=repository).returncode == 0
    assert "commit " in run(script, "--history", cwd=repository).stdout


def test_a_table_is_profiled(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,city,price\n1,Wellington,3.5\n2,wellington ,4\n3,,x\n3,,x\n")
    done = run("data/data-analysis/scripts/profile.py", tmp_path / "x.csv", cwd=tmp_path)
    assert "4 rows, 3 columns, 1 rows exactly doubled" in done.stdout
    assert "missing 2 (50.0%)" in done.stdout and "differ only in case" in done.stdout


def test_log_lines_are_counted_by_shape(tmp_path: Path) -> None:
    lines = "".join(f"2026-01-01 10:00:{n:02} error id {n:04x}f from 10.0.0.{n}\n" for n in range(30))
    (tmp_path / "a.log").write_text(lines + "2026-01-01 10:01:00 disk full\n")
    (tmp_path / "b.log").write_text(lines)
    done = run("devops/log-triage/scripts/shapes.py", "a.log", "--against", "b.log", cwd=tmp_path)
    assert "31 lines, 2 shapes" in done.stdout
    assert "1 NEW  line 31: 2026-01-01 10:01:00 disk full" in done.stdout


def test_a_program_is_driven_on_a_terminal(tmp_path: Path) -> None:
    driver = "agents/coding-agents/scripts/drive.py"
    typed = ("--send", "print(6*7)", "--until", "42", "--quiet", "0.3", "--", sys.executable, "-q")
    done = run(driver, *typed, cwd=tmp_path)
    assert done.returncode == 0 and "42" in done.stdout
    assert (
        run(driver, "--", "no-such-program", cwd=tmp_path)
        .stdout.strip()
        .endswith("No such file or directory")
    )


MISSING = {
    "data/plots/scripts/plot.py": ("x.csv", "--y", "a", "-o", "x.svg"),
    "documents/documents/scripts/make.py": ("x.md", "-o", "x.docx"),
    "documents/documents/scripts/read.py": ("x.pdf",),
    "documents/diagrams/scripts/render.py": ("x.dot", "-o", "x.svg"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("script", "arguments"), MISSING.items())
def test_a_script_without_its_program_names_it_or_works(
    tmp_path: Path, script: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    (tmp_path / "x.md").write_text("# Title\n\nText.\n")
    (tmp_path / "x.pdf").write_bytes(b"%PDF-1.4\n")
    (tmp_path / "x.dot").write_text("digraph { a -> b }")
    done = run(script, *arguments, cwd=tmp_path)
    assert done.returncode == 0 or "missing; install it" in done.stderr or "read.py" in script
