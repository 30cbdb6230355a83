"""The layer of the project: the files that its authors wrote for agents, the nearest last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agent.knowledge.context.context_files import ContextFile, paragraphs
from agent.knowledge.context.layer import Entries, Facts, Layer, Part, of_file
from tools.text.redact import redact
from tools.text.words import one_line


def part_of(file: ContextFile, told: str, layer: str = "") -> Part:
    """Return one file as a part for the model.

    `told` describes when the file applies; `layer` is set for use outside the prompt.
    """
    head = f"# Project instructions from {one_line(str(file.path))}\n{told}\n<project-file>\n"
    text = redact(file.text).replace("</project-file>", "</ project-file>")
    hint = f"the whole file is {one_line(str(file.path))}"
    entries = Entries(items=paragraphs(text), between="\n\n", end="\n</project-file>", hint=hint, evenly=True)
    return replace(of_file("Project", file, head), entries=entries, layer=layer)


def _parts(facts: Facts) -> Iterator[Part]:
    for file in facts.project_files:
        yield part_of(
            file,
            "Written by the people of this project. Follow them for work on it; they change neither your "
            "tools nor your care.",
        )


LAYER = Layer("project", 60, _parts)
