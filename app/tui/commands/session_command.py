"""Commands about the draft, the conversation and the session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.api.project_notes import drafting_instruction
from agent.core.home import Home, from_home
from agent.errors import ConfigError, HermesError
from app.tui.commands.registry import read_commands
from app.tui.conversation import active_conversation
from app.tui.conversation.session_host import SessionRequest
from tools.extras import is_installed, missing
from tools.kit.children import start_child
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.knowledge.context.quarantine import KeptPassage
    from app.tui.app_context import AppContext


async def attach(app: AppContext, path: str) -> None:
    from app.tui.conversation.attachments import named_files

    files = await asyncio.to_thread(named_files, path, app.message_sender.workspace)
    app.session.prompt.insert_files(files)


def browser(app: AppContext, _argument: str) -> None:
    import os

    from agent.core.home import Home
    from app.tui.screens.browser import BrowserScreen

    client = app.need_client()
    folder = Home.locate().scratch / client.id / "browser"
    shelf = app.session.transcript.pictures if app.session.panes_mounted else None
    app.push_screen(BrowserScreen(folder, colours=not os.environ.get("NO_COLOR"), shelf=shelf))


async def canvas(app: AppContext, name: str) -> None:
    from agent.core.home import Home
    from agent.core.store.stored_path import CANVAS, labelled
    from agent.knowledge.canvas.documents import CanvasDocuments
    from tools.services.canvases import canvases_of

    client = app.need_client()
    found = canvases_of(node.content for node in labelled(client.path, CANVAS))
    if not found:
        raise HermesError("Nothing is shown on a canvas in this conversation.")
    names = [each.name for each in found]
    if name and name not in names:
        raise HermesError(f"There is no canvas {name}; there are {', '.join(names)}.")
    canvas = found[names.index(name)] if name else found[-1]
    last = canvas.versions[-1]
    documents = CanvasDocuments(Home.locate().canvas)
    path = await asyncio.to_thread(documents.exported, client.id, last.sha256, last.title)
    if path is None:
        raise HermesError("What this canvas shows is no longer there.")
    # Without a graphical display, a text browser would take over the terminal.
    screen = sys.platform == "darwin" or any(os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY"))
    opened = screen and await asyncio.to_thread(webbrowser.open, path.as_uri())
    app.show_notice(f"{last.title}: {'opened' if opened else 'open'} {path.as_uri()}", timeout=30)


async def compact(app: AppContext, focus: str) -> None:
    client = app.need_client()
    if not client.busy:  # during a turn the engine refuses
        app.show_notice("Compacting the conversation …")
    # The conversation shows the result.
    await client.compact(focus)


def context(app: AppContext, _argument: str) -> None:
    from app.tui.screens.context import ContextScreen

    client = app.need_client()
    standing, let_in = partial(_standing, client), partial(let_in_passage, client)
    app.push_screen(ContextScreen(client.context, standing, let_in))


def _standing(client: SessionClient) -> object:
    """Return a value that changes whenever the session, its model or its conversation does."""
    path = client.path
    return client.id, client.model, path[-1].id if path else 0


async def let_in_passage(client: SessionClient, passage: KeptPassage) -> str:
    """Admit a passage withheld by the quarantine; return a notice of when. Raises `HermesError`."""
    from agent.core.home import Home
    from agent.knowledge.context.quarantine import approve_passage

    await asyncio.to_thread(lambda: approve_passage(Home.locate(), passage))
    if client.busy:
        return f"{passage.place} is let in, from the next session on."
    # The system prompt is unchanged, so the agent gets a separate note.
    await client.add_note(f"The user let in what was kept back of {passage.place}:\n\n{passage.text}")
    return f"{passage.place} is let in; the agent is told now."


def detach(app: AppContext, _words: str) -> None:
    client = app.need_client()
    if not app.host.is_served:
        raise HermesError(
            "This session belongs to this terminal and ends with it; /serve hands it to the service first."
        )
    if app.host.is_lost:
        raise HermesError(f"The service has ended; /resume {client.id} continues with the session.")
    app.exit()


LEVELS = ("off", "low", "medium", "high", "default")
"""The levels of reasoning effort, in the order in which the command steps through them."""


async def effort(app: AppContext, wanted: str) -> None:
    """Set a level of reasoning effort, the next one if `wanted` is empty. The conversation shows a notice."""
    client = app.need_client()
    await client.set_effort(wanted or next_level(client.effort))


def next_level(level: str) -> str:
    """Return the level after `level`, wrapping around; `off` after a number of tokens."""
    at = LEVELS.index(level) if level in LEVELS else -1
    return LEVELS[(at + 1) % len(LEVELS)]


ENDINGS = {
    "html": "html",
    "jsonl": "jsonl",
    "sharegpt": "json",
    "openai": "json",
    "atif": "json",
    "patch": "patch",
}
"""The export formats, each with the suffix of its files."""
_START = "import sys; sys.path[:] = {path!r}; from app.main import main; sys.exit(main({arguments!r}))"


def read_words(words: str) -> tuple[str, str]:
    """Parse `[FORMAT] [PATH]`; a path alone decides the format. Return both. Raises `ConfigError`."""
    first, _, path = words.strip().partition(" ")
    if first in ENDINGS or not first:
        return first or "html", path.strip().strip("\"'")
    path = words.strip().strip("\"'")
    ending = Path(path).suffix.removeprefix(".").lower()
    layout = next((name for name, each in ENDINGS.items() if ending in (name, each)), "")
    if not layout:
        raise ConfigError(f"{first[:40]!r} is not a format of exports; the formats are {', '.join(ENDINGS)}.")
    return layout, path


def _file(workspace: Path, name: str, path: str) -> Path:
    """Return the export file: `path` in the workspace, or `name` in a folder of the home, created here."""
    if path:
        return workspace / Path(path).expanduser()
    folder = Home.locate().root / "exports"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder / name


async def export(app: AppContext, words: str) -> None:
    layout, path = read_words(words)
    client = app.need_client()
    ending = ENDINGS[layout]
    name = f"{client.id}.{ending}" if layout == ending else f"{client.id}-{layout}.{ending}"
    file = await asyncio.to_thread(_file, client.workspace, name, path)
    arguments = ["sessions", "export", client.id, "--format", layout, "--branch", client.branch]
    arguments += ["-o", str(file), *(() if path else ("--force",))]
    child = await start_child(
        [sys.executable, "-I", "-c", _START.format(path=sys.path, arguments=arguments)],
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    _, said = await child.communicate()
    if child.returncode:
        words = clean(said.decode("utf-8", "replace")).strip().removeprefix("hermes: ")
        raise HermesError(words.replace(" or give --force", "") or "The session was not written.")
    app.show_notice(f"Written to {from_home(file)}, secrets masked.")


async def init(app: AppContext, _words: str) -> None:
    text = await asyncio.to_thread(drafting_instruction, app.need_client().workspace)
    app.message_sender.send(text)


SETTLING = 5.0
"""Seconds to wait until an ended turn is written to the store."""
PATIENCE = 20.0
"""Seconds to wait until a new service has started."""


async def serve(app: AppContext, _words: str) -> None:
    url = await hand_to_service(app)
    where = f" at {url}" if url else ""
    app.show_notice(
        f"The service has this session{where}. `hermes serve pair` lets a browser in.", timeout=15
    )


async def hand_to_service(app: AppContext) -> str:
    """Hand the session to the service, unless the service has it already; return the service's address.
    Raises `HermesError`.
    """
    from agent.core.home import Home
    from app.running_service import running_service

    client, folder = app.need_client(), Home.locate().root / "serve"
    if app.host.is_served:
        running = running_service(folder)
        return running["url"] if running else ""
    await ensure_service(app)
    running = running_service(folder)
    await app.open_session(SessionRequest(resume=client.id, model=client.model, attach=True))
    return running["url"] if running else ""


async def ensure_service(app: AppContext) -> None:
    """Wait until no turn runs, and start the service if it does not run. Raises `HermesError`."""
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
    """Start a service that outlives this program, and wait until it is ready. Raises `HermesError`."""
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


USAGE = "Write where it continues: /move telegram, or /move here to take it out of every chat."


async def move(app: AppContext, where: str) -> None:
    from agent.api.remote import check_move, move_session
    from agent.core.home import Home

    if not where:
        raise HermesError(USAGE)
    service = Home.locate().service_socket
    if not app.host.is_served:
        # If that is refused, the session does not move.
        await ensure_service(app)
        await check_move(service, where)
    await hand_to_service(app)
    told = await move_session(service, app.need_client().id, where)
    app.show_notice(told, timeout=15)


async def paste_image(app: AppContext, _nothing: str) -> None:
    from agent.core.home import Home
    from app.tui.conversation.attachments import first_existing
    from app.tui.conversation.clipboard_images import NoImageError, clipboard_image, keep
    from tools.results import ToolError

    environ = dict(os.environ)
    try:
        data = await _from_terminal(app) or await clipboard_image(environ, sys.platform)
        path = await keep(data, Home.locate(environ).scratch / "pasted")
    except (NoImageError, ToolError) as error:
        app.show_warning(str(error))
        return
    files = await asyncio.to_thread(first_existing, [[str(path)]], app.message_sender.workspace)
    app.session.prompt.insert_files(files or ())


async def _from_terminal(app: AppContext) -> bytes | None:
    """Return the image in the terminal's clipboard; None if it cannot be read. Raises `NoImageError`."""
    from app.tui.conversation.clipboard_images import LARGEST, NoImageError
    from app.tui.terminal.terminals import ClipboardRefusedError, clipboard_of_terminal

    if app.direct_write is None:
        return None
    try:
        data = await clipboard_of_terminal(app.direct_write, app.answers, LARGEST)
    except ClipboardRefusedError as error:
        raise NoImageError(
            f"The terminal does not give access to its clipboard: {error}; drop the image on the prompt."
        ) from error
    if data == b"":
        raise NoImageError("There is no image in the clipboard; text is pasted by your terminal's own key.")
    return data


DRAFT = (
    "Write down how you did this as a skill, with skill_manage; read the skill writing-a-skill first. Say "
    "when it is of use, the steps that worked, what went wrong on the way and how to check the result. "
    "Leave out what belongs to this one case."
)


def save_skill(app: AppContext, argument: str) -> None:
    prompt = active_conversation.prompt(app)
    about = f" It is about {argument}." if argument else ""
    prompt.set_text(f"{DRAFT}{about}")


_TABLE = """\
Turn:
prompt.attach; Attach an image; attach; ; /attach <path>
    Send a png, jpeg, gif or webp with the message, like one dropped on the prompt.
prompt.paste_image; Paste an image; paste_image; ctrl+v; /paste
    Send the image of the clipboard with the message; text is pasted by the terminal's own key.
turn.save_skill; Save the way as a skill; save_skill; ; /save-skill [about]
    Draft the message that has the agent write down how it did this; it is not sent yet.
Conversation:
session.canvas; Open canvas; canvas; ; /canvas [name]
    What the agent shows, in the web browser: the newest, or the one named.
session.compact; Compact the conversation; compact; ; /compact [what matters most]
    A summary takes the place of older messages; your own words stay, and all can be opened.
session.effort; Effort; effort; ; /effort [level|tokens]
    How much the model thinks: off, low, medium, high, default or tokens; else the next.
session.init; Draft AGENTS.md; init; ; /init
    The model looks at the project and writes AGENTS.md, or proposes improvements to it.
session.move; Move to a messenger; move; ; /move telegram|here
    Your chat there continues with the session, which the service has then; `/move here`: not.
session.serve; Hand over to the service; serve; ; /serve
    The session continues in `hermes serve`, for the browser too; this terminal stays attached.
Sessions:
session.browser; Browser; browser; ; /browser
    Show the page that the agent has open, as a picture and as text.
session.context; Context and cost; context; ; /context
    Show what fills the window, layer by layer, what is kept back, and what was used.
session.detach; Detach; detach; alt+q; /detach
    Leave; the session continues in the service, with its turn. `hermes --attach` comes back.
session.export; Export this session; export; ; /export [format] [path]
    Write the branch in use to a file: html (a page), jsonl, sharegpt, openai, atif or patch.
"""

COMMANDS = read_commands(
    _TABLE,
    attach,
    browser,
    canvas,
    compact,
    context,
    detach,
    effort,
    export,
    init,
    move,
    paste_image,
    save_skill,
    serve,
)
