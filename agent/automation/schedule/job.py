"""Jobs and their runs as data. The schedule of a job is stored as the user wrote it, with a time zone."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, get_args
from zlib import crc32
from zoneinfo import ZoneInfo

from agent.automation.schedule.expression import (
    CronFields,
    Kind,
    Schedule,
    SingleTime,
    parse_cron,
    parse_moment,
    parse_schedule,
)
from agent.automation.schedule.zones import ScheduleError, changes, first_instant, offset_at, wall, zone
from tools.text.words import shorten

Missed = Literal["skip", "once", "all"]
Overlap = Literal["skip", "queue", "parallel"]
JobState = Literal["active", "paused", "done"]
RunState = Literal["waiting", "running", "done", "failed", "skipped", "interrupted"]
LONGEST_PROMPT = 20_000
MOST_JITTER = 86_400
HEARTBEAT = "heartbeat"
"""The prefix of the ids of jobs that belong to heartbeats."""
DELIVERIES = "notice, none, file:PATH, mail:COMMAND, message:TARGET, or a messenger such as telegram"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIntent:
    """The definition of a job, as the user gave it."""

    schedule: str
    zone: str
    prompt: str = ""
    name: str = ""
    missed: Missed = "once"
    overlap: Overlap = "skip"
    jitter: int = 0
    """The maximum delay of a run in seconds. The actual delay depends only on the job and the due time."""
    repeat: int | None = None
    until: str = ""
    """An ISO time, after which the job is never due; empty for no end."""
    deliver: str = "notice"
    skills: tuple[str, ...] = ()
    model: str = ""
    toolsets: tuple[str, ...] = ()
    cwd: str = ""
    script: str = ""
    """A command that is run instead of asking a model; empty for a job with a prompt."""
    context_from: tuple[str, ...] = ()
    """Jobs whose last outputs are put before the prompt."""
    allow: tuple[str, ...] = ()
    """Permission rules that apply to the runs, in addition to the user's own rules."""

    def parse(self) -> Schedule:
        """Return the parsed schedule. Raises `ScheduleError` if it is invalid."""
        return parse_schedule(self.schedule, self.zone)

    def last_instant(self) -> datetime | None:
        """Return the instant (UTC) after which the job is never due; None if it has no end.

        Raises `ScheduleError` if the end is invalid.
        """
        return parse_moment(self.until, self.zone) if self.until else None

    @property
    def timing(self) -> tuple[str, str, str]:
        """The values that determine when the job is due: schedule, zone and end."""
        return self.schedule, self.zone, self.until

    def to_json(self) -> str:
        """Return the definition as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> JobIntent:
        """Return the definition in JSON text. Unknown names and values of a wrong type are ignored."""
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
    """Return why the due times of a job cannot be computed; empty if they can be.

    The first call is slow.
    """
    intent = JobIntent(schedule=schedule, zone=zone, until=until)
    try:
        intent.parse()
        intent.last_instant()
    except ScheduleError as error:
        return str(error).partition("; ")[0].removesuffix(".")
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job. Times are in seconds since the epoch (UTC)."""

    id: str
    intent: JobIntent
    state: JobState
    anchor: int
    looked: int
    next: int | None
    runs: int

    @property
    def title(self) -> str:
        """The job's name, or the beginning of its prompt or script if it has no name."""
        words = " ".join((self.intent.name or self.intent.prompt or self.intent.script).split())
        return shorten(words, 60)

    @property
    def is_used_up(self) -> bool:
        """True if the job has run as often as its `repeat` allows."""
        return self.intent.repeat is not None and self.runs >= self.intent.repeat

    @property
    def beats(self) -> bool:
        """True if the job belongs to a heartbeat. Its runs start only for a reason, or on request."""
        return self.id.startswith(HEARTBEAT)

    @property
    def problem(self) -> str:
        """A sentence with the fix if the job's due times can no longer be computed.

        It is empty without such a problem, or if the job has ended.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run of a job, with its receipt."""

    id: int
    job: str
    due: int
    """Milliseconds since the epoch (UTC)."""
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
        """True if the run belongs to a heartbeat."""
        return self.job.startswith(HEARTBEAT)

    def as_json(self) -> dict[str, Any]:
        """Return the run as a JSON object: its times, state and receipt, without its output."""
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
    """Return a time as ISO text in UTC, in whole seconds; None for None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0).isoformat()


def full_delivery(deliver: str) -> str:
    """Return the full form of a delivery target. Pure.

    A messenger such as `telegram` gets the prefix `message:`, and `send_message` becomes `message`.
    """
    from agent.core.config.sections import MessengerSettings

    deliver = deliver.strip().removeprefix("send_")
    is_chat = deliver.partition(":")[0].strip() in MessengerSettings.model_fields
    return f"message:{deliver}" if is_chat else deliver


def unknown_delivery(deliver: str) -> str:
    """Return a sentence on why a text is not a delivery target; empty if it is one. Pure."""
    full = full_delivery(deliver)
    if full in ("notice", "none") or re.match(r"(file|mail|message):.", full):
        return ""
    return f"{deliver[:40]!r} is not a way to deliver; give {DELIVERIES}."


def delivery_rule(deliver: str) -> str:
    """Return the permission rule that a delivery by message needs; empty for other deliveries. Pure."""
    kind, _, target = full_delivery(deliver).partition(":")
    return f"message({target.strip()})" if kind == "message" and target.strip() else ""


def check_new_intent(intent: JobIntent, now: int) -> JobIntent:
    """Return the checked definition of a new job, with the full form of its delivery target. Pure.

    Raises `ScheduleError` if it is invalid or never due from `now` on.
    """
    intent = check_intent(intent)
    last = intent.last_instant()
    due = next_due(intent.parse(), datetime.fromtimestamp(now, UTC), 1)
    if not due or (last is not None and due[0] > last):
        raise ScheduleError(f"{intent.schedule[:40]!r} is never due from now on; give a later time.")
    return intent


def check_intent(intent: JobIntent) -> JobIntent:
    """Return the checked definition of a job, with the full form of its delivery target. Pure.

    Raises `ScheduleError` if it is invalid. Whether it is ever due is not checked.
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


END = datetime(9999, 1, 1, tzinfo=UTC)
"""The last instant that steps through the calendar can reach."""
DAY = timedelta(days=1)


def due_after(schedule: Schedule, after: datetime, anchor: datetime | None = None) -> Iterator[datetime]:
    """Yield the instants (UTC) strictly after `after` at which a schedule is due, in order.

    `anchor` is when a delay or an interval began; by default it is `after`.
    """
    after = after.astimezone(UTC)
    start = after if anchor is None else anchor.astimezone(UTC)
    try:
        if schedule.cron is not None:
            where = zone(schedule.zone)
            found = _wall_occurrences if schedule.cron.has_fixed_times else _elapsed_occurrences
            yield from found(schedule.cron, where, after)
        elif schedule.every is not None:
            yield from _interval(schedule.every, start, after)
        elif schedule.single is not None:
            at = _single(schedule.single, zone(schedule.zone), start)
            if at is not None and at > after:
                yield at
        else:
            at = start + schedule.delay if schedule.delay is not None else schedule.instant()
            if at > after:
                yield at
    except OverflowError:
        # The calendar has an end.
        return


def next_due(
    schedule: Schedule, after: datetime, count: int, anchor: datetime | None = None
) -> list[datetime]:
    """Return the first `count` instants of `due_after`, or all of them if there are fewer."""
    return list(islice(due_after(schedule, after, anchor), count))


def _single(single: SingleTime, where: ZoneInfo, start: datetime) -> datetime | None:
    """Return the instant of a single time of day that was requested at `start`; None if there is none."""
    if single.days is None:
        return next(_wall_occurrences(parse_cron(single.fields), where, start), None)
    day = wall(where, start).replace(hour=single.hour, minute=single.minute, second=0, microsecond=0)
    return first_instant(where, day + single.days * DAY)


def _interval(every: timedelta, start: datetime, after: datetime) -> Iterator[datetime]:
    passed = max(0, (after - start) // every) if after >= start else -1
    at = start + every * (passed + 1)
    if at == start:
        # The first one is a whole interval after the start.
        at += every
    while True:
        yield at
        at += every


def _wall_occurrences(cron: CronFields, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    last = after
    for local in cron.wall_times(wall(where, after)):
        # Several skipped times are one: the first minute after the gap.
        if (at := first_instant(where, local)) > last:
            yield at
            last = at


def _elapsed_occurrences(cron: CronFields, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    begin = after
    while begin < END:
        # No offset is as much as a day: before this there is nothing. Years without a match are passed over.
        nearest = next(cron.wall_times(begin.replace(tzinfo=None) - DAY), None)
        if nearest is None:
            return
        begin = max(begin, nearest.replace(tzinfo=UTC) - DAY)
        for start, end, offset in _stretches(where, begin):
            first, last = ((each + offset).replace(tzinfo=None) for each in (start, end))
            for local in cron.wall_times(first, last):
                at = (local - offset).replace(tzinfo=UTC)
                if after < at and start <= at < end:
                    yield at
            begin = end


def _stretches(where: ZoneInfo, begin: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """Yield periods with a constant UTC offset, from `begin` to the end of its month (UTC).

    Each is given as start, end and offset.
    """
    month = begin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after_it = (month + timedelta(days=32)).replace(day=1)
    offset = offset_at(where, begin)
    for end in (*changes(where, month, after_it), after_it):
        if end > begin:
            yield begin, end, offset
            begin, offset = end, offset_at(where, end)


MOST = 10_000
"""The maximum number of instants that can be requested at once."""
DEFAULT_COUNT = 5


@dataclass(frozen=True, slots=True)
class Question:
    """The question when `schedule` is next due in `zone`, strictly after `after`.

    `after` is an ISO time; without an offset it is a local time.
    """

    schedule: str
    zone: str
    after: str
    count: int = DEFAULT_COUNT


@dataclass(frozen=True, slots=True)
class Answer:
    """The interpretation of a schedule: its kind, the next instants in its zone, and a description."""

    schedule: str
    kind: Kind
    next: tuple[datetime, ...]
    """Aware times with the offset of the zone. They must not be compared with each other."""
    text: str


def ask(question: Question) -> Answer:
    """Return the answer to a question. Raises `ScheduleError` if the question is invalid."""
    if not 1 <= question.count <= MOST:
        raise ScheduleError(f"The count {question.count} is out of range; ask for 1 to {MOST}.")
    schedule = parse_schedule(question.schedule, question.zone)
    after = parse_moment(question.after, question.zone)
    where = zone(schedule.zone)
    due = tuple(each.astimezone(where) for each in next_due(schedule, after, question.count))
    return Answer(question.schedule, schedule.kind, due, schedule.explain())


MOST_AT_ONCE = 100
"""The maximum number of missed runs of a job that are made up for."""
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DueTime:
    """A due time of a job, and the time at which its run begins (seconds since the epoch, UTC).

    Jitter can delay the beginning.
    """

    due: int
    begins: int
    period: int | None
    """Seconds to the next due time of the schedule; None if there is none."""


@dataclass(frozen=True, slots=True)
class DueDecision:
    """The decision on which of the due times that have begun are run."""

    run: tuple[tuple[DueTime, str], ...]
    """The due times that are run, oldest first, each with `due` or `missed`."""
    skip: tuple[tuple[DueTime, str, str], ...]
    """The due times that are not run, each with `due` or `missed`, and the reason for the user."""
    looked: int
    """The newest due time (seconds, UTC) with a decision. Earlier ones are not due again."""
    next: int | None
    """The time when the next due time begins (seconds, UTC); None if there is none."""


def instant(seconds: int) -> datetime:
    """Return the aware datetime (UTC) of a number of seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def due_times(job: Job, after: datetime) -> Iterator[DueTime]:
    """Yield the due times of a job strictly after an instant, until the job's end.

    They are in the order in which their runs begin.
    """
    last = job.intent.last_instant()
    found = due_after(job.intent.parse(), after, instant(job.anchor))
    each = next(found, None)
    while each is not None and (last is None or each <= last):
        later = next(found, None)
        due = int(each.timestamp())
        period = None if later is None else int(later.timestamp()) - due
        yield DueTime(due, due + delay(job.id, due, job.intent.jitter, period), period)
        each = later


def following(job: Job, after: int) -> int | None:
    """Return when the first due time strictly after `after` begins (seconds, UTC).

    Returns None if the job has used up its `repeat` or is never due again.
    """
    if job.is_used_up:
        return None
    found = next(due_times(job, instant(after)), None)
    return None if found is None else found.begins


def never_due(job: Job) -> ScheduleError:
    """Return the error for a job that has no next due time."""
    if job.is_used_up:
        return ScheduleError(
            f"The job {job.title!r} has had all runs of its repeat ({job.runs} of {job.intent.repeat}); "
            "give it a larger repeat."
        )
    return ScheduleError(f"The job {job.title!r} is never due from now on; give it a later schedule or end.")


def newest_due_times(job: Job, now: int) -> list[DueTime]:
    """Return the newest due times that have begun since the last decision, oldest first.

    There are at most `MOST_AT_ONCE + 1` of them.
    """
    looked, end, last = instant(job.looked), instant(now), job.intent.last_instant()
    if last is not None:
        end = min(end, last)
    # One that is late on purpose was due before.
    reach = _FIRST_LOOK + timedelta(seconds=job.intent.jitter)
    while True:
        # Backwards in growing steps: after a year asleep there are half a million of them.
        begin = max(looked, end - reach)
        newest: deque[DueTime] = deque(maxlen=MOST_AT_ONCE + 1)
        for each in due_times(job, begin):
            if each.begins > now:
                break
            newest.append(each)
        if begin == looked or len(newest) > MOST_AT_ONCE:
            return list(newest)
        reach *= 8


def decide(job: Job, now: int, grace: float, busy: bool = False) -> DueDecision:
    """Return the decision on the due times that have begun by `now`.

    A run is late after `grace` seconds, or half a period if that is less. `busy` means that a run of the job
    is unfinished.
    """
    due = newest_due_times(job, now)
    looked = due[-1].due if due else job.looked
    why = {
        each: "missed" if now - each.begins > min(grace, (each.period or 2 * grace) / 2) else "due"
        for each in due
    }
    chosen, passed_over = _by_policy(job, due, why)
    why |= dict.fromkeys((each for each in due if each not in chosen), "missed")
    reasons = dict.fromkeys(due, passed_over)
    if busy and job.intent.overlap == "skip":
        reasons |= dict.fromkeys(chosen, "the run before was not over")
        chosen = []
    elif job.intent.repeat is not None:
        left = max(0, job.intent.repeat - job.runs)
        reasons |= dict.fromkeys(chosen[left:], "the job had all runs of its repeat")
        chosen = chosen[:left]
    run = tuple((each, why[each]) for each in chosen)
    skip = tuple((each, why[each], reasons[each]) for each in due if each not in chosen)
    return DueDecision(run, skip, looked, following(replace(job, runs=job.runs + len(run)), looked))


def _by_policy(job: Job, due: list[DueTime], why: Mapping[DueTime, str]) -> tuple[list[DueTime], str]:
    """Return the due times that run under the job's policy for missed runs, and why the others do not."""
    match job.intent.missed:
        case "all":
            return due[-MOST_AT_ONCE:], f"missed, and only the newest {MOST_AT_ONCE} are made up for"
        case "once":
            return due[-1:], "missed, and a later one took its place"
        case _:
            fresh = [each for each in due if why[each] == "due"]
            return fresh, "missed, and this job skips what it missed"


def delay(job: str, due: int, jitter: int, period: int | None) -> int:
    """Return the number of seconds by which jitter delays a run.

    It is always the same for a job and due time, and shorter than the time to the next one.
    """
    most = jitter if period is None else min(jitter, period - 1)
    return crc32(f"{job} {due}".encode()) % (most + 1)


def edit_job(before: Job, intent: JobIntent, now: int, rescheduled: bool) -> Job:
    """Return the job with a new definition. `rescheduled` means that a schedule was given, even if it is
    unchanged.

    If the schedule changed, the job counts from now. Otherwise due times without a decision stay due. A
    paused job stays paused. A finished job becomes active only if it is due again. Raises `ScheduleError` if
    the change leaves the job never due.
    """
    intent = check_intent(intent)
    old = before.intent
    over = before.state == "done"
    moved = (intent.schedule, intent.zone) != (old.schedule, old.zone) or (over and rescheduled)
    retimed = moved or (intent.until, intent.repeat) != (old.until, old.repeat)
    looked = before.looked if before.state == "active" and not moved else max(now, before.looked)
    changed = replace(before, intent=intent, anchor=now if moved else before.anchor, looked=looked)
    if before.state != "active" and not retimed:
        return changed
    soonest = following(changed, looked)
    if retimed and soonest is None:
        raise never_due(changed)
    if before.state == "paused":
        return changed
    return replace(changed, state="active" if soonest is not None else "done", next=soonest)
