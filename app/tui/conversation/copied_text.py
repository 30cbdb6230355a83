"""The texts of a conversation that `/copy` copies: an answer, a block of its code, or everything said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.core.store.nodes import Node

_HEADS = {"user": "You", "assistant": "Hermes"}


def last_answer(path: Sequence[Node]) -> str:
    """Return the source of the last answer with text; empty if there is none. Pure."""
    answers = (node.content for node in reversed(path) if node.kind == "assistant")
    return next((answer for answer in answers if answer.strip()), "")


def code_blocks(answer: str) -> list[str]:
    """Return the contents of an answer's code blocks, in order. Pure."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(answer)
    return [token.content for token in tokens if token.type in ("fence", "code_block")]


def copied_text(path: Sequence[Node], wanted: str) -> str:
    """Return the text that `/copy WANTED` copies. Raises `HermesError`, which names what can be copied."""
    answer = last_answer(path)
    if wanted == "all":
        said = [node for node in path if node.kind in _HEADS and node.content.strip()]
        if not said:
            raise HermesError("Nothing has been said yet.")
        return "\n\n".join(f"## {_HEADS[node.kind]}\n\n{node.content.strip()}" for node in said) + "\n"
    if not answer:
        raise HermesError("There is no answer yet.")
    if not wanted:
        return answer
    if not (wanted.isascii() and wanted.isdigit()):
        raise HermesError("/copy takes the number of a block of code, or `all`.")
    blocks = code_blocks(answer)
    number = int(wanted)
    if not 1 <= number <= len(blocks):
        count = {0: "no block", 1: "one block"}.get(len(blocks), f"{len(blocks)} blocks")
        raise HermesError(f"The last answer has {count} of code.")
    return blocks[number - 1]
