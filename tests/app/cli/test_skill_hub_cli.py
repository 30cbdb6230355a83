"""`hermes skills search`, `install`, `update`, `audit`, `remove`, `publish` and `snapshot`, end to end."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.main import main
from tests.support.skill_hub import HubServer, digest, git_repository, hub_server, run_git, skill_md, tarred

HIDDEN = "Do it.\u200b Quietly."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "person").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


@pytest.fixture
def site(home: Path) -> Iterator[HubServer]:
    """A site with two skills, which the settings name `team`."""
    packed = tarred({"SKILL.md": skill_md("wrangler"), "scripts/deploy.sh": b"#!/bin/sh\necho hi\n"})
    bad = skill_md("bad", HIDDEN)
    with hub_server() as hub:
        entries = [
            {"name": "wrangler", "type": "archive", "url": "w.tar.gz", "digest": digest(packed)},
            {"name": "bad", "type": "skill-md", "url": "bad.md", "digest": digest(bad)},
        ]
        index = {
            "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
            "skills": [each | {"description": f"About {each['name']}."} for each in entries],
        }
        base = "/.well-known/agent-skills"
        hub.routes |= {f"{base}/index.json": index, f"{base}/w.tar.gz": packed, f"{base}/bad.md": bad}
        (home / "config.yaml").write_text(
            f"skills:\n  sources:\n    team: {{kind: well-known, url: '{hub.url}'}}\n"
        )
        yield hub


def skills(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["skills", *arguments]) == code, capsys.readouterr()
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return out.out + out.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main(["skills", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def folder_of(tmp_path: Path, name: str, body: str = "Do it.") -> Path:
    folder = tmp_path / "from" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(skill_md(name, body))
    return folder


@pytest.mark.thorough
def test_sources_of_the_settings_are_searched_and_inspected(
    capsys: pytest.CaptureFixture[str], site: HubServer, home: Path
) -> None:
    found = as_json(capsys, "search", "wrangler")
    assert [each["identifier"] for each in found["skills"]] == ["team:wrangler"] and found["problems"] == []
    assert "team:wrangler" in skills(capsys, "search", "wrangler", "--source", "team")
    assert any(each["source"] == "official" for each in as_json(capsys, "search", "planning")["skills"])
    record = as_json(capsys, "inspect", "wrangler")
    assert (record["trust"], record["verdict"], record["allowed"]) == ("community", "safe", "yes")
    assert [each["path"] for each in record["files"]] == ["SKILL.md", "scripts/deploy.sh"]
    said = skills(capsys, "inspect", "team:bad")
    assert "Findings (" in said and "it is not installed" in said
    assert not (home / "skills" / "installed").exists()


def test_a_source_that_fails_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str], site: HubServer
) -> None:
    site.routes.clear()
    found = as_json(capsys, "search", "planning")
    assert found["skills"] and "lists no skills" in found["problems"][0]
    assert "lists no skills" in skills(capsys, "search", "x", "--source", "team", code=1)
    assert "no source 'nobody'" in skills(capsys, "search", "x", "--source", "nobody", code=1)


@pytest.mark.thorough
def test_installing_updating_auditing_and_removing_go_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path
) -> None:
    source = folder_of(tmp_path, "pdf")
    record = as_json(capsys, "install", str(source), "--yes", "--category", "docs")
    place = home / "skills" / "docs" / "pdf"
    assert record["installed"] and record["path"] == str(place) and place.is_dir()
    listed = as_json(capsys, "list")["skills"]
    assert [each["path"] for each in listed if each["name"] == "pdf"] == [str(place)]
    assert as_json(capsys, "audit")["skills"][0]["state"] == "ok"
    assert as_json(capsys, "update")["skills"] == [
        {"name": "pdf", "from": "", "to": "", "changes": [], "conflicts": [], "state": "current"}
    ]

    (place / "SKILL.md").write_bytes(skill_md("pdf", "Do it my way."))
    assert as_json(capsys, "audit", code=1)["skills"][0]["changes"] == {"SKILL.md": "changed"}
    off = as_json(capsys, "list")["off"]
    assert [(each["name"], "changed since" in each["reason"]) for each in off] == [("pdf", True)]
    assert "✗ pdf" in skills(capsys, "audit", code=1)
    assert "was changed since" in skills(capsys, "update", "pdf", "--yes", code=4)
    assert as_json(capsys, "audit", "pdf", "--approve", "--yes")["approved"]
    assert "✓ pdf" in skills(capsys, "audit")

    folder_of(tmp_path, "pdf", "Do it better.")
    assert "give --mine or --theirs" in skills(capsys, "update", "--yes", code=4)
    assert as_json(capsys, "update", "pdf", "--theirs", "--yes")["skills"][0]["state"] == "updated"
    assert b"better" in (place / "SKILL.md").read_bytes()

    assert as_json(capsys, "remove", "pdf", "--yes")["removed"] == str(place)
    assert not place.exists() and as_json(capsys, "audit")["skills"] == []
    skills(capsys, "remove", "pdf", "--undo")
    assert b"better" in (place / "SKILL.md").read_bytes() and "✓ pdf" in skills(capsys, "audit")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("install", "./gone", "--yes"), 1, "There is no folder"),
        (("install", "http://127.0.0.1:9/", "--yes"), 3, "cannot be reached"),
        (("install", "git+ext::sh -c id", "--yes"), 4, "is not spoken here"),
        (("install", "file:///etc/passwd", "--yes"), 1, "There is no folder"),
        (("install", "team:bad", "--yes"), 4, "is not taken"),
        (("install", "team:bad", "--yes", "--force"), 0, "Installed bad"),
        (("install", "team:gone", "--yes"), 1, "lists no skill 'gone'"),
        (("install", "team:wrangler"), 2, "give --yes"),
        (("install", "nowhere-to-be-found", "--yes"), 1, "No source has a skill"),
        (("install", "a b", "--yes"), 1, "names no skill"),
        (("update", "gone"), 1, "nothing is installed"),
        (("audit", "gone"), 1, "nothing is installed"),
        (("audit", "--approve"), 2, "takes the name of one"),
        (("remove", "gone", "--yes"), 1, "There is no skill"),
        (("remove", "planning", "--yes"), 1, "There is no skill"),
        (("snapshot", "import"), 2, "Name the file"),
        (("snapshot", "import", "/dev/null"), 1, "not a list of skills"),
        (("snapshot", "import", "gone.json"), 2, "cannot be read"),
        (("publish", "planning", "--archive", "x.rar"), 1, "neither .tar.gz nor .zip"),
        (("publish", "nobody", "--folder", "x"), 2, "no skill `nobody`"),
        (("publish", "./nobody", "--folder", "x"), 1, "is not a skill"),
        (("publish", "planning", "--git", "git://x/y.git", "--yes"), 4, "is not spoken here"),
    ],
)
def test_each_mistake_is_one_sentence_with_an_exit_code(
    capsys: pytest.CaptureFixture[str], site: HubServer, arguments: tuple[str, ...], code: int, says: str
) -> None:
    assert main(["skills", *arguments]) == code
    out = capsys.readouterr()
    assert says in out.out + out.err and "Traceback" not in out.err
    if code:
        assert out.err.count("\n") == 1


def test_a_refusal_says_what_was_found_in_json_too(
    capsys: pytest.CaptureFixture[str], site: HubServer
) -> None:
    assert main(["skills", "install", "team:bad", "--json", "--yes"]) == 4
    record = json.loads(capsys.readouterr().out)
    assert record["installed"] is False and record["allowed"] == "no" and record["findings"]


def test_a_wrong_digest_leaves_no_trace(
    capsys: pytest.CaptureFixture[str], site: HubServer, home: Path
) -> None:
    site.routes["/.well-known/agent-skills/w.tar.gz"] = tarred({"SKILL.md": skill_md("wrangler", "Other.")})
    assert "is not what the index promises" in skills(capsys, "install", "team:wrangler", "--yes", code=4)
    assert not (home / "skills").exists()


@pytest.mark.thorough
def test_the_question_shows_files_and_findings_and_no_is_the_default(tmp_path: Path, home: Path) -> None:
    source = folder_of(tmp_path, "pdf")
    for answer, code in ((b"\n", 4), (b"y\n", 0)):
        master, slave = pty.openpty()
        os.write(master, answer)
        command = [sys.executable, "-m", "app.main", "skills", "install", str(source)]
        environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from app.main import main; import sys; sys.exit(main(sys.argv[1:]))",
                *command[3:],
            ],
            stdin=slave,
            capture_output=True,
            env=environ,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(master)
        os.close(slave)
        assert done.returncode == code, done.stderr
        assert done.stdout.index("SKILL.md") < done.stdout.index("Findings: none.")
        assert "Install pdf? [y/N]" in done.stderr
        assert (home / "skills/installed/pdf").is_dir() is (code == 0)


@pytest.mark.thorough
def test_a_snapshot_brings_the_same_skills_to_another_home(
    capsys: pytest.CaptureFixture[str], site: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repo"
    git_repository(repository, {"notes/SKILL.md": skill_md("notes")})
    run_git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    skills(capsys, "install", "team:wrangler", "--yes")
    skills(capsys, "install", f"git+file://{repository}#notes", "--yes")
    git_repository(repository, {"notes/SKILL.md": skill_md("notes", "Newer.")})
    skills(capsys, "snapshot", "export", "list.json")
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "other"))
    states = as_json(capsys, "snapshot", "import", "list.json", "--yes")["skills"]
    assert [(each["name"], each["state"]) for each in states] == [
        ("notes", "installed"),
        ("wrangler", "installed"),
    ]
    assert (tmp_path / "other/skills/installed/notes/SKILL.md").read_bytes() == skill_md("notes")
    again = as_json(capsys, "snapshot", "import", "list.json", "--yes")["skills"]
    assert {each["state"] for each in again} == {"present"}
    rows = json.loads(Path("list.json").read_text())
    rows["skills"][0]["digest"] = "0" * 64
    Path("list.json").write_text(json.dumps(rows))
    skills(capsys, "remove", "notes", "--yes")
    assert "no longer what the list says" in skills(
        capsys, "snapshot", "import", "list.json", "--yes", code=4
    )


def test_a_skill_is_published_as_archive_folder_and_branch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = folder_of(tmp_path, "pdf")
    (source / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (source / "run.sh").chmod(0o755)
    first = as_json(capsys, "publish", str(source), "--archive", "a.tar.gz")
    second = as_json(capsys, "publish", str(source), "--archive", "b.tar.gz")
    assert first["sha256"] == second["sha256"] and first["index"]["skills"][0]["digest"].endswith(
        first["sha256"]
    )
    with tarfile.open(fileobj=io.BytesIO(Path("a.tar.gz").read_bytes())) as archive:
        assert archive.getnames() == ["SKILL.md", "run.sh"]
    skills(capsys, "publish", str(source), "--folder", "out")
    assert Path("out/pdf/SKILL.md").read_bytes() == skill_md("pdf")
    assert "already" in skills(capsys, "publish", str(source), "--folder", "out", code=1)

    repository = tmp_path / "target"
    git_repository(repository, {"README.md": b"Hi\n", "skills/pdf/old.md": b"Old\n"})
    hook = repository / ".git/hooks/pre-push"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    address, who = f"git+file://{repository}/.git", "Ana <ana@example.org>"
    done = as_json(capsys, "publish", str(source), "--git", address, "--author", who, "--yes")
    assert run_git(repository, "rev-parse", "skill/pdf") == done["commit"]
    names = run_git(repository, "ls-tree", "-r", "--name-only", "skill/pdf").split()
    assert names == ["README.md", "skills/pdf/SKILL.md", "skills/pdf/run.sh"]
    assert "100755" in run_git(repository, "ls-tree", "-r", "skill/pdf", "--", "skills/pdf/run.sh")
    assert not (tmp_path / "ran").exists()
    assert "give --yes" in skills(capsys, "publish", str(source), "--git", address, "--author", who, code=2)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzEXAMPLEKEYq", "seems to hold a secret"),
        (HIDDEN, "The scan calls pdf caution"),
    ],
)
def test_what_must_not_go_out_is_not_published(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: str, says: str
) -> None:
    source = folder_of(tmp_path, "pdf", body)
    assert says in skills(capsys, "publish", str(source), "--folder", "out", code=4)
    assert not Path("out").exists()


def test_what_breaks_the_format_is_not_published(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = folder_of(tmp_path, "pdf")
    (source / "SKILL.md").write_bytes(skill_md("other", head="colour: red\n"))
    assert "does not pass the validator" in skills(capsys, "publish", str(source), "--folder", "out", code=4)
