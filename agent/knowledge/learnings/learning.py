"""A learning: a failure, its fix, and the certainty of both. Equivalent ones are merged."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agent.errors import ExitCode, HermesError
from agent.knowledge.injection import scan
from agent.knowledge.learnings.calls import CallForm, CallPlace, call_form, names
from agent.knowledge.learnings.failures import Failure, FixKind, MadeCall, Signature, normalise
from tools.services.learning_notes import LearningNote
from tools.text.redact import redact
from tools.text.words import one_line, shorten

Status = Literal["candidate", "learning", "retired", "stale"]
STATUSES: tuple[Status, ...] = ("candidate", "learning", "retired", "stale")
"""`candidate`: seen once, not yet trusted. `learning`: shown, and calls are held back for it. `retired`:
refuted twice. `stale`: a dependency has changed since.
"""
Origin = Literal["observed", "agent", "person"]
"""The author: none (recorded automatically), the agent, or the user."""

RETIRED_AT = 2
"""The number of refutations after which a learning is no longer shown."""

LONGEST: Mapping[str, int] = {"pattern": 400, "error_type": 120, "fix": 600, "context": 1_000}
"""The maximum lengths of its texts in characters, by field."""
MOST_TAGS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """One learning. `id` is 0 until it is stored. Times are seconds since the epoch."""

    id: int = 0
    key: str
    """The key of its signature; see `agent.knowledge.learnings.failures`."""
    project: str
    """The id of the project it applies to; empty: all."""
    status: Status
    origin: Origin
    tool: str
    program: str = ""
    subcommand: str = ""
    error: str = ""
    """The normalised error."""
    pattern: str
    """The failing call, as a user would write it."""
    error_type: str
    """The name of the error."""
    fix: str
    fix_kind: FixKind = "words"
    fix_key: str = ""
    """The key of the call that worked; empty for a fix in words."""
    context: str = ""
    """When it applies, in words."""
    tags: tuple[str, ...] = ()
    created_at: float
    updated_at: float
    times_used: int = 0
    """How often it was shown or a call was held back for it."""
    confirmed: int = 0
    refuted: int = 0
    session: str = ""
    """The session it came from; empty if the user wrote it."""
    node: int | None = None
    """The id of the message in that session."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """The observations by name, such as `failed`, `error` and `worked`."""
    depends: Mapping[str, str] = field(default_factory=dict)
    """The stamps of the lock files and the program that it was learned with, by name."""


_RANKS: tuple[Origin, ...] = ("person", "agent", "observed")


def same(one: Learning, other: Learning) -> bool:
    """Return whether two learnings are equivalent: the same project, failure or call, and fix."""
    if one.project != other.project:
        return False
    # What was only observed says nothing beyond its failure.
    only_seen = one.origin == other.origin == "observed"
    if one.key != other.key and (only_seen or _plain(one.pattern) != _plain(other.pattern)):
        return False
    if one.fix_key and one.fix_key == other.fix_key:
        return True
    return _plain(one.fix) == _plain(other.fix)


def _plain(text: str) -> str:
    """Return a text without backquotes and final punctuation, for comparisons."""
    return normalise(text.replace("`", "")).rstrip(" .!")


def merge_learnings(one: Learning, other: Learning) -> Learning:
    """Merge two equivalent learnings under the id of `one`; their counts are added.

    The texts of the more trusted origin are kept: the user's before the agent's before observed ones. With
    equal origins the newer texts are kept.
    """
    first, second = sorted((one, other), key=lambda each: (_RANKS.index(each.origin), -each.updated_at))
    newest = max(one, other, key=lambda each: each.updated_at)
    # Where the failure was seen, it is known again by what it said.
    seen = first if first.evidence or not second.evidence else second
    return replace(
        first,
        id=one.id,
        key=seen.key,
        tool=seen.tool,
        program=seen.program,
        subcommand=seen.subcommand,
        error=seen.error,
        status=_status(one.status, other.status),
        fix_kind=first.fix_kind if first.fix_key or not second.fix_key else second.fix_kind,
        fix_key=first.fix_key or second.fix_key,
        context=first.context or second.context,
        tags=tuple(sorted({*one.tags, *other.tags}))[:MOST_TAGS],
        created_at=min(one.created_at, other.created_at),
        updated_at=newest.updated_at,
        times_used=one.times_used + other.times_used,
        confirmed=one.confirmed + other.confirmed,
        refuted=one.refuted + other.refuted,
        session=first.session or second.session,
        node=first.node if first.session else second.node,
        evidence=first.evidence or second.evidence,
        depends=newest.depends,
    )


def _status(one: Status, other: Status) -> Status:
    both = {one, other}
    if "learning" in both:
        return "learning"
    if "retired" in both:
        return "retired"
    # What was a learning before something changed has been seen to hold again.
    return "learning" if both == {"stale", "candidate"} else one


def after_use(
    learning: Learning, *, used: int = 0, confirmed: int = 0, refuted: int = 0, promote_after: int = 0
) -> Learning:
    """Return the learning with updated counts and status.

    After two refutations it is no longer shown. A candidate that worked `promote_after` times becomes a
    learning (0: never). A stale one becomes active again once it has worked.
    """
    total, good = learning.refuted + refuted, learning.confirmed + confirmed
    status = learning.status
    if refuted and total >= RETIRED_AT:
        status = "retired"
    elif confirmed and (status == "stale" or (status == "candidate" and 0 < promote_after <= good + 1)):
        status = "learning"
    used += learning.times_used
    return replace(learning, times_used=used, confirmed=good, refuted=total, status=status)


def short(name: str, text: str) -> str:
    """Return a text of a learning on one line, cut to the limit for its field `name`."""
    line = " ".join(text.split())
    most = LONGEST[name]
    return shorten(line, most)


def mark(learning: Learning) -> str:
    """Return the prefix of each line about a learning, with its number."""
    name = "Candidate" if learning.status == "candidate" else "Learning"
    return f"[{name} {learning.id}]"


def what_worked(learning: Learning) -> str:
    """Return the fix and the condition under which it applies."""
    context = f" ({learning.context})" if learning.context else ""
    return one_line(f"{learning.fix}{context}")


def held_back(learning: Learning, others: Sequence[Learning] = ()) -> str:
    """Return the message for a call that was not run because of a learning."""
    also = "".join(f" {mark(each)} Or: {what_worked(each)}." for each in others)
    return (
        f"{mark(learning)} Not run: this call failed before ({one_line(learning.error_type)}). "
        f"What worked: {what_worked(learning)}.{also} To run it all the same, make it again unchanged."
    )


def with_failure(learning: Learning) -> str:
    """Return the text about a learning that is added to the result of a known failure."""
    if learning.status == "candidate":
        return (
            f"{mark(learning)} The same failure went away once with: {what_worked(learning)}. "
            f"If that holds, keep it: save_learning(candidate={learning.id})."
        )
    since = " before something it depends on changed" if learning.status == "stale" else ""
    return f"{mark(learning)} This failure is known. What worked{since}: {what_worked(learning)}."


def entries(learnings: Sequence[Learning]) -> tuple[str, ...]:
    """Return one line about each of the learnings for the system prompt. Those that read like orders are left
    out.
    """
    lines = (
        f"- `{one_line(each.pattern)}` ({one_line(each.error_type)}): {what_worked(each)}"
        for each in learnings
    )
    return tuple(line for line in lines if not scan(line))


class LearningRefusedError(HermesError):
    """A learning is refused; the message gives the reason."""

    exit_code = ExitCode.USAGE


def check_note(note: LearningNote, secrets: Mapping[str, str]) -> LearningNote:
    """Return the note with its texts on one line, cut and without secrets. Raises `LearningRefusedError` for
    orders to an agent.
    """
    texts = {
        name: short(name, redact(getattr(note, name), secrets))
        for name in ("pattern", "error_type", "fix", "context")
    }
    tags = tuple(dict.fromkeys(" ".join(tag.split())[:40] for tag in note.tags if tag.strip()))
    findings = scan("\n".join([*texts.values(), *tags]))
    if findings:
        names = ", ".join(dict.fromkeys(each.rule for each in findings))
        raise LearningRefusedError(
            f"This reads like an instruction to an agent ({names}: {findings[0].excerpt[:80]!r}), which "
            "learnings do not take; write what fails and what works."
        )
    return replace(note, **texts, tags=tags[:MOST_TAGS])


def from_note(note: LearningNote, project: str, origin: Origin, session: str = "") -> Learning:
    """Return a learning made from a written note about a failure that was not observed."""
    error = normalise(note.error_type or note.pattern)
    sign = Signature("terminal", "", "", error, project)
    now = time.time()
    return Learning(
        key=sign.key,
        project=project,
        status="learning",
        origin=origin,
        tool=sign.tool,
        error=error,
        pattern=note.pattern,
        error_type=note.error_type or "failed",
        fix=note.fix,
        context=note.context,
        tags=note.tags,
        created_at=now,
        updated_at=now,
        session=session,
    )


def call_key(pattern: str, workspace: Path) -> str:
    """Return the key of the call that `pattern` describes, parsed as a command in the workspace."""
    place = CallPlace(str(workspace), str(workspace))
    return call_form("terminal", {"command": pattern.strip().strip("`")}, place).key


def standing(learning: Learning) -> str:
    """Return one word for the certainty of a learning.

    `candidate`, `stale` and `retired` are the status. An active learning is `confirmed` or `refuted`,
    whichever happened more often (`refuted` if equal), or `learning` before the first outcome.
    """
    if learning.status != "learning" or not (learning.confirmed or learning.refuted):
        return learning.status
    return "confirmed" if learning.confirmed > learning.refuted else "refuted"


def record(learning: Learning) -> dict[str, Any]:
    """Return the export record of a learning; times are in UTC."""
    return {
        "pattern": learning.pattern,
        "error_type": learning.error_type,
        "fix": learning.fix,
        "context": learning.context,
        "tags": list(learning.tags),
        "created_at": datetime.fromtimestamp(learning.created_at, UTC).isoformat(timespec="seconds"),
        "times_used": learning.times_used,
        "confirmed": learning.confirmed,
        "refuted": learning.refuted,
    }


SHORTEST = 6
"""The minimum length in characters of a text that identifies an error."""
_COMMON = frozenset(
    {"error", "failed", "failure", "exit <n>", "exception", "unknown", "timed out", "not found"}
)
"""Error names that carry no information."""
_LOOKED_AT = 20_000
"""The number of characters searched at the end of an output."""


def speaks_of(learning: Learning, failure: Failure, output: str) -> bool:
    """Return whether the learning's error or pattern occurs in the output of a failed call."""
    said = f"{normalise(failure.line)}\n{failure.kind.lower()}"
    whole = output[-_LOOKED_AT:].lower()
    for text in (learning.error_type, learning.pattern):
        named = normalise(text)
        if len(named) < SHORTEST or named in _COMMON:
            continue
        if named in said or text.lower() in whole:
            return True
    return False


LARGEST = 20_000_000
"""The size in bytes up to which a lock file is read; of a larger one only the size counts."""
_FAMILIES: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (
        names("python pip pytest uv poetry pdm hatch tox nox pipenv ruff mypy pyright django flask"),
        ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "pylock.toml"),
    ),
    (
        names("node npm npx yarn pnpm bun tsc eslint jest vitest vite next webpack deno"),
        ("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock"),
    ),
    (names("cargo rustc rustup"), ("Cargo.lock", "rust-toolchain.toml")),
    (names("go"), ("go.sum",)),
    (names("ruby bundle rails rake rspec gem"), ("Gemfile.lock",)),
    (names("php composer phpunit artisan"), ("composer.lock",)),
    (names("gradle gradlew mvn mvnw java"), ("gradle.lockfile", "pom.xml")),
    (names("mix elixir iex"), ("mix.lock",)),
    (names("terraform tofu"), (".terraform.lock.hcl",)),
    (names("nix nix-shell"), ("flake.lock",)),
)
_MISSING = "missing"
_PROGRAM = "program:"


def stamps(program: str, names: tuple[str, ...], root: Path, search: str | None) -> dict[str, str]:
    """Return stamps (values that change with a file) of a program's dependencies in the project at `root`.

    `program` has no version, `names` are the names by which it was called. `search` is the search path, None
    if commands do not run on this machine. Reads files.
    """
    found = {
        name: stamp
        for family, files in _FAMILIES
        if program in family
        for name in files
        if (stamp := _stamp(root / name)) != _MISSING
    }
    if search is not None:
        for name in names:
            if name and "/" not in name and (where := shutil.which(name, path=search)) is not None:
                found[f"{_PROGRAM}{where}"] = _program_stamp(Path(where))
    return found


def changed(depends: Mapping[str, str], root: Path) -> str:
    """Return the name of a dependency whose stamp no longer matches; empty if all match. Reads files."""
    for name, before in depends.items():
        if _now(name, root) != before:
            return name.removeprefix(_PROGRAM)
    return ""


def restamped(depends: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the current stamps of the same dependencies. Reads files."""
    return {name: _now(name, root) for name in depends}


def of_any_project(depends: Mapping[str, str]) -> dict[str, str]:
    """Return the stamps that apply to every project: those of programs, not of lock files."""
    return {name: stamp for name, stamp in depends.items() if name.startswith(_PROGRAM)}


def _now(name: str, root: Path) -> str:
    if name.startswith(_PROGRAM):
        return _program_stamp(Path(name.removeprefix(_PROGRAM)))
    return _stamp(root / name)


def _stamp(path: Path) -> str:
    try:
        if not path.is_file():
            return _MISSING
        size = path.stat().st_size
        return f"size {size}" if size > LARGEST else hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return _MISSING


def _program_stamp(path: Path) -> str:
    """Return the stamp of a program file: real path, size and modification time; `missing` without one."""
    try:
        real = path.resolve()
        seen = real.stat()
    except (OSError, RuntimeError):
        return _MISSING
    return f"{real} {seen.st_size} {seen.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class LearningEnvironment:
    """The folders and programs on which an agent's learnings depend."""

    workspace: Path
    root: Path
    """The root of its project, where lock files are."""
    cwd: Callable[[], Path]
    """The folder of the next command."""
    search: str | None
    """The search path of commands; None if they do not run on this machine."""

    def stamps(self, form: CallForm) -> dict[str, str]:
        """Return stamps of a call's dependencies. Reads files."""
        if form.command is None:
            return {}
        main = form.command.main
        return stamps(main.kin, (main.program,), self.root, self.search)

    def changed(self, depends: Mapping[str, str]) -> str:
        """Return the name of a dependency whose stamp no longer matches; empty if all match. Reads files."""
        known = {name: each for name, each in depends.items() if self.search is not None or ":" not in name}
        return changed(known, self.root)

    def restamped(self, depends: Mapping[str, str]) -> dict[str, str]:
        """Return the current stamps of the same dependencies. Reads files."""
        return restamped(depends, self.root)

    def is_read_only(self, form: CallForm) -> bool:
        """Return whether a call is a command that only reads. Parses the command, which takes a moment."""
        if form.command is None:
            return False
        from agent.safety.effects import effects_of
        from agent.safety.programs.table import programs
        from agent.safety.reader.script import read

        workspace, home = str(self.workspace), str(Path.home())
        reading = read(form.shown, workspace, home)
        if reading.writes or any(name.startswith("export ") for name in reading.assigned):
            return False
        table = programs()
        return bool(reading.commands) and all(
            effects_of(command, table).effect == "looks" for command in reading.commands
        )

    def call_of(self, learning: Learning) -> MadeCall | None:
        """Return the failed command that a learning is about; None if it is not about a known program."""
        pattern = learning.evidence.get("failed") or learning.pattern
        name = "command" if learning.tool == "terminal" else ""
        if not name or not learning.program:
            return None
        workspace = str(self.workspace)
        form = call_form(learning.tool, {name: pattern}, CallPlace(workspace, workspace))
        line = learning.evidence.get("error") or learning.error
        return MadeCall(form, Failure(learning.error_type, line, learning.error))
