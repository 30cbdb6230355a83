"""The forms by which a message attaches something, as the menu of `@` offers them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from widgets.prompt.completion import CompletionChoice, hits

Form = Literal["", "file", "folder"]
"""What a mention begins with that completes paths; empty: it is a plain name."""


class ReferenceForm(NamedTuple):
    """One row. `text` takes the place of the mention; what ends with a colon goes on with a path."""

    name: str
    text: str
    hint: str
    detail: str


FORMS = (
    ReferenceForm("file:", "@file:", "PATH:10-20", "attach a file, or lines of it"),
    ReferenceForm("folder:", "@folder:", "PATH/", "attach the names of a folder's files"),
    ReferenceForm("diff", "@diff ", "", "attach the changes that are not staged"),
    ReferenceForm("staged", "@staged ", "", "attach the changes that are staged"),
    ReferenceForm("git:", "@git:3 ", "N", "attach the last commits with their changes"),
    ReferenceForm("url:", "@url:https://", "HOST/PAGE", "attach the text of a page"),
)

_LINES = re.compile(r"[^:]:\d*-?\d*\Z")


def form_choices(query: str) -> list[CompletionChoice]:
    """The forms whose names begin with a query; all of them for an empty one."""
    wanted = query.lower()
    return [
        CompletionChoice(each.text, each.name, each.hint, each.detail, hits(each.name, query))
        for each in FORMS
        if each.name.startswith(wanted)
    ]


def form_of(word: str) -> tuple[Form, str]:
    """What a mention begins with, and the path behind it, as far as it is written."""
    kinds: tuple[Form, ...] = ("file", "folder")
    for form in kinds:
        if word.startswith(f"{form}:"):
            return form, word.removeprefix(f"{form}:").removeprefix('"')
    return "", word.removeprefix('"')


def names_lines(form: Form, query: str) -> bool:
    """Whether the path is written and the lines of the file follow, so that nothing is left to complete."""
    return form == "file" and _LINES.search(query) is not None


def path_choices(form: Form, paths: Iterable[str], query: str) -> list[CompletionChoice]:
    """Menu rows for ranked paths behind a form. Behind a file its lines may follow, so no blank does."""
    end = " " if form == "folder" else ""
    return [CompletionChoice(f"@{form}:{_quoted(path)}{end}", path, hits=hits(path, query)) for path in paths]


def _quoted(path: str) -> str:
    return f'"{path}"' if any(character.isspace() for character in path) else path
