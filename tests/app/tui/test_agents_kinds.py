"""The screen of kinds of agents, and how the prompt offers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.core.home import Home
from agent.session.spending.budget import Budget
from agent.session.subagents.definitions import UNTRUSTED, Definition
from app.tui.conversation.mentions import agents_of
from app.tui.screens.agents.agent_files import AgentKind
from app.tui.screens.agents.agents_kinds import AgentMenu, KindsScreen
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.support.waiting import until
from widgets.prompt.completion import CommandChoice, PathIndex, agent_choices


def kind(name: str, source: Any = "built-in", about: str = "", **fields: Any) -> AgentKind:
    definition = Definition(
        name=name, description=about or f"What {name} does.", prompt="Do it.", source=source, **fields
    )
    return AgentKind(name=name, source=source, path=Path(f"/home/ada/{name}.md"), definition=definition)


BROKEN = AgentKind(
    name="mine",
    source="yours",
    path=Path("/home/ada/.hermes/agents/mine.md"),
    definition=None,
    problems=("agents/mine.md line 4, column 12: `isolation` must be shared, readonly or copy.", "x"),
)
KINDS = [
    kind(
        "explorer",
        about="Finds out how something works or where it is, and changes nothing. For much reading.",
        tools=("file", "session", "todo"),
        isolation="readonly",
        budget=Budget(turns=30),
    ),
    BROKEN,
    kind("release-notes-in-german", "project", model="lab/big"),
    AgentKind(
        name="tester",
        source="yours",
        path=Path("/home/ada/.hermes/agents/tester.md"),
        definition=kind("tester").definition,
        doubts=("`tools` names flie, which is not a toolset or tool here; correct it or leave it out.",),
        hides=("built-in",),
    ),
]


class Menu(AgentMenu):
    """Lists what it is given; the editor writes what it is told to."""

    def __init__(self, kinds: list[AgentKind], problem: str = "") -> None:
        self.kinds = kinds
        self.problem = problem

    async def list_kinds(self) -> tuple[list[AgentKind], str]:
        return self.kinds, self.problem


class RealMenu(AgentMenu):
    """The real one, with an editor that adds a line. Files are real."""

    def edit_text(self, text: str) -> str:
        return f"{text}And one thing more.\n"


def host_of(menu: AgentMenu) -> PageHost:
    return PageHost(lambda: KindsScreen(menu))


def rows_of(host: PageHost) -> Any:
    return host.screen.rows  # type: ignore[attr-defined]


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealMenu:
    monkeypatch.setattr(KindsScreen, "_in_editor", lambda self, text: self._menu.edit_text(text))
    return RealMenu(tmp_path, {"HERMES_HOME": str(tmp_path / "home")})


async def test_enter_ends_with_the_kind_that_is_mentioned() -> None:
    host = host_of(Menu(KINDS))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "explorer" in "\n".join(lines_of(rows_of(host))))
        await pilot.press("enter")
        await until(pilot, lambda: host.outcomes == ["explorer"])


@pytest.mark.thorough
async def test_a_broken_kind_cannot_be_mentioned_and_says_why() -> None:
    host = host_of(Menu(KINDS))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "explorer" in "\n".join(lines_of(rows_of(host))))
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.told)
        assert "`isolation` must be shared" in host.told[0] and host.outcomes == []


async def test_a_built_in_kind_that_is_edited_becomes_a_file_of_ones_own(
    real: RealMenu, tmp_path: Path
) -> None:
    host = host_of(real)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "explorer" in "\n".join(lines_of(rows_of(host))))
        await pilot.press("e")
        await until(pilot, lambda: any("yours" in row for row in lines_of(rows_of(host))))
        path = tmp_path / "home" / "agents" / "explorer.md"
        assert path.read_text().endswith("And one thing more.\n") and path.stat().st_mode & 0o777 == 0o600
        assert "explorer is yours now" in host.told[0]
        await pilot.press("e")
        await until(pilot, lambda: path.read_text().count("And one thing more.") == 2)


@pytest.mark.thorough
async def test_a_new_kind_is_asked_for_its_name_and_kept(real: RealMenu, tmp_path: Path) -> None:
    host = host_of(real)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "explorer" in "\n".join(lines_of(rows_of(host))))
        await pilot.press("n")
        await until(pilot, lambda: type(host.screen).__name__ == "TextDialog")
        await pilot.press(*"my-kind", "enter")
        path = tmp_path / "home" / "agents" / "my-kind.md"
        await until(pilot, path.exists)
        await until(pilot, lambda: isinstance(host.screen, KindsScreen))
        await until(pilot, lambda: any("my-kind" in row for row in lines_of(rows_of(host))))
        await pilot.press("n")
        await until(pilot, lambda: type(host.screen).__name__ == "TextDialog")
        await pilot.press(*"My", "enter")
        await until(pilot, lambda: any("is not a name for an agent" in told for told in host.told))


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize("keys", [(), ("j",), ("j", "j", "j")], ids=["sound", "broken", "doubtful"])
def test_it_looks_as_it_should(snap_compare: Any, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    assert snap_compare(host_of(Menu(KINDS)), terminal_size=size, run_before=pressing(*keys))


async def test_it_says_in_a_few_words_that_those_of_the_project_wait() -> None:
    host = host_of(Menu(KINDS, UNTRUSTED))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "explorer" in "\n".join(lines_of(rows_of(host))))
        said = str(host.screen.query_one("#page-state").render())
        assert "wait for hermes config trust" in said and len(said) < 60


# In the prompt


AGENTS = [CommandChoice("reviewer", "Reads.", "agent"), CommandChoice("tester", "Tests.", "agent")]


def test_those_that_begin_with_the_word_stand_before_files_and_others_behind_them() -> None:
    begun, others = agent_choices(AGENTS, "rev")
    assert [each.text for each in begun] == ["@reviewer "] and others == []
    assert (begun[0].hint, begun[0].detail, begun[0].hits) == ("agent", "Reads.", (0, 1, 2))
    begun, others = agent_choices(AGENTS, "")
    assert begun == [] and [each.label for each in others] == ["reviewer", "tester"]
    assert agent_choices(AGENTS, "xyz") == ([], [])


def test_an_index_knows_its_paths() -> None:
    index = PathIndex(["src/a.py", "reviewer"])
    assert "reviewer" in index and "tester" not in index


def test_the_prompt_is_given_the_kinds_that_can_be_sent(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text("---\ndescription: Mine.\n---\nDo it.\n")
    (folder / "tester.md").write_text("broken")
    listed = agents_of(Home(tmp_path / "home"), tmp_path)()
    assert [each.name for each in listed] == ["explorer", "mine", "reviewer"]
    assert listed[1] == CommandChoice("mine", "Mine.", "agent")
