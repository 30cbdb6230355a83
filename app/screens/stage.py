"""Dialogs on the screen: what the queue of requests asks the application for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.events import Decision, QuestionAsked
from app.screens.approval import ApprovalDialog
from app.screens.clarify import ClarifyDialog
from app.screens.dialog import Dialog
from app.screens.requests import Request
from tools.context import Answer

if TYPE_CHECKING:
    from app.application import HermesApp


class DialogStage:
    """Shows one dialog over whatever is there, and closes it when the engine says it is over."""

    def __init__(self, app: HermesApp) -> None:
        self._app = app

    def typing_for(self) -> float:
        return time.monotonic() - self._app.last_key

    def later(self, delay: float, act: Callable[[], object]) -> None:
        self._app.set_timer(delay, lambda: act())

    def show(self, request: Request, done: Callable[[Answer | Decision | None], None]) -> Callable[[], None]:
        spill = self._app.spill
        dialog: Dialog[Any]
        if isinstance(request, QuestionAsked):
            dialog = ClarifyDialog(request, spill)
        else:
            dialog = ApprovalDialog(request, spill)
        self._app.push_screen(dialog, done)
        return lambda: self._close(dialog)

    def waiting(self, count: int) -> None:
        self._app.bridge.change(questions=count)
        if self._app.session.furnished:
            self._app.session.transcript.rest(count > 0)

    def _close(self, dialog: Dialog[Any]) -> None:
        if dialog.is_current:
            dialog.dismiss(None)
