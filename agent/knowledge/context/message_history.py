"""Messages that a provider accepts, made from stored nodes, even if a turn was interrupted.

Pure: the same path of nodes always gives the same messages, so a resumed session sends the same bytes again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.core.attachments import attachments_of
from agent.core.messages import Image, Message, Sealed, SealedPart, ToolCall
from agent.core.store.nodes import Node
from agent.core.store.stored_path import labelled, position_of, with_ids
from tools.context import SeenFile
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import shorten

ORIGINS = frozenset({"prompt", "queue", "steer"})
"""Origins of the user's messages; other origins are the engine's."""

PASTE = 600
"""The length in characters from which a paragraph or code block counts as pasted."""
LONG = 1_200
"""The length in characters from which a message counts as long."""
EXCERPT = 200
"""The number of characters kept from the beginning of a dropped text."""

BEGINNING = 60
"""The number of characters kept from the beginning of a long line."""
MARK = "characters left out here; recall_folded shows them"

_FENCE = lazy_pattern(r"^(```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """One message of the user, whole or shortened, as a fold contains it."""

    node: int
    text: str
    shortened: bool = False


def is_user_message(node: Node) -> bool:
    """Return whether a node is a message written by the user."""
    return node.kind == "user" and node.data.get("origin", "prompt") in ORIGINS


def shortened_messages(
    nodes: Sequence[Node], room: int, shortened: Mapping[int, str] | None = None
) -> list[UserMessage]:
    """Return the user's messages among `nodes`, oldest first, in at most `room` characters if possible.

    `shortened` are texts that already replace some messages, by node id. Even without any room the beginning
    of each message and a marker remain. Pure.
    """
    before = shortened or {}
    words = [
        UserMessage(node.id, before.get(node.id, node.content), node.id in before)
        for node in nodes
        if is_user_message(node)
    ]
    over = sum(len(each.text) for each in words) - room
    steps: tuple[tuple[Callable[[str], bool], Callable[[UserMessage], str]], ...] = (
        (_has_paste, _without_pastes),
        (_has_long_line, _without_long_lines),
        (lambda text: len(text) > LONG, _beginning),
        (lambda text: len(text) > 2 * EXCERPT, _beginning),
    )
    for applies, shortened_text in steps:
        for at, each in enumerate(words):
            if over <= 0:
                return words
            if applies(each.text):
                text = shortened_text(each)
                if len(text) < len(each.text):
                    over -= len(each.text) - len(text)
                    words[at] = UserMessage(each.node, text, shortened=True)
    return words


def mark(characters: int, node: int) -> str:
    """Return the marker for a number of omitted `characters` of the message with the node id `node`."""
    return f"[{characters:,} {MARK}: id {node}]"


def _blocks(text: str) -> list[str]:
    """Split a text into code blocks and the paragraphs between them. Joined they give the same text."""
    blocks: list[str] = []
    current: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        opening = _FENCE.match(line.lstrip())
        if opening and not fence:
            if current:
                blocks.append("".join(current))
            current, fence = [line], opening[1]
            continue
        current.append(line)
        closes = fence and line.strip() == fence
        if closes or (not fence and not line.strip()):
            blocks.append("".join(current))
            current, fence = [], ""
    if current:
        blocks.append("".join(current))
    return blocks


def _has_paste(text: str) -> bool:
    return len(text) > PASTE and any(len(block) > PASTE for block in _blocks(text))


def _without_pastes(words: UserMessage) -> str:
    """Return the message with pasted blocks cut to their beginning and a marker; neighbours share one."""
    kept: list[str] = []
    gone = 0
    for block in _blocks(words.text):
        if len(block) > PASTE:
            if not gone:
                kept.append(_start(block))
            gone += len(block)
            continue
        if gone:
            kept.append(f"{mark(gone, words.node)}\n")
            gone = 0
        kept.append(block)
    if gone:
        kept.append(mark(gone, words.node))
    return "".join(kept)


def _start(block: str) -> str:
    """Return the beginning of a pasted block, so that it can be recognised."""
    start = block[:EXCERPT]
    return f"{start[: start.rfind(' ') + 1] if ' ' in start[EXCERPT // 2 :] else start}… "


def _has_long_line(text: str) -> bool:
    return any(len(line) > EXCERPT for line in text.split("\n"))


def _without_long_lines(words: UserMessage) -> str:
    """Return the message with long lines cut to their beginnings, and at the end a marker if any were."""
    lines = words.text.split("\n")
    shown = [line if len(line) <= EXCERPT or MARK in line else f"{line[:BEGINNING]}…" for line in lines]
    gone = len(words.text) - len("\n".join(shown))
    return "\n".join([*shown, mark(gone, words.node)]) if gone else words.text


def _beginning(words: UserMessage) -> str:
    """Return the beginning of a message, and a marker for the rest."""
    start = words.text[:EXCERPT]
    return f"{start}… {mark(len(words.text) - len(start), words.node)}"


SHOWN = "shown"
"""The key under which a result's node lists the file lines in it."""

WHY = 80
"""The maximum number of characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLines:
    """The lines of a file that one result contains."""

    path: str
    digest: str
    """SHA-256 of the whole file, in hex."""
    first: int
    last: int
    limit: int
    """The requested number of lines, which may be more than exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """One file as it was last read."""

    path: str
    digest: str
    ranges: tuple[tuple[int, int], ...]
    """First and last line of each part, in order."""
    why: str
    node: int
    """The id of the node whose result shows it."""
    reads: int = 1
    """How often its unchanged content was read."""


def lines_shown(seen: Mapping[Path, SeenFile], count: int) -> list[dict[str, Any]]:
    """Return the record of the lines in a result of `count` lines, for its node."""
    return [
        {
            "path": str(path),
            "sha256": each.digest,
            "first": each.offset,
            "last": each.offset + max(count, 1) - 1,
            "limit": each.limit,
        }
        for path, each in seen.items()
        if each.offset and not each.repeats
    ]


def shown_in(node: Node) -> tuple[FileLines, ...]:
    """Return the lines of files that a result contains; empty if they were not recorded or cannot be read."""
    kept = node.data.get(SHOWN)
    if node.kind != "tool" or not isinstance(kept, list):
        return ()
    try:
        return tuple(
            FileLines(
                path=str(each["path"]),
                digest=str(each["sha256"]),
                first=int(each["first"]),
                last=int(each["last"]),
                limit=int(each["limit"]),
            )
            for each in kept
        )
    except (KeyError, TypeError, ValueError):
        return ()


def read_files(path: Sequence[Node], known: Iterable[ReadFile] = ()) -> list[ReadFile]:
    """Return the files that were read, the latest last. Pure.

    `known` are the files of an earlier compaction, with reasons that the nodes no longer contain.
    """
    reasons = {each.path: each.why for each in known}
    found: dict[str, ReadFile] = {}
    why = asked = ""
    for node in path:
        if is_user_message(node):
            asked = _line(node.content)
        elif node.kind == "assistant" and node.data.get("calls"):
            why = _line(node.content) or asked or why
        for lines in shown_in(node):
            before = found.pop(lines.path, None)
            reason = why or reasons.get(lines.path, "")
            found[lines.path] = _with(before, lines, reason, node.id)
    return list(found.values())


def _with(before: ReadFile | None, lines: FileLines, why: str, node: int) -> ReadFile:
    here = (lines.first, lines.last)
    if before is None or before.digest != lines.digest:
        return ReadFile(path=lines.path, digest=lines.digest, ranges=(here,), why=why, node=node)
    again = here in before.ranges
    ranges = before.ranges if again else tuple(sorted((*before.ranges, here)))
    return replace(
        before, ranges=ranges, node=node, reads=before.reads + again, why=before.why if again else why
    )


def recorded_files(files: Iterable[ReadFile]) -> list[dict[str, Any]]:
    """Return the files as data for JSON; `files_of` reads it."""
    return [
        {
            "path": each.path,
            "sha256": each.digest,
            "ranges": [list(lines) for lines in each.ranges],
            "why": each.why,
            "node": each.node,
            "reads": each.reads,
        }
        for each in files
    ]


def files_of(data: Mapping[str, Any]) -> tuple[ReadFile, ...]:
    """Return the files in a compaction's data; empty if they cannot be read."""
    try:
        return tuple(
            ReadFile(
                path=str(each["path"]),
                digest=str(each["sha256"]),
                ranges=tuple((int(first), int(last)) for first, last in each["ranges"]),
                why=str(each["why"]),
                node=int(each["node"]),
                reads=int(each["reads"]),
            )
            for each in data.get("files", ())
        )
    except (KeyError, TypeError, ValueError):
        return ()


def ledger_line(file: ReadFile) -> str:
    """Return the line about one file that the model reads."""
    parts = ", ".join(f"{first}–{last}" for first, last in file.ranges)
    why = f": {file.why}" if file.why else ""
    return f"- {file.path} (lines {parts}; sha256 {file.digest[:12]}; id {file.node}){why}"


def _line(text: str) -> str:
    line = next((line for line in clean(text).splitlines() if line.strip()), "")
    line = " ".join(line.split())
    return shorten(line, WHY)


STAGE = "fold"

MAX_LEDGER = 2_400
"""The maximum length of the list of files that the model reads, in characters (about 600 tokens)."""

HEAD = (
    "[To make room, the conversation up to here was folded. This is what is kept of it. Only what stands "
    "between <user> marks was written by the user, word for word, and it holds; where the summary says "
    "otherwise, the user's words count. Any message is shown in full by recall_folded with its id.]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFold:
    """The content kept of the nodes before `start`: the summary, the user's messages and the files read."""

    start: int
    """The id of the first node that is still sent whole."""
    summary: str = ""
    """The summary by a model; empty if none gave a usable one."""
    outline: str = ""
    """The events, one a line, found without a model; used if there is no summary."""
    decisions: tuple[str, ...] = ()
    """The decisions, word for word."""
    shortened: Mapping[int, str] = field(default_factory=dict)
    """The shortened texts of user messages that are not kept in full, by node id."""
    files: tuple[ReadFile, ...] = ()
    pinned: tuple[int, ...] = ()
    """The node ids of results kept in full because their files did not change since."""
    words: bool = True
    """Whether the user's messages are kept along with the summary."""
    focus: str = ""
    """The user's wish as to what the summary should dwell on."""
    automatic: bool = True
    before: int = 0
    after: int = 0
    """The estimated tokens of the request before and after the fold."""

    def data(self) -> dict[str, Any]:
        """Return the data for the compaction node; `fold_of` reads it."""
        return {
            "stage": STAGE,
            "from": self.start,
            "summary": self.summary,
            "outline": self.outline,
            "decisions": list(self.decisions),
            "shortened": {str(node): text for node, text in self.shortened.items()},
            "files": recorded_files(self.files),
            "pinned": list(self.pinned),
            "words": self.words,
            "focus": self.focus,
            "automatic": self.automatic,
            "before": self.before,
            "after": self.after,
        }


def fold_of(node: Node) -> ContextFold | None:
    """Return the fold stored in a node; None if there is none or it cannot be read."""
    data = node.data
    if node.kind != "compaction" or data.get("stage") != STAGE:
        return None
    try:
        return ContextFold(
            start=int(data["from"]),
            summary=str(data.get("summary", "")),
            outline=str(data.get("outline", "")),
            decisions=tuple(map(str, data.get("decisions", ()))),
            shortened={int(number): str(text) for number, text in data.get("shortened", {}).items()},
            files=files_of(data),
            pinned=tuple(map(int, data.get("pinned", ()))),
            words=bool(data.get("words", True)),
            focus=str(data.get("focus", "")),
            automatic=bool(data.get("automatic", True)),
            before=int(data.get("before", 0)),
            after=int(data.get("after", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def newest_fold(path: Sequence[Node]) -> tuple[Node, ContextFold] | None:
    """Return the newest compaction that holds a fold, and the fold; None if there is none."""
    for node in reversed(labelled(path, "compaction")):
        if (fold := fold_of(node)) is not None:
            return node, fold
    return None


def words_of(fold: ContextFold, path: Sequence[Node]) -> list[UserMessage]:
    """Return the user's messages before the fold, in the form in which the fold contains them."""
    return [
        UserMessage(node.id, fold.shortened.get(node.id, _with_images(node)), node.id in fold.shortened)
        for node in (labelled(path, "user") if fold.words else ())
        if node.id < fold.start and is_user_message(node)
    ]


def _with_images(node: Node) -> str:
    """Return a message with the names of its images, which are no longer sent."""
    names = [f"[image: {each.name}, sent earlier]" for each in attachments_of(node.data)]
    return "\n".join([node.content, *names])


def fold_text(fold: ContextFold, path: Sequence[Node]) -> str:
    """Return the text that replaces everything before the fold for the model. Pure."""
    parts = [HEAD]
    if fold.summary:
        parts.append(f"# Summary, written by a model\n{fold.summary}")
    if fold.outline:
        parts.append(f"# What happened\n{fold.outline}")
    if fold.decisions:
        parts.append("# Decisions\n" + "\n".join(f"- {each}" for each in fold.decisions))
    if words := words_of(fold, path):
        said = "\n".join(f'<user id="{each.node}">\n{each.text}\n</user>' for each in words)
        parts.append(f"# What the user wrote\n{said}")
    if ledger := _ledger(fold.files):
        parts.append(
            "# Files that were read\nTheir content was as given here when they were read; read one again "
            f"only for lines you need and do not have.\n{ledger}"
        )
    if pins := [_pinned(node) for node in with_ids(path, fold.pinned)]:
        parts.append("# Lines of files that are as they were read\n" + "\n\n".join(pins))
    return "\n\n".join(parts)


def folded_into(node: Node, path: Sequence[Node]) -> str:
    """Return the text that replaces the nodes that the compaction in `node` folded; empty if it folded none.

    `path` are the nodes before the compaction.
    """
    fold = fold_of(node)
    return fold_text(fold, path) if fold is not None else ""


def _ledger(files: Sequence[ReadFile]) -> str:
    """Return a list of the files, the last read first: in detail while there is room, then only by path."""
    lines: list[str] = []
    used = 0
    rest: list[str] = []
    for file in reversed(files):
        line = ledger_line(file)
        if not rest and used + len(line) <= MAX_LEDGER * 3 // 4:
            lines.append(line)
            used += len(line) + 1
        elif used + len(file.path) <= MAX_LEDGER:
            rest.append(file.path)
            used += len(file.path) + 2
    if rest:
        lines.append(f"- earlier: {', '.join(rest)}")
    return "\n".join(lines)


def _pinned(node: Node) -> str:
    """Return the path and lines of a file in a result, without the rest; the whole result if unreadable."""
    try:
        result = json.loads(node.content)
        return f"{result['path']} (id {node.id})\n{result['content']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return node.content


LOST_RESULT = '{"error": "Interrupted: no result of this call was recorded; its effects may be partial."}'
REFUSED_MESSAGE = "[The provider refused what stood here; it is left out.]"
REFUSED_RESULT = '{"left_out": "The provider refused this result; do not ask for it again."}'
CUT_MARK = "\n[This answer was interrupted here.]"


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """One message, and the id of its node (0 for a message that was added)."""

    node: int
    message: Message


def conversation(path: Sequence[Node]) -> list[MessageHistory]:
    """Return the messages of a path from root to head, without the system prompt.

    Every call has exactly one result, directly after the message with the call and in the order of the calls.
    Results without a call and empty messages are left out, and so is content that a provider refused.
    Compactions on the path are applied.
    """
    masked, refused = masked_nodes(path), refused_nodes(path)
    start = elided_up_to(path)
    turned: list[MessageHistory] = []
    if (folded := newest_fold(path)) is not None:
        turned.append(MessageHistory(folded[0].id, Message("user", fold_text(folded[1], path))))
    elif start:
        before = path[: sent_from(path)]
        count = sum(node.kind in ("user", "assistant", "tool") for node in before)
        turned.append(MessageHistory(0, Message("user", elision_note(count))))
    kept = list(path[sent_from(path) :])
    for index, node in enumerate(kept):
        if node.kind == "user" or (node.kind == "notice" and node.data.get("to_model")):
            said = Message("user", node.content, images=tuple(map(Image, attachments_of(node.data))))
            turned.append(
                MessageHistory(node.id, Message("user", REFUSED_MESSAGE) if node.id in refused else said)
            )
        elif node.kind == "assistant":
            turned.extend(_exchange(node, _results(kept, index + 1), masked, refused))
    return turned


def sent_from(path: Sequence[Node]) -> int:
    """Return the index of the first node that no compaction has removed."""
    return position_of(path, elided_up_to(path))


def elision_note(count: int) -> str:
    """Return the text that replaces `count` messages that do not fit."""
    return f"[{count} earlier messages are left out to make room; session_search finds them.]"


def masked_result(tool: str, characters: int, node: int) -> str:
    """Return the text that replaces a masked tool result."""
    size = f"{characters:,} characters"
    fetched = f"recall_folded shows it: id {node}"
    return json.dumps({"masked": f"Result of {tool} left out to make room ({size}; {fetched})."})


def masked_arguments(arguments: str) -> str:
    """Return a call's arguments with long texts replaced by notes; unchanged if they are not an object."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    short = {
        name: f"[{len(value):,} characters left out]"
        if isinstance(value, str) and len(value) > 200
        else value
        for name, value in parsed.items()
    }
    return json.dumps(short, ensure_ascii=False)


def calls_of(node: Node) -> tuple[ToolCall, ...]:
    """Return the tool calls of an assistant node."""
    return tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in node.data.get("calls", ()))


def sealed_data(sealed: Sealed) -> dict[str, Any]:
    """Return the parts that only the provider can read, as stored in an assistant node for `sealed_of`."""
    parts = [{"data": part.data, "text": part.text, "calls": part.calls} for part in sealed.parts]
    return {"format": sealed.format, "prefix": sealed.prefix, "parts": parts}


def sealed_of(node: Node) -> Sealed | None:
    """Return the parts of a node that only its provider can read; None if missing or incomplete."""
    kept = node.data.get("sealed")
    if not isinstance(kept, Mapping):
        return None
    try:
        parts = tuple(
            SealedPart(str(part["data"]), int(part["text"]), int(part["calls"])) for part in kept["parts"]
        )
        return Sealed(str(kept["format"]), str(kept["prefix"]), parts)
    except (KeyError, TypeError, ValueError):
        return None


def _exchange(
    node: Node, results: Mapping[str, Node], masked: frozenset[int], refused: frozenset[int]
) -> list[MessageHistory]:
    """Return the messages for an assistant node: its own message, and the results of its calls."""
    text = node.content
    if node.data.get("state") == "interrupted" and text:
        text += CUT_MARK
    calls = calls_of(node)
    if not text and not calls and node.data.get("finish") != "pause":
        return []
    shown = calls
    if node.id in masked:
        shown = tuple(replace(call, arguments=masked_arguments(call.arguments)) for call in calls)
    said = Message(
        "assistant",
        text,
        shown,
        reasoning=node.data.get("reasoning", ""),
        model=str(node.data.get("model", "")),
        sealed=sealed_of(node),
    )
    turned = [MessageHistory(node.id, said)]
    for call in calls:
        result = results.get(call.id)
        if result is None:
            turned.append(MessageHistory(0, Message("tool", LOST_RESULT, call_id=call.id, name=call.name)))
        else:
            content = result.content
            if result.id in masked:
                content = masked_result(call.name, len(result.content), result.id)
            if result.id in refused:
                content = REFUSED_RESULT
            turned.append(
                MessageHistory(result.id, Message("tool", content, call_id=call.id, name=call.name))
            )
    return turned


def _results(nodes: Sequence[Node], start: int) -> dict[str, Node]:
    """Return the tool nodes from index `start` to the next assistant message, by call id."""
    results: dict[str, Node] = {}
    for index in range(start, len(nodes)):
        node = nodes[index]
        if node.kind == "assistant":
            break
        if node.kind == "tool":
            results.setdefault(str(node.data.get("call", "")), node)
    return results


def masked_nodes(path: Sequence[Node]) -> frozenset[int]:
    """Return the ids of the nodes whose results or calls are sent shortened."""
    masks = (node.data for node in labelled(path, "compaction") if node.data.get("stage") == "mask")
    return frozenset(number for data in masks for number in data.get("nodes", ()))


def refused_nodes(path: Sequence[Node]) -> frozenset[int]:
    """Return the node ids of the messages and results that a provider refused because of their content."""
    notes = (node.data for node in labelled(path, "notice") if node.data.get("kind") == "failure")
    return frozenset(number for data in notes for number in data.get("refused", ()))


def elided_up_to(path: Sequence[Node]) -> int:
    """Return the id of the first node that no compaction has removed; 0 if none is removed."""
    cuts = [
        node.data.get("from", 0)
        for node in labelled(path, "compaction")
        if node.data.get("stage") in ("elide", "fold")
    ]
    return max(cuts, default=0)
