"""Each kind of part is one file that declares itself, also in a folder outside of the packages.

docs/developing/extending.md has the table of the kinds; a test keeps it in step with `PARTS`.
"""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolFinished
from agent.knowledge.context.layer import layers
from agent.model.format_registry import FORMATS
from app.cli.console import Console
from app.cli.sessions.oneshot import JsonView
from app.tui.commands.registry import BY_SLASH, unregister_command
from app.tui.questions import request_queue
from app.tui.screens import dialog as dialogs
from tests.app.tui.test_application import stage
from tests.support.engines import bench
from tests.support.replies import call, say
from tests.support.sessions import engine_of
from tests.support.tool_context import FakeContext
from themes.loader import list_skins, load_skin
from tools.discovery import discover
from tools.effects import forget_effect
from tools.parts import PartKind, searching
from tools.registry import registry
from tools.results import ToolError
from tools.services.job_keeper import JobKeeper
from tools.services.service import ServiceTable
from widgets.transcript.parts import NoticeItem

ROOT = Path(__file__).parents[1]

PARTS: dict[str, tuple[str, str, str]] = {
    "tool": ("tools/count_words.py", "tools/*_tool.py", "test_a_tool"),
    "effect": ("tools/deploy.py", "tools/*_tool.py", "test_a_tool_with_a_new_kind_of_effect"),
    "slash command": ("commands/hello.py", "app/tui/commands/*_command.py", "test_a_slash_command"),
    "side pane": ("panes/clock.py", "app/tui/panes/*_pane.py", "test_a_side_pane"),
    "question": ("questions/weather.py", "app/tui/questions/*_question.py", "test_a_kind_of_question"),
    "event": ("events/tide.py", "agent/events.py", "test_an_event_type"),
    "context layer": (
        "layers/house.py",
        "agent/knowledge/context/layers/",
        "test_a_layer_of_the_system_prompt",
    ),
    "wire format": ("formats/loud.py", "agent/model/formats/", "test_a_wire_format"),
    "skin": ("skins/moss.yaml", "themes/builtin/", "test_a_skin"),
}
"""Each kind: a file outside, where those of the program lie, and the test that adds the file."""

KINDS = (
    PartKind("tools", "tools", "_tool"),
    PartKind("commands", "app.tui.commands", "_command"),
    PartKind("panes", "app.tui.panes", "_pane"),
    PartKind("questions", "app.tui.questions", "_question"),
    PartKind("layers", "agent.knowledge.context.layers"),
    PartKind("formats", "agent.model.formats"),
)

SOURCES = {
    "tool": '''
"""Counts words."""

from tools.registry import registry
from tools.results import ToolError
from tools.services.job_keeper import JobKeeper
from tools.services.service import ServiceTable
from tools.results import Display


async def count_words(arguments, context):
    return {"words": len(arguments["text"].split())}


registry.register(
    name="count_words",
    toolset="words",
    bundles=("default",),
    schema={
        "description": "Count the words of a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    handler=count_words,
    describe=lambda arguments, result: Display("count", "words"),
    read_only=True,
)
''',
    "effect": '''
"""Deploys: a tool with an effect of its own."""

from dataclasses import dataclass

from tools.services.actions import Action
from tools.effects import Effect, declare_effect
from tools.registry import registry
from tools.results import ToolError
from tools.services.job_keeper import JobKeeper
from tools.services.service import ServiceTable
from tools.results import Display


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy(Action):
    """Bring a version to a place."""

    place: str

    def headline(self):
        return f"deploy to {self.place}"


Deploy.effect = declare_effect(
    Effect(
        name="deploy",
        why="changes what the public sees",
        subject=lambda action: action.place,
        lasting=lambda action: f"deploy to {action.place}",
        example=lambda text: Deploy(tool="deploy", place=text),
    )
)


async def deploy(arguments, context):
    await context.permit(Deploy(tool="deploy_site", place=arguments["place"]))
    return {"deployed": arguments["place"]}


registry.register(
    name="deploy_site",
    toolset="site",
    bundles=("default",),
    schema={
        "description": "Deploy.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
    handler=deploy,
    describe=lambda arguments, result: Display("deploy", arguments.get("place", "")),
)
''',
    "slash command": '''
"""Greets."""

from app.tui.commands.registry import AppCommand


async def _hello(app, argument):
    app.session.prompt.set_text(f"hello {argument}")


COMMAND = AppCommand(
    id="program.hello",
    group="Program",
    name="Say hello",
    description="Write a greeting into the prompt.",
    action=_hello,
    keys=("f8",),
    slash="hello",
    argument_hint="[name]",
)
''',
    "side pane": '''
"""Counts turns."""

from rich.text import Text

from agent.events import TurnEnded
from app.tui.panes.pane_kind import PaneKind
from widgets.panes.pane import Pane, Summary


class TurnsPane(Pane):
    def __init__(self):
        super().__init__(
            "turns",
            lambda index, width, selected: Text(self.turns[index]),
            title="TURNS",
            search_text=lambda index: self.turns[index],
            empty="No turn has ended.",
        )
        self.turns = []

    def summary(self):
        return Summary("TURNS", str(len(self.turns)))

    def note(self, event):
        self.turns.append(event.outcome)
        self.set_rows(len(self.turns))


PANE = PaneKind(
    "turns",
    50,
    TurnsPane,
    events=(TurnEnded,),
    handle=TurnsPane.note,
    label="Turns",
    about="Go to the turns that have ended.",
    key="alt+5",
)
''',
    "question": '''
"""Asks for the weather: event, dialog and plain form."""

from dataclasses import dataclass
from typing import ClassVar

from agent.events import Asked
from app.tui.questions.question_kind import QuestionKind


@dataclass(frozen=True, kw_only=True)
class WeatherAsked(Asked):
    """What is the weather like?"""

    type: ClassVar[str] = "weather"
    cancelled: ClassVar[bool] = False
    unattended: ClassVar[bool] = False
    place: str


def _dialog(request, paste_into_draft):
    from app.tui.screens.dialog import ConfirmDialog

    return ConfirmDialog(f"Does the sun shine in {request.place}?", "It does")


async def _plain(request, terminal):
    terminal.say(f"Does the sun shine in {request.place}?")
    return (await terminal.read("[y/N] ")) == "y"


QUESTION = QuestionKind(WeatherAsked, _dialog, _plain)
''',
    "event": '''
"""The tide has turned."""

from dataclasses import dataclass
from typing import ClassVar

from agent.events import Event


@dataclass(frozen=True, kw_only=True)
class TideTurned(Event):
    type: ClassVar[str] = "tide"
    metres: float

    def notice(self):
        return "info", f"The tide has turned at {self.metres} m."
''',
    "context layer": '''
"""What this house wants."""

from agent.knowledge.context.layer import Layer, Part

LAYER = Layer("house", 45, lambda facts: [Part("House", f"# House\\nBe kind in {facts.workspace}.")])
''',
    "wire format": '''
"""Chat completions, louder."""

from agent.model.formats.chat import ChatFormat


class Loud(ChatFormat):
    name = "loud"

    def headers(self, api_key):
        return {"Authorization": f"Bearer {api_key}", "X-Voice": "loud"}


FORMAT = Loud()
''',
    "skin": 'name: moss\ndescription: Green and quiet\ncolors: {accent: "#7faf5f"}\n',
}


WITH_SERVICE = {
    "sightings.py": '''
"""What was seen, counted as long as the session is open."""

from tools.services.service import Service


class Sightings(Service):
    closed = []

    def __init__(self, workspace):
        self.workspace = workspace
        self.seen = 0

    @classmethod
    def open(cls, caller):
        return cls(caller.workspace)

    async def aclose(self):
        self.closed.append(self.seen)
''',
    "tools/sight.py": '''
"""Counts sightings, by a service of its own."""

from sightings import Sightings
from tools.registry import registry
from tools.results import ToolError
from tools.services.job_keeper import JobKeeper
from tools.services.service import ServiceTable
from tools.results import Display


async def sight(arguments, context):
    sightings = context.service(Sightings)
    sightings.seen += 1
    return {"seen": sightings.seen, "in": sightings.workspace.name}


registry.register(
    name="sight",
    toolset="birds",
    bundles=("default",),
    schema={"description": "Note a sighting.", "parameters": {"type": "object", "properties": {}}},
    handler=sight,
    describe=lambda arguments, result: Display("sight", "a bird"),
)
''',
}
"""A tool with a service of its own: all there is to add."""


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder on the search path, outside of the packages; what is added from it goes again."""
    folder = tmp_path / "outside"
    folder.mkdir()
    tools, words = registry.names(), dict(BY_SLASH)
    with searching(folder):
        yield folder
    for name in registry.names() - tools:
        registry.remove(name)
    forget_effect("deploy")
    for word in BY_SLASH.keys() - words.keys():
        unregister_command(BY_SLASH[word])


def add(folder: Path, kind: str) -> Path:
    """The one file of a part."""
    path = folder / PARTS[kind][0]
    path.parent.mkdir()
    path.write_text(SOURCES[kind].lstrip("\n"))
    return path


def module_of(kind: str) -> Any:
    """What the one file outside declares, as the program itself would load it."""
    parts = PartKind(kind, "app.tui.questions", "_question")
    (part,) = (each for each in parts.files() if each.path is not None)
    return parts.load(part)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    discover()
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.02)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


async def test_a_tool(outside: Path, tmp_path: Path) -> None:
    add(outside, "tool")
    async with bench(tmp_path, [call("count_words", text="one two three"), say("Three.")]) as b:
        ended = await b.turn("How many?")
    (finished,) = b.seen(ToolFinished)
    assert (ended.text, json.loads(finished.result)) == ("Three.", {"words": 3})


async def test_a_tool_with_a_new_kind_of_effect(outside: Path, tmp_path: Path) -> None:
    add(outside, "effect")
    script = [call("deploy_site", place="staging"), call("deploy_site", place="live"), say("Done.")]
    async with bench(tmp_path, script) as b:
        b.home.mkdir()
        (b.home / "permissions.yaml").write_text(
            "rules:\n  deploy(staging): {verdict: allow, match: [staging]}\n"
        )
        await b.turn("Deploy", approve="normal")
    first, second = (json.loads(event.result) for event in b.seen(ToolFinished))
    assert first == {"deployed": "staging"}
    assert second["status"] == "blocked" and "changes what the public sees" in str(second)


async def test_a_tool_with_a_service_of_its_own_is_two_files(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(outside)
    for name, source in WITH_SERVICE.items():
        (outside / name).parent.mkdir(exist_ok=True)
        (outside / name).write_text(source.lstrip("\n"))
    async with bench(tmp_path, [call("sight"), call("sight"), say("Two birds.")]) as b:
        await b.turn("Watch")
        results = [json.loads(event.result) for event in b.seen(ToolFinished)]
        assert results == [{"seen": 1, "in": b.workspace.name}, {"seen": 2, "in": b.workspace.name}]
    assert sys.modules.pop("sightings").Sightings.closed == [2]


def test_a_service_that_a_session_does_not_have_says_so_in_its_own_sentence(tmp_path: Path) -> None:
    table = ServiceTable[FakeContext]([])
    table.add(JobKeeper, None)
    with pytest.raises(ToolError, match="No jobs are kept here"):
        table.get(JobKeeper, FakeContext(tmp_path))


async def test_a_slash_command(outside: Path, tmp_path: Path) -> None:
    add(outside, "slash command")
    async with stage(tmp_path, []) as scene:
        await scene.type("/hello you", "enter")
        await scene.until(lambda: scene.app.session.prompt.text == "hello you", "the command")
        await scene.pilot.press("ctrl+c", "f8")
        await scene.until(lambda: scene.app.session.prompt.text == "hello ", "its key")


async def test_a_side_pane(outside: Path, tmp_path: Path) -> None:
    add(outside, "side pane")
    async with stage(tmp_path, [say("Yes.")], size=(120, 40)) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        pane = next(each for each in scene.app.session.workbench.panes if each.label == "turns")
        assert pane.display and pane.turns == ["done"]  # type: ignore[attr-defined]
        await scene.pilot.press("alt+5")
        await scene.until(lambda: scene.app.focused is pane, "its key")


async def test_a_kind_of_question(outside: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    add(outside, "question")
    asked = module_of("questions").WeatherAsked
    async with stage(tmp_path, []) as scene:
        pending = engine_of(scene.app).pending_requests
        reply = asyncio.create_task(pending.ask_person(asked, place="Bath"))
        await scene.until(lambda: isinstance(scene.app.screen, dialogs.Dialog), "its dialog")
        await scene.pilot.pause(0.05)
        await scene.pilot.press("up", "enter")
        await scene.until(reply.done, "the reply")
        assert reply.result() is True
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    request = asked(id="w", place="Bath", reply=asyncio.get_running_loop().create_future())
    assert request.to_json() == {"type": "weather", "agent": "main", "seq": 0, "id": "w", "place": "Bath"}
    Console().answer(request)
    assert await request.reply is True
    assert "Does the sun shine in Bath?" in capsys.readouterr().err


async def test_an_event_type(outside: Path, tmp_path: Path) -> None:
    add(outside, "event")
    event = module_of("events").TideTurned(metres=2.5)
    async with stage(tmp_path, []) as scene:
        engine_of(scene.app).stream.emit(event)
        await scene.pilot.pause()
        assert "The tide has turned at 2.5 m." in [item.text for item in scene.items(NoticeItem)]
    out = io.StringIO()
    JsonView(out)(event)
    assert json.loads(out.getvalue()) == {"type": "tide", "agent": "main", "seq": 0, "metres": 2.5}


async def test_a_layer_of_the_system_prompt(outside: Path, tmp_path: Path) -> None:
    add(outside, "context layer")
    assert "house" in [layer.name for layer in layers()]
    async with bench(tmp_path, [say("Yes.")]) as b:
        await b.turn("hi")
        sent = b.server.requests[0].messages[0]["content"]
    assert f"# House\nBe kind in {b.workspace}." in sent
    assert sent.index("# House") < sent.index("# Care")


async def test_a_wire_format(outside: Path, tmp_path: Path) -> None:
    add(outside, "wire format")
    assert "loud" in FORMATS.names()
    async with bench(tmp_path, [say("Yes.")]) as b:
        b.config(
            "model: {name: gate/m}\n"
            f"providers: {{gate: {{base_url: '{b.server.base_url}', format: loud, api_key_env: GATE}}}}\n"
        )
        b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "GATE": "test-key"}
        ended = await b.turn("hi")
    assert ended.text == "Yes." and b.server.requests[0].headers["x-voice"] == "loud"


def test_a_skin(outside: Path) -> None:
    path = add(outside, "skin")
    assert "moss" in [listed.name for listed in list_skins(path.parent)]
    loaded = load_skin("moss", path.parent)
    assert loaded.problems == () and loaded.skin.colors["accent"] == "#7faf5f"


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_a_part_that_is_broken_disables_no_other_one(kind: str, outside: Path) -> None:
    part = next(each for each in KINDS if each.name == kind)
    sound = len(part.load_all()[0])
    (outside / kind).mkdir()
    (outside / kind / "broken.py").write_text("raise ValueError('two\nlines')")
    (outside / kind / "closed.py").write_text("raise SystemExit(3)")
    modules, problems = part.load_all()
    assert len(modules) == sound and [Path(each.module).name for each in problems] == [
        "broken.py",
        "closed.py",
    ]


def test_finding_parts_reads_none_of_them() -> None:
    program = (
        f"KINDS = {[tuple(kind) for kind in KINDS]}"
        + """
import sys
from tools.parts import PartKind
found = [part.module for kind in KINDS for part in PartKind(*kind).files()]
print(len(found), sorted({name.split(".")[0] for name in sys.modules} & {"agent", "app", "textual"}))
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, read = done.stdout.split(" ", 1)
    assert int(count) > 30 and read.strip() == "[]"


def test_the_docs_have_the_table_of_the_kinds() -> None:
    rows = [
        f"| {kind} | 1 | `{where}` | `{Path(file).parts[0]}/` | `{test}` |"
        for kind, (file, where, test) in PARTS.items()
    ]
    two = "test_a_tool_with_a_service_of_its_own_is_two_files"
    rows.append(f"| tool with a service | 2 | `tools/*_tool.py`, `tools/services/` | `tools/` | `{two}` |")
    text = (ROOT / "docs" / "developing/extending.md").read_text("utf-8")
    assert [row for row in rows if row not in text.splitlines()] == []
    assert all(test in globals() for _, _, test in PARTS.values())
