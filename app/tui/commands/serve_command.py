"""The command that hands the session to the service, so that other clients can attach and it outlives the
terminal.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.tui.commands.registry import AppCommand
from app.tui.conversation.session_host import SessionRequest
from tools.extras import is_installed, missing
from tools.kit.children import start_child

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


SETTLING = 5.0
"""Seconds for which an ended turn may still be written to the store."""
PATIENCE = 20.0
"""Seconds that a service may take to start."""
_START = "import sys; sys.path[:] = {path!r}; from app.main import main; sys.exit(main({arguments!r}))"


async def _serve(app: AppContext, _words: str) -> None:
    url = await hand_over(app)
    where = f" at {url}" if url else ""
    app.say(f"The service has this session{where}. `hermes serve pair` lets a browser in.", timeout=15)


async def hand_over(app: AppContext) -> str:
    """Hand the session to the service unless the service already has it; return its address. Raises
    `HermesError`.
    """
    from agent.core.home import Home
    from app.running_service import running_service

    client, folder = app.need_client(), Home.locate().root / "serve"
    if app.host.is_served:
        running = running_service(folder)
        return running["url"] if running else ""
    await bring_service(app)
    running = running_service(folder)
    await app.open_session(SessionRequest(resume=client.id, model=client.model, attach=True))
    return running["url"] if running else ""


async def bring_service(app: AppContext) -> None:
    """Wait until the session can be handed over and the service runs. Raises `HermesError`."""
    from agent.core.home import Home
    from app.running_service import running_service

    client = app.need_client()
    # A turn is stored a moment after its end is shown.
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLING):
            await client.idle()
    if client.busy:
        raise HermesError("A turn is running; the session is handed over between turns. Stop it first.")
    if running_service(Home.locate().root / "serve") is None:
        if not is_installed("serve"):
            raise HermesError(missing("The service", "serve"))
        await _start_service()


async def _start_service() -> None:
    """Start a service that continues after this program. Raises `HermesError`."""
    arguments = ["serve", "--json"]
    process = await start_child(
        [sys.executable, "-I", "-c", _START.format(path=sys.path, arguments=arguments)],
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            if await process.stdout.readline():
                return
            said = (await process.stderr.read(2_000)).decode("utf-8", "replace").strip()
    except TimeoutError:
        process.kill()
        raise HermesError("The service did not start in time; the log has the details.") from None
    raise HermesError(said.removeprefix("hermes: ") or "The service did not start.")


COMMAND = AppCommand(
    id="session.serve",
    group="Conversation",
    name="Hand over to the service",
    description="The session continues in `hermes serve`, for the browser too; this terminal stays attached.",
    action=_serve,
    slash="serve",
)
