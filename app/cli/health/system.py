"""Checks of the machine: interpreter, libraries, programs, terminal, disk."""

from __future__ import annotations

import locale
import platform
import shutil
import sqlite3
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from app.cli.health.check import HealthFinding, HealthSubject, output_of

OLDEST_PYTHON = (3, 11)
WAL_FAULT = ((3, 7, 0), (3, 51, 2))
"""SQLite versions whose write-ahead log can lose data when it is reset (fixed in 3.51.3)."""

LOW_DISK = 1 << 30
FULL_DISK = 100 << 20


def python(_subject: HealthSubject) -> HealthFinding:
    """Check that the interpreter is new enough."""
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return HealthFinding("python", "fail", f"{version} is too old", "Install Python 3.11 or newer.")
    return HealthFinding("python", "ok", f"{version} at {sys.executable}")


def sqlite(_subject: HealthSubject) -> HealthFinding:
    """Check that SQLite has FTS5 with word and trigram tokenizers."""
    version = sqlite3.sqlite_version
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
            connection.execute("CREATE VIRTUAL TABLE pieces USING fts5(text, tokenize='trigram')")
        except sqlite3.OperationalError as error:
            mend = "Use a Python whose SQLite is 3.34 or newer and has FTS5."
            return HealthFinding("sqlite", "fail", f"{version} cannot search sessions: {error}", mend)
        finally:
            connection.rollback()
    connection.close()
    first, last = WAL_FAULT
    note = ""
    if first <= sqlite3.sqlite_version_info <= last:
        note = "; its write-ahead log has a known fault, so Hermes uses a rollback journal"
    return HealthFinding("sqlite", "ok", f"{version} with word and trigram search{note}")


def ripgrep(subject: HealthSubject) -> HealthFinding:
    """Check that ripgrep runs: the one installed with Hermes, else the system's."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    program = own if own.exists() else shutil.which("rg")
    mend = "Reinstall Hermes, or install ripgrep; without it searching is slower."
    if program is None:
        return HealthFinding("ripgrep", "warn", "not found", mend)
    try:
        code, said = output_of([program, "--version"], subject.program_time)
    except OSError as error:
        return HealthFinding("ripgrep", "warn", f"{program} does not start: {error.strerror}", mend)
    if code:
        return HealthFinding(
            "ripgrep", "warn", f"{program} fails with exit code {code}: {_first_line(said)}", mend
        )
    return HealthFinding("ripgrep", "ok", _first_line(said).removeprefix("ripgrep "))


def git(subject: HealthSubject) -> HealthFinding:
    """Check that git runs."""
    program = shutil.which("git")
    mend = "Install git; without it branches and changes of a project are not shown."
    if program is None:
        return HealthFinding("git", "warn", "not found", mend)
    try:
        code, said = output_of([program, "--version"], subject.program_time)
    except OSError as error:
        return HealthFinding("git", "warn", f"{program} does not start: {error.strerror}", mend)
    if code:
        return HealthFinding(
            "git", "warn", f"{program} fails with exit code {code}: {_first_line(said)}", mend
        )
    return HealthFinding("git", "ok", _first_line(said).removeprefix("git version "))


def language_servers(subject: HealthSubject) -> HealthFinding:
    """List the installed language servers; without one, edits are not checked."""
    from agent.integrations.diagnostics.server_process import LANGUAGES, find_server

    find = partial(shutil.which, path=subject.environ.get("PATH", ""))
    kinds = {each.name: find_server(each, {}, find) for each in LANGUAGES}
    found = {language: "" if kind is None else kind.name for language, kind in kinds.items()}
    there = ", ".join(f"{program} ({name})" for name, program in found.items() if program)
    missing = ", ".join(name for name, program in found.items() if not program)
    none = f"none for {missing}" if missing else ""
    return HealthFinding("languages", "ok", "; ".join(part for part in (there, none) if part))


def terminal(subject: HealthSubject) -> HealthFinding:
    """Check that the terminal shows colours and Unicode and is large enough."""
    term = subject.environ.get("TERM", "")
    complaints: list[tuple[str, str]] = []
    if term in ("", "dumb"):
        complaints.append((f"TERM is {term or 'not set'}", "Set TERM to what your terminal is."))
    encoding = locale.getpreferredencoding(False)
    if encoding.upper().replace("-", "") != "UTF8":
        complaints.append((f"text is {encoding}", "Set LANG to a UTF-8 locale, such as C.UTF-8."))
    size = ""
    if sys.stdout.isatty():
        columns, lines = shutil.get_terminal_size()
        size = f", {columns}×{lines}"
        if columns < 80 or lines < 24:
            complaints.append((f"the window is {columns}×{lines}", "Make it at least 80×24."))
    if complaints:
        details, mends = zip(*complaints, strict=True)
        return HealthFinding("terminal", "warn", ", ".join(details), " ".join(mends))
    return HealthFinding("terminal", "ok", f"{term}, {_colours(subject.environ, term)}, {encoding}{size}")


def clipboard(subject: HealthSubject) -> HealthFinding:
    """Check which way a copied text goes, and whether it arrives."""
    from app.tui.terminal.clipboard import copy_prospect

    arrives, way, mend = copy_prospect(subject.environ, sys.platform)
    return HealthFinding("clipboard", "ok" if arrives else "warn", f"copied text goes {way}", mend)


def notifications(subject: HealthSubject) -> HealthFinding:
    """Say what arrives of the calls to a person who looks elsewhere."""
    from app.tui.terminal.attention import call_prospect

    return HealthFinding("notifications", "ok", call_prospect(subject.environ))


def _colours(environ: Mapping[str, str], term: str) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "16 million colours"
    return "256 colours" if "256color" in term else "16 colours"


def disk(subject: HealthSubject) -> HealthFinding:
    """Check that the disk has room for the files of Hermes."""
    folder = subject.home.root
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    amount = f"{free / (1 << 30):.1f} GB free at {folder}"
    if free < FULL_DISK:
        return HealthFinding(
            "disk", "fail", amount, "Free some space; sessions cannot be saved on a full disk."
        )
    if free < LOW_DISK:
        return HealthFinding("disk", "warn", amount, "Free some space soon.")
    return HealthFinding("disk", "ok", amount)


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:200]
