"""Jobs and their runs as data. A job stores its schedule as a person wrote it, with a time zone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from agent.automation.schedule.expression import Schedule, parse_moment, parse_schedule
from agent.automation.schedule.zones import ScheduleError
from tools.text.words import shorten

Missed = Literal["skip", "once", "all"]
Overlap = Literal["skip", "queue", "parallel"]
JobState = Literal["active", "paused", "done"]
RunState = Literal["waiting", "running", "done", "failed", "skipped", "interrupted"]
LONGEST_PROMPT = 20_000
MOST_JITTER = 86_400
HEARTBEAT = "heartbeat"
"""How the ids of the jobs begin that a heartbeat keeps."""
DELIVERIES = "notice, none, file:PATH, mail:COMMAND, message:TARGET, or a messenger such as telegram"


@dataclass(frozen=True, kw_only=True)
class JobIntent:
    """The definition of a job, as a person gave it."""

    schedule: str
    zone: str
    prompt: str = ""
    name: str = ""
    missed: Missed = "once"
    overlap: Overlap = "skip"
    jitter: int = 0
    """Seconds by which a run is late at most; which, follows from job and due time."""
    repeat: int | None = None
    until: str = ""
    """ISO; nothing is due after it."""
    deliver: str = "notice"
    skills: tuple[str, ...] = ()
    model: str = ""
    toolsets: tuple[str, ...] = ()
    cwd: str = ""
    script: str = ""
    """A command in place of a prompt; no model is asked."""
    context_from: tuple[str, ...] = ()
    """Jobs whose last outputs come before the prompt."""
    allow: tuple[str, ...] = ()
    """Rules of permissions that allow beside those of the person, for its runs."""

    def parse(self) -> Schedule:
        """Return the parsed schedule. Raises `ScheduleError`."""
        return parse_schedule(self.schedule, self.zone)

    def last_instant(self) -> datetime | None:
        """Return the instant (UTC) after which the job is never due; None without an end.

        Raises `ScheduleError`.
        """
        return parse_moment(self.until, self.zone) if self.until else None

    @property
    def timing(self) -> tuple[str, str, str]:
        """The values that determine when the job is due: schedule, zone and end."""
        return self.schedule, self.zone, self.until

    def to_json(self) -> str:
        """Return the definition as JSON text for the store."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> JobIntent:
        """Read the result of `to_json`. Unknown names and values of a wrong type are ignored."""
        try:
            stored = json.loads(text)
        except ValueError:
            stored = {}
        blank = JobIntent(schedule="", zone="UTC")
        values: dict[str, Any] = {}
        for each in fields(JobIntent) if isinstance(stored, dict) else ():
            value, known = stored.get(each.name), getattr(blank, each.name)
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                value = tuple(value)
            kind = int if known is None else type(known)
            if isinstance(value, kind) and not isinstance(value, bool):
                values[each.name] = value
        return replace(blank, **values)


@lru_cache(maxsize=1024)
def unreadable(schedule: str, zone: str, until: str) -> str:
    """Return why the due times of a job cannot be computed, without the fix; empty if they can.

    The first call is slow.
    """
    intent = JobIntent(schedule=schedule, zone=zone, until=until)
    try:
        intent.parse()
        intent.last_instant()
    except ScheduleError as error:
        return str(error).partition("; ")[0].removesuffix(".")
    return ""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A stored job. Times are seconds (UTC)."""

    id: str
    intent: JobIntent
    state: JobState
    anchor: int
    looked: int
    next: int | None
    runs: int

    @property
    def title(self) -> str:
        """The job's name, else the beginning of its prompt or script."""
        words = " ".join((self.intent.name or self.intent.prompt or self.intent.script).split())
        return shorten(words, 60)

    @property
    def is_used_up(self) -> bool:
        """Return whether the job has run as often as its `repeat` allows."""
        return self.intent.repeat is not None and self.runs >= self.intent.repeat

    @property
    def beats(self) -> bool:
        """Return whether the job stands for a heartbeat, whose runs start only for a reason or on request."""
        return self.id.startswith(HEARTBEAT)

    @property
    def problem(self) -> str:
        """A sentence with the fix if the job's times can no longer be parsed.

        The text is empty without such a problem, or if the job has ended.
        """
        if self.state == "done" or not (why := unreadable(*self.intent.timing)):
            return ""
        mend = f"`hermes cron edit {self.id}` gives it another zone, schedule or end"
        return f"{why}, so this job is never due; {mend}."

    @property
    def standing(self) -> str:
        """The state of the job in words."""
        return "woken by a reason" if self.beats else "never due" if self.problem else self.state

    @property
    def explanation(self) -> str:
        """The schedule in words, or the stored text if it can no longer be parsed."""
        return self.intent.schedule if unreadable(*self.intent.timing) else self.intent.parse().explain()


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """A run of a job, with its receipt."""

    id: int
    job: str
    due: int
    """Milliseconds (UTC)."""
    why: str
    state: RunState
    earliest: int
    started: float | None = None
    ended: float | None = None
    cuts: int = 0
    session: str = ""
    output: str = ""
    error: str = ""
    receipt: Mapping[str, Any] = field(default_factory=dict)
    delivery: str = ""
    tries: int = 0

    @property
    def is_beat(self) -> bool:
        """Return whether the run belongs to a heartbeat."""
        return self.job.startswith(HEARTBEAT)

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a JSON object: reason, due, started, ended, usage, refusals."""
        return {
            "id": self.id,
            "job": self.job,
            "why": self.why,
            "state": self.state,
            "due": iso(self.due / 1000),
            "started": iso(self.started),
            "ended": iso(self.ended),
            "session": self.session,
            "cuts": self.cuts,
            **self.receipt,
            "error": self.error,
            "delivery": self.delivery or "none",
            "tries": self.tries,
        }


def iso(seconds: float | None) -> str | None:
    """Return a time as ISO in UTC, whole seconds."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0).isoformat()


def full_delivery(deliver: str) -> str:
    """Return the complete form of a delivery target. Pure.

    A messenger alone gets `message:` in front, and `send_message` becomes `message`.
    """
    from agent.core.config.sections import MessengerSettings

    deliver = deliver.strip().removeprefix("send_")
    is_chat = deliver.partition(":")[0].strip() in MessengerSettings.model_fields
    return f"message:{deliver}" if is_chat else deliver


def unknown_delivery(deliver: str) -> str:
    """Return a sentence about a delivery target that is none; empty for one, in its short form too. Pure."""
    full = full_delivery(deliver)
    if full in ("notice", "none") or re.match(r"(file|mail|message):.", full):
        return ""
    return f"{deliver[:40]!r} is not a way to deliver; give {DELIVERIES}."


def delivery_rule(deliver: str) -> str:
    """Return the permission rule that allows a delivery's message; empty if it sends none. Pure."""
    kind, _, target = full_delivery(deliver).partition(":")
    return f"message({target.strip()})" if kind == "message" and target.strip() else ""


def check_new_intent(intent: JobIntent, now: int) -> JobIntent:
    """Complete and check the definition of a new job. Pure.

    Raises `ScheduleError` if it is invalid or never due from `now` on.
    """
    from agent.automation.schedule.occurrences import next_due

    intent = check_intent(intent)
    last = intent.last_instant()
    due = next_due(intent.parse(), datetime.fromtimestamp(now, UTC), 1)
    if not due or (last is not None and due[0] > last):
        raise ScheduleError(f"{intent.schedule[:40]!r} is never due from now on; give a later time.")
    return intent


def check_intent(intent: JobIntent) -> JobIntent:
    """Complete and check the definition of a job, whenever it is due.

    Raises `ScheduleError` if it is invalid. Pure.
    """
    from agent.knowledge.injection import scan_order

    intent = replace(intent, deliver=full_delivery(intent.deliver))
    schedule = intent.parse()
    if bool(intent.prompt.strip()) == bool(intent.script.strip()):
        raise ScheduleError("A job has either a prompt or a script; give one of them.")
    if len(intent.prompt) > LONGEST_PROMPT or len(intent.script) > LONGEST_PROMPT:
        raise ScheduleError(f"The prompt is longer than {LONGEST_PROMPT:,} characters; put it into a file.")
    for name, value, known in (
        ("missed", intent.missed, get_args(Missed)),
        ("overlap", intent.overlap, get_args(Overlap)),
    ):
        if value not in known:
            raise ScheduleError(f"{value!r} is not a way for {name}; give {', '.join(known)}.")
    if not 0 <= intent.jitter <= MOST_JITTER:
        raise ScheduleError(f"The jitter {intent.jitter} is out of range; give 0 to {MOST_JITTER} seconds.")
    if intent.repeat is not None and intent.repeat < 1:
        raise ScheduleError(f"A job cannot repeat {intent.repeat} times; give a number from 1.")
    if unknown := unknown_delivery(intent.deliver):
        raise ScheduleError(unknown)
    for rule in intent.allow:
        if not re.fullmatch(r"[\w.*-]+(\(.+\))?", rule.strip()):
            raise ScheduleError(f"{rule[:40]!r} is not a rule; give one like terminal(git status).")
    intent.last_instant()
    for finding in scan_order(intent.prompt):
        if finding.severity in ("high", "critical"):
            raise ScheduleError(
                f"The prompt reads like an attack ({finding.rule}: {finding.excerpt[:60]!r}); "
                "word it otherwise."
            )
    return replace(intent, schedule=schedule.text, zone=schedule.zone)
