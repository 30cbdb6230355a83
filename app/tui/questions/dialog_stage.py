"""The screen that the request queue shows its dialogs on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.tui.questions.question_kind import kind_of
from app.tui.questions.request_queue import Reply, Request
from app.tui.screens.dialog import Dialog
from app.tui.screens.palette import PaletteScreen

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


log = logging.getLogger(__name__)


class DialogStage:
    """Shows one dialog above the current screen, and closes it when the engine ends the request."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._shown: Dialog[Any] | None = None
        self._count = 0

    def typing_for(self) -> float:
        top = self._app.screen
        if top is not self._shown and isinstance(top, (Dialog, PaletteScreen)):
            return 0.0  # a widget that is open briefly is not covered, as if a key had just been pressed
        return time.monotonic() - self._app.last_key

    def later(self, delay: float, act: Callable[[], object]) -> None:
        self._app.set_timer(delay, lambda: act())

    def show(self, request: Request, done: Callable[[Reply | None], None]) -> Callable[[], None]:
        paste_into_draft = self._app.paste_into_draft
        # The display name of the asking agent.
        who = "Hermes" if request.agent == "main" else self._app.bridge.team.display_name(request.agent)
        asked = replace(request, agent=who)
        try:
            dialog = kind_of(asked).dialog(asked, paste_into_draft)
        except LookupError:
            log.exception("a question could not be asked")
            self.later(0, lambda: done(None))
            return lambda: None
        self._shown = dialog
        dialog.show_waiting_count(self._count - 1)
        self._app.push_screen(dialog, done)

        def close() -> None:
            dialog.dismiss(None)

        return close

    def waiting(self, count: int) -> None:
        self._count = count
        if self._shown is not None:
            self._shown.show_waiting_count(count - 1)
        self._app.bridge.change(questions=count)
        if self._app.session.panes_mounted:
            self._app.session.transcript.pause_animation(count > 0)
