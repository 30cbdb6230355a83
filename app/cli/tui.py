"""`hermes` on a terminal: the full-screen application."""

from __future__ import annotations

import asyncio
import os
import sys
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from app.cli.frame import advise, say
from app.cli.safety.folder import workspace
from app.tui.application import HermesApp
from app.tui.conversation.copied_text import last_answer
from app.tui.conversation.mentions import agents_of, files_of
from app.tui.conversation.saved_layout import SavedLayout
from app.tui.conversation.session_host import Listener, SessionRequest
from app.tui.screens.settings.preferences import adopt
from app.tui.startup.gc_scheduler import schedule_collections, share_interpreter
from app.tui.startup.preload import ASKING, READING, SENDING, import_engine, import_surface, read, warm_up
from app.tui.startup.resume_preview import ResumedSession, resume_preview, skip_repeats
from app.tui.startup.startup_theme_read import signature
from app.tui.startup.startup_theme_write import keep, kept_skin, look_of
from app.tui.terminal.tty_output import drop_unread_output
from tools.text.safe_text import clean
from widgets.prompt.history import History

if TYPE_CHECKING:
    import argparse

    from agent.api.session import SessionClient
    from agent.session.options import Options
    from app.tui.startup.fast_args import FastOptions


def run(args: FastOptions | argparse.Namespace) -> int:
    """Run the full-screen application; return the exit code."""
    with share_interpreter():
        return asyncio.run(_show(args))


async def _show(args: FastOptions | argparse.Namespace) -> int:
    sessions = _Sessions(args, Home.locate())
    app = sessions.app
    try:
        async with schedule_collections(lambda: app.last_key):
            await app.run_async()
    finally:
        answer = last_answer(app.host.client.path) if app.leave_answer and app.host.client else ""
        await app.host.close()
        await sessions.layout.flush()
        drop_unread_output()
    if answer:
        say(clean(answer))
    return _farewell(app, sessions.home, attached=sessions.attached)


class _Sessions:
    """The application, and the opening of its sessions, as command line and user request them."""

    def __init__(self, args: FastOptions | argparse.Namespace, home: Home) -> None:
        # Taken before reading the settings: a later change invalidates the frame stored at this start.
        self._stamp = signature(sys.argv[1:], os.environ)
        self.home = home
        self.layout = SavedLayout(home.screen)
        self.attached = args.attach is not None
        """Whether the session belongs to a service."""
        self._args = args
        self._project = workspace(args.cwd)
        self._tours = set[str]()
        """The sessions that opened as tours, which are resumed as such."""
        self.app = HermesApp(
            self._open,
            kept_skin(sys.argv[1:], os.environ),
            home.skins,
            history=History(partial(_history_of, self._project, home)),
            files=files_of(self._project),
            remembered=self.layout,
            tour=args.demo,
        )
        self.app.resumes = self._resumed(SessionRequest()) is not None
        if args.resume == "":
            self.app.first_command = "/resume"
        self.app.session.prompt.completer.agents_provider = agents_of(home, self._project)

    async def _open(self, wish: SessionRequest, listener: Listener) -> SessionClient:
        app = self.app
        through = self.attached or wish.attach
        if app.host.is_served and not wish.attach:
            # If the service has ended, its session continues here.
            through = _service_runs(self.home)
        # Imported here, in a thread: the screen is drawn before the engine is read.
        show = skip_repeats(app.shown.preview)
        if not app.host.session and (resumed := self._resumed(wish)) is not None:
            await resume_preview(self.home, resumed, show)
        await import_surface()
        from agent.api import opening

        apart = await self._apply_settings()
        if not apart:
            await import_engine()
        options, is_tour = self._options(wish)
        where = self.home.service_socket if through else None
        if not apart and where is None:
            # A user who types already will send a message soon.
            modules = (*ASKING, *SENDING, *READING) if app.touched.is_set() else ASKING
            app.run_worker(partial(read, modules), group="asking")
        client = await opening.open_session(
            replace(options, preview=show), listener, process=apart, service=where
        )
        if is_tour:
            self._tours.add(client.id)
        # If the service could not open the session, it continues here.
        self.attached = app.host.is_served = through
        app.bridge.change(service="attached" if through else "")
        busy = lambda: client.busy or bool(app.waiting())  # noqa: E731
        reading = partial(warm_up, lambda: app.last_key, app.touched, busy, asks=not apart)
        app.run_worker(reading, group="warmup", exclusive=True)
        return client

    def _options(self, wish: SessionRequest) -> tuple[Options, bool]:
        """Return the options of the next session, and whether it is a tour."""
        from app.cli.options import options_of, with_tour

        args = self._args
        if args.demo and self.app.host.session:
            # The tour was the first session; others are the user's own.
            args = copy(args)
            args.demo = False
        options = options_of(args, attended=True, surface="tui", model=wish.model)
        if wish.fresh or wish.resume is not None:
            options = replace(options, resume=wish.resume, resume_last=False)
        elif args.attach is not None:
            options = replace(options, resume=args.attach or None, resume_last=not args.attach)
        if wish.fresh:
            options = replace(options, after=wish.after)
        if wish.tour or (wish.model is None and wish.resume in self._tours):
            return with_tour(replace(options, model="demo", approve=None)), True
        return options, args.demo

    def _resumed(self, wish: SessionRequest) -> ResumedSession | None:
        """Return the session to continue, or None for a new one."""
        id = wish.resume or self._args.resume or None
        if wish.fresh or (id is None and not self._args.resume_last):
            return None
        return ResumedSession(id, self._project)

    async def _apply_settings(self) -> bool:
        """Apply the settings; return whether the engine should run in a separate process."""
        from agent.core.config.loader import load

        app = self.app
        loaded = await asyncio.to_thread(load, self.home, dict(os.environ), self._project)
        adopt(app, loaded.settings)
        if not app.host.session:
            app.session.transcript.navigator.wrap_code(loaded.settings.display.wrap_code)
            await app.appearance.apply_settings(loaded.settings.display)
            if app.appearance.skin.name == loaded.settings.display.skin:
                await asyncio.to_thread(keep, self._stamp, look_of(app), app.appearance.skin, os.environ)
        return loaded.settings.engine.process


def _service_runs(home: Home) -> bool:
    from app.running_service import running_service

    return running_service(home.root / "serve") is not None


def _history_of(project: Path, home: Home) -> Path:
    """Return the path of the file with the prompt history of `project`."""
    from hashlib import sha256

    return home.history / f"{sha256(bytes(project)).hexdigest()[:16]}.jsonl"


def _farewell(app: HermesApp, home: Home, *, attached: bool) -> int:
    """Print the last messages after the full screen and return the exit code. Raises `app.failure`."""
    if app.failure is not None:
        raise app.failure
    session = app.host.session if app.host.spoken else ""
    served = attached and _service_runs(home)
    if app.has_crashed:
        from app.tui.startup.crash import farewell, write_report
        from app.version import version

        say(farewell(write_report(app.crash, home.logs, version()), session), sys.stderr)
    elif session:
        if served:
            say("The session continues in the service.")
        way = "--attach" if served else "--resume"
        advise(f"To continue with this session: hermes {way} {session}")
    return app.return_code or 0
