"""What is due around a change of a zone, by looking at every minute; shares nothing with the product."""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
SUNDAY_FIRST = "SUN MON TUE WED THU FRI SAT"
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@dataclass(frozen=True)
class Spec:
    """The fields of an expression, read by other means than those of the product."""

    text: str
    sets: tuple[frozenset[int], ...]
    fixed: bool
    either: bool
    seen: dict[date, bool] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(text: str) -> Spec:
        words = text.upper().split()
        starred = [word.startswith("*") for word in words]
        sets = tuple(frozenset(_numbers(word, index)) for index, word in enumerate(words))
        return Spec(text, sets, not starred[0] and not starred[1], not starred[2] and not starred[4])

    def matches(self, local: datetime) -> bool:
        minutes, hours, *_ = self.sets
        if local.minute not in minutes or local.hour not in hours:
            return False
        day = local.date()
        if day not in self.seen:
            self.seen[day] = self._on(day)
        return self.seen[day]

    def _on(self, day: date) -> bool:
        _, _, days, months, weekdays = self.sets
        length = calendar.monthrange(day.year, day.month)[1]
        of_month = day.day in days or (-1 in days and day.day == length)
        number = day.isoweekday() % 7
        of_week = number in weekdays or (number == 0 and 7 in weekdays)
        nth = (day.day - 1) // 7 + 1
        of_week = of_week or 100 + 10 * number + nth in weekdays
        of_week = of_week or (200 + number in weekdays and day.day + 7 > length)
        return day.month in months and (of_month or of_week if self.either else of_month and of_week)


def _numbers(word: str, index: int) -> list[int]:
    low, high = RANGES[index]
    names = {1 + i: n for i, n in enumerate(MONTHS.split())} if index == 3 else {}
    names = dict(enumerate(SUNDAY_FIRST.split())) if index == 4 else names
    found: list[int] = []
    for term in word.split(","):
        base, _, step = term.partition("/")
        for number, name in names.items():
            base = base.replace(name, str(number))
        if base == "L":
            found.append(-1)
        elif "#" in base:
            found.append(100 + 10 * int(base[0]) + int(base[2]))
        elif base.endswith("L"):
            found.append(200 + int(base[:-1]))
        else:
            first, dash, last = base.partition("-")
            begin = low if base == "*" else int(first)
            end = high if base == "*" or (step and not dash) else int(last or first)
            found += range(begin, end + 1, int(step or 1))
    return found


def changes_of(where: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """The minutes in which the offset of a zone changes, looked at hour by hour and then by minute."""
    found: list[datetime] = []
    at = begin
    while at < end:
        later = at + timedelta(hours=1)
        if at.astimezone(where).utcoffset() != later.astimezone(where).utcoffset():
            while at.astimezone(where).utcoffset() != later.astimezone(where).utcoffset():
                at += MINUTE
            found.append(at)
        at = later
    return found


@dataclass(frozen=True)
class Minutes:
    """Every minute of a window: its instant, its wall time, whether that wall time came before."""

    rows: tuple[tuple[datetime, datetime, bool, tuple[datetime, ...]], ...]
    """Instant, wall time, whether it is the second pass, wall times that were skipped just before."""

    @staticmethod
    def around(where: ZoneInfo, change: datetime, reach: timedelta) -> Minutes:
        rows: list[tuple[datetime, datetime, bool, tuple[datetime, ...]]] = []
        seen: set[datetime] = set()
        at, highest = change - reach, None
        while at < change + reach:
            local = at.astimezone(where).replace(tzinfo=None, fold=0)
            skipped: list[datetime] = []
            while highest is not None and highest + MINUTE < local:
                highest += MINUTE
                skipped.append(highest)
            rows.append((at, local, local in seen, tuple(skipped)))
            seen.add(local)
            highest = local if highest is None else max(highest, local)
            at += MINUTE
        return Minutes(tuple(rows))

    def due(self, spec: Spec) -> list[datetime]:
        """The instants of the window at which an expression is due."""
        found: list[datetime] = []
        for at, local, again, skipped in self.rows:
            if spec.fixed:
                is_due = (not again and spec.matches(local)) or any(map(spec.matches, skipped))
            else:
                is_due = spec.matches(local)
            if is_due:
                found.append(at)
        return found
