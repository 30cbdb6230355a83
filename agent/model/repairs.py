"""Repairs of requests that a provider refused for their form: the candidates for a refusal, in order.

A refusal is recognised by the rules of the dialect (`refusals`), and each repair is a change to the dialect,
which affects messages, tools and fields when requests are built.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent.model.calls.call_ids import FORMS, is_form
from agent.model.dialect import Dialect, RefusalRule, RepairName
from agent.model.tool_schemas import is_plain
from tools.kit.lazy_pattern import lazy_pattern

log = logging.getLogger(__name__)

FORM_STATUSES = (400, 404, 422, 500, 501, 0)
"""Statuses of refusals about the form of a request; 0 if the answer had already begun."""
SEARCHED = 4_000
"""The number of characters of a refusal that are searched: some repeat the whole request."""
WITHOUT_EFFORT: Mapping[str, Any] = {"limits": {"without": ["reasoning_effort", "reasoning"]}}
"""A change that stops requests for thinking, used if the history lacks required thoughts."""
LEAST_WINDOW = 1_000
"""The smallest number that is taken for the tokens of a context window."""
LEAST_DESCRIPTION = 64
"""The smallest number that is taken for the length of a description."""
IMAGES_OUT: Mapping[str, Any] = {"images": {"taken": False}}

_KEYS = lazy_pattern(
    r"\b(reasoning_content|reasoning_details|thinking_blocks|reasoning_text|thinking_content|"
    r"(?!reasoning_effort)(?:reasoning|thinking|thought)\w*_\w+|\w+_(?:reasoning|thinking|thoughts?))\b"
    r"|[`'\"](reasoning|thinking|thoughts?)[`'\"]",
    re.IGNORECASE,
)
_NUMBER = lazy_pattern(r"\d[\d,_]*")
_UNREAD = lazy_pattern(
    r"mmproj|text[- ]only|\b(?:no|not|n't|without)\b.{0,40}\b(?:vision|multi-?modal|support|accept|process|"
    r"read|allow|handle)|only supported|unsupported content|must be a string|no endpoints|unknown variant"
    r"|only text",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Refusal:
    """A refused request, and the provider's message.

    `status` is 0 if the answer had begun. `words` holds code and type from the message, `body` the request as
    sent, and `images` the SHA-256 of its images in order. `tools` maps each offered tool to the digest of its
    schema.
    """

    status: int
    text: str
    words: str = ""
    model: str = ""
    format: str = "chat"
    body: bytes = b""
    images: Sequence[str] = ()
    tools: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def search_text(self) -> str:
        """The text in which the rules search for their patterns."""
        return " ".join(f"{self.words} {self.text}"[:SEARCHED].split())

    @cached_property
    def body_data(self) -> dict[str, Any]:
        """The body of the refused request as data; empty if it cannot be parsed."""
        try:
            data = json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}


@dataclass(frozen=True)
class Repair:
    """One repair: the name of its kind, and the change to the dialect."""

    rule: RepairName
    change: Mapping[str, Any]
    lasts: bool = True
    """True if it applies to the model, and not only to this conversation."""

    @property
    def key(self) -> str:
        return f"{self.rule} {json.dumps(self.change, sort_keys=True)}"


def names(dialect: Dialect, refusal: Refusal, repair: RepairName) -> bool:
    """Return whether a rule with this repair matches a refusal. Rules with other repairs may match too."""
    return any(_calls_for(rule, refusal) for rule in dialect.refusals if rule.repair == repair)


def is_overflow(dialect: Dialect, refusal: Refusal) -> bool:
    """Return whether a refusal means that the request was larger than the context window."""
    for rule in dialect.refusals:
        if rule.repair in ("compact", "rename_limit") and _calls_for(rule, refusal):
            return rule.repair == "compact"
    return False


def window_in(dialect: Dialect, text: str) -> int | None:
    """Return the window in tokens that a refusal names; None if it names none."""
    text = " ".join(text[:SEARCHED].split())
    if dialect.limits.other_units and re.search(dialect.limits.other_units, text, re.IGNORECASE):
        return None
    for pattern in dialect.limits.window_in_refusal:
        for match in _matches(pattern, text):
            digits = re.sub(r"[,_.]", "", next(filter(None, match.groups()), ""))
            if digits.isdigit() and 1_000 <= int(digits) <= 100_000_000:
                return int(digits)
    return None


def repairs_for(dialect: Dialect, refusal: Refusal) -> Iterator[Repair]:
    """Yield the repairs that may help, the likeliest first. Each of them changes the dialect."""
    for rule in dialect.refusals:
        if not _calls_for(rule, refusal):
            continue
        for change in [rule.change] if rule.change else _MAKERS[rule.repair](dialect, refusal, rule):
            if change and dialect.apply_change(change) != dialect:
                one_image = "without" in change.get("images", {})
                passing = one_image or (change == IMAGES_OUT and not _UNREAD.search(refusal.search_text))
                passing = passing or change is WITHOUT_EFFORT
                yield Repair(rule.repair, change, not passing)


def _calls_for(rule: RefusalRule, refusal: Refusal) -> bool:
    if refusal.status not in (rule.status or FORM_STATUSES):
        return False
    if rule.status == () and refusal.status == 404:
        return False
    if rule.format and rule.format != refusal.format:
        return False
    if not any(_matches(rule.match, refusal.search_text)):
        return False
    return not (rule.unless and any(_matches(rule.unless, refusal.search_text)))


def _matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    try:
        yield from re.finditer(pattern, text, re.IGNORECASE)
    except re.error as error:
        log.warning("an expression of a dialect cannot be read: %s", error)


Maker = Callable[[Dialect, Refusal, RefusalRule], Iterator[Mapping[str, Any]]]


def _merge_roles(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    about_system = re.search(r"\b(?:system|developer)\b", refusal.search_text, re.IGNORECASE)
    if about_system and not re.search("alternat", refusal.search_text, re.IGNORECASE):
        yield {"roles": {"system": False}}
    yield {"roles": {"alternate": True}}


def _close_results(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    yield {"roles": {"close_results": True}}


def _return_thinking(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    if refusal.format == "anthropic":
        # Only signed thoughts are sent back there: missing ones cannot be requested again.
        yield {"thinking": {"return": "never"}}
        return
    if re.search(r"thinking.{0,3} block|Expected .{0,3}thinking", refusal.search_text):
        # Blocks signed for this model are sent; another model's history has none.
        yield WITHOUT_EFFORT
        return
    foreign = "drop" if dialect.thinking.foreign == "drop" else dialect.thinking.foreign
    foreign = "empty" if foreign == "drop" else foreign
    yield {"thinking": {"key": _thinking_key(dialect, refusal), "return": "own", "foreign": foreign}}


def _empty_thinking(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    if refusal.format == "anthropic":
        return
    key = _thinking_key(dialect, refusal)
    blank = re.search(r"empty|blank|at least|length|null|whitespace", refusal.search_text, re.IGNORECASE)
    if not blank:
        yield {"thinking": {"key": key, "return": "always", "foreign": "empty"}}
    yield {"thinking": {"key": key, "return": "own", "foreign": "placeholder"}}
    yield {"thinking": {"key": key, "return": "always", "foreign": "placeholder"}}


def _drop_thinking(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    yield {"thinking": {"key": "", "return": "never", "foreign": "drop"}}


def _thinking_key(dialect: Dialect, refusal: Refusal) -> str:
    """Return the name of the field for thoughts in a refusal, or the usual one if it names none."""
    for match in _KEYS.finditer(refusal.search_text):
        key = match[1] or match[2]
        if not key.lower().endswith(("_mode", "_effort", "_budget", "_tokens", "enable_thinking")):
            return key
    return dialect.thinking.key or "reasoning_content"


def _rewrite_ids(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    if (form := _wanted_form(refusal.search_text)) and is_form(form):
        yield {"calls": {"id": next((name for name, each in FORMS.items() if each == form), form)}}
    yield {"calls": {"id": "nine-alphanumeric"}}


def _wanted_form(said: str) -> str:
    """Return the form of call ids that a refusal describes; empty if it describes none."""
    for match in re.finditer(r"\^(\S{3,80}?)\$", said):
        if is_form(match[1]):
            return match[1]
    bare = re.search(r"pattern:? [`'\"]?(\[[^\]\s]+\](?:[+*]|\{\d+(?:,\d*)?\}))", said)
    if bare is not None and is_form(bare[1]):
        return bare[1]
    if re.search(r"\buuid\b", said, re.IGNORECASE):
        return FORMS["uuid"]
    prefix = re.search(
        r"(?:start|begin|prefix)\w*(?: with)?(?: the prefix)?:? [`'\"]([\w-]{1,16})[`'\"]",
        said,
        re.IGNORECASE,
    )
    most = re.search(
        r"(?:at most|maximum(?: length)?(?: of)?|max(?:imum)? length:?|no (?:more|longer) than|up to|"
        r"longer than|exceeds?(?: the)?(?: maximum)?(?: length)?(?: of)?|<=|must be less than)"
        r"\D{0,12}(\d{1,3})\b",
        said,
        re.IGNORECASE,
    )
    exact = re.search(
        r"(?:length(?: of)?|exactly|must be|have|has)\D{0,8}(\d{1,2})\b(?!\w)"
        r"|\b(\d{1,2})[- ](?:alphanumeric|char|digit|letter)",
        said,
        re.IGNORECASE,
    )
    if (
        re.search(r"numeric (?:id|string|value)|only digits|\bdigits only\b|integer", said)
        and "alpha" not in said
    ):
        characters = "[0-9]"
    elif re.search(r"underscore|hyphen|dash|_-\]|_, ?-", said, re.IGNORECASE):
        characters = "[a-zA-Z0-9_-]"
    else:
        characters = "[a-z0-9]" if re.search(r"lower-?case", said, re.IGNORECASE) else "[a-zA-Z0-9]"
    start = re.escape(prefix[1]) if prefix is not None else ""
    if most is not None and int(most[1]) - len(start) >= 4:
        return f"{start}{characters}{{1,{int(most[1]) - len(start)}}}"
    if exact is not None and (length := int(exact[1] or exact[2]) - len(start)) >= 4:
        return f"{start}{characters}{{{length}}}"
    return f"{start}{characters}{{24}}" if start else ""


def _fill_content(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    empty = re.search(
        r"empty|blank|whitespace|at least|minimum|too short|length|parts?\b",
        refusal.search_text,
        re.IGNORECASE,
    )
    if not empty and dialect.calls.content == "null":
        yield {"calls": {"content": "empty"}}
    yield {"calls": {"content": "filled"}}


def _drop_image(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    """Yield changes that remove images.

    They limit the number or the size of images, then omit the newest one, then all.
    """
    images = [each for each in refusal.images if each not in dialect.images.without]
    if not images:
        return
    said = refusal.search_text
    if not _UNREAD.search(said):
        numbers = [int(each.replace(",", "").replace("_", "")) for each in _NUMBER.findall(said)]
        limits = [each for each in numbers if 0 < each < len(images)]
        many = re.search(
            r"too many images|images? per|number of images"
            r"|(?:at most|maximum|limit|up to|more than|only)\D{0,24}\d+\D{0,12}images?"
            r"|images?\b.{0,40}(?:at most|limit|maximum of|up to)",
            said,
            re.IGNORECASE,
        )
        if many and limits:
            yield {"images": {"count": max(limits)}}
        size = re.search(r"(\d+(?:\.\d+)?) ?(MB|MiB|KB|KiB|megabytes?)\b", said, re.IGNORECASE)
        if size is not None and len(images) > 1:
            unit = 1_000 if size[2].lower().startswith("k") else 1_000_000
            yield {"images": {"bytes": int(float(size[1]) * unit)}}
        yield {"images": {"without": [images[-1]]}}
    yield IMAGES_OUT


def _repair_schema(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    if "description" in refusal.search_text and (most := _most(refusal.search_text)) >= LEAST_DESCRIPTION:
        yield {"tools": {"longest": most}}
        return
    yield {"tools": {"schema": "plain"}}


def _drop_tool(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    """Yield changes that remove the tools that the refusal names, or else those with complex schemas.

    If there are too many tools, the last ones are removed.
    """
    tools = _tool_parameters(refusal.body_data)
    order = list(tools)
    many = re.search(
        r"\b(?:tools|functions)'?:? .{0,20}too (?:long|many)|(?:too many|\d) (?:tools|functions)",
        refusal.search_text,
        re.IGNORECASE,
    )
    if many and 0 < (most := _most(refusal.search_text)) < len(order):
        gone = [f"{name}:{refusal.tools[name]}" for name in order[most:] if name in refusal.tools]
        yield {"tools": {"without": gone}}
    named: list[str] = []
    for match in re.finditer(
        r"(?:tools|function_?declarations|functions)\D{0,3}(\d{1,3})\b", refusal.search_text, re.I
    ):
        if int(match[1]) < len(order) and "maximum" not in refusal.search_text.lower():
            named = [order[int(match[1])]]
    quoted = set(re.findall(r"[`'\"]([\w.-]+)[`'\"]", refusal.search_text))
    quoted |= set(re.findall(r"(?:tool|function)s? ([\w.-]+)", refusal.search_text, re.IGNORECASE))
    named = [name for name in order if name in quoted] or named
    named = named or [name for name, schema in tools.items() if not is_plain(schema)]
    if wanted := [f"{name}:{refusal.tools[name]}" for name in named if name in refusal.tools]:
        yield {"tools": {"without": wanted}}


def _most(said: str) -> int:
    """Return the maximum that a refusal names; 0 if it names none."""
    found = re.search(
        r"(?:maximum|max|at most|limit|up to|no (?:more|longer) than|longer than|more than|exceeds?|<=?)"
        r"[^\d.;]{0,30}(\d{1,5})\b",
        said,
        re.IGNORECASE,
    )
    return int(found[1]) if found else 0


def _tool_parameters(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the tools in a request body by tool name, in order."""
    found: dict[str, Any] = {}
    for each in sent.get("tools") or ():
        inner = each.get("function", each) if isinstance(each, dict) else {}
        if isinstance(name := inner.get("name"), str):
            found[name] = inner.get("parameters") or inner.get("input_schema") or {}
    return found


def _rename_limit(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    """Yield a smaller output limit if the refusal names one, or another field for it, then no limit."""
    said = refusal.search_text
    fields = ("max_tokens", "max_completion_tokens", "max_output_tokens", dialect.limits.output_name)
    name = next((each for each in fields if isinstance(refusal.body_data.get(each), int)), "")
    asked = refusal.body_data.get(name) or 0
    numbers = [int(each.replace(",", "").replace("_", "")) for each in _NUMBER.findall(said)]
    smaller = [each for each in numbers if 16 <= each < asked]
    if smaller and not rule.format:
        is_window = re.search(r"model_len|context|window", said, re.IGNORECASE)
        window = {"window": max(smaller)} if is_window and max(smaller) >= LEAST_WINDOW else {}
        yield {"limits": {"output_max": max(smaller), **window}}
    if refusal.format != "chat" or not (rule.format or not smaller) or not name:
        return
    advised = re.search(r"(?:use|instead of|to|supports?) [`'\"]?(\w*max\w*tokens\w*)", said, re.IGNORECASE)
    if advised is not None and advised[1] != name:
        yield {"limits": {"output_name": advised[1]}}
    if name == "max_tokens" and dialect.limits.output_name != "max_completion_tokens":
        yield {"limits": {"output_name": "max_completion_tokens"}}
    if name == "max_completion_tokens" and advised is None:
        yield {"limits": {"output_name": "max_tokens"}}
    yield {"limits": {"output_name": "-"}}


def _drop_field(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    name = rule.field
    if name == "way":
        ways = [each for each in dialect.thinks(refusal.model).ways if not dialect.lacks(each)]
        name = ways[0] if ways else ""
    elif name == "lowest":
        wanted = next((each for each in ("none", "minimal", "low") if f"'{each}'" in refusal.search_text), "")
        name = f"effort {wanted}" if wanted else ""
    if name:
        yield {"limits": {"without": [name]}}
        return
    if rule.field:
        return
    kept = {"model", "messages", "input", "stream", "tools", "system", "instructions", "max_tokens"}
    for each in refusal.body_data:
        if each not in kept and re.search(rf"(?<!\w){re.escape(each)}(?!\w)", refusal.search_text):
            yield {"limits": {"without": [each]}}


def _compact(dialect: Dialect, refusal: Refusal, rule: RefusalRule) -> Iterator[Mapping[str, Any]]:
    """Yield nothing: an overflow is solved by compacting the conversation, not by another form."""
    yield from ()


_MAKERS: Mapping[RepairName, Maker] = {
    "merge_roles": _merge_roles,
    "close_results": _close_results,
    "return_thinking": _return_thinking,
    "empty_thinking": _empty_thinking,
    "drop_thinking": _drop_thinking,
    "rewrite_ids": _rewrite_ids,
    "fill_content": _fill_content,
    "drop_image": _drop_image,
    "repair_schema": _repair_schema,
    "drop_tool": _drop_tool,
    "rename_limit": _rename_limit,
    "drop_field": _drop_field,
    "compact": _compact,
}
