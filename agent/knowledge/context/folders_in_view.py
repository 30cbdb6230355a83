"""Record of the project files in results: what nodes keep of them, and which the agent has in view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.core.store.nodes import Node
from agent.knowledge.context.message_history import elided_up_to, masked_nodes

KEY = "project_files"
"""Where a result carries them, and where its node names them."""


def in_view(path: Sequence[Node]) -> frozenset[Path]:
    """The folders whose files stand in a result that is still sent whole."""
    return frozenset(Path(about["folder"]) for _node, abouts in folders_shown(path) for about in abouts)


def folders_shown(path: Sequence[Node]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Results that are still sent whole and hold such files, and what their nodes keep of each file."""
    start, masked = elided_up_to(path), masked_nodes(path)
    for node in path:
        kept = node.data.get(KEY)
        if node.kind == "tool" and node.id >= start and node.id not in masked and isinstance(kept, list):
            abouts = [each for each in kept if isinstance(each, Mapping) and _is_whole(each)]
            if abouts:
                yield node.id, abouts


def _is_whole(about: Mapping[str, Any]) -> bool:
    kinds = {"folder": str, "name": str, "chars": int}
    return all(isinstance(about.get(name), kind) for name, kind in kinds.items())
