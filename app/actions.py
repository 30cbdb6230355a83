"""What the commands do. Each method is named by a command of `app.commands`."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError
from app import front
from app.commands import BY_ID, Command, read_slash
from app.host import Wish

if TYPE_CHECKING:
    from app.application import HermesApp

QUIT_WINDOW = 2.0
"""Seconds in which a second ctrl+c quits."""


class Actions:
    """The commands of one application. Methods take the argument typed after a slash command."""

    def __init__(self, app: HermesApp) -> None:
        self._app = app
        self._asked_to_quit = float("-inf")
        self._searched = ""
        """What was searched for last."""

    async def run(self, command: Command, argument: str = "") -> None:
        """Carry out a command; what goes wrong is one sentence on the screen."""
        await self._guarded(getattr(self, command.action), argument)

    async def run_slash(self, text: str) -> None:
        """Carry out what was typed after a slash."""
        call = read_slash(text)
        if isinstance(call, str):
            self._app.complain(call)
        else:
            await self.run(call.command, call.argument)

    async def run_shell(self, command: str) -> None:
        """Carry out what was typed after an exclamation mark."""
        await self._guarded(self._shell, command)

    async def _guarded(self, act: Callable[[str], object], argument: str) -> None:
        try:
            result = act(argument)
            if inspect.isawaitable(result):
                await result
        except HermesError as error:
            self._app.complain(str(error))

    def allowed(self, id: str) -> bool:
        """Whether the keys of a command act now; if not, the focused widget gets them."""
        app = self._app
        if BY_ID[id].group == "Conversation" and not front.screen(app).furnished:
            return False
        match BY_ID[id].action:
            case "stop":
                return app.host.busy
            case "quit":
                return not app.session.prompt.text and not app.host.busy
            case "jump_to_end":
                return not front.prompt(app).text
            case _:
                return True

    # Turn

    def stop(self, _argument: str) -> None:
        if self._app.host.engine is not None:
            self._app.session.stopped()
            self._app.host.engine.interrupt()

    def recall(self, _argument: str) -> None:
        app = self._app
        waiting = app.waiting()
        if not waiting:
            app.say("Nothing is queued.")
            return
        app.set_queue([])
        app.session.prompt.put_before(waiting)

    async def attach(self, argument: str) -> None:
        from app.attaching import named

        files = await asyncio.to_thread(named, argument, self._app.outbox.workspace)
        self._app.session.prompt.insert_files(files)

    def back_out(self, _argument: str) -> None:
        app = self._app
        prompt = app.session.prompt
        if selected := app.session.get_selected_text():
            app.copy_to_clipboard(selected)
            app.session.clear_selection()
            app.say("Copied.")
        elif prompt.text:
            prompt.set_text("")
        elif app.host.busy:
            self.stop("")
        elif time.monotonic() - self._asked_to_quit <= QUIT_WINDOW:
            app.exit()
        else:
            self._asked_to_quit = time.monotonic()
            app.say(f"Press {app.keys.shown('program.back')} again to quit.", timeout=QUIT_WINDOW)

    async def _shell(self, command: str) -> None:
        """Run a command of the person's own in the workspace, and let the model read what came of it."""
        from app.shell import run_shell

        engine = self._app.host.engine
        if engine is None or engine.busy:
            self._app.session.prompt.set_text(f"!{command}")
            self._app.complain("! works when the session is open and no turn runs; the command is kept.")
            return
        outcome = await run_shell(command, Path(engine.session.record.workspace))
        text = outcome.shown()
        await engine.session.add("notice", text, {"kind": "process", "to_model": True})
        from agent.events import Noticed

        engine.stream.emit(Noticed(kind="process", text=text))

    # Conversation

    async def find(self, argument: str) -> None:
        from app.screens.confirm import TextDialog

        transcript = front.transcript(self._app)
        asking = TextDialog("Find in the conversation", enters="find")
        text = argument or await self._app.push_screen_wait(asking)
        if text is None:
            return
        count = await transcript.find(text)
        if count:
            transcript.find_next()
            transcript.focus()
            keys = self._app.keys
            following, previous = keys.shown("transcript.find_next"), keys.shown("transcript.find_previous")
            self._app.say(f"{count} hit{'s' * (count != 1)} · {following} next · {previous} previous")
        elif text and count == 0:
            self._app.say("Nothing found.")

    def fold(self, _argument: str) -> None:
        front.transcript(self._app).fold_all()

    def unfold(self, _argument: str) -> None:
        front.transcript(self._app).unfold_all()

    def jump_to_end(self, _argument: str) -> None:
        front.transcript(self._app).jump_to_end()

    async def copy(self, _argument: str) -> None:
        path = self._app.need_engine().session.path
        if agent := front.agent(self._app):
            path = (await self._app.agents.past(agent)).path
        answers = (node.content for node in reversed(path) if node.kind == "assistant")
        text = next((answer for answer in answers if answer.strip()), "")
        if text:
            self._app.copy_to_clipboard(text)
            self._app.say("The last answer is on the clipboard.")
        else:
            self._app.say("There is no answer yet.")

    # Sessions

    async def new_session(self, _argument: str) -> None:
        await self._app.open_session(Wish(fresh=True))

    async def resume(self, argument: str) -> None:
        if argument:
            await self._app.open_session(Wish(resume=argument))
        else:
            await self.sessions("")

    async def sessions(self, _argument: str) -> None:
        from agent.home import Home
        from app.screens.sessions import SessionsScreen

        engine = self._app.need_engine()
        screen = SessionsScreen(engine.session.store, engine.session.id, Home.locate().run)
        chosen = await self._app.push_screen_wait(screen)
        if chosen is not None and chosen != engine.session.id:
            await self._app.open_session(Wish(resume=chosen))

    async def search(self, argument: str) -> None:
        from app.found import show_found
        from app.screens.search import SearchScreen

        screen = SearchScreen(self._app.need_engine().session.store, argument or self._searched)
        chosen = await self._app.push_screen_wait(screen)
        self._searched = screen.text
        if chosen is not None:
            await show_found(self._app, chosen)

    async def undo(self, _argument: str) -> None:
        self._tell(await self._app.journeys.undo())

    async def redo(self, _argument: str) -> None:
        self._tell(await self._app.journeys.redo())

    async def rewind(self, _argument: str) -> None:
        from app.journey_services import rewind_services
        from app.screens.rewind import RewindScreen

        journeys = self._app.journeys
        back = await self._app.push_screen_wait(RewindScreen(rewind_services(journeys.said, journeys.travel)))
        if back is not None:
            self._tell(await journeys.rewind(back))

    async def branch(self, argument: str) -> None:
        journeys = self._app.journeys
        self._tell(await journeys.fork(await journeys.end(), argument))

    async def branches(self, _argument: str) -> None:
        from app.screens.branches import BranchesScreen, listed

        travel = self._app.journeys.travel
        branches = listed(await travel.heads(), await travel.outline())
        wanted = await self._app.push_screen_wait(BranchesScreen(branches))
        if wanted is not None and wanted.act == "switch":
            self._tell(await self._app.journeys.switch(wanted.branch))
        elif wanted is not None and wanted.act == "rename":
            self._tell(await self._app.journeys.rename(wanted.branch, wanted.name))
        elif wanted is not None:
            self.compare(wanted.branch)

    def compare(self, branch: str) -> None:
        """Show a branch beside the one in use."""
        from app.journey_services import compare_services
        from app.screens.compare import CompareScreen

        engine = self._app.need_engine()
        self._app.push_screen(CompareScreen(compare_services(engine, engine.travel.head, branch)))

    def timeline(self, argument: str) -> None:
        """Open the tree, at a node if one is given."""
        from app.screens.timeline import TimelineScreen
        from app.timeline_engine import EngineTimeline

        engine = self._app.need_engine()
        services = EngineTimeline(engine, self._app.journeys)
        self._app.push_screen(TimelineScreen(services, at=int(argument) if argument else None))

    async def checkpoint(self, argument: str) -> None:
        journeys = self._app.journeys
        label = argument or time.strftime("checkpoint %H:%M")
        await journeys.travel.mark(await journeys.end(), label=label, bookmarked=True)
        self._app.say(f"This point is called “{label}”; the timeline shows it.")

    async def futures(self, argument: str) -> None:
        from app.futures import carry_out

        self._tell(await carry_out(self._app, argument))

    def _tell(self, words: str) -> None:
        """Say in the conversation what became of a journey."""
        if words:
            self._app.session.transcript.add_notice("info", words)

    async def title(self, argument: str) -> None:
        engine = self._app.need_engine()
        await engine.session.store.rename(engine.session.id, argument)
        self._app.say("Renamed.")

    async def model(self, argument: str) -> None:
        if not (argument := argument or await self._chosen_model()):
            return
        engine = self._app.need_engine()
        if engine.busy:
            self._app.complain("A turn is running; stop it (esc) before another model goes on.")
            return
        wish = Wish(resume=engine.session.id, model=argument)
        await self._app.open_session(wish)

    async def _chosen_model(self) -> str:
        from app.model_menu import ModelMenu
        from app.screens.models import ModelsScreen

        engine = self._app.need_engine()
        menu = ModelMenu(Path(engine.session.record.workspace))
        screen = ModelsScreen(engine.model, menu, lambda: self._app.host.busy)
        return await self._app.push_screen_wait(screen) or ""

    def context(self, _argument: str) -> None:
        from app.screens.context import ContextScreen

        self._app.push_screen(ContextScreen(self._app.need_engine().context))

    def usage(self, _argument: str) -> None:
        from agent.spending.overview import overview
        from app.screens.usage import UsageScreen

        metering = self._app.need_engine().metering
        self._app.push_screen(UsageScreen(lambda: overview(metering)))

    # View

    def todo(self, _argument: str) -> None:
        self._app.session.workbench.open("todo")

    async def agents(self, argument: str) -> None:
        if argument.strip():
            from app.merging import named

            await self._merge(named(argument))
        else:
            self._app.session.workbench.open("agents")

    async def kinds(self, _argument: str) -> None:
        from app.agent_menu import AgentMenu
        from app.screens.agents_kinds import KindsScreen

        chosen = await self._app.push_screen_wait(KindsScreen(AgentMenu(self._app.outbox.workspace)))
        if chosen is not None:
            prompt = front.prompt(self._app)
            prompt.insert_mention(chosen)
            prompt.focus()

    async def merge(self, agent: str) -> None:
        """Look at what an agent changed in its copy, and merge it."""
        await self._guarded(self._merge, agent)

    async def _merge(self, agent: str) -> None:
        from app.merging import merge_copy

        self._tell(await merge_copy(self._app, agent))

    def log(self, _argument: str) -> None:
        self._app.session.workbench.open("log")

    def jump(self, _argument: str) -> None:
        self._app.session.workbench.action_jump()

    def files(self, _argument: str) -> None:
        self._app.session.workbench.open("files")

    async def skins(self, argument: str) -> None:
        from app.screens.skins import choose

        await choose(self._app, argument)

    async def skin_editor(self, argument: str) -> None:
        from app.screens.skin_editor import edit

        await edit(self._app, argument)

    # Program

    def palette(self, _argument: str) -> None:
        self._app.action_command_palette()

    def help(self, _argument: str) -> None:
        from app.screens.help import HelpScreen, here

        app = self._app
        app.push_screen(HelpScreen(here(app.screen, app.keys), app.keys))

    async def settings(self, _argument: str) -> None:
        from app.screens.settings import SettingsScreen

        app = self._app
        app.push_screen(SettingsScreen(await app.preferences.read(), app.preferences, app.looks.palette))

    async def watch(self, argument: str) -> None:
        engine = self._app.need_engine()
        if argument not in ("", "on", "off"):
            raise HermesError(f"/watch takes on or off, not “{argument}”.")
        await engine.watch(not engine.watches if not argument else argument == "on")

    def mode(self, argument: str) -> None:
        """Change to the named mode, without a name to the next one."""
        from agent.safety.permissions.modes import MODES, SUMMARIES, canonical, following

        engine = self._app.need_engine()
        try:
            wanted = canonical(argument) if argument else following(engine.mode)
        except ValueError:
            raise HermesError(f"There is no mode “{argument}”; modes are {', '.join(MODES)}.") from None
        engine.approve(wanted)
        held = engine.mode
        if held == wanted:
            self._app.say(f"{held}: {SUMMARIES[held]}")
        else:
            self._app.complain(f"The mode is {held} until the mistake in permissions.yaml is mended.")

    def approvals(self, _argument: str) -> None:
        from agent.events import ApprovalAsked
        from app.screens.approvals import ApprovalsScreen

        engine = self._app.need_engine()

        def waiting() -> list[ApprovalAsked]:
            return [each for each in engine.inbox.pending() if isinstance(each, ApprovalAsked)]

        self._app.push_screen(ApprovalsScreen(engine.grants, waiting))

    def audit(self, _argument: str) -> None:
        from agent.home import Home
        from app.screens.audit import AuditScreen

        self._app.push_screen(AuditScreen(Home.locate().audit))

    def logs(self, _argument: str) -> None:
        from agent.home import Home
        from app.log_tail import LogTail
        from app.screens.logviewer import LogScreen

        self._app.push_screen(LogScreen(LogTail(Home.locate().logs / "hermes.log")))

    def suspend(self, _argument: str) -> None:
        self._app.action_suspend_process()

    def quit(self, _argument: str) -> None:
        self._app.exit()
