"""One table of secret places, and everybody who reads it asked about every row."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.guarded import guarded_place
from agent.safety.sandbox.secrets import in_home, in_workspace, of_system
from agent.safety.scope import is_secret
from tools.files.access import CredentialGuard
from tools.secret_places import (
    COMMANDS_ONLY,
    LIKELY_NAMES,
    NAMES,
    PUBLIC_NAMES,
    STORES,
    STORES_ANYWHERE,
    SYSTEM,
    rows,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


def _a_name(row: str) -> str:
    """A name that a row with stars stands for."""
    return row.replace("*", "x")


def _is_below(path: Path, hidden: tuple[Path, ...]) -> bool:
    return any(path == each or each in path.parents for each in hidden)


@pytest.mark.thorough
def test_every_reader_knows_every_store_of_a_home(home: Path, tmp_path: Path) -> None:
    guard, work = CredentialGuard({}), tmp_path / "work"
    for row in rows(STORES_ANYWHERE + STORES):
        place = home / _a_name(row)
        place.mkdir(parents=True, exist_ok=True)
        for path in (place, place / "inner"):
            found = {
                "file tool": guard.hides(path),
                "gate": is_secret(str(path)),
                "boundary": _is_below(path, in_home(home)),
                "guard": guarded_place(str(path), work, home) is not None,
                "file tool, another's": guard.hides(Path("/home/someone") / path.relative_to(home)),
                "gate, another's": is_secret(f"/home/someone/{path.relative_to(home)}"),
            }
            assert all(found.values()), (row, found)


def test_every_reader_knows_every_name_of_credentials_in_any_folder(home: Path, tmp_path: Path) -> None:
    guard, work = CredentialGuard({}), tmp_path / "work"
    work.mkdir()
    for row in rows(NAMES):
        path = work / _a_name(row)
        path.write_text("x")
        assert guard.hides(path) and is_secret(str(path)) and path in set(in_workspace(work)), row
        path.unlink()


def test_what_most_likely_is_secret_is_asked_about_and_hidden_but_not_refused(
    home: Path, tmp_path: Path
) -> None:
    guard, work = CredentialGuard({}), tmp_path / "work"
    work.mkdir()
    for row in rows(LIKELY_NAMES):
        path = work / _a_name(row)
        path.write_text("x")
        assert is_secret(str(path)) and path in set(in_workspace(work)) and not guard.hides(path), row
        path.unlink()


def test_what_only_looks_like_a_secret_is_open_to_every_reader(home: Path, tmp_path: Path) -> None:
    guard, work = CredentialGuard({}), tmp_path / "work"
    work.mkdir()
    for name in (*map(_a_name, rows(PUBLIC_NAMES)), "environment.py", "monkey.keyboard", "keys.py"):
        path = work / name.replace("x.", ".")
        path.write_text("x")
        assert not guard.hides(path) and not is_secret(str(path)) and path not in set(in_workspace(work))
    for name in (".bundle/config", ".fly/app", "snap/firefox/x", ".claude/settings.json", ".docker/contexts"):
        assert not is_secret(str(work / name)) and not guard.hides(work / name), name


def test_every_reader_knows_what_the_system_keeps(home: Path, tmp_path: Path) -> None:
    guard = CredentialGuard({})
    for row in rows(SYSTEM):
        path = Path(row.replace("*", ""))
        if "*_" in row:
            path = Path(_a_name(row))
        assert guard.hides(path) and is_secret(str(path)), row
        assert "*_" in row or _is_below(path, of_system()), row
        in_run = row.startswith(("/run", "/var/run"))
        assert in_run or guarded_place(str(path), tmp_path, home) is not None, row


def test_sockets_and_other_agents_are_hidden_from_commands(home: Path) -> None:
    hidden = set(in_home(home))
    assert {home / row for row in rows(COMMANDS_ONLY)} <= hidden
