"""Sets of places as the bits of whole numbers, and sums over all of them at once. Pure.

A line of the index has 64 places, so where a word stands in it is a number of 64 bits. Python adds, shifts
and counts such numbers, put one after the other, at the speed of the machine: what is reckoned here for all
places of some hundred lines at once would take a hundred times as long one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from agent.knowledge.recall.index_tables import PLACES

WIDTH = 1 << PLACES
"""Places of a line."""

_FULL = (1 << WIDTH) - 1

_DENSE = 32
"""Places for each that is set, below which a set is dense."""


def joined(masks: Iterable[int]) -> int:
    """The masks of some lines as one number, the first line lowest."""
    return int.from_bytes(array("Q", masks).tobytes(), "little")


def moved(places: int, by: int, lines: int) -> int:
    """All places moved within their lines, those that leave a line left out."""
    if by > 0:
        return (places & _kept(lines, by)) << by
    return (places & _kept(lines, by)) >> -by


@cache
def _kept(lines: int, by: int) -> int:
    """The places that do not leave their line when they move."""
    mask = _FULL >> by if by > 0 else _FULL & ~((1 << -by) - 1)
    return joined([mask] * lines)


class Sums:
    """Sums of small whole numbers, one for each bit, all reckoned at once."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, bits: int, value: int) -> None:
        """Add `value` where `bits` are set."""
        at = 0
        while value:
            if value & 1:
                self._carry(bits, at)
            value >>= 1
            at += 1

    def _carry(self, bits: int, at: int) -> None:
        planes = self._planes
        while len(planes) <= at:
            planes.append(0)
        while bits:
            if at == len(planes):
                planes.append(bits)
                return
            bits, planes[at] = planes[at] & bits, planes[at] ^ bits
            at += 1

    def largest(self, most: int, among: int) -> int:
        """The `most` bits among these whose sums are largest; of equal ones the highest bits."""
        sure = 0
        for plane in reversed(self._planes):
            higher = among & plane
            if (sure | higher).bit_count() <= most:
                sure |= higher
                among &= ~plane
            else:
                among = higher
        return sure | highest(among, most - sure.bit_count())


def highest(bits: int, most: int) -> int:
    """The `most` highest bits that are set."""
    spare = bits.bit_count() - most
    if spare <= 0:
        return bits
    low, high = 0, bits.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (bits >> middle).bit_count() > most:
            low = middle + 1
        else:
            high = middle
    return bits >> low << low


def numbers(bits: int) -> Iterator[int]:
    """The bits that are set, ascending."""
    size = (bits.bit_length() + 63) // 64
    for at, word in enumerate(array("Q", bits.to_bytes(size * 8, "little"))):
        while word:
            low = word & -word
            yield (at << 6) + low.bit_length() - 1
            word ^= low


def of_numbers(values: Iterable[int]) -> int:
    """The number whose bits are these."""
    listed = values if isinstance(values, (list, set, frozenset, tuple)) else list(values)
    if not listed:
        return 0
    size = max(listed) + 1
    if len(listed) * _DENSE < size:
        packed = bytearray((size + 7) // 8)
        for value in listed:
            packed[value >> 3] |= 1 << (value & 7)
        return int.from_bytes(packed, "little")
    # One digit a place, read as a number of the base two: a third of the work where many are set.
    digits = bytearray(b"0" * size)
    for value in listed:
        digits[-1 - value] = 49
    return int(digits, 2)


def masks_of(positions: Iterable[int]) -> array[int]:
    """The mask of each line, by its number, up to the last one that has any."""
    bits = of_numbers(positions)
    size = (bits.bit_length() + WIDTH - 1) // WIDTH
    return array("Q", bits.to_bytes(size * (WIDTH // 8), "little"))


def of_any(masks: Sequence[int]) -> int:
    """The lines whose mask is not empty, as bits."""
    return int("".join(["1" if mask else "0" for mask in reversed(masks)]) or "0", 2)
