"""The layer of plugins: sections that the user agreed to together with the plugin."""

from __future__ import annotations

from collections.abc import Iterator

from agent.knowledge.context.layer import Facts, Layer, Part
from tools.text.words import one_line


def _parts(facts: Facts) -> Iterator[Part]:
    for section in facts.plugins:
        yield Part(f"Plugins: {one_line(section.name)}", f"# {one_line(section.name)}\n{section.text}")


LAYER = Layer("plugins", 70, _parts)
