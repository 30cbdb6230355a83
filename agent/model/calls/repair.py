"""Mending what models get wrong about a tool call: its arguments and its name.

Only what has one plain reading is mended. Everything else is refused with a
sentence the model can act on, because a wrong guess would run a wrong command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent.model.calls.lenient_json import MAX_DEPTH, LenientError, LenientReader

TRUNCATED = "truncated"
"""The reason that says: readable, but the end is missing; such a call must not run."""

ALIASES: Mapping[str, str] = {
    "bash": "terminal",
    "shell": "terminal",
    "run_command": "terminal",
    "run_shell_command": "terminal",
    "run_terminal_cmd": "terminal",
    "execute_command": "terminal",
    "search_files": "search",
    "grep": "search",
    "view_file": "read_file",
    "create_file": "write_file",
}
"""Names models know from elsewhere, and the tools of the same parameters they mean."""

_EDGE = " \t\r\n\ufeff\u200b\u00a0"
_BLANK = frozenset({"", "null", "None", "undefined", "[]"})
_FENCE = re.compile(r"`{3,}[\w-]*\s*")
_MOST_WRAPPINGS = 3
_LONGEST_NAME = 100


def repair_arguments(raw: str) -> tuple[str | None, str]:
    """`raw` as the text of one JSON object, and what was mended (empty if nothing was).

    An object that is valid JSON comes back as it is. `TRUNCATED` as the reason
    means that the end was missing and was closed. If there is no plain reading,
    the result is None with a sentence for the model. Linear time; never raises.
    """
    text = raw.strip(_EDGE)
    if text in _BLANK:
        return "{}", "no arguments" if text else ""
    if isinstance(_strict(raw), dict):
        return raw, ""
    return _mended(text, (), _MOST_WRAPPINGS)


def repair_name(name: str, offered: Iterable[str], aliases: Mapping[str, str] = ALIASES) -> str | None:
    """The offered tool that `name` plainly means, or None.

    Tried in order: the very name, an alias, other case or separators, prefixes
    such as `functions.`, a `_tool` at the end, and last one or two wrong letters.
    """
    names = tuple(dict.fromkeys(offered))
    if name in names:
        return name
    folded: dict[str, set[str]] = {}
    for known in names:
        folded.setdefault(_folded(known), set()).add(known)
    for other, target in aliases.items():
        if target in names:
            folded.setdefault(_folded(other), {target})
    for form in _forms(name):
        found = folded.get(form, set())
        if found:
            return found.copy().pop() if len(found) == 1 else None
    return _nearest(_forms(name), folded)


def without_surrogates(text: str) -> str:
    """`text` with halves of surrogate pairs joined where they meet and replaced where they stand alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _strict(text: str) -> Any:
    """The value of `text` if it is JSON that can stand as it is, else None."""
    flaws: list[object] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            flaws.append("duplicate keys")
        return found

    try:
        value = json.loads(text, parse_constant=flaws.append, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    return None if flaws or _too_deep(text, value) or _has_half_pair(text, value) else value


def _has_half_pair(text: str, value: Any) -> bool:
    """Whether a text in `value` cannot be encoded."""
    if text.isascii() and "\\ud" not in text and "\\uD" not in text:
        return False
    plain = json.dumps(value, ensure_ascii=False)
    return plain != without_surrogates(plain)


def _too_deep(text: str, value: Any) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    level, depth = [value], 0
    while level := [
        item
        for part in level
        if isinstance(part, (dict, list))
        for item in (part.values() if isinstance(part, dict) else part)
    ]:
        depth += 1
    return depth > MAX_DEPTH


def _mended(text: str, notes: tuple[str, ...], wrappings: int) -> tuple[str | None, str]:
    if fence := _FENCE.match(text):
        notes, text = (*notes, "a code fence"), text[fence.end() :].rstrip("` \t\r\n")
    reader = LenientReader(text)
    try:
        value, end = reader.read()
        value, rest = _chosen(reader, value, end)
    except LenientError as error:
        return None, f"The arguments are no valid JSON: {error}. Send one JSON object."
    notes = (*notes, *reader.notes, *(("text after the object",) if rest else ()))
    if isinstance(value, str) and wrappings and not reader.truncated:
        inner = value.strip(_EDGE)
        if inner in _BLANK:
            return "{}", "no arguments"
        if inner.startswith(("{", "`", '"')):
            return _mended(inner, (*notes, "JSON inside a text"), wrappings - 1)
    if not isinstance(value, dict):
        return None, f"The arguments must be one JSON object, not {_kind(value)}."
    mended = without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return mended, TRUNCATED if reader.truncated else ", ".join(notes) or "characters of no meaning"


def _chosen(reader: LenientReader, value: Any, end: int) -> tuple[Any, str]:
    """The value that counts and what follows it. Raises `LenientError` when that leaves a doubt.

    Some servers send `{}` before the arguments, or the arguments twice.
    """
    rest = reader.text[end:].strip(_EDGE)
    if rest.startswith("{") and isinstance(value, dict):
        second, end = reader.read(end)
        rest = reader.text[end:].strip(_EDGE)
        if rest.startswith("{") or (value and value != second):
            raise LenientError("a second object follows", end)
        value = second
    # A bare quote inside a text can look like its end: `{"command": "echo "}" > a"}`.
    if rest.startswith(('"', "'")) or ('"' in rest and rest.endswith(("}", "]"))):
        raise LenientError("a quote inside a text is not escaped, or text follows the object", end)
    return value, rest


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _forms(name: str) -> tuple[str, ...]:
    """Readings of a name, likeliest first: whole, without its prefixes, without `_tool`."""
    bare = name.split("<|", 1)[0].strip(" \t\r\n`'\"()")
    last = re.split(r"::|[.:/]", re.sub(r":\d+$", "", bare))[-1]
    folded = [_folded(bare), _folded(last)]
    folded += [form.removesuffix("tool") for form in folded]
    return tuple(form for form in dict.fromkeys(folded) if form)


def _nearest(forms: tuple[str, ...], folded: Mapping[str, set[str]]) -> str | None:
    """The only tool within one wrong letter (two in longer names) of a form."""
    best: dict[str, int] = {}
    for form in forms:
        reach = 0 if len(form) < 5 or len(form) > _LONGEST_NAME else 1 if len(form) < 8 else 2
        for known, tools in folded.items():
            distance = _distance(form, known, reach)
            if distance <= reach:
                for tool in tools:
                    best[tool] = min(best.get(tool, distance), distance)
    if not best:
        return None
    least = min(best.values())
    nearest = [tool for tool, distance in best.items() if distance == least]
    return nearest[0] if len(nearest) == 1 else None


def _distance(one: str, other: str, reach: int) -> int:
    """Letters to insert, delete or change to get from `one` to `other`; anything above `reach` if further."""
    if abs(len(one) - len(other)) > reach:
        return reach + 1
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]
