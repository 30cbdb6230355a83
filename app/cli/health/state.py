"""Read-only checks of stored data: settings, home folder, session store."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

from app.cli.health.check import HealthFinding, HealthSubject

STORE_SECONDS = 3.0
"""Time given to the check of the store; a very large one is checked in part."""


def config(subject: HealthSubject) -> HealthFinding:
    """Check that the settings are valid."""
    from agent.core.config.loader import load

    loaded = load(subject.home, subject.environ, subject.workspace, thorough=True)
    if loaded.problems:
        count = len(loaded.problems)
        detail = f"{count} {'problem' if count == 1 else 'problems'}; first: {loaded.problems[0]}"
        return HealthFinding("config", "warn", detail, "See `hermes config check`.")
    if loaded.project == "untrusted":
        mend = "See what they do, and allow it, with `hermes config trust`."
        return HealthFinding("config", "ok", "in order; the settings of this project are not trusted", mend)
    return HealthFinding("config", "ok", f"in order: {subject.home.config}")


def permissions(subject: HealthSubject) -> HealthFinding:
    """Check that the permission rules can be read and are valid."""
    from agent.safety.permissions.policy import Permissions

    problems = Permissions(subject.home, Path(os.path.realpath(subject.workspace))).current().problems
    if problems:
        count = len(problems)
        detail = f"{count} {'problem' if count == 1 else 'problems'}; first: {problems[0]}"
        mend = "Fix the file; until then nothing in it allows anything. See `hermes permissions list`."
        return HealthFinding("permissions", "warn", detail, mend)
    return HealthFinding("permissions", "ok", "in order")


def meaning(subject: HealthSubject) -> HealthFinding:
    """Check that semantic search works: its package is installed, or the settings name a model for it."""
    from agent.core.config.loader import load
    from agent.errors import ConfigError
    from agent.knowledge.recall.embedding import INSTALL_MEANING
    from agent.session.wiring.recall import embedder_of

    loaded = load(subject.home, subject.environ, subject.workspace)
    try:
        embedder = embedder_of(loaded.settings, loaded.environ, {})
    except ConfigError as error:
        return HealthFinding("meaning", "warn", str(error), "Fix recall.embeddings; searches go by words.")
    if embedder is not None:
        where = "this provider's model" if embedder.is_remote else "offline"
        return HealthFinding("meaning", "ok", f"searches go by words and meaning ({embedder.space}, {where})")
    if loaded.settings.recall.embeddings == "off":
        return HealthFinding("meaning", "ok", "searches go by words alone, as recall.embeddings has it")
    mend = f"{INSTALL_MEANING} finds also what is said in other words."
    return HealthFinding("meaning", "ok", "searches go by words alone", mend)


def home(subject: HealthSubject) -> HealthFinding:
    """Check that only this user can access the home folder and its files."""
    root = subject.home.root
    try:
        status = root.stat()
    except FileNotFoundError:
        return HealthFinding("home", "ok", f"{root} will be made when it is needed")
    except OSError as error:
        return HealthFinding(
            "home", "fail", f"{root}: {error.strerror}", "Set HERMES_HOME to a folder of yours."
        )
    if not stat.S_ISDIR(status.st_mode):
        return HealthFinding("home", "fail", f"{root} is not a folder", "Remove it, or set HERMES_HOME.")
    if not os.access(root, os.W_OK | os.X_OK):
        return HealthFinding("home", "fail", f"{root} is not writable for you", f"Run: chmod 700 {root}")
    if status.st_uid != os.getuid():
        return HealthFinding(
            "home", "warn", f"{root} belongs to someone else", f"Run: chown {os.getuid()} {root}"
        )
    paths = (subject.home.config, subject.home.env, subject.home.database, subject.home.trust)
    open_ones = [path.name for path in paths if _others_may_use(path)]
    if status.st_mode & 0o077 or open_ones:
        what = ", ".join(["the folder"] * bool(status.st_mode & 0o077) + open_ones)
        return HealthFinding("home", "warn", f"others may use {what} in {root}", f"Run: chmod -R go= {root}")
    return HealthFinding("home", "ok", f"{root}, yours alone")


def _others_may_use(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def store(subject: HealthSubject) -> HealthFinding:
    """Check that the session store belongs to Hermes and is intact."""
    from agent.core.store.connection import address, explain
    from agent.core.store.schema import APPLICATION_ID
    from agent.errors import StoreError

    path = subject.home.database
    try:
        status = path.stat()
    except FileNotFoundError:
        return HealthFinding("store", "ok", "no sessions yet")
    except OSError as error:
        return HealthFinding("store", "fail", f"{path}: {error.strerror}", "Make the file yours.")
    if not stat.S_ISREG(status.st_mode):
        return HealthFinding("store", "fail", f"{path} is not a file", "Move it away, or set HERMES_HOME.")
    size = f"{status.st_size / (1 << 20):,.1f} MB"
    try:
        connection = sqlite3.connect(address(path, "mode=ro"), uri=True, timeout=1)
        try:
            return _examine_store(connection, path, APPLICATION_ID, size)
        finally:
            connection.close()
    except sqlite3.Error as error:
        fault: StoreError = explain(error, path)
        return HealthFinding("store", "fail", str(fault), "Copy the file before anything else is tried.")


def _examine_store(connection: sqlite3.Connection, path: Path, application: int, size: str) -> HealthFinding:
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    if found != application:
        return HealthFinding(
            "store", "fail", f"{path} is not a store of Hermes", "Move it away, or set HERMES_HOME."
        )
    deadline = time.monotonic() + STORE_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        return HealthFinding("store", "ok", f"{size}, no fault found in {STORE_SECONDS:g} seconds of looking")
    if verdict != "ok":
        detail = f"{path} is damaged: {str(verdict).splitlines()[0]}"
        return HealthFinding("store", "fail", detail, "Copy the file before anything else is tried.")
    return HealthFinding("store", "ok", f"{size}, sound")
