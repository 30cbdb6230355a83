"""Dialogs on the screen: what the queue of requests asks the application for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.command import CommandPalette

from agent.events import CeilingAsked, ForecastAsked, QuestionAsked
from app.screens.approval import ApprovalDialog
from app.screens.ceiling import CeilingDialog
from app.screens.clarify import ClarifyDialog
from app.screens.dialog import Dialog
from app.screens.forecast import ForecastDialog
from app.screens.requests import Reply, Request

if TYPE_CHECKING:
    from app.application import HermesApp


class DialogStage:
    """Shows one dialog over whatever is there, and closes it when the engine says it is over."""

    def __init__(self, app: HermesApp) -> None:
        self._app = app
        self._shown: Dialog[Any] | None = None
        self._count = 0

    def typing_for(self) -> float:
        top = self._app.screen
        if top is not self._shown and isinstance(top, (Dialog, CommandPalette)):
            return 0.0  # what is open for a moment is not covered, as if a key had just been pressed
        return time.monotonic() - self._app.last_key

    def later(self, delay: float, act: Callable[[], object]) -> None:
        self._app.set_timer(delay, lambda: act())

    def show(self, request: Request, done: Callable[[Reply | None], None]) -> Callable[[], None]:
        spill = self._app.spill
        # The one who asks as the person knows it.
        asked = replace(request, agent=self._app.bridge.team.called(request.agent))
        dialog: Dialog[Any]
        match asked:
            case QuestionAsked():
                dialog = ClarifyDialog(asked, spill)
            case ForecastAsked():
                dialog = ForecastDialog(asked, spill)
            case CeilingAsked():
                dialog = CeilingDialog(asked, spill)
            case _:
                dialog = ApprovalDialog(asked, spill)
        self._shown = dialog
        dialog.say_others(self._count - 1)
        self._app.push_screen(dialog, done)

        def close() -> None:
            dialog.dismiss(None)

        return close

    def waiting(self, count: int) -> None:
        self._count = count
        if self._shown is not None:
            self._shown.say_others(count - 1)
        self._app.bridge.change(questions=count)
        if self._app.session.furnished:
            self._app.session.transcript.rest(count > 0)
