"""The words of a question that say what it is about."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable

from agent.core.store.nodes import fold, storable

MAX_CHARS = 2_000
MAX_WORDS = 24

_WORD = re.compile(r"[^\W_]+")
_FUNCTION_WORDS = frozenset(
    """
    a about am an and any are as at be been being but by can could d did do does doing for from had has have
    having he her him his how i if in into is it its ll m may me might must my no not of on or our s shall she
    should so such t than that the their them then there these they this those to ve was we were what when
    where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905 - a list of words is read as one
)
"""English words that stand in every question; those of other languages are rated by how common they are."""


def words_of(text: str) -> tuple[str, ...]:
    """The words that are looked for, folded and in lower case, each once. Pure.

    Function words are left out unless there is nothing else.
    """
    folded = fold(storable(text[:MAX_CHARS])).lower()
    words = list(dict.fromkeys(_WORD.findall(folded)))
    telling = [word for word in words if word not in _FUNCTION_WORDS]
    return tuple((telling or words)[:MAX_WORDS])


def common_words(texts: Iterable[str], least: int) -> list[str]:
    """The words that stand in at least so many of the texts, the most common first. Pure."""
    counts = Counter(word for text in texts for word in {*_WORD.findall(fold(text).lower())})
    return [word for word, count in counts.most_common() if count >= least and word not in _FUNCTION_WORDS]


_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE_NAMES = frozenset((*_MONTHS, *_DAYS))


def date_words(created: float) -> str:
    """The local day of a moment in the words a question has for it: `2023 may 8 monday`."""
    try:
        day = time.localtime(created)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{day.tm_year} {_MONTHS[day.tm_mon - 1]} {day.tm_mday} {_DAYS[day.tm_wday]}"


_ON = "ondate"


def indexed_text(text: str, created: float) -> str:
    """What is indexed of a message: its text, and the words of its day in a form that no text has."""
    return " ".join((text, *map(date_term, date_words(created).split())))


def date_term(word: str) -> str:
    """What stands in the index for a word of a date. Pure."""
    return _ON + word


def names_a_day(word: str) -> bool:
    """Whether a word may be one of those that `date_words` has. Pure."""
    return word in _DATE_NAMES or (word.isascii() and word.isdigit() and len(word) in (1, 2, 4))
