"""The task list: `todo_write` and `todo_read`, and the lines that remind the model of it.

The list is kept outside of the prompt, so that writing it does not change anything already sent. The rules of
use are part of the tool's description for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from tools.context import Todo, TodoList, TodoStatus, ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.text.safe_text import clean

MAX_ITEMS = 256
MAX_CONTENT = 4_000
"""The character limit of one item."""

REMIND_AFTER = 10
"""Tool calls without access to the list before the model is reminded."""

STATUSES: tuple[TodoStatus, ...] = get_args(TodoStatus)
SYNONYMS: Mapping[str, TodoStatus] = {
    "todo": "pending",
    "open": "pending",
    "not_started": "pending",
    "active": "in_progress",
    "started": "in_progress",
    "doing": "in_progress",
    "done": "completed",
    "complete": "completed",
    "finished": "completed",
    "canceled": "cancelled",
    "dropped": "cancelled",
    "failed": "cancelled",
}
MARKS: Mapping[TodoStatus, str] = {
    "pending": " ",
    "in_progress": ">",
    "completed": "x",
    "cancelled": "~",
}

CHECKPOINT = "[10+ tool calls since last todo update -- consider calling todo_read to review your plan]"
AFTER_ERROR = "[This error may affect your plan -- call todo_read to review]"


def summary(items: Sequence[Todo]) -> dict[str, int]:
    """Return the number of items, in all and by status."""
    counts = {"total": len(items)} | dict.fromkeys(STATUSES, 0)
    for item in items:
        counts[item.status] += 1
    return counts


def render(items: Sequence[Todo]) -> str:
    """Return the list as text, one line per item, such as `- [>] 2. Write the parser (in_progress)`."""
    return "\n".join(
        f"- [{MARKS[item.status]}] {item.id}. {' '.join(item.content.split())} ({item.status})"
        for item in items
    )


def reminder(calls_since_update: int, had_error: bool, items: Sequence[Todo]) -> str | None:
    """Return the line to append to a tool result, or None.

    `calls_since_update` includes the call just finished. The line is returned once, when the count reaches
    the threshold, and after every error.
    """
    if not items:
        return None
    if calls_since_update == REMIND_AFTER:
        return f"{CHECKPOINT} {AFTER_ERROR}" if had_error else CHECKPOINT
    return AFTER_ERROR if had_error else None


def _status(value: Any, name: str, notes: list[str]) -> TodoStatus:
    if value is None:
        return "pending"
    folded = str(value).strip().lower().replace("-", "_").replace(" ", "_")
    for status in STATUSES:
        if folded == status:
            return status
    if folded in SYNONYMS:
        return SYNONYMS[folded]
    notes.append(f"Item {name}: unknown status {folded[:40]!r} was read as pending.")
    return "pending"


def _content(value: Any, name: str, notes: list[str]) -> str:
    text = clean(value if isinstance(value, str) else "").strip()
    if len(text) > MAX_CONTENT:
        notes.append(f"Item {name}: content was cut to {MAX_CONTENT:,} characters.")
        text = text[: MAX_CONTENT - 1] + "…"
    return text


def updated(
    items: Sequence[Todo], changes: Sequence[Mapping[str, Any]], merge: bool
) -> tuple[list[Todo], list[str]]:
    """Return the list after a write, and notes about changes that were interpreted differently than written.

    Raises `ToolError` without any change if a new item has no content or the list grows too long. If an id
    occurs twice, the last one counts.
    """
    notes: list[str] = []
    result = {item.id: item for item in items} if merge else {}
    latest: dict[str, Mapping[str, Any]] = {}
    for change in changes:
        name = clean(str(change.get("id") or "")).strip() or _free_id({*result, *latest})
        if name in latest:
            notes.append(f"Item {name} was given more than once; the last one counts.")
            del latest[name]
        latest[name] = change
    for name, change in latest.items():
        known = result.get(name)
        content = _content(change.get("content"), name, notes)
        if known is None and not content:
            raise ToolError(f"There is no item {name} yet; give it content to add it. Nothing was changed.")
        status = change.get("status")
        kept = known.status if known and status is None else _status(status, name, notes)
        result[name] = Todo(name, content or (known.content if known else ""), kept)
    if len(result) > MAX_ITEMS:
        raise ToolError(
            f"A list holds at most {MAX_ITEMS} items, this would be {len(result)}; "
            "merge small steps into larger ones. Nothing was changed."
        )
    return list(result.values()), notes


def _free_id(taken: set[str]) -> str:
    number = len(taken) + 1
    while str(number) in taken:
        number += 1
    return str(number)


def _listing(items: Sequence[Todo], calls: int) -> dict[str, Any]:
    counts = summary(items)
    return {
        "todos": [{"id": item.id, "content": item.content, "status": item.status} for item in items],
        "summary": counts,
        "metadata": {
            "items_completed": counts["completed"],
            "items_remaining": counts["pending"] + counts["in_progress"],
            "tool_calls_since_update": calls,
        },
    }


def _prepare(arguments: Arguments) -> Arguments:
    """Convert plain texts into items, and a single item into a list."""
    todos = arguments.get("todos")
    if isinstance(todos, dict):
        todos = [todos]
    if isinstance(todos, list):
        arguments["todos"] = [{"content": item} if isinstance(item, str) else item for item in todos]
    return arguments


async def todo_write(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Replace the list, or update it by id; returns the whole list."""
    todos = context.service(TodoList)
    items, notes = updated(todos.items(), arguments["todos"], arguments["merge"])
    todos.replace(items)
    listing = _listing(items, 0)
    return listing | {"notes": notes} if notes else listing


async def todo_read(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return the whole list, and the number of calls since it was last written or read."""
    todos = context.service(TodoList)
    listing = _listing(todos.items(), todos.calls_since_update())
    todos.touch()
    return listing


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    verb = "plan" if "todos" in arguments else "review"
    if result is None or result.get("error"):
        return Display(verb, "", error_text(result))
    items = [Todo(str(i["id"]), str(i["content"]), i["status"]) for i in result["todos"]]
    counts = summary(items)
    current = next((item.content for item in items if item.status == "in_progress"), "")
    wanted = counts["total"] - counts["cancelled"]  # as the task list counts
    done = f"{counts['completed']} of {wanted} done" if items else "the list is empty"
    return Display(verb, clean(" ".join(current.split())), done, TextDetail(render(items)) if items else None)


registry.register(
    name="todo_write",
    toolset="todo",
    schema=tool_schema(
        (
            "Write your task list, which the user watches, for work of three or more steps or several "
            "requests. merge=false starts a new list; merge=true updates items by id and appends new ones. "
            "Keep exactly one item in_progress, the first at once; mark it completed the moment it is done, "
            "never before. Cancel what fails or is moot and add a revised item. No items for testing unless "
            "asked for. Update it beside other calls."
        ),
        "todos",
        todos={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "content": {"type": "string"},
                    "status": {
                        "type": "string",
                        "description": "pending, in_progress, completed or cancelled.",
                    },
                },
            },
        },
        merge={"type": "boolean", "default": False},
    ),
    handler=todo_write,
    describe=_describe,
    prepare=_prepare,
    place=30,
    bundles=("default", "safe"),
    traits=("keeps_notes",),
)

registry.register(
    name="todo_read",
    toolset="todo",
    schema=tool_schema("Read your task list back, with counts and how many tool calls ago it was updated."),
    handler=todo_read,
    describe=_describe,
    place=31,
    bundles=("default", "safe"),
    traits=("keeps_notes",),
)
