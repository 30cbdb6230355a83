"""The documentation in step with the code, and every page of it reachable from its index."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from agent.core.messages import NAMES
from agent.core.store import schema
from tests.test_house import links
from tools.discovery import discover
from tools.registry import registry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LISTS = runpy.run_path(str(DOCS / "make_lists.py"))


@pytest.mark.parametrize("page", LISTS["MADE"])
def test_lists_are_what_the_code_says(page: str) -> None:
    assert (DOCS / page).read_text("utf-8") == LISTS["renewed"](page), "run docs/make_lists.py"


def targets(page: Path) -> set[Path]:
    """The pages that a page links to."""
    found = {link.partition("#")[0] for link in links(page.read_text("utf-8")) if "://" not in link}
    return {(page.parent / name).resolve() for name in found if name.endswith(".md")}


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "README.md"
    pages = {path.resolve() for path in DOCS.rglob("*.md")}
    assert pages - targets(index) == {index.resolve()}
    assert index.resolve() in targets(ROOT / "README.md")


def test_every_tool_is_in_the_table_of_tools_with_its_toolset() -> None:
    discover()
    table: dict[str, str] = {}
    for line in (DOCS / "tools.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            table |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[2].strip("`"))
    own = {name: entry.toolset for name in registry.names() if (entry := registry.get(name)) is not None}
    assert table == own


def test_every_table_of_the_store_is_told_of() -> None:
    source = Path(schema.__file__).with_name("tables.sql").read_text("utf-8")
    tables = set(re.findall(r"CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)", source))
    told = set(re.findall(r"`(\w+)`", (DOCS / "sessions.md").read_text("utf-8")))
    assert len(tables) > 8 and tables - told == set()


def test_every_name_of_a_mode_is_told_of() -> None:
    for page in ("cli.md", "permissions.md"):
        told = set(re.findall(r"`([\w-]+)`", (DOCS / page).read_text("utf-8")))
        assert set(NAMES) - told == set(), page


def test_the_glossary_names_each_word_once() -> None:
    words = re.findall(r"^- (\*\*.*?):", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    named = [word for line in words for word in re.findall(r"\*\*(.+?)\*\*", line)]
    assert len(named) > 50 and sorted(named) == sorted(set(named))
