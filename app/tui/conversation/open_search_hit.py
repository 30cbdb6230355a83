"""Opening a stored message, such as one that a search found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.core.store.nodes import Node, calls_of, readable
from agent.core.store.query_line import Query, parse
from agent.core.store.search import spans
from agent.core.store.stored_path import with_ids
from agent.errors import HermesError
from app.tui.conversation.session_host import SessionRequest
from tools.text.safe_text import clean
from widgets.transcript.parts import AnswerItem, CallItem, Item, NoticeItem, UserItem

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from app.tui.screens.sessions.sessions import ChosenHit


_SEARCHED = 200_000
"""The number of characters of a message that are searched for the match."""


async def show_place(app: AppContext, session: str, node: int | None) -> None:
    """Open a session at one of its messages, or at its end. Raises `HermesError`."""
    if node is None:
        await app.open_session(SessionRequest(resume=session))
        return
    from app.tui.screens.sessions.sessions import ChosenHit

    await show_search_hit(app, ChosenHit(session, node, parse("")))


async def show_search_hit(app: AppContext, chosen: ChosenHit) -> None:
    """Open the session on the branch of the message, and go to the match in it. Raises `HermesError`."""
    client = app.need_client()
    stored = client.stored
    node = await stored.node(chosen.session, chosen.node)
    here = client.id == chosen.session and bool(with_ids(client.path, [node.id]))
    if not here:
        if client.busy:
            raise HermesError("A turn is running; stop it (esc) before another conversation is opened.")
        branch = await stored.branch_with(chosen.session, node.id)
        if client.id == chosen.session:
            app.show_notice(await app.history_actions.switch_without_files(branch))
        else:
            await stored.use_branch(chosen.session, branch)
            await app.open_session(SessionRequest(resume=chosen.session))
    transcript = app.session.transcript
    transcript.focus()
    words = match_in(node, chosen.query)
    for wanted in items_of(node, words):
        if await transcript.navigator.go_to(wanted, words):
            return
    app.show_notice("The conversation is open; that message is for the model only and not shown in it.")


def match_in(node: Node, query: Query) -> str:
    """Return the first match as spelled in the message, the adjacent words if possible; else "". Pure."""
    text = clean(readable(node.kind, node.content, node.data))[:_SEARCHED]
    together = spans(text, parse(f'"{" ".join(query.raw)}"')) if '"' not in "".join(query.raw) else []
    places = together or spans(text, query)
    # A match across a line feed is not found in a single row.
    return text[places[0][0] : places[0][1]].split("\n")[0] if places else ""


def items_of(node: Node, words: str) -> list[Callable[[Item], bool]]:
    """Return predicates that recognize the transcript item of a message, the most reliable first. Pure."""
    text = clean(node.content)
    match node.kind:
        case "user":
            return [lambda item: isinstance(item, UserItem) and item.node == node.id]
        case "assistant":
            # The words may be in the arguments of a call, which is shown with the result.
            asked = [
                str(call.get("id"))
                for call, (name, arguments) in zip(_calls(node), calls_of(node.data), strict=False)
                if words and words.lower() in f"{name} {arguments}".lower()
            ]
            answer = [lambda item: isinstance(item, AnswerItem) and item.node == node.id]
            calls = [lambda item, id=id: isinstance(item, CallItem) and item.call == id for id in asked]
            return [*answer, *calls] if words.lower() in text.lower() else [*calls, *answer]
        case "tool":
            call = str(node.data.get("call", ""))
            return [
                # Some providers number calls from one in every message: then only the result identifies a
                # call.
                lambda item: isinstance(item, CallItem) and item.call == call and item.result == text,
                lambda item: isinstance(item, CallItem) and item.call == call,
            ]
        case _:
            return [lambda item: isinstance(item, NoticeItem) and item.text == text]


def _calls(node: Node) -> list[dict[str, object]]:
    calls = node.data.get("calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
