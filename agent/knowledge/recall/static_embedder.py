"""Vectors of pieces of words, from the package `wordllama` (the extra `semantic`): a text is their mean.

Its two files are read where they are installed, by a process of its own. The package itself is never
imported: its own loader looks for one of them in the wrong place and then downloads it. The vectors are
derived from the token embeddings of Llama 2.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agent.knowledge.recall.embedding import EmbeddingError
from agent.knowledge.recall.static_child import FAILED, FORMATS, MADE, TOKENIZER, WEIGHTS
from tools.extras import add_hint
from tools.kit.children import IDLE, WorkerError, WorkerProcess

if TYPE_CHECKING:
    from agent.knowledge.recall.embedding import Vectors

PACKAGE = "wordllama"
INSTALL_MEANING = add_hint("semantic")
"""What sets it up."""

_CHARS = 2_000
"""Characters of a text that count: further ones hardly move a mean."""
_SECONDS = 20.0
"""For one order; reading the weights takes a quarter of one."""


def folder() -> Path | None:
    """Where the package is installed; None if it is not, or lacks one of the files."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / WEIGHTS).is_file() and (Path(place) / TOKENIZER).is_file():
            return Path(place)
    return None


class StaticEmbedder:
    """Takes half a second once, then 30 µs a text; its process needs 80 MB until it was idle for a minute."""

    space = "wordllama/l2_supercat_256"
    is_remote = False

    def __init__(self, place: Path, *, idle: float = IDLE) -> None:
        self._place = place
        # A pool of threads would compete with what a person types.
        environ = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._worker = WorkerProcess(
            "agent.knowledge.recall.static_child", seconds=_SECONDS, idle=idle, environ=environ
        )

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        # A question keeps its function words: the vectors were made of whole sentences.
        told = await self._told(texts, "exact")
        import numpy

        return numpy.frombuffer(told, FORMATS["exact"]).reshape(len(texts), -1)

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if not texts:
            return ()
        told = await self._told(texts, "packed")
        size = len(told) // len(texts)
        return [told[start : start + size] for start in range(0, len(told), size)]

    async def _told(self, texts: Sequence[str], form: str) -> bytes:
        data = json.dumps([text[:_CHARS] for text in texts]).encode()
        try:
            answer = await self._worker.ask({"place": str(self._place), "format": form}, data)
        except (TimeoutError, WorkerError) as error:
            raise EmbeddingError(
                f"The process that makes vectors failed ({error or 'too slow'}); it starts again."
            ) from error
        kind, told = answer[:1], answer[1:]
        if kind != MADE:
            reason = told.decode("utf-8", "replace") if kind == FAILED else "no answer"
            raise EmbeddingError(
                f"The vectors in {self._place} cannot be read ({reason}); run {INSTALL_MEANING} again."
            )
        return told

    async def aclose(self) -> None:
        await self._worker.close()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, StaticEmbedder]] = WeakKeyDictionary()


def shared_embedder(place: Path) -> StaticEmbedder:
    """One for all sessions of an event loop, as its process needs 50 MB.

    A session that closes it ends the process between two orders; the next order starts it again.
    """
    try:
        known = _shared.setdefault(asyncio.get_running_loop(), {})
    except RuntimeError:
        return StaticEmbedder(place)
    return known.setdefault(place, StaticEmbedder(place))
