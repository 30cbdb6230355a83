"""Vectors of a provider: its `/embeddings`, as OpenAI and most servers of models have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.core.net.door import Door, DoorError, DoorLimits, DoorRequest
from agent.knowledge.recall.embedding import EmbeddingError, as_kept, unit
from agent.model.addresses import below, is_loopback
from agent.model.transport.failures import Failures
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.knowledge.recall.embedding import Vectors
    from agent.model.providers import Target

TIME_LIMIT = 20.0
"""Seconds a provider has to answer."""
_LIMITS = DoorLimits(size=32 << 20, unpacked=32 << 20, seconds=TIME_LIMIT, redirects=0)
_AT_ONCE = 64
"""Texts of one request."""
_CHARS = 4_000
"""Characters of a text that are sent."""
_DIMENSIONS = 8_192


class EndpointEmbedder:
    """Asks one model of one provider. Secrets are masked in what is sent."""

    is_remote = True

    def __init__(self, target: Target, secrets: Mapping[str, str]) -> None:
        self._target = target
        self._secrets = secrets
        self.space = f"{target.provider}/{target.model}"

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        import numpy

        found: list[list[float]] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = [redact(text, self._secrets)[:_CHARS] or " " for text in texts[start : start + _AT_ONCE]]
            found += await self._asked(some)
            if len({len(row) for row in found}) > 1:
                raise self._nonsense("vectors of different lengths")
        if not found:
            return numpy.zeros((0, 1), numpy.float32)
        vectors = numpy.asarray(found, numpy.float32)
        if not numpy.isfinite(vectors).all():
            raise self._nonsense("numbers that are none")
        return unit(vectors)

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return as_kept(await self.embed(texts))

    async def _asked(self, texts: Sequence[str]) -> list[list[float]]:
        target = self._target
        failures = Failures(
            provider=target.provider,
            base_url=target.base_url,
            key_hint=target.key_hint,
            api_key=target.api_key,
            secrets=target.secrets,
            stall_timeout=TIME_LIMIT,
        )
        body = {"model": target.model, "input": list(texts), "encoding_format": "float"}
        headers = {**target.request_headers(), "Content-Type": "application/json"}
        request = DoorRequest(
            url=below(target.base_url, "embeddings"),
            method="POST",
            headers=headers,
            body=json.dumps(body).encode(),
            own=target.base_url,
            kept=False,
        )
        try:
            answer = await self._door().fetch(request)
        except DoorError as error:
            raise EmbeddingError(f"{self.space} makes no vectors: {error}") from error
        if answer.status >= 300:
            raise EmbeddingError(str(failures.refused(answer.status, answer.headers, answer.body)))
        try:
            return _vectors(json.loads(answer.body), len(texts))
        except (ValueError, RecursionError) as error:
            raise self._nonsense(str(error)) from error

    def _door(self) -> Door:
        if not is_loopback(self._target.base_url) and not self._target.base_url.startswith("https://"):
            raise EmbeddingError(
                f"{self._target.base_url} is not encrypted; texts are only sent to https:// addresses "
                "and to this machine."
            )
        return Door(secrets=self._secrets, limits=_LIMITS)

    def _nonsense(self, what: str) -> EmbeddingError:
        return EmbeddingError(
            f"{self.space} answered with no usable vectors ({what}); choose a model for embeddings "
            "in recall.embeddings."
        )

    async def aclose(self) -> None:
        """Nothing stays open between two requests."""


def _vectors(answer: Any, count: int) -> list[list[float]]:
    """The vectors in the order of the texts. Raises `ValueError`. Pure."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise ValueError("not one vector for each text")
    found: dict[int, list[float]] = {}
    for place, row in enumerate(rows):
        vector = row.get("embedding") if isinstance(row, dict) else None
        at = row.get("index", place) if isinstance(row, dict) else place
        if not isinstance(vector, list) or not 0 < len(vector) <= _DIMENSIONS:
            raise ValueError("a vector of no usable length")
        if not all(isinstance(each, int | float) for each in vector):
            raise ValueError("numbers that are none")
        found[at] = vector
    if sorted(found) != list(range(count)):
        raise ValueError("not one vector for each text")
    return [found[at] for at in range(count)]
