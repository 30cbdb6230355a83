"""The conversion of session events into updates for an editor."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from acp import schema

from agent.core.attachments import AttachmentStore
from agent.core.messages import Attachment
from agent.errors import ConfigError
from agent.events import (
    AssistantMessageAdded,
    Event,
    ReasoningAdded,
    ReplyCut,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    UsageChanged,
)
from tools.context import Todo
from tools.kit.private_folders import PrivateFolder
from tools.results import DiffDetail, Display, Outcome, TextDetail
from tools.text.safe_text import clean
from tools.text.words import brief, one_line

LIVE = 8_000
"""The number of characters at the end of a running call's output that are shown."""
_TOLD = ("warning", "recovery", "compaction")
"""The kinds of notices that are sent to the editor."""


class EditorCallIds:
    """The ids of calls for an editor, unique in a session. Some model servers number calls from the start in
    each answer.
    """

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._used: dict[str, int] = {}

    def begin(self, call: str) -> str:
        """Return a new unique id for a call that begins; `call` is its id from the model."""
        number = self._used[call] = self._used.get(call, 0) + 1
        while number > 1 and f"{call}#{number}" in self._used:
            number = self._used[call] = number + 1
        id = self._now[call] = call if number == 1 else f"{call}#{number}"
        self._used.setdefault(id, 1)
        return id

    def of(self, call: str) -> str:
        """Return the id of the newest call whose id from the model is `call`."""
        return self._now.get(call, call)


class EventUpdates:
    """Converts the events of one session into updates.

    Texts and calls of subagents are left out; their results are sent.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.ids = EditorCallIds()
        self._streamed = False
        """True if pieces of the current message have been sent."""
        self._printed: dict[str, str] = {}
        self.shown: dict[str, list[Any]] = {}
        """The content shown in the calls of this turn, by their ids."""
        self.running: dict[str, ToolStarted] = {}
        """The running calls, by their ids."""
        self.terminals: dict[str, str] = {}
        """The ids of editor terminals that show the output of calls, by the calls' ids."""

    def of(self, event: Event) -> list[Any]:
        """Return the updates for an event; empty for an event that the editor is not sent."""
        if event.agent != "main":
            return []
        match event:
            case TextAdded():
                self._streamed = True
                return [agent_words(event.text)]
            case ReasoningAdded():
                return [agent_thought(event.text)]
            case AssistantMessageAdded():
                whole = [] if self._streamed or not event.text else [agent_words(event.text)]
                self._streamed = False
                return whole
            case ReplyCut():
                self._streamed = False
                return [agent_thought("\nThe answer was cut off.\n")]
            case ToolStarted():
                return self._start_call(event)
            case ToolProgressed():
                return self._progress_call(event)
            case ToolFinished():
                return self._finish_call(event)
            case TodosChanged():
                return [plan(event.items)]
            case UsageChanged():
                return _usage(event)
            case TurnEnded():
                self._streamed = False
                self.shown.clear()
                self._printed.clear()
                self.running.clear()
                self.terminals.clear()
                return []
            case _:
                notice = event.notice()
                return (
                    [agent_thought(f"\n{notice[1]}\n")] if notice is not None and notice[0] in _TOLD else []
                )

    def _start_call(self, event: ToolStarted) -> list[Any]:
        if event.parent:
            return []
        id = self.ids.begin(event.call)
        self.running[id] = event
        return [call_start(id, event.tool, event.display, event.arguments, self._workspace)]

    def _progress_call(self, event: ToolProgressed) -> list[Any]:
        id = self.ids.of(event.call)
        started = self.running.get(id)
        if started is None or id in self.terminals:
            return []
        # A command's update holds the newest lines; that of other calls only new text.
        before = "" if started.tool == "terminal" else self._printed.get(id, "")
        printed = f"{before}{event.text}"[-LIVE:]
        self._printed[id] = printed
        return [call_progress(id, printed)]

    def _finish_call(self, event: ToolFinished) -> list[Any]:
        if event.parent:
            return []
        begun: list[Any] = []
        if (id := self.ids.of(event.call)) not in self.running:
            # It never began, and its id may be that of an earlier call.
            id = self.ids.begin(event.call)
            begun = [call_start(id, event.tool, event.display, {}, self._workspace)]
        self.running.pop(id, None)
        self._printed.pop(id, None)
        terminal = self.terminals.get(id)
        said_of_it = contents(event.display, event.result)
        # A command that failed to run at all printed nothing in its terminal.
        if terminal is not None and event.outcome == "done":
            said_of_it = [terminal_content(terminal)]
        shown = [*said_of_it, *self.shown.get(id, ())]
        self.shown[id] = shown
        return [*begun, call_end(id, event.display, event.outcome, shown)]

    def show_terminal(self, call: str, terminal: str) -> list[Any]:
        """Return the updates that show an editor terminal in a running call; empty if it has ended."""
        if call not in self.running:
            return []
        self.terminals[call] = terminal
        return [
            schema.ToolCallProgress(
                session_update="tool_call_update", tool_call_id=call, content=[terminal_content(terminal)]
            )
        ]

    def show_changes(self, call: str, diffs: Sequence[Any]) -> list[Any]:
        """Record the diffs of a call's file changes; return the updates that show them, if it has ended."""
        # Diffs replace the call's text, but not its terminal.
        kept = [terminal_content(self.terminals[call])] if call in self.terminals else []
        shown = [*kept, *diffs]
        self.shown[call] = list(diffs)
        if call in self.running:
            return []
        return [schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call, content=shown)]


def agent_words(text: str) -> schema.AgentMessageChunk:
    """Return an update that adds text to the agent's message."""
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_text(text))


def agent_thought(text: str) -> schema.AgentThoughtChunk:
    """Return an update that shows text as reasoning; notices are sent as reasoning, too."""
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text))


def user_words(text: str) -> schema.UserMessageChunk:
    """Return an update with a message of the user, for a conversation that is replayed."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_text(text))


def plan(items: Sequence[Todo]) -> schema.AgentPlanUpdate:
    """Return an update with the task list, without cancelled tasks."""
    return schema.AgentPlanUpdate(
        session_update="plan",
        entries=[
            schema.PlanEntry(content=clean(each.content), priority="medium", status=each.status)
            for each in items
            if each.status != "cancelled"
        ],
    )


def _usage(event: UsageChanged) -> list[Any]:
    if event.context_window is None:
        return []
    cost = event.session_cost
    return [
        schema.UsageUpdate(
            session_update="usage_update",
            used=max(event.context_used, 0),
            size=event.context_window,
            cost=None if cost is None else schema.Cost(amount=cost, currency="USD"),
        )
    ]


def _text(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=clean(text))


ToolKind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]

MOST_TEXT = 60_000
"""The number of characters of a call's text that are sent to an editor."""
LONGEST_TITLE = 200
DEEPEST = 20
"""The number of nested levels of arguments that are sent."""
KINDS: Mapping[str, ToolKind] = {
    "read_file": "read",
    "write_file": "edit",
    "patch": "edit",
    "search": "search",
    "session_search": "search",
    "search_learnings": "search",
    "terminal": "execute",
    "process": "execute",
    "execute_code": "execute",
    "todo_write": "think",
    "todo_read": "think",
}
_PATHS = ("path", "file", "file_path")


def kind_of(tool: str) -> ToolKind:
    """Return the protocol's kind of tool for a tool's name."""
    return "fetch" if tool.startswith("web_") else KINDS.get(tool, "other")


def title_of(display: Display) -> str:
    """Return the title of a call, on one line."""
    return brief(f"{display.verb} {display.subject}", LONGEST_TITLE)


def locations(arguments: Mapping[str, Any], workspace: Path) -> list[schema.ToolCallLocation]:
    """Return the absolute paths of the files that a call's arguments name."""
    found = (arguments.get(name) for name in _PATHS)
    return [
        schema.ToolCallLocation(path=str(workspace / clean(each)))
        for each in found
        if isinstance(each, str) and each
    ]


def text(words: str) -> schema.ContentToolCallContent:
    """Return text as content of a call. Of a long text only the end is kept, as it holds the results."""
    shown = clean(words)
    if len(shown) > MOST_TEXT:
        shown = f"… {len(shown) - MOST_TEXT:,} characters before\n{shown[-MOST_TEXT:]}"
    return schema.ContentToolCallContent(
        type="content", content=schema.TextContentBlock(type="text", text=shown)
    )


def output(words: str) -> schema.ContentToolCallContent:
    """Return a command's output as content of a call, without formatting."""
    return text(_fence(words))


def terminal_content(id: str) -> schema.TerminalToolCallContent:
    """Return content that refers to an editor terminal."""
    return schema.TerminalToolCallContent(type="terminal", terminal_id=id)


def _fence(words: str, language: str = "") -> str:
    fence = "```"
    while fence in words:
        fence += "`"
    return f"{fence}{language}\n{words.rstrip()}\n{fence}"


def contents(display: Display, result: str) -> list[Any]:
    """Return the content that the editor shows of a finished call, without its file changes."""
    match display.detail:
        case TextDetail(text=words, language=language) if words.strip():
            return [text(_fence(words, language))]
        case DiffDetail(diff=diff) if diff.strip():
            return [text(_fence(diff, "diff"))]
        case _:
            said = _error(result) or display.summary
            return [text(said)] if said.strip() else []


def _error(result: str) -> str:
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("error") or "") if isinstance(found, dict) else ""


def status_of(outcome: Outcome) -> Literal["completed", "failed"]:
    """Return the protocol's status for the outcome of a call."""
    return "completed" if outcome == "done" else "failed"


def diff(path: str, before: str | None, after: str) -> schema.FileEditToolCallContent:
    """Return a file's change as content of a call; `before` is None for a new file."""
    return schema.FileEditToolCallContent(type="diff", path=path, old_text=before, new_text=after)


def portable(value: Any, depth: int = 0) -> Any:
    """Return arguments as strict JSON data: no lone surrogates, NaN, infinity, or levels beyond `DEEPEST`."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case float() if not math.isfinite(value):
            return str(value)
        case dict() | list() if depth >= DEEPEST:
            return "…"
        case dict():
            return {portable(str(name)): portable(each, depth + 1) for name, each in value.items()}
        case list() | tuple():
            return [portable(each, depth + 1) for each in value]
        case None | bool() | int() | float():
            return value
        case _:
            return portable(str(value))


def call_start(
    call: str, tool: str, display: Display, arguments: Mapping[str, Any], workspace: Path
) -> schema.ToolCallStart:
    """Return an update that shows the start of a call."""
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=call,
        title=title_of(display),
        kind=kind_of(tool),
        status="in_progress",
        locations=locations(arguments, workspace),
        raw_input=portable(dict(arguments)),
    )


def call_progress(call: str, words: str) -> schema.ToolCallProgress:
    """Return an update with a running call's output so far."""
    return schema.ToolCallProgress(
        session_update="tool_call_update", tool_call_id=call, content=[output(words)]
    )


def call_end(call: str, display: Display, outcome: Outcome, shown: Sequence[Any]) -> schema.ToolCallProgress:
    """Return an update that shows a call as ended, with `shown` as its content."""
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call,
        title=title_of(display),
        status=status_of(outcome),
        content=list(shown),
    )


MOST_CONTEXT = 400_000
"""The number of characters of embedded files that are sent with one message."""
_FENCES = re.compile(r"`{3,}")
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


@dataclass(frozen=True, slots=True)
class EditorMessage:
    """A message typed in the editor."""

    text: str
    images: tuple[tuple[str, bytes], ...] = ()
    """The name and bytes of each image."""


def read(blocks: Sequence[Any]) -> EditorMessage:
    """Combine the content blocks of a message. Raises `ConfigError` for a block that cannot be used. Pure."""
    said: list[str] = []
    embedded: list[str] = []
    images: list[tuple[str, bytes]] = []
    room = MOST_CONTEXT
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                said.append(block.text)
            case schema.ImageContentBlock():
                images.append((_image_name(block), _decode_image(block.data)))
            case schema.ResourceContentBlock():
                said.append(_link(block.uri, block.title or block.name))
            case schema.EmbeddedResourceContentBlock():
                resource = block.resource
                said.append(_link(resource.uri, ""))
                if isinstance(resource, schema.TextResourceContents):
                    text = resource.text
                    room -= len(text)
                    if room < 0:
                        raise ConfigError(
                            f"The files in this message have more than {MOST_CONTEXT:,} characters; name "
                            "them instead, and the agent reads what it needs."
                        )
                    embedded.append(_fence_text(resource.uri, text))
                elif (resource.mime_type or "") in _ENDINGS:
                    images.append((_name_of(resource.uri), _decode_image(resource.blob)))
                else:
                    embedded.append(f"`{_name_of(resource.uri)}` holds bytes that are not text.")
            case _:
                raise ConfigError("Hermes takes text, images and files; sound was not announced.")
    text = "".join(said)
    if embedded:
        text = "\n\n".join([text, *embedded])
    return EditorMessage(text, tuple(images))


def store_images(store: AttachmentStore, images: Sequence[tuple[str, bytes]]) -> tuple[Attachment, ...]:
    """Store images and return them as attachments. Blocking; raises `AttachmentError` for an invalid one."""
    found: list[Attachment] = []
    with PrivateFolder("acp") as folder:
        for number, (name, data) in enumerate(images):
            path = folder / str(number) / Path(name).name
            path.parent.mkdir()
            path.write_bytes(data)
            found.append(store.take(path))
    return tuple(found)


def _decode_image(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("An image of the message is not encoded as base64.") from None


def _image_name(block: schema.ImageContentBlock) -> str:
    if block.uri:
        return _name_of(block.uri)
    return f"image{_ENDINGS.get(block.mime_type, '')}"


def _name_of(uri: str) -> str:
    path = clean(unquote(urlsplit(uri).path)) if _is_address(uri) else clean(uri)
    return path.rstrip("/").rsplit("/", 1)[-1][:120] or "file"


def _is_address(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:
        return False


def _link(uri: str, name: str) -> str:
    """Return a link as Markdown, with the path of a file or the unchanged address."""
    shown = one_line(name) or _name_of(uri)
    where = clean(unquote(urlsplit(uri).path)) if uri.startswith("file://") else clean(uri)
    return f"[{shown}]({where})"


def _fence_text(uri: str, text: str) -> str:
    longest = max((len(each) for each in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    where = clean(unquote(urlsplit(uri).path)) if uri.startswith("file://") else clean(uri)
    return f"Contents of {where}:\n{fence}\n{text}\n{fence}"
