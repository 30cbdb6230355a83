"""Checks of the machine, the sandbox, stored data, image and speech tools, and the model."""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import locale
import os
import platform
import re
import shutil
import sqlite3
import stat
import sys
import sysconfig
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from app.cli.health.check import HealthFinding, HealthSubject, output_of

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.model.providers import NoModelError, Target

OLDEST_PYTHON = (3, 11)
WAL_FAULT = ((3, 7, 0), (3, 51, 2))
"""The first SQLite version whose write-ahead log can lose data when it is reset, and the last one."""

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
    mend = "Reinstall Hermes, or install ripgrep; without it searching is slower."
    return _program("ripgrep", own if own.exists() else shutil.which("rg"), mend, subject)


def git(subject: HealthSubject) -> HealthFinding:
    """Check that git runs."""
    mend = "Install git; without it branches and changes of a project are not shown."
    return _program("git", shutil.which("git"), mend, subject)


def _program(name: str, program: Path | str | None, mend: str, subject: HealthSubject) -> HealthFinding:
    """Check that a program starts and prints its version."""
    if program is None:
        return HealthFinding(name, "warn", "not found", mend)
    try:
        code, said = output_of([program, "--version"], subject.program_time)
    except OSError as error:
        return HealthFinding(name, "warn", f"{program} does not start: {error.strerror}", mend)
    if code:
        return HealthFinding(
            name, "warn", f"{program} fails with exit code {code}: {_first_line(said)}", mend
        )
    return HealthFinding(name, "ok", _first_line(said).removeprefix(f"{name} ").removeprefix("version "))


def language_servers(subject: HealthSubject) -> HealthFinding:
    """List the installed language servers, which check edits."""
    from agent.integrations.diagnostics.server_process import LANGUAGES, find_server

    kinds = {each.name: find_server(each, {}, subject.environ) for each in LANGUAGES}
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
    """Check in which way copied text goes, and whether it reaches the clipboard."""
    from app.tui.terminal.clipboard import copy_prospect

    arrives, way, mend = copy_prospect(subject.environ, sys.platform)
    return HealthFinding("clipboard", "ok" if arrives else "warn", f"copied text goes {way}", mend)


def notifications(subject: HealthSubject) -> HealthFinding:
    """Report in which way calls to a user who is away can arrive."""
    from app.tui.terminal.attention import call_prospect

    return HealthFinding("notifications", "ok", call_prospect(subject.environ))


def _colours(environ: Mapping[str, str], term: str) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "16 million colours"
    return "256 colours" if "256color" in term else "16 colours"


def disk(subject: HealthSubject) -> HealthFinding:
    """Check that the disk has enough free space for Hermes's files."""
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


_LANDLOCK_CREATE_RULESET = 444
"""The number of the system call that creates a ruleset, the same on every architecture."""
_LANDLOCK_VERSION = 1
"""The flag that queries the version of the interface instead of creating a ruleset."""

_UNSHARE_USER = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


def sandbox(subject: HealthSubject) -> HealthFinding:
    """Check that bubblewrap runs, or at least that Landlock is available."""
    if not sys.platform.startswith("linux"):
        return HealthFinding(
            "sandbox", "warn", f"none is known for {sys.platform}", "Approve commands with care."
        )
    wrapped, why = _bubblewrap(subject)
    abi = landlock_abi()
    spaces = "allowed" if _user_namespaces(subject) else "not allowed"
    landlock = f"Landlock version {abi}" if abi else "no Landlock"
    from agent.safety.sandbox.opening import probe

    detail = f"commands run in: {probe('auto').name}; {why}; user namespaces {spaces}; {landlock}"
    if wrapped:
        return HealthFinding("sandbox", "ok", detail)
    return HealthFinding("sandbox", "warn", detail, "Install bubblewrap, or allow it user namespaces.")


def network(subject: HealthSubject) -> HealthFinding:
    """Check whether commands can have the network access that the settings ask for."""
    from agent.core.config.loader import load
    from agent.safety.sandbox.opening import probe, try_filter

    chosen = load(subject.home, subject.environ, subject.workspace).settings.sandbox
    if probe(chosen.mode).name == "none":
        return HealthFinding("network", "warn", "commands reach every host, as nothing keeps them in")
    if chosen.network != "filtered":
        return HealthFinding("network", "ok", f"sandbox.network: {chosen.network}")
    if why := try_filter(chosen.mode):
        detail = f"cannot be filtered: {why}; commands ask for the network instead"
        return HealthFinding("network", "warn", detail, "Install bubblewrap and util-linux.")
    return HealthFinding("network", "ok", "commands reach listed hosts; others ask, one at a time")


def browser(subject: HealthSubject) -> HealthFinding:
    """Check that a browser is configured, or that an installed one starts and can be confined."""
    from agent.core.config.loader import load
    from tools.browser.host import can_confine, find_browser

    chosen = load(subject.home, subject.environ, subject.workspace).settings.browser
    if chosen.backend in ("auto", "cdp") and chosen.cdp_url:
        return HealthFinding("browser", "ok", f"a running one, at {chosen.cdp_url}; it is not confined")
    if chosen.backend == "browserbase":
        return HealthFinding("browser", "ok", "one of Browserbase; it is not confined")
    program = find_browser(chosen.program)
    if not program:
        named = f"browser.program names {chosen.program}, which does not start" if chosen.program else ""
        mend = "apt-get install chromium   (or Google Chrome, or set browser.cdp_url)"
        return HealthFinding("browser", "warn", named or "none is installed; pages cannot be used", mend)
    if not can_confine():
        detail = f"{program} is not started as root without bubblewrap"
        return HealthFinding("browser", "warn", detail, "apt-get install bubblewrap")
    try:
        code, said = output_of([program, "--version"], subject.program_time)
    except OSError as error:
        return HealthFinding("browser", "warn", f"{program} does not start: {error.strerror}")
    if code:
        return HealthFinding("browser", "warn", f"{program} fails with exit code {code}")
    return HealthFinding("browser", "ok", said.strip().splitlines()[0][:100] if said.strip() else program)


def _bubblewrap(subject: HealthSubject) -> tuple[bool, str]:
    program = shutil.which("bwrap")
    if program is None:
        return False, "bubblewrap is not installed"
    argv = [program, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--new-session", "true"]
    try:
        code, said = output_of(argv, subject.program_time)
    except OSError as error:
        return False, f"bubblewrap does not start ({error.strerror})"
    if code:
        return (
            False,
            f"bubblewrap does not work here ({said.splitlines()[-1] if said else f'exit code {code}'})",
        )
    return True, "bubblewrap works"


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock interface; 0 if there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION)
    )
    return max(version, 0)


def _user_namespaces(subject: HealthSubject) -> bool:
    if not Path("/proc/self/ns/user").exists():
        return False
    code, _ = output_of([sys.executable, "-I", "-S", "-c", _UNSHARE_USER], subject.program_time)
    return code == 0


STORE_SECONDS = 3.0
"""The time limit in seconds for checking the store; of a very large one only a part is checked."""


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
    """Check whether semantic search works: its package is installed, or the settings name a model for it."""
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


def senses(subject: HealthSubject) -> HealthFinding:
    """Report each image and speech tool, and what a missing one needs; warn only about enabled ones."""
    from agent.core.config.loader import load
    from agent.integrations.senses.service import readiness
    from agent.model.providers import resolve
    from agent.session.wiring.outside_services import service_names

    loaded = load(subject.home, subject.environ, subject.workspace)
    sees = False
    try:
        target = resolve(loaded.settings, loaded.environ, None)[0]
        sees = target.info.images is not False and target.tool_mode == "native"
    except ConfigError:
        pass  # the check of the model says so
    brought = service_names(subject.home, subject.workspace, loaded)
    found = readiness(loaded.settings, loaded.environ, sees=sees, brought=brought)
    # A plugin's service is named; of the others only where they are missing is news.
    works = ", ".join(
        f"{each.tool} ({each.by})" if each.tool in brought else each.tool for each in found if each.works
    )
    lacking = [each for each in found if not each.works]
    detail = "; ".join(
        filter(None, [works, "not offered: " + ", ".join(each.tool for each in lacking) if lacking else ""])
    )
    # What was not asked for gets its first way only; docs/senses.md has the others.
    mend = "\n".join(
        f"{each.tool}: {each.missing}; {each.mend}"
        if each.is_chosen
        else f"{each.tool}: {each.mend.split(', or ')[0].split(' (or ')[0]}"
        for each in lacking
    )
    wanted = any(each.is_chosen for each in lacking)
    return HealthFinding("senses", "warn" if wanted else "ok", detail, mend)


SECONDS = 3.0
"""The time limit in seconds for an answer from an address."""


def model(subject: HealthSubject) -> HealthFinding:
    """Check that the first configured model answers, or can be started."""
    from agent.core.config.loader import load
    from agent.model.providers import NoModelError, resolve

    loaded = load(subject.home, subject.environ, subject.workspace)
    try:
        target = resolve(loaded.settings, loaded.environ, None)[0]
    except NoModelError as error:
        return asyncio.run(_no_model_finding(error, loaded))
    except ConfigError as error:
        return HealthFinding("model", "fail", str(error), "See `hermes config check`.")
    if target.kind == "demo":
        return HealthFinding("model", "ok", "demo: scripted, needs nothing")
    if target.kind == "local":
        return _local(subject, target.path or loaded.settings.local.model)
    return asyncio.run(_check_provider(target))


async def _no_model_finding(error: NoModelError, loaded: LoadedSettings) -> HealthFinding:
    from agent.model.detect import detect
    from agent.model.model_choices import ports

    servers = await detect(ports(loaded.settings, loaded.environ))
    return HealthFinding("model", "warn", "none is configured", str(error.with_servers(servers)))


def _local(subject: HealthSubject, setting: str) -> HealthFinding:
    from agent.model.local.server import MISSING
    from agent.model.local.sources import model_file

    try:
        path = model_file(subject.home, setting)
    except ConfigError as error:
        return HealthFinding("model", "fail", "local: there is no model file", str(error))
    if importlib.util.find_spec("xllamacpp") is None:
        return HealthFinding("model", "fail", f"local: {path.name} cannot be run", MISSING)
    return HealthFinding("model", "ok", f"local: {path.name}, started when it is needed")


async def _check_provider(target: Target) -> HealthFinding:
    """Request a provider's list of models, which is free and verifies address and key."""
    import httpx2

    from agent.model.addresses import is_loopback, list_of_models

    name = f"{target.label} at {httpx2.URL(target.base_url).host}"
    try:
        headers = target.request_headers()
        outside = not is_loopback(target.base_url)
        async with httpx2.AsyncClient(timeout=SECONDS, trust_env=outside) as client:
            reply = await client.get(list_of_models(target.base_url), headers=headers)
    except httpx2.TimeoutException:
        return HealthFinding("model", "fail", f"{name} does not answer", "Check the address and the network.")
    except httpx2.ConnectError as error:
        reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
        return HealthFinding("model", "fail", f"{name}: {reason}", "Start the server, or fix its base_url.")
    except ConfigError as error:
        return HealthFinding("model", "fail", f"{target.label} cannot be asked", str(error))
    except (httpx2.HTTPError, ValueError) as error:
        # The text of these errors may quote a header, and so the key.
        detail = f"{name} cannot be asked ({type(error).__name__})"
        return HealthFinding("model", "fail", detail, "Check base_url, key and headers of this provider.")
    if reply.status_code in (401, 403):
        mend = f"Set {target.key_hint} in the environment or in ~/.hermes/.env."
        return HealthFinding("model", "fail", f"{name} refuses the key", mend)
    if reply.status_code >= 500:
        return HealthFinding(
            "model", "warn", f"{name} answers with HTTP {reply.status_code}", "Try again later."
        )
    if not reply.is_success:
        detail = f"{name} answers, but lists no models (HTTP {reply.status_code})"
        return HealthFinding("model", "ok", detail)
    return HealthFinding("model", "ok", f"{name} answers")
