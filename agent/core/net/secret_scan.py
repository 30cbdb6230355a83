"""Detection of known secrets in outgoing bytes: plain, or in one of the usual encodings.

It protects against accidents only: compressed, encrypted or split secrets are not found.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote_to_bytes

SHORTEST = 8
"""The shortest value that is searched for, in characters; a shorter one would be found in ordinary text."""
_HOST_SHORTEST = 6
_TELLING = 4
"""The number of first bytes of a secret that are enough to suspect the whole."""
_BROKEN = re.compile(rb"%[0-9A-Fa-f]?\Z")


class SecretScan:
    """A search for `secrets`, a mapping of names to values, in all their encoded forms."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found: dict[bytes, str] = {}
        for name, value in secrets.items():
            if len(value) >= SHORTEST:
                found |= dict.fromkeys(_forms(value), name)
        self._forms = tuple(found.items())
        self._names = tuple(
            (form, name)
            for name, value in secrets.items()
            if len(value) >= SHORTEST
            for form in _forms_of_names(value)
        )
        self.longest = 3 * max(map(len, found), default=0)
        """The length in bytes of the longest form when every byte is percent-encoded."""

    def find(self, data: bytes) -> str | None:
        """Return the name of a secret that `data` contains, or None."""
        texts = [data]
        if b"%" in data or b"+" in data:
            texts += [unquote_to_bytes(data), unquote_to_bytes(data.replace(b"+", b" "))]
        return next((name for form, name in self._forms if any(form in text for text in texts)), None)

    def partial_length(self, data: bytes, least: int) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a secret; 0 if there are fewer
        than `least`.
        """
        tail = data[-self.longest :]
        most = self._beginning(tail, least)
        if b"%" in tail or b"+" in tail:
            whole = _BROKEN.sub(b"", tail)
            plain = (unquote_to_bytes(whole), unquote_to_bytes(whole.replace(b"+", b" ")))
            if count := max(self._beginning(each, least) for each in plain):
                most = max(most, 3 * count + 2)
        return min(most, len(data))

    def _beginning(self, text: bytes, least: int) -> int:
        most = 0
        for form, _ in self._forms:
            at = text.find(form[:least], max(0, len(text) - len(form) + 1))
            while at >= 0 and not form.startswith(text[at:]):
                at = text.find(form[:least], at + 1)
            most = max(most, len(text) - at if at >= 0 else 0)
        return most

    def find_in_host(self, host: str) -> str | None:
        """Return the name of a secret in a host name, whose dots and hyphens are ignored; else None."""
        plain = re.sub(r"[^a-z0-9]", "", host.lower())
        return next((name for form, name in self._names if form in plain), None)

    def stream(self, *, ends: bool) -> SecretStream:
        """Return a scanner for bytes that arrive in pieces.

        `ends` means that the length of the data is known, so that the other side does not wait for withheld
        bytes.
        """
        return SecretStream(self, 1 if ends else _TELLING)


class SecretStream:
    """A filter that passes bytes on at once, except those at the end that may be the beginning of a secret.

    Fewer than `least` bytes are not withheld, because in a tunnel both sides could then wait for each other.
    """

    def __init__(self, scan: SecretScan, least: int) -> None:
        self._scan = scan
        self._least = least
        self._past = b""
        """The end of the data already sent, in which a secret may have begun."""
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, str | None]:
        """Return the bytes to send now, and the name of a secret that was found, or None.

        If a secret was found, nothing may be sent.
        """
        held = self._held + data
        known = self._past + held
        if (name := self._scan.find(known)) is not None:
            self._past = self._held = b""
            return b"", name
        leaves = held[: len(held) - min(len(held), self._scan.partial_length(known, self._least))]
        self._held = held[len(leaves) :]
        self._past = (self._past + leaves)[-self._scan.longest :] if self._scan.longest else b""
        return leaves, None

    def end(self) -> bytes:
        """Return the withheld bytes, because no more data follows."""
        held, self._held = self._held, b""
        return held


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    yield raw
    yield json.dumps(value)[1:-1].encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for shift in range(3):
        # Characters that mix bits of neighbouring text with the value are left out.
        bits, skip = (shift + len(raw)) * 8, -(-shift * 8 // 6)
        text = base64.b64encode(b"\0" * shift + raw)[skip : bits // 6]
        yield text
        yield text.translate(bytes.maketrans(b"+/", b"-_"))


def _forms_of_names(value: str) -> Iterator[str]:
    raw = value.encode("utf-8", "surrogateescape")
    plain = re.sub(r"[^a-z0-9]", "", value.lower())
    for form in (plain, raw.hex(), base64.b32encode(raw).decode().rstrip("=").lower()):
        if len(form) >= _HOST_SHORTEST:
            yield form
