"""`hermes` on a terminal: the full-screen application."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import Home
from app.application import HermesApp
from app.cli.folder import workspace
from app.cli.output import say
from app.collector import collecting
from app.glimpse import Wanted, changing, glimpse
from app.host import Listener, Wish
from app.line import give_up_the_deaf
from app.look_keeper import keep, kept_skin, look_of
from app.lookcache import signature
from app.mentions import agents_of, files_of
from app.preferences import adopt
from app.remembered import Remembered
from app.sharing import sharing
from app.warmup import bring_session, warm_up
from widgets.prompt.history import History

if TYPE_CHECKING:
    import argparse

    from agent.engine import Engine
    from app.glance import Options


def run(args: Options | argparse.Namespace) -> int:
    """Show the application until it ends; returns the exit code."""
    with sharing():
        return asyncio.run(_show(args))


async def _show(args: Options | argparse.Namespace) -> int:
    home = Home.locate()

    async def open_session(wish: Wish, listener: Listener) -> Engine:
        # Imported here, in a thread: the screen is drawn before the engine is read.
        show = changing(app.preview)
        if not app.host.session and (wanted := goes_on(wish)) is not None:
            await glimpse(home, wanted, show)
        await bring_session()
        from agent import runtime
        from app.cli.options import options_of

        await wear_chosen_skin()
        options = options_of(args, attended=True, surface="tui", model=wish.model)
        options = replace(options, preview=show)
        if wish.fresh or wish.resume is not None:
            options = replace(options, resume=wish.resume, resume_last=False)
        engine = await runtime.open_engine(options, listener)
        reading = partial(warm_up, lambda: app.last_key, app.touched)
        app.run_worker(reading, group="warmup", exclusive=True)
        return engine

    def goes_on(wish: Wish) -> Wanted | None:
        """The session that is gone on with, if it is not a new one."""
        id = wish.resume or args.resume
        return Wanted(id, project) if not wish.fresh and (id is not None or args.resume_last) else None

    async def wear_chosen_skin() -> None:
        from agent.config.loader import load

        loaded = await asyncio.to_thread(load, home, dict(os.environ), workspace(args.cwd))
        adopt(app, loaded.settings)
        if not app.host.session:
            app.session.transcript.wrap_code(loaded.settings.display.wrap_code)
            await app.looks.follow(loaded.settings.display)
            if app.looks.skin.name == loaded.settings.display.skin:
                await asyncio.to_thread(keep, stamp, look_of(app), app.looks.skin, os.environ)

    # Taken before the settings are read: what changes in between makes the look of this start void.
    stamp = signature(sys.argv[1:], os.environ)
    project = workspace(args.cwd)
    history = History(partial(_history_of, project, home))
    remembered = Remembered(home.screen)
    app = HermesApp(
        open_session,
        kept_skin(sys.argv[1:], os.environ),
        home.skins,
        history=history,
        files=files_of(project),
        remembered=remembered,
    )
    app.session.prompt.agents_provider = agents_of(home, project)
    try:
        async with collecting(lambda: app.last_key):
            await app.run_async()
    finally:
        await app.host.close()
        await remembered.settle()
        give_up_the_deaf()
    return _farewell(app, home)


def _history_of(project: Path, home: Home) -> Path:
    """The file of what was sent from the prompt in `project`."""
    from hashlib import sha256

    return home.history / f"{sha256(bytes(project)).hexdigest()[:16]}.jsonl"


def _farewell(app: HermesApp, home: Home) -> int:
    """What is left to say once the terminal is as it was."""
    if app.failure is not None:
        raise app.failure
    session = app.host.session if app.host.spoken else ""
    if app.crashed:
        from app.crash import farewell, write_report
        from app.version import version

        say(farewell(write_report(app.crash, home.logs, version()), session), sys.stderr)
    elif session:
        say(f"To go on with this session: hermes --resume {session}")
    return app.return_code or 0
