"""Draws the pictures of the documentation: screens of the application, fed with events of a made-up session.

Writes SVG into a folder; the documentation shows PNG made from them, with any converter, such as

    python docs/make_pictures.py build/pictures
    for each in build/pictures/*.svg; do
      cairosvg "$each" -o "docs/images/$(basename "$each" .svg).png"
      pngquant --ext .png --force 64 "docs/images/$(basename "$each" .svg).png"
    done

Those of going back and of the timeline are made from snapshots of the tests of these screens.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.cells import cell_len
from textual.pilot import Pilot

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.core.store.nodes import Node
from agent.events import AgentEnded, AgentProgressed, AgentStarted, Noticed, QueueChanged, TextAdded
from agent.knowledge.context.compaction import CompactionPlan
from agent.knowledge.context.message_history import ContextFold, fold_text
from agent.model.detect import DetectedServer
from agent.model.model_choices import ModelChoice, choices, served_choices
from agent.session.conversation.stored_sessions import StoredSessions
from agent.session.subagents.agents import AgentConversation
from agent.workspace.git import Checkout
from app.tui.commands.merging import MergeScreen
from app.tui.conversation import active_conversation
from app.tui.screens import dialog as dialogs
from app.tui.screens.context import ContextScreen
from app.tui.screens.models.models import ModelsScreen
from app.tui.screens.sessions.sessions import SessionsScreen
from app.tui.screens.skills import CandidateScreen
from tests.app.tui import agents_stage, web_stage
from tests.app.tui import test_memory_screen as memories
from tests.app.tui import test_skill_offers as offers
from tests.app.tui import test_skills_screen as skills_stage
from tests.app.tui.going_back_stage import PLAN, RESTORE
from tests.app.tui.test_context_screen import FULL
from tests.app.tui.test_looks_of_dialogs import DIALOGS
from tests.app.tui.test_models_screen import HOME, KEYS, Menu
from tests.support import shelf, story
from tests.support.staged import Act, Staged, drawn, scene
from tests.support.waiting import until
from themes.states import glyph

TALL, WIDE, NARROW, BARE = (120, 38), (120, 36), (80, 24), (59, 24)
FONT = "DejaVu Sans Mono"
"""A face that has every glyph in use; converters rarely fetch the one a picture names."""
CELL = 12.2
"""Pixels of a cell of an exported picture."""
_RUN = re.compile(r'<text class="[^"]*-r\d+" x="(?P<x>[\d.]+)"[^>]*>(?P<text>[^<]*)</text>')
SETTLING = 0.3
"""Seconds in which a screen has read what it shows."""


FIXED = """\
**The cent is back.** `money.round()` went through binary floats, and gave every currency two digits:

| currency | digits | before | after |
|----------|-------:|-------:|------:|
| JPY      |      0 |     99 |   100 |
| KWD      |      3 |   1.00 | 1.005 |

Three callers round once more after it. I am taking tha"""
"""An answer that is still coming in."""


async def session(app: Staged, pilot: Pilot[Any]) -> None:
    """Near the end of a turn: calls, an edit, agents, and an answer that comes in."""
    app.hear([story.opened(), *story.asked(), *story.thinking()])
    await drawn(pilot)
    app.clock.now += 4.2
    app.hear([*story.looked(), *story.changed()])
    app.hear(
        [
            *story.call("c4", "terminal", "pytest -q", "214 passed", seconds=6.2),
            story.plan("completed", "completed", "completed", "in_progress", "pending"),
            AgentStarted(agent="a1", name="callers", goal="Find every caller of money.round()"),
            AgentStarted(agent="a2", name="history", goal="Who changed the rounding?"),
            AgentStarted(agent="a3", name="docs", goal="What do the docs promise?"),
            AgentEnded(
                agent="a3", outcome="done", summary="4 findings", seconds=31.0, tokens=5_200, cost=0.02
            ),
        ]
    )
    app.session.agents.set_motion(True)
    for calls, tokens in ((3, 1_900), (5, 3_100), (8, 6_200), (11, 8_100)):
        app.clock.now += 9.6
        reads = AgentProgressed(
            agent="a1", action="reading api/views.py", calls=calls, tokens=tokens, cost=0.03, budget=0.4
        )
        blames = AgentProgressed(
            agent="a2", action="git log -S round", calls=2, tokens=tokens // 9, cost=0.01, budget=0.1
        )
        app.hear([reads, blames])
    app.hear([story.used(), TextAdded(text=FIXED), QueueChanged(queued=("and add a changelog line",))])
    await drawn(pilot)
    await pilot.press(*"then bump the version")


async def under_way(app: Staged, pilot: Pilot[Any]) -> None:
    """In the middle of a turn."""
    app.hear([story.opened(), *story.asked(), *story.thinking()])
    await drawn(pilot)
    app.clock.now += 4.2
    app.hear([*story.at_work()[4:], story.waiting()])
    app.clock.now += 3.4
    await pilot.press(*"and bump the version")


async def done(app: Staged, pilot: Pilot[Any]) -> None:
    """After a turn."""
    app.hear(story.done())


async def error(app: Staged, pilot: Pilot[Any]) -> None:
    """The provider has gone."""
    app.hear([story.opened(), *story.asked(), *story.looked(), story.used(), *story.outcomes()])
    words = "The provider cannot be reached; check the network, then send the message again."
    app.hear([story.ended("failed", words, 3)])


def over(act: Act) -> Act:
    """Something that happens over a session which stands."""

    async def play(app: Staged, pilot: Pilot[Any]) -> None:
        app.hear([story.opened(), *story.asked(), *story.looked(), story.used()])
        await drawn(pilot)
        await act(app, pilot)
        await pilot.pause(SETTLING)

    return play


async def clarify(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.question()])


async def approval(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.approval(**story.JUDGED)])


async def forecast(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.forecast()])


async def ceiling(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([agents_stage.sent("agent-1", "callers", agents_stage.GOAL), story.ceiling("agent-1")])


async def sessions(app: Staged, pilot: Pilot[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with await shelf.filled(Path(folder, "state.db"), shelf.SESSIONS[1:]) as store:
            newest = await store.latest_session()
            assert newest is not None
            stored = StoredSessions(store, Home(Path(folder)))
            app.push_screen(SessionsScreen(stored, newest.id, lambda: shelf.NOW))
            await pilot.pause(SETTLING)


class Offers(Menu):
    """Models of providers with and without a key, and of a server on this machine."""

    async def list_choices(self) -> list[ModelChoice]:
        return choices(Settings(), KEYS, HOME)

    async def detect_choices(self) -> list[ModelChoice]:
        here = DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3-coder:30b", "llama3.2:3b"))
        return served_choices(Settings(), KEYS, HOME, [here])


async def models(app: Staged, pilot: Pilot[Any]) -> None:
    app.push_screen(ModelsScreen("anthropic/claude-sonnet-5", Offers(), lambda: False))


async def context(app: Staged, pilot: Pilot[Any]) -> None:
    async def count() -> Any:
        return FULL

    app.push_screen(ContextScreen(count))


SAID = "The invoice totals are off by a cent for JPY. Find out why and fix it."
FOLD = ContextFold(
    start=20,
    summary="## Goal\nRound each currency with the digits it has.\n## Open\n- the docs of `money.round()`",
    decisions=("Decimal instead of float",),
    before=151_200,
    after=9_400,
)
"""What a compaction kept."""


async def memory(app: Staged, pilot: Pilot[Any]) -> None:
    """Notes of all scopes, one of which is kept out of the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        await memories.opened(app, pilot, memories.filled(Path(folder), attack=True), [])
        await drawn(pilot)
        await pilot.press("j", "j", "j")
        await pilot.pause(SETTLING)


async def skills(app: Staged, pilot: Pilot[Any]) -> None:
    """A skill in which the scan found something."""
    screen = await skills_stage.opened(app, pilot, skills_stage.shelf(Path.home()), [])
    await drawn(pilot)
    await pilot.press("j", "j", "j", "j")
    await until(pilot, lambda: screen.told == "quick-win", "the scan")
    await pilot.pause(SETTLING)


async def report(app: Staged, pilot: Pilot[Any]) -> None:
    """What is shown of a skill from elsewhere before it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        await offers.opened(app, pilot, offers.market(Path(folder)), "quick", [])
        await drawn(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CandidateScreen), "the skill")
        await pilot.pause(SETTLING)


async def compaction(app: Staged, pilot: Pilot[Any]) -> None:
    """A fold of the conversation, opened."""
    words = Node(id=1, session="s", parent=None, kind="user", created=0.0, content=SAID, data={})
    room = CompactionPlan("fold", FOLD.data(), 0, fold_text(FOLD, [words]))
    app.hear([story.opened(), *story.asked(), story.used(), story.ended()])
    app.hear([Noticed(kind="compaction", text=room.sentence(), detail=room.detail)])
    await drawn(pilot)
    app.actions.unfold("")
    await pilot.pause(SETTLING)


async def agents(app: Staged, pilot: Pilot[Any]) -> None:
    """Several agents at work, one of which asks."""
    agents_stage.busy(app)
    app.session.agents.set_motion(True)
    await app.actions.run_slash("agents")
    await pilot.pause(SETTLING)


async def attached(app: Staged, pilot: Pilot[Any]) -> None:
    """The conversation of one of them, with something to be told."""
    await agents(app, pilot)

    async def nothing_yet(_agent: str) -> AgentConversation:
        return AgentConversation((), ())

    setattr(app.agents, "past", nothing_yet)  # noqa: B010 - there is no engine on this stage
    active_conversation.attach(app, "agent-1")
    await pilot.pause(SETTLING)
    app.hear(agents_stage.conversation())
    await pilot.press(*"Look at the admin views too")
    await pilot.pause(SETTLING)


async def merge(app: Staged, pilot: Pilot[Any]) -> None:
    app.push_screen(MergeScreen(PLAN, RESTORE, agent="prices (agent-1)", place="1 of 3"))


def keys(*pressed: str) -> Act:
    async def press(app: Staged, pilot: Pilot[Any]) -> None:
        await pilot.press(*pressed)

    return press


async def editor(app: Staged, pilot: Pilot[Any]) -> None:
    app.run_worker(app.actions.run_slash("skin-editor moss"))


PICTURES: list[tuple[str, Act, tuple[int, int], tuple[str, ...]]] = [
    ("session", session, TALL, ("night", "paper", "amber", "contrast-light")),
    ("session-80x24", done, NARROW, ("night",)),
    ("session-59x24", under_way, BARE, ("night",)),
    ("clarify", over(clarify), NARROW, ("night",)),
    ("approval", over(approval), NARROW, ("night",)),
    ("forecast", over(forecast), NARROW, ("night",)),
    ("ceiling", over(ceiling), NARROW, ("night",)),
    ("first-model", DIALOGS["onboarding"], NARROW, ("night",)),
    ("first-key", DIALOGS["onboarding-refused"], NARROW, ("night",)),
    ("first-held", DIALOGS["onboarding-held"], NARROW, ("night", "paper", "contrast-light")),
    ("sessions", over(sessions), NARROW, ("night",)),
    ("skins", over(keys("ctrl+t")), WIDE, ("night",)),
    ("skin-editor", over(editor), WIDE, ("night",)),
    ("settings", over(keys("f2")), NARROW, ("night",)),
    ("models", over(models), NARROW, ("night",)),
    ("context", over(context), NARROW, ("night",)),
    ("memory", over(memory), NARROW, ("night",)),
    ("skills-findings", over(skills), NARROW, ("night",)),
    ("skill-report", over(report), NARROW, ("night",)),
    ("compaction-opened", compaction, WIDE, ("night",)),
    ("help", over(keys("f1")), NARROW, ("night",)),
    ("agents", agents, WIDE, ("night",)),
    ("agent", attached, WIDE, ("night",)),
    ("merge", over(merge), WIDE, ("night",)),
    ("web-search", web_stage.on_the_web(1), TALL, ("night",)),
    ("web-page", web_stage.on_the_web(2), TALL, ("night",)),
    ("browser", over(web_stage.browser), NARROW, ("night",)),
    ("error", error, NARROW, ("night",)),
]
"""Name, what happens, size of the terminal, skins; the first skin needs no mention in the file's name."""
SNAPSHOTS = {
    "restore": "looks_of_going_back/test_going_back_looks_as_it_should[restore-overlap-80x24]",
    "restore-hunks": "looks_of_going_back/test_going_back_looks_as_it_should[restore-hunks-120x40]",
    "rewind": "looks_of_going_back/test_going_back_looks_as_it_should[rewind-80x24]",
    "compare": "looks_of_going_back/test_going_back_looks_as_it_should[compare-80x24]",
    "timeline-three": "timeline_screen/test_it_looks_as_it_should[three-branches-wide]",
    "timeline-diff": "timeline_screen/test_it_looks_as_it_should[diff-wide]",
}
"""Pictures that tests hold, by name."""


async def draw(act: Act, size: tuple[int, int], skin: str) -> str:
    """One picture as SVG."""
    app = Staged(skin, branch=Checkout("fix-rounding"))
    async with app.run_test(size=size) as pilot:
        await scene(act)(pilot)
        return convertible(app.export_screenshot(title="hermes"))


def convertible(svg: str) -> str:
    """Return an exported picture in a face that converters find, with a place for each character."""
    # The face lacks the spinner; without motion the mark of work is this one.
    svg = re.sub("[\u2800-\u28ff]", glyph("working"), svg)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return _RUN.sub(placed, re.sub(r"font-family: *[^;]*;", f"font-family: {FONT};", svg))


def placed(run: re.Match[str]) -> str:
    """A run of text with a place for each character: left to a converter, runs end short of the next one."""
    text = html.unescape(run["text"])
    places = [float(run["x"]) + CELL * cell_len(text[:at]) for at in range(len(text))]
    return run[0].replace(f' x="{run["x"]}"', f' x="{" ".join(f"{each:.1f}" for each in places)}"', 1)


def main(folder: Path) -> None:
    """Draw all of them into a folder."""
    dialogs.ARMING_DELAY = 0.01
    folder.mkdir(parents=True, exist_ok=True)
    for name, snapshot in SNAPSHOTS.items():
        kept = Path("tests/app/tui/__snapshots__", f"test_{snapshot}.svg").read_text(encoding="utf-8")
        (folder / f"{name}.svg").write_text(convertible(kept.replace("PageHost", "hermes")), encoding="utf-8")
    with tempfile.TemporaryDirectory() as home:
        # A terminal that shows all colours, and nobody's own settings.
        os.environ |= {"COLORTERM": "truecolor", "HOME": home, "HERMES_HOME": f"{home}/.hermes"}
        os.environ.pop("NO_COLOR", None)
        for name, act, size, skins in PICTURES:
            for skin in skins:
                file = name if skin == skins[0] else f"{name}-{skin}"
                (folder / f"{file}.svg").write_text(asyncio.run(draw(act, size, skin)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/pictures"))
