"""The actions of the commands; `app.tui.commands.registry` refers to these methods by name."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agent.errors import HermesError
from app.tui.commands.registry import BY_ID, AppCommand, read_slash
from app.tui.commands.slash_menu import note_recent
from app.tui.conversation import active_conversation
from app.tui.conversation.session_host import NotOpenYetError, SessionRequest

if TYPE_CHECKING:
    from app.tui.commands.history_actions import HistoryPort
    from app.tui.commands.slash_menu import SkillNamesPort
    from app.tui.conversation.saved_layout import SavedLayout
    from app.tui.screens.settings.preferences import Preferences
    from app.tui.screens.skins.appearance import AppearancePort

    class ActionContext(AppearancePort, HistoryPort, SkillNamesPort, Protocol):
        """The members of the application that the commands use."""

        @property
        def preferences(self) -> Preferences: ...

        remembered: SavedLayout | None

        async def show_title(self) -> None:
            """Show the title that the session has in the store."""
            ...

        def waiting(self) -> list[str]:
            """Return the queued messages, in order."""
            ...

        def set_queue(self, texts: list[str]) -> None:
            """Replace the queued messages."""
            ...

        def action_command_palette(self) -> None:
            """Open the palette."""
            ...

        def action_suspend_process(self) -> None:
            """Suspend the application and return to the shell, as ctrl+z does."""
            ...


QUIT_WINDOW = 2.0
"""Seconds within which a second ctrl+c quits."""


class CommandActions:
    """The commands of one application. Methods take the argument typed after the slash command."""

    def __init__(self, app: ActionContext) -> None:
        self._app = app
        self._asked_to_quit = float("-inf")
        self._searched = ""
        """The last search text."""

    async def run(self, command: AppCommand, argument: str = "") -> None:
        """Run a command; show a `HermesError` as a notice."""
        named = command.action
        act = getattr(self, named) if isinstance(named, str) else partial(named, self._app)
        await self._run_guarded(act, argument)

    async def run_slash(self, text: str) -> None:
        """Run the slash command in `text`."""
        call = read_slash(text)
        if isinstance(call, str):
            await self._run_guarded(partial(self._run_named, call), text)
        else:
            note_recent(self._app.remembered, call.command.id)
            await self.run(call.command, call.argument)

    async def _run_named(self, wrong: str, text: str) -> None:
        """Run a skill or a plugin's command; if neither has that name, show `wrong` and put the text back."""
        if not await self._app.skills.run(text):
            self._app.show_warning(wrong)
            active_conversation.prompt(self._app).put_before([f"/{text}"])

    async def run_shell(self, command: str) -> None:
        """Run the shell command typed after an exclamation mark."""
        await self._run_guarded(self._shell, command)

    async def _run_guarded(self, act: Callable[[str], object], argument: str) -> None:
        try:
            result = act(argument)
            if inspect.isawaitable(result):
                await result
        except NotOpenYetError as error:
            self._app.show_notice(str(error))
            await self._app.host.opened.wait()
            await self._run_guarded(act, argument)
        except HermesError as error:
            from app.tui.screens.extra_dialog import offer_extra

            if await offer_extra(self._app.push_screen_wait, str(error)):
                await self._run_guarded(act, argument)
            else:
                self._app.show_warning(str(error))

    def is_allowed(self, id: str) -> bool:
        """Return whether the keys of a command work now; if not, the focused widget gets them."""
        app = self._app
        if BY_ID[id].group == "Conversation" and not active_conversation.screen(app).panes_mounted:
            return False
        match BY_ID[id].action:
            case "stop":
                return app.host.busy
            case "quit":
                return not app.session.prompt.text and not app.host.busy
            case "jump_to_end":
                return not active_conversation.prompt(app).text
            case _:
                return True

    # Turn

    def stop(self, _argument: str) -> None:
        if self._app.host.client is not None:
            self._app.session.note_stop()
            self._app.host.client.interrupt()

    def recall(self, _argument: str) -> None:
        app = self._app
        waiting = app.waiting()
        if not waiting:
            app.show_notice("Nothing is queued.")
            return
        app.set_queue([])
        app.session.prompt.put_before(waiting)

    def back_out(self, _argument: str) -> None:
        app = self._app
        prompt = app.session.prompt
        if selected := app.session.get_selected_text():
            app.copy_to_clipboard(selected)
            app.session.clear_selection()
        elif prompt.text:
            prompt.set_text("")
        elif app.host.busy:
            self.stop("")
        elif time.monotonic() - self._asked_to_quit <= QUIT_WINDOW:
            app.exit()
        else:
            self._asked_to_quit = time.monotonic()
            app.show_notice(f"Press {app.keys.label('program.back')} again to quit.", timeout=QUIT_WINDOW)

    async def _shell(self, command: str) -> None:
        """Run the user's shell command in the workspace, and add its output to the conversation as a note."""
        from app.tui.commands.shell import run_shell

        client = self._app.host.client
        if client is None or client.busy:
            self._app.session.prompt.set_text(f"!{command}")
            self._app.show_warning("! works when the session is open and no turn runs; the command is kept.")
            return
        outcome = await run_shell(command, client.workspace)
        await client.add_note(outcome.as_text())

    # Conversation

    async def find(self, argument: str) -> None:
        """Open the bar that searches the conversation as the user types."""
        from app.tui.conversation.find_bar import open_bar

        screen = active_conversation.screen(self._app)
        if screen.panes_mounted:
            await open_bar(screen, argument)

    def fold(self, _argument: str) -> None:
        active_conversation.transcript(self._app).navigator.fold_all()

    def unfold(self, _argument: str) -> None:
        active_conversation.transcript(self._app).navigator.unfold_all()

    def jump_to_end(self, _argument: str) -> None:
        active_conversation.transcript(self._app).navigator.jump_to_end()

    async def copy(self, argument: str) -> None:
        from app.tui.conversation.copied_text import copied_text

        path = self._app.need_client().path
        if agent := active_conversation.agent(self._app):
            path = (await self._app.agents.past(agent)).path
        self._app.copy_to_clipboard(copied_text(path, argument.strip()))

    def toggle_mouse(self, _argument: str) -> None:
        app = self._app
        app.report_mouse("off" if app.mouse != "off" else "full")
        app.show_notice(
            "The terminal has the mouse: select text as in any other program; /mouse gives it back."
            if app.mouse == "off"
            else "Hermes has the mouse again."
        )

    # Sessions

    async def new_session(self, _argument: str) -> None:
        await self._app.open_session(SessionRequest(fresh=True))

    async def resume(self, argument: str) -> None:
        if argument:
            await self._app.open_session(SessionRequest(resume=argument))
        else:
            await self.sessions("")

    async def sessions(self, _argument: str) -> None:
        from app.tui.screens.sessions.sessions import SessionsScreen

        client = self._app.need_client()
        chosen = await self._app.push_screen_wait(SessionsScreen(client.stored, client.id))
        if chosen is not None and chosen != client.id:
            await self._app.open_session(SessionRequest(resume=chosen))

    async def search(self, argument: str) -> None:
        from app.tui.conversation.open_search_hit import show_search_hit
        from app.tui.screens.sessions.sessions import ChosenNote, SearchScreen

        screen = SearchScreen(self._app.need_client().stored, argument or self._searched)
        chosen = await self._app.push_screen_wait(screen)
        self._searched = screen.text
        if isinstance(chosen, ChosenNote):
            # Each kind has its own screen, which starts at the hit.
            await self.run(
                BY_ID[f"program.{chosen.source}"], chosen.text if chosen.source == "memory" else chosen.title
            )
        elif chosen is not None:
            await show_search_hit(self._app, chosen)

    async def undo(self, _argument: str) -> None:
        self._show_notice(await self._app.history_actions.undo())

    async def redo(self, _argument: str) -> None:
        self._show_notice(await self._app.history_actions.redo())

    async def rewind(self, _argument: str) -> None:
        from app.tui.screens.history.compare import rewind_services
        from app.tui.screens.history.restoring import RewindScreen

        history_actions, client = self._app.history_actions, self._app.need_client()
        back = await self._app.push_screen_wait(
            RewindScreen(rewind_services(history_actions.list_user_messages, client))
        )
        if back is not None:
            self._show_notice(await history_actions.rewind(back))

    async def branch(self, argument: str) -> None:
        history_actions = self._app.history_actions
        self._show_notice(await history_actions.fork(await history_actions.end(), argument))

    async def branches(self, _argument: str) -> None:
        from app.tui.screens.history.compare import BranchesScreen, branch_entries

        history = self._app.history_actions.history
        branches = branch_entries(await history.heads(), await history.outline())
        wanted = await self._app.push_screen_wait(BranchesScreen(branches))
        if wanted is not None and wanted.act == "switch":
            self._show_notice(await self._app.history_actions.switch(wanted.branch))
        elif wanted is not None and wanted.act == "rename":
            self._show_notice(await self._app.history_actions.rename(wanted.branch, wanted.name))
        elif wanted is not None:
            self.compare(wanted.branch)

    def compare(self, branch: str) -> None:
        """Open the screen that compares a branch with the one in use."""
        from app.tui.screens.history.compare import CompareScreen, compare_services

        client = self._app.need_client()
        self._app.push_screen(CompareScreen(compare_services(client, client.branch, branch)))

    def timeline(self, argument: str) -> None:
        """Open the timeline, with the cursor on a node if its number is given."""
        from app.tui.screens.history.timeline import EngineTimeline, TimelineScreen

        services = EngineTimeline(self._app.need_client(), self._app.history_actions)
        self._app.push_screen(TimelineScreen(services, at=int(argument) if argument else None))

    async def checkpoint(self, argument: str) -> None:
        history_actions = self._app.history_actions
        label = argument or time.strftime("checkpoint %H:%M")
        await history_actions.history.mark(await history_actions.end(), label=label, bookmarked=True)
        self._app.show_notice(f"This point is called “{label}”; the timeline shows it.")

    async def attempts(self, argument: str) -> None:
        from app.tui.commands.attempts import carry_out

        self._show_notice(await carry_out(self._app, argument))

    def _show_notice(self, words: str) -> None:
        """Show `words`, the result of a move through the history, in the conversation, unless empty."""
        if words:
            self._app.session.transcript.add_notice("info", words)
            self._app.session.go_to_end()

    async def title(self, argument: str) -> None:
        client = self._app.need_client()
        await client.stored.rename(client.id, argument)
        await self._app.show_title()

    async def model(self, argument: str) -> None:
        if not (argument := argument or await self._chosen_model()):
            return
        client = self._app.need_client()
        if client.busy:
            self._app.show_warning("A turn is running; stop it (esc) before another model continues.")
            return
        wish = SessionRequest(resume=client.id, model=argument)
        await self._app.open_session(wish)

    async def _chosen_model(self) -> str:
        from app.tui.screens.models.model_menu import ModelMenu
        from app.tui.screens.models.models import ModelsScreen

        client = self._app.need_client()
        menu = ModelMenu(client.workspace)
        screen = ModelsScreen(client.model, menu, lambda: self._app.host.busy, setup=menu)
        return await self._app.push_screen_wait(screen) or ""

    def usage(self, _argument: str) -> None:
        from app.tui.screens.usage import UsageScreen

        self._app.push_screen(UsageScreen(self._app.need_client().usage))

    # View

    def todo(self, _argument: str) -> None:
        self._app.session.workbench.open("todo")

    async def agents(self, argument: str) -> None:
        if argument.strip():
            from app.tui.commands.merging import agent_to_merge

            await self._merge(agent_to_merge(argument))
        else:
            self._app.session.workbench.open("agents")

    async def kinds(self, _argument: str) -> None:
        from app.tui.screens.agents.agents_kinds import AgentMenu, KindsScreen

        chosen = await self._app.push_screen_wait(KindsScreen(AgentMenu(self._app.message_sender.workspace)))
        if chosen is not None:
            prompt = active_conversation.prompt(self._app)
            prompt.insert_mention(chosen)
            prompt.focus()

    async def merge(self, agent: str) -> None:
        """Show what an agent changed in its copy, and merge what the user chooses."""
        await self._run_guarded(self._merge, agent)

    async def _merge(self, agent: str) -> None:
        from app.tui.commands.merging import merge_copy

        self._show_notice(await merge_copy(self._app, agent))

    def log(self, _argument: str) -> None:
        self._app.session.workbench.open("log")

    def jump(self, _argument: str) -> None:
        self._app.session.workbench.action_jump()

    def files(self, _argument: str) -> None:
        self._app.session.workbench.open("files")

    async def skins(self, argument: str) -> None:
        from app.tui.screens.skins.skins import choose

        await choose(self._app, argument)

    async def skin_editor(self, argument: str) -> None:
        from app.tui.screens.skins.skins import edit

        await edit(self._app, argument)

    # Program

    def palette(self, _argument: str) -> None:
        self._app.action_command_palette()

    def help(self, _argument: str) -> None:
        from app.tui.screens.help import HelpScreen, here

        app = self._app
        app.push_screen(HelpScreen(here(app.screen, app.keys), app.keys))

    async def settings(self, _argument: str) -> None:
        from app.tui.screens.settings.settings import SettingsScreen

        app = self._app
        app.push_screen(SettingsScreen(await app.preferences.read(), app.preferences))

    async def watch(self, argument: str) -> None:
        client = self._app.need_client()
        if argument not in ("", "on", "off"):
            raise HermesError(f"/watch takes on or off, not “{argument}”.")
        await client.watch(not client.watches if not argument else argument == "on")

    async def mode(self, argument: str) -> None:
        """Switch to the named permission mode; without a name, to the next one. Raises `HermesError`."""
        from agent.core.messages import MODES, SUMMARIES, canonical, following

        client = self._app.need_client()
        try:
            wanted = canonical(argument) if argument else following(client.mode)
        except ValueError:
            raise HermesError(f"There is no mode “{argument}”; modes are {', '.join(MODES)}.") from None
        held = await client.set_mode(wanted)
        if held == wanted:
            self._app.show_notice(f"{held}: {SUMMARIES[held]}")
        else:
            self._app.show_warning(f"The mode is {held} until the mistake in permissions.yaml is fixed.")

    def approvals(self, _argument: str) -> None:
        from app.tui.screens.approvals import ApprovalsScreen

        self._app.push_screen(ApprovalsScreen(self._app.need_client().approvals))

    def audit(self, _argument: str) -> None:
        from agent.core.home import Home
        from app.tui.screens.approvals import AuditScreen

        self._app.push_screen(AuditScreen(Home.locate().audit))

    def logs(self, _argument: str) -> None:
        from agent.core.home import Home
        from app.tui.screens.logviewer import LogScreen, LogTail

        self._app.push_screen(LogScreen(LogTail(Home.locate().logs / "hermes.log")))

    def suspend(self, _argument: str) -> None:
        self._app.action_suspend_process()

    def quit(self, _argument: str) -> None:
        self._app.exit()
