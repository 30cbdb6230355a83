"""The texts about an action that needs approval, shared by all user interfaces.

All of them contain outside text. Each note is one line, so that nothing in it can imitate another note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.core.event_data import VerdictPart
from agent.events import ApprovalAsked
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import reveal
from tools.text.words import plural, shorten

PART_CHARS = 120
"""The number of characters of a part that its note shows; the command above the notes shows all of it."""
MOST_PARTS = 48
"""The number of parts that are noted and highlighted; the others are only counted."""
LOOKED_AT = 20_000
"""The number of characters of a command that are searched for the words of its parts."""

_SPELLED = r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|r)"
HIDDEN = f"(?:{_SPELLED})+"
"""A pattern for invisible characters after they were replaced with visible names."""

_NETWORK = {
    "yes": "network: yes",
    "no": "network: no",
    "open": "network: not blocked",
    "filtered": "network: filtered",
}
_SANDBOX = {"none": "sandbox: off", "outside": "sandbox: not used for this"}
_ALARMS = r"^(?:  )?network: yes\b|\bsandbox: (?:off|not used for this)\b(?= ·|$)"
_WORD = lazy_pattern(r"[^\s\"'\\;|&()<>`]+")
_BETWEEN = rf"(?:{_SPELLED}|[\s\"'\\;|&()<>`]){{1,16}}"
_REPEATED = 64
_PIPED = r"\|\s*(?:sudo\s+)?(?:\S*/)?(?:(?:ba|z|da|k|fi)?sh|python3?|perl|ruby|node)\b"
"""A pattern for a pipe into an interpreter, which runs the piped text."""


def relevant_parts(parts: Sequence[VerdictPart]) -> tuple[VerdictPart, ...]:
    """Return the parts of the verdict that are the reason for asking."""
    return tuple(part for part in parts if part.kind != "allow" and (part.text or part.reason))


def ask_text(request: ApprovalAsked) -> str:
    """Return which agent asks for permission, and for what."""
    what = "the network" if request.tool == "network" else f"to use {one_line(request.tool)}"
    return f"{one_line(request.agent)} wants {what}"


def reach_text(request: ApprovalAsked) -> str:
    """Return network, sandbox and files in one line; empty if nothing is known.

    Files come last, because a file's name could imitate the facts before it.
    """
    says = request.network in _NETWORK and request.tool != "network"
    facts = [_NETWORK[request.network]] if says else []
    if request.sandbox:
        facts.append(_SANDBOX.get(request.sandbox, f"sandbox: {request.sandbox}"))
    if request.touches:
        facts.append(f"will touch: {', '.join(map(one_line, request.touches))}")
    return " · ".join(facts)


def place_text(request: ApprovalAsked) -> str:
    """Return the action's folder and the request's note on undo, in one line; empty if both are unknown."""
    facts = [f"in {one_line(request.folder)}"] if request.folder else []
    return " · ".join([*facts, *([request.undo] if request.undo else [])])


def lasting_text(request: ApprovalAsked) -> str:
    """Return what a yes for the session or forever covers, or that a yes counts only once."""
    if request.rule:
        return f"a yes for the session or always covers: {one_line(request.rule)}"
    return "a yes counts for this one time; Hermes asks again next time"


def reasons(request: ApprovalAsked, most: int = MOST_PARTS, all_with: str = "") -> Iterator[str]:
    """Yield the reasons for asking: each relevant part with its reason, then those of the whole action.

    If there are more than `most` parts, those with a new reason come first, and `all_with` ends the line that
    counts the others.
    """
    from agent.safety.assessor import POLICIES

    parts = relevant_parts(request.parts)
    classes = {policy.reason for policy in POLICIES.values()}
    # The sentence says already what the only part does as one of its class.
    is_told = len(parts) == 1 and bool(request.sentence) and parts[0].reason in classes
    new = {part.reason: part for part in reversed(parts)}
    ordered = parts if len(parts) <= most else sorted(parts, key=lambda part: new[part.reason] is not part)
    for part in () if is_told else ordered[:most]:
        named = part.text and part.text != request.headline
        yield f"{_flag_line(part)}: {one_line(part.reason)}" if named else f"▲ {one_line(part.reason)}"
    if len(parts) > most:
        yield f"▲ and {plural(len(parts) - most, 'more part')}{all_with}"
    said = {part.reason for part in parts}
    for reason in request.reasons:
        if reason not in said and reason not in request.sentence:
            yield f"· {one_line(reason)}"


def one_line(text: str) -> str:
    """Return a text as one line, with spaces instead of line feeds."""
    return " ".join(text.split("\n"))


def marks_in_command(request: ApprovalAsked) -> re.Pattern[str]:
    """Return a pattern that matches the relevant parts, and hidden characters, in the command as shown."""
    places = _Places(request.headline[:LOOKED_AT])
    found = dict.fromkeys(places.pattern(part.text) for part in relevant_parts(request.parts)[:MOST_PARTS])
    # Longest first: of alternatives with the same beginning, the first one matches.
    ordered = sorted((pattern for pattern in found if pattern), key=len, reverse=True)
    return re.compile("|".join((*ordered, _PIPED, HIDDEN)))


def marks_in_notes(request: ApprovalAsked) -> re.Pattern[str]:
    """Return a pattern for the parts at the beginning of their notes, and for alarming words in the facts."""
    flagged = {re.escape(reveal(_flag_line(part))) for part in relevant_parts(request.parts)[:MOST_PARTS]}
    ordered = sorted(flagged, key=len, reverse=True)
    alternatives = (*(f"^{text}(?=:)" for text in ordered), "^▲", _ALARMS, HIDDEN)
    return re.compile("|".join(alternatives))


def _flag_line(part: VerdictPart) -> str:
    text = one_line(part.text)
    return f"▲ {shorten(text, PART_CHARS)}"


class _Places:
    """The words of a command, used to find a part of it whose quotes are already resolved."""

    def __init__(self, command: str) -> None:
        self._words = [match[0] for match in _WORD.finditer(command)]
        self._at: dict[str, list[int]] = {}
        for index, word in enumerate(self._words):
            self._at.setdefault(word, []).append(index)

    def pattern(self, part: str) -> str:
        """Return a pattern for the longest run of the part's words in the command; empty if there is none."""
        if part[:2] in ("> ", "< "):
            name = part[2:].rstrip("/").rpartition("/")[2]
            return rf"[<>]{{1,2}}[|&]?\s{{0,8}}\S{{0,400}}?{_escape_word(name)}" if name else ""
        if " " not in part and part.endswith("="):
            return rf"(?<![\w]){_escape_word(part)}"
        if " " not in part and part.startswith("$"):
            return rf"\${{?{re.escape(part[1:])}\b"
        words = _WORD.findall(part)
        starts = self._at.get(words[0], [])[:_REPEATED] if words else []
        length = max((self._common(words, at) for at in starts), default=0)
        return rf"(?<![\w./-]){_BETWEEN.join(map(_escape_word, words[:length]))}(?![\w-])" if length else ""

    def _common(self, words: Sequence[str], at: int) -> int:
        """Return how many of `words` follow each other in the command, starting at its word `at`."""
        length = 0
        for wanted, word in zip(words, self._words[at : at + len(words)], strict=False):
            if wanted != word:
                break
            length += 1
        return length


def _escape_word(word: str) -> str:
    return re.escape(reveal(word))
