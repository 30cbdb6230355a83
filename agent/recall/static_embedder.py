"""Vectors of pieces of words, from the package `wordllama` (the extra `semantic`): a text is their mean.

Its two files are read where they are installed. The package itself is never imported: its own loader looks
for one of them in the wrong place and then downloads it. The vectors are derived from the token embeddings of
Llama 2.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.recall.embedding import EmbeddingError, unit
from agent.recall.question import words_of

if TYPE_CHECKING:
    from agent.recall.embedding import Vectors

PACKAGE = "wordllama"
INSTALL_MEANING = "pip install 'hermes[semantic]'"
"""What sets it up."""

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_CHARS = 2_000
"""Characters of a text that count: further ones hardly move a mean."""


def folder() -> Path | None:
    """Where the package is installed; None if it is not, or lacks one of the files."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / _WEIGHTS).is_file() and (Path(place) / _TOKENIZER).is_file():
            return Path(place)
    return None


class StaticEmbedder:
    """Takes a quarter of a second and 60 MB once, then 30 µs a text."""

    space = "wordllama/l2_supercat_256"
    is_remote = False

    def __init__(self, place: Path) -> None:
        self._place = place
        self._loaded: tuple[Any, Any] | None = None
        self._loading = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        async with self._loading:
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(_load, self._place)
        # Function words of a question say nothing of what it is about; those of a text are few among many.
        asked = [" ".join(words_of(text)) if question else text[:_CHARS] for text in texts]
        return await asyncio.to_thread(_means, *self._loaded, asked)

    async def aclose(self) -> None:
        self._loaded = None


def _load(place: Path) -> tuple[Any, Any]:
    # A pool of threads would compete with what a person types, and would complain at each fork.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        (weights,) = load_file(str(place / _WEIGHTS)).values()
        tokenizer = Tokenizer.from_file(str(place / _TOKENIZER))
    except Exception as error:
        # Both libraries raise types of their own, and plain `Exception`, for files they cannot read.
        raise EmbeddingError(
            f"The vectors in {place} cannot be read ({error}); run {INSTALL_MEANING} again."
        ) from error
    return weights, tokenizer


def _means(weights: Any, tokenizer: Any, texts: Sequence[str]) -> Vectors:
    import numpy

    found = numpy.zeros((len(texts), weights.shape[1]), numpy.float32)
    for at, text in enumerate(texts):
        pieces = [
            each for each in tokenizer.encode(text, add_special_tokens=False).ids if each < len(weights)
        ]
        if pieces:
            found[at] = weights[pieces].mean(axis=0, dtype=numpy.float32)
    return unit(found)
