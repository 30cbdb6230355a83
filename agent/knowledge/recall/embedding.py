"""A maker of vectors of texts, so that texts that mean the same lie close to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agent.errors import HermesError

if TYPE_CHECKING:
    import numpy

    Vectors = numpy.ndarray
    """A row for each text, of length 1 or 0, as 32-bit numbers."""


class EmbeddingError(HermesError):
    """Vectors could not be made. One sentence with the cause and the mend."""


class Embedder(Protocol):
    """A source of vectors. Those of two sources, or of two models, are never compared."""

    @property
    def space(self) -> str:
        """The name of its vectors; another name is another space."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a text leaves this machine, which takes a moment and may cost something."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        """A vector for each text. Raises `EmbeddingError`."""
        ...

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """The vectors as they are kept: 16-bit numbers, little end first. Raises `EmbeddingError`."""
        ...

    async def aclose(self) -> None:
        """Let go of connections and processes."""
        ...


def as_kept(vectors: Vectors) -> Sequence[bytes]:
    """The bytes of each row as they are kept. Pure."""
    return [row.astype("<f2").tobytes() for row in vectors]


def unit(vectors: Vectors) -> Vectors:
    """The same directions with length 1; what has no direction stays 0. Pure."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return (vectors / lengths).astype(numpy.float32)
