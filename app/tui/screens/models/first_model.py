"""The first start: the user chooses a model, and the scripted model starts the guided tour."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.model.providers import NoModelError
    from app.tui.app_context import AppContext
    from app.tui.conversation.session_host import SessionHost, SessionRequest


async def open_with_model(app: AppContext, host: SessionHost, wish: SessionRequest) -> SessionClient:
    """Open a session; ask the user for a model if none is set or it cannot be used.

    If the user cancels, raise the `HermesError` of the first attempt.
    """
    first: HermesError | None = None
    problem: NoModelError | None = None
    while True:
        try:
            return await host.open(wish)
        except HermesError as error:
            # Opening a session imports this in a thread; here it would delay a key.
            from agent.model.detect import detect
            from agent.model.providers import NoModelError, UnusableModelError

            failed = str(error)
            if isinstance(error, NoModelError):
                problem, failed = error, ""
            elif problem is None:
                if not isinstance(error, UnusableModelError) or host.client is not None:
                    raise
                problem = NoModelError(servers=await detect())
            first = first or error
        if (model := await _choose_model(app, problem, failed)) is None:
            raise first
        # The tour has a session and a folder of its own, so that the project stays as it is.
        change = {"fresh": True, "resume": None, "tour": True} if app.tour else {"model": model}
        wish = wish._replace(**change)


async def _choose_model(app: AppContext, problem: NoModelError, failed: str) -> str | None:
    """Let the user choose a model once they pause in typing; return its name, None if they cancel."""
    from app.tui.conversation import active_conversation
    from app.tui.questions.request_queue import TYPING_PAUSE
    from app.tui.screens.models.model_menu import ModelMenu
    from app.tui.screens.models.models import OnboardingScreen

    menu = ModelMenu(app.message_sender.workspace)
    offers = await menu.offers()

    while (left := TYPING_PAUSE - (time.monotonic() - app.last_key)) > 0:  # noqa: ASYNC110 - keys are counted, not waited for
        await asyncio.sleep(left)
    dialog = OnboardingScreen(
        problem,
        app.paste_into_draft,
        offers=offers,
        setup=menu,
        hold=app.message_sender.send,
        draft=app.draft,
        failed=failed,
    )
    conversation = active_conversation.transcript(app)
    conversation.welcome(False)
    try:
        model = await app.push_screen_wait(dialog)
    finally:
        conversation.welcome(True)
    app.tour = model == "demo"
    return model


def begin_tour(client: SessionClient) -> None:
    """Start the tour, unless the session already has a message from the user, queued or sent."""
    from agent.model.demo import TOUR_REQUEST

    if not client.busy and not client.queue and not any(node.kind == "user" for node in client.path):
        client.submit(TOUR_REQUEST)
