"""Renewal of the lists in the documentation that are made from the code.

    python docs/make_lists.py

Each stands between two marks in its page. `tests/test_docs.py` fails when one is behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.config import reference
from agent.core.messages import MODES, NAMES, SUMMARIES, canonical
from app.cli.command_line import SUBCOMMANDS
from app.tui.commands import registry
from tests.support import chat_abilities, list_letters

DOCS = Path(__file__).resolve().parent
END = "<!-- end of the list -->"
PAGES = {"config": "settings.md", "model": "local-model.md", "doctor": "cli.md#doctor"}
PAGES["setup"] = "cli.md#setup"
PAGES["plugin"] = "plugins.md"
PAGES["providers"] = "models.md#providers"
PAGES["cron"] = "schedule.md"
PAGES["trust"] = "permissions.md#trust"
PAGES["running"] = "sessions.md#running"
PAGES["rollback"] = "going-back.md"
"""Where a subcommand is described, if not on the page of its name."""


class Listing(NamedTuple):
    """A list in a page."""

    page: str
    name: str
    make: Callable[[], str]

    @property
    def begin(self) -> str:
        """The mark before it."""
        return f"<!-- list of {self.name}, made by docs/make_lists.py -->"

    def renewed(self, text: str) -> str:
        """The text of the page with this list made anew. Raises `ValueError` when a mark is missing."""
        start = text.index(self.begin)
        end = text.index(END, start) + len(END)
        return f"{text[:start]}{self.begin}\n{self.make()}\n{END}{text[end:]}"


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def subcommands() -> str:
    """The subcommands of `hermes`, each with its page."""
    return table(
        ("Command", "What it does", "More"),
        [(f"`hermes {name}`", summary, _page(name)) for name, summary in SUBCOMMANDS.items()],
    )


def _page(name: str) -> str:
    page = PAGES.get(name, f"{name}.md")
    if not (DOCS / page.partition("#")[0]).is_file():
        raise ValueError(f"docs/{page} is missing; the subcommand {name} needs a page.")
    return f"[{page.partition('#')[2] or page}]({page.removeprefix('cli.md')})"


def modes() -> str:
    """The modes, with the other names of each."""
    others = {
        mode: [f"`{name}`" for name in NAMES if name != mode and canonical(name) == mode] for mode in MODES
    }
    return table(
        ("Mode", "Also called", "What happens"),
        [(f"`{mode}`", ", ".join(others[mode]), SUMMARIES[mode]) for mode in MODES],
    )


def messengers() -> str:
    """What each messenger is tried with."""
    return table(chat_abilities.heads(), chat_abilities.rows())


LISTINGS = (
    Listing("gateway.md", "abilities", messengers),
    Listing("cli.md", "subcommands", subcommands),
    Listing("cli.md", "modes", modes),
    Listing("keys.md", "letters", lambda: table(*list_letters.table_of_letters())),
)


def renewed(page: str) -> str:
    """The text of a page with everything in it that is made from the code made anew."""
    if page == "commands.md":
        return registry.markdown()
    text = (DOCS / page).read_text("utf-8")
    for listing in LISTINGS:
        if listing.page == page:
            text = listing.renewed(text)
    return reference.renew(text) if page == "settings.md" else text


MADE = ("cli.md", "commands.md", "gateway.md", "keys.md", "settings.md")
"""The pages with lists that are made from the code."""


def main() -> None:
    """Renew all of them."""
    for page in MADE:
        (DOCS / page).write_text(renewed(page), encoding="utf-8")


if __name__ == "__main__":
    main()
