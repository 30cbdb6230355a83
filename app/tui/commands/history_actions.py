"""Undo, redo, rewind, fork and branch switches by the user.

A preview comes first if files are at risk, and a notice afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from agent.core.store.nodes import Node
from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.git_words import git_apart
from agent.workspace.checkpoints.state_listings import alike
from app.tui.conversation.replay import call_at
from app.tui.screens.history.restoring import (
    RewindTarget,
    SaidMessage,
    back_with,
    needs_preview,
    user_messages,
)
from app.tui.screens.history.timeline_files import FileChanges, diff_of
from tools.text.words import full_stop
from widgets.panes.files import PaneFileChange
from widgets.transcript.parts import CallItem

if TYPE_CHECKING:
    from agent.session.history.navigation import HistoryNavigation

CALLS = 200
"""The number of a branch's last calls that the log shows."""
FILES = 100
"""The number of a branch's changed files that the pane shows."""
_KINDS = {"added": "added", "changed": "modified", "deleted": "removed"}


def last_calls(path: Sequence[Node]) -> list[tuple[CallItem, float]]:
    """Return the last `CALLS` calls of a path, oldest first, each with its end in seconds since the epoch."""
    from tools.registry import registry

    backwards = (at for at in range(len(path) - 1, -1, -1) if path[at].kind == "tool")
    return [(call_at(path, at, registry), path[at].created) for at in [*islice(backwards, CALLS)][::-1]]


async def session_changes(history: HistoryNavigation) -> list[PaneFileChange]:
    """Return the files that changed since the start of the session, without ignored ones.

    Files that no step of the session changed are `outside`. Raises `HermesError`.
    """
    rows = await _rows(history, await history.without_ignored(await _files(history)))
    own = {each.path for step in await history.steps() if step.kind != "outside" for each in step.changes}
    return [replace(row, outside=row.path not in own) for row in rows]


async def net_changes(history: HistoryNavigation, paths: Container[str]) -> dict[str, PaneFileChange | None]:
    """Return the changes of some files since the start of the session; None for a file that is as before.

    Files without a recorded step are missing, and so are those that other programs changed as well.
    """
    net = await asyncio.to_thread(_net, await history.steps(), paths)
    left = [each for each in net if not alike(each.before, each.after)]
    rows = {row.path: row for row in await _rows(history, left)}
    return {each.path: rows.get(each.path) for each in net[:FILES]}


def _net(steps: Sequence[Step], paths: Container[str]) -> list[PathChange]:
    net: dict[str, PathChange] = {}
    others: set[str] = set()
    for step in steps:
        for change in step.changes:
            if change.path in paths:
                others.update([change.path] * (step.kind == "outside"))
                first = net.get(change.path, change)
                net[change.path] = PathChange(change.path, first.before, change.after)
    return [each for path, each in net.items() if path not in others]


async def ignored_files(history: HistoryNavigation, listed: Container[str]) -> list[PaneFileChange]:
    """Return the changed files that git ignores. `listed` holds all other changed files."""
    changes = await _files(history)
    return await _rows(
        history, [each for each in changes if each.path not in listed and not each.path.startswith("/")]
    )


async def _files(history: HistoryNavigation) -> list[PathChange]:
    """Return all changes from the beginning to now, without folders and files internal to git."""
    changes = await history.changes(0, (await history.place()).step)
    sides = ((each, each.after or each.before) for each in git_apart(changes).files)
    return [each for each, entry in sides if entry is not None and entry.kind.value != "folder"]


async def _rows(history: HistoryNavigation, changes: Sequence[PathChange]) -> list[PaneFileChange]:
    files = FileChanges(history.contents)
    found: list[PaneFileChange] = []
    for change, told in zip(changes[:FILES], await files.describe_all(changes[:FILES]), strict=True):
        diff, _ = await asyncio.to_thread(diff_of, told, await files.sides(change))
        kind = _KINDS[told.kind]
        found.append(PaneFileChange(told.path, told.added or 0, told.removed or 0, diff, kind))  # type: ignore[arg-type]
    return found


if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.store.operations import Operation
    from agent.events import BranchSwitched
    from agent.session.history.navigation import HistoryNavigation, NavigationResult
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice
    from app.tui.app_context import AppContext
    from app.tui.conversation.shown_history import ShownHistory
    from app.tui.screens.history.timeline_files import What

    class HistoryPort(AppContext, Protocol):
        """The application's interface, extended by the actions on the session's history."""

        @property
        def history_actions(self) -> HistoryActions: ...


Choices = Mapping[str, "Choice"]
CARRIED = "The model is told what was done on the branch that is left."
NOTHING_CARRIED = "Nothing was done since, so there is nothing to carry over."


class HistoryActions:
    """The history actions of one application. Methods raise `HermesError` and return a notice about the
    result.

    An empty notice means that the user cancelled.
    """

    def __init__(self, app: AppContext, shown: ShownHistory) -> None:
        self._app = app
        self._shown = shown
        self._offered = ""
        """The draft that an undo put into the prompt last; empty if there is none."""

    @property
    def history(self) -> HistoryNavigation:
        """The history of the open session. Raises `HermesError` if no session is open."""
        return self._app.need_client().history

    # Requests of the user

    async def undo(self) -> str:
        """Undo the last turn, restore, switch or fork."""
        operation = await self.history.undoable()
        if operation is None:
            raise HermesError("There is nothing to undo.")
        again = self._app.keys.label("session.redo") or "/redo"
        return await self._back_or_forth(
            operation.before.step, self.history.undo, "Undone", f"{again} does it again."
        )

    async def redo(self) -> str:
        """Redo what was undone last."""
        operation = await self.history.redoable()
        if operation is None:
            raise HermesError("There is nothing to redo.")
        return await self._back_or_forth(operation.after.step, self.history.redo, "Redone", self._undo_hint())

    async def _back_or_forth(
        self,
        position: int,
        go: Callable[[Choices], Awaitable[tuple[Operation, NavigationResult]]],
        words: str,
        rest: str,
    ) -> str:
        choices = await self._decide_restore(position)
        if choices is None:
            return ""
        operation, went = await go(choices)
        return _move_notice(f"{words}: {full_stop(operation.label)}", went, rest)

    async def rewind(self, back: RewindTarget) -> str:
        """Go back to the point before a message."""
        choices = await self._decide_restore(back.step, look=back.look) if back.files else {}
        if choices is None:
            return ""
        went = await self.history.rewind(
            back.node, files=back.files, conversation=back.conversation, choices=choices
        )
        words = (
            "Back to before the message." if back.conversation else "The conversation continues from here."
        )
        return _move_notice(words, went, self._undo_hint())

    async def back_to(self, node: int, what: What) -> str:
        """Go back to a node: before it if it is the user's message, after it otherwise."""
        history = self.history
        position = await history.position_of(node)
        if (await history.node(node)).kind == "user":
            return await self.rewind(back_with(node, position, what))
        if what in ("files", "some"):
            plan, choices = await self._reviewed_plan(position, look=what == "some")
            if choices is None:
                return ""
            restored = await history.restore(plan, choices)
            return f"{restored.sentence()} {self._undo_hint()}"
        return await self.fork(node, files=what == "both")

    async def fork(self, node: int, name: str = "", *, files: bool = False, carry_over: bool = False) -> str:
        """Continue from a node on a new branch; with `carry_over`, add a note about the abandoned part."""
        history = self.history
        choices = await self._decide_restore(await history.position_of(node)) if files else {}
        if choices is None:
            return ""
        went = await history.fork(node, name, files=files, carry_over=carry_over, choices=choices)
        words = f"On branch {went.head}." + (f" {CARRIED if went.note else NOTHING_CARRIED}" * carry_over)
        return _move_notice(words, went, self._undo_hint())

    async def switch(self, head: str) -> str:
        """Switch to another branch, including its files."""
        history = self.history
        ends = {each.name: each.node for each in await history.heads()}
        if head == self._app.need_client().branch:
            raise HermesError(f"The conversation is on branch {head} already.")
        position = await history.position_of(ends.get(head))
        choices = await self._decide_restore(position) if head in ends else {}
        if choices is None:
            return ""
        went = await history.switch(head, choices=choices)
        return _move_notice(f"On branch {went.head}.", went, self._undo_hint())

    async def switch_without_files(self, head: str) -> str:
        """Switch to another branch without changing files."""
        return _move_notice(
            f"On branch {head}.", await self.history.switch(head, files=False), self._undo_hint()
        )

    async def rename(self, head: str, name: str) -> str:
        """Rename a branch; return a notice."""
        await self.history.rename(head, name)
        self._app.bridge.show_head(self._app.need_client().branch)
        return f"Branch {head} is called {name} now."

    async def end(self) -> int:
        """Return the last node of the branch in use. Raises `HermesError` if the conversation is empty."""
        place = await self.history.place()
        if place.node is None:
            raise HermesError("Nothing has been said yet.")
        return place.node

    async def list_user_messages(self) -> list[SaidMessage]:
        """Return the user's messages on the branch in use, newest first."""
        path = self._app.need_client().path[:]
        steps = await self.history.steps()
        return await asyncio.to_thread(user_messages, path, steps)

    def _undo_hint(self) -> str:
        return f"{self._app.keys.label('session.undo') or '/undo'} undoes it."

    # Previews of file changes

    async def _decide_restore(self, position: int, *, look: bool = False) -> Choices | None:
        """Return the choices for files when moving to a position; None if the user cancelled."""
        if not self._app.need_client().keeps_files:
            return {}
        return (await self._reviewed_plan(position, look=look))[1]

    async def _reviewed_plan(
        self, position: int, *, look: bool = False
    ) -> tuple[RestorePlan, Choices | None]:
        """Return the plan the user agreed to, with their choices; None as choices if they cancelled.

        The preview is shown if files are at risk, or in any case with `look`. If files change during the
        preview, the new plan is shown again.
        """
        from app.tui.screens.history.compare import restore_services
        from app.tui.screens.history.restoring import RestoringScreen

        choices: Choices = {}
        plan = await self.history.plan(position)
        while needs_preview(plan) or (look and plan.items):
            chosen = await self._app.push_screen_wait(
                RestoringScreen(plan, restore_services(self._app.need_client()), choices)
            )
            if chosen is None:
                return plan, None
            shown, plan = plan, await self.history.plan(position)
            if plan == shown:
                return plan, chosen
            known = {item.path: item for item in shown.shown_items}
            kept = {item.path for item in plan.shown_items if known.get(item.path) == item}
            choices = {path: choice for path, choice in chosen.items() if path in kept}
            self._app.show_notice("Files changed meanwhile; look again.")
        return plan, choices

    # Display

    def show(self, event: BranchSwitched) -> None:
        """Show the conversation after a branch switch, put the draft back, and fill the panes."""
        app = self._app
        client = app.need_client()
        self._shown.show_branch(client)
        self._offer(event.draft)
        self.fill_panes(client)

    def fill_panes(self, client: SessionClient) -> None:
        """Load the calls and the files of the branch in a worker, and show them in the panes."""
        self._app.run_worker(partial(self._show_branch, client), group="branch", exclusive=True)

    def _offer(self, draft: str) -> None:
        """Put a message taken back by an undo into the prompt, or into its history if other text is there."""
        prompt = self._app.session.prompt
        free = not prompt.text or prompt.text == self._offered
        if free and prompt.text != draft:
            prompt.set_text(draft)
        elif draft and not free and prompt.history.add(draft):
            self._app.show_notice("The message that was taken back is in the history of the prompt (↑).")
        self._offered = draft if free else ""

    async def _show_branch(self, client: SessionClient) -> None:
        """Load the calls and the files of the branch, and show them in the panes if it is still in use."""
        try:
            calls = await asyncio.to_thread(last_calls, client.path[:])
            files = await session_changes(client.history)
        except HermesError:
            return
        if client is self._app.host.client and not client.busy:
            self._app.bridge.show_branch(calls, files)

    async def update_changed_files(self) -> None:
        """Update the listed changes of files that were edited repeatedly, undone or restored."""
        pane = self._app.session.files
        paths, pane.unsettled = pane.unsettled, set()
        with suppress(HermesError):
            pane.set_net_changes(await net_changes(self.history, paths))

    async def show_ignored(self) -> None:
        """Show or hide the ignored files that the session changed, above the others."""
        pane = self._app.session.files
        try:
            found = await ignored_files(self.history, {each.path for each in pane.changes})
        except HermesError as error:
            self._app.show_warning(str(error))
            return
        if not pane.show_ignored(found):
            self._app.show_notice("The session changed no ignored files.")


def _move_notice(words: str, went: NavigationResult, rest: str) -> str:
    """Return one notice about a move through the history. Pure."""
    files = went.restored.sentence() if went.restored is not None else "Files stay as they are."
    draft = "The message is back in the prompt." if went.draft else ""
    return " ".join(filter(None, (words, files, draft, rest)))
