"""Classification of network addresses: only globally reachable ones are allowed, in whatever form they are
written.

The tables are those of the IANA registries of special-purpose addresses (RFC 6890 and its updates). An
address that embeds an IPv4 address is judged by that address. Services that return the credentials of a cloud
machine are refused at any address. Nothing here resolves names or connects.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from tools.kit.lazy_pattern import lazy_pattern

Address = IPv4Address | IPv6Address


def _v4(text: str) -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(each) for each in text.split())


def _v6(text: str) -> tuple[IPv6Network, ...]:
    return tuple(IPv6Network(each) for each in text.split())


_V4_REFUSED = _v4(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24"
    " 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_V4_REACHABLE = _v4("192.0.0.9/32 192.0.0.10/32")
"""The reachable exceptions inside refused ranges."""
_V6_UNICAST = IPv6Network("2000::/3")
"""The range from which addresses are assigned so far; the rest is reserved, multicast, or local."""
_V6_REFUSED = _v6("2001::/23 2001:db8::/32 3fff::/20")
_V6_REACHABLE = _v6(
    "2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28 2001:30::/28"
)
_MAPPED, _COMPATIBLE, _TRANSLATED = _v6("::ffff:0:0/96 ::/96 ::ffff:0:0:0/96")
_NAT64, _NAT64_OWN, _SIX_TO_FOUR, _TEREDO = _v6("64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The third quarter of an IPv6 address whose last quarter is an IPv4 address."""
_METADATA = frozenset(
    ip_address(each)
    for each in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16"),
        *("192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
_METADATA_NAMES = frozenset(
    [
        *("metadata.google.internal", "metadata.goog", "metadata", "instance-data"),
        *("metadata.azure.internal", "metadata.tencentyun.com"),
    ]
)
_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_NUMBER = lazy_pattern(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = lazy_pattern(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}")


def canonical(host: str) -> str:
    """Return a host in the form used for comparison: lower case, ASCII, without brackets and the final dot.

    An address is in its shortest form. Raises `ValueError` for a text that is neither a name nor an address,
    and for numbers that programs interpret differently; its text continues a sentence after the host.
    """
    folded = _normalize_host(host)
    found = readings(folded)
    if len(set(found)) > 1:
        raise ValueError("is an address that programs read in different ways")
    if found:
        return _shortest_form(found[0])
    if not _NAME.fullmatch(folded):
        raise ValueError("is not a name of a host")
    return folded


def readings(host: str) -> tuple[Address, ...]:
    """Return every address that some program understands when it reads `host`; empty for a name.

    Considers whole numbers, hexadecimal and octal parts, missing parts, full-width and circled digits. Raises
    `ValueError` for a text that ends in a number or has a colon and is not an address.
    """
    text = _normalize_host(host)
    if ":" in text:
        try:
            return (IPv6Address(text.partition("%")[0]),)
        except ValueError:
            raise ValueError("is not an address") from None
    parts = text.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return ()
    if len(parts) > 4 or not all(map(_NUMBER.fullmatch, parts)):
        raise ValueError("ends in a number and is not an address")
    found = dict.fromkeys(_numbers(parts))
    if not found:
        raise ValueError("ends in a number and is not an address")
    return tuple(found)


def refusal(address: Address) -> str | None:
    """Return the reason why an address is refused, as in "it is …"; None for a globally reachable one."""
    if is_metadata(address):
        return "is the address of a service that hands out the credentials of this machine"
    if address.is_loopback or address.is_unspecified:
        return "is an address of this machine"
    inner = embedded_ipv4(address)
    if inner and not (isinstance(address, IPv6Address) and address in _NAT64_OWN):
        return next(filter(None, map(refusal, inner)), None)
    if isinstance(address, IPv4Address):
        is_open = not _among(address, _V4_REFUSED) or _among(address, _V4_REACHABLE)
    else:
        is_open = address in _V6_UNICAST and (
            not _among(address, _V6_REFUSED) or _among(address, _V6_REACHABLE)
        )
    return None if is_open else "is not an address of the public internet"


def is_metadata(address: Address) -> bool:
    """Return whether an address, or one embedded in it, belongs to a service that returns credentials of a
    cloud machine.
    """
    return any(each in _METADATA for each in (address, *embedded_ipv4(address)))


def refusal_inside(address: Address) -> str | None:
    """Return the reason why an address is refused although the user has listed its host as their own; None if
    it is not.
    """
    plain = (address, *embedded_ipv4(address))
    if any(
        each.is_loopback or each.is_unspecified or each.is_link_local or each.is_multicast for each in plain
    ):
        return "is an address of this machine or its link"
    return refusal(address) if is_metadata(address) else None


def embedded_ipv4(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses embedded in an IPv6 address; empty without any."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if any(address in each for each in (_MAPPED, _COMPATIBLE, _TRANSLATED, _NAT64, _NAT64_OWN)):
        return (low,)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(number >> 80 & 0xFFFFFFFF),)
    if address in _TEREDO:
        return (IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(number & 0xFFFFFFFF ^ 0xFFFFFFFF))
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        return (low,)
    return ()


def refused_name(name: str) -> str | None:
    """Return the reason why a name is refused whatever it resolves to; None if it is not."""
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return "is a name of this machine"
    if name in _METADATA_NAMES:
        return "is the name of a service that hands out the credentials of this machine"
    return None


def refused_among(addresses: Iterable[Address], *, inside: bool = False) -> tuple[Address, str] | None:
    """Return the first refused address with the reason; None if all are allowed.

    A name with one refused address should be refused. `inside` means that the user has listed the host as
    part of their own network.
    """
    judge = refusal_inside if inside else refusal
    return next(((each, why) for each in addresses if (why := judge(each)) is not None), None)


def _shortest_form(address: Address) -> str:
    """Return an address as text, the same in every Python: 3.13 writes mapped addresses differently."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        high, low = divmod(int(address.ipv4_mapped), 1 << 16)
        return f"::ffff:{high:x}:{low:x}"
    return str(address)


def _normalize_host(host: str) -> str:
    text = unicodedata.normalize("NFKC", host).translate(_DOTS)
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if not text.isascii():
        try:
            text = text.encode("idna").decode()
        except UnicodeError:
            raise ValueError("is not a name of a host") from None
    return text.lower().removesuffix(".")


def _numbers(parts: list[str]) -> Iterator[IPv4Address]:
    """Yield the addresses that the parts can mean, with numbers after leading zeros read as octal and as
    decimal.
    """
    for octal in (True, False):
        try:
            values = [_value(part, octal) for part in parts]
        except ValueError:
            continue
        *high, last = values
        room = 1 << 8 * (5 - len(values))
        if all(value < 256 for value in high) and last < room:
            shifted = sum(value << 8 * (3 - place) for place, value in enumerate(high))
            yield IPv4Address(shifted + last)


def _value(part: str, octal: bool) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if len(part) > 12:
        raise ValueError("too large for any address")
    return int(part, 8 if octal and len(part) > 1 and part.startswith("0") else 10)


def _among(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)
