"""Hosts that are never reached, in every spelling that some program reads."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

PLAIN = (
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "169.254.1.1", "168.63.129.16", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
    *("192.0.2.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
)
"""Of this machine, of private networks, of links and many, of documentation, and with credentials."""
_CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
_WIDE = str.maketrans("0123456789.", "０１２３４５６７８９．")
_BOLD = str.maketrans("0123456789", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _parts(form: str) -> Callable[[IPv4Address], str]:
    return lambda plain: ".".join(form.format(each) for each in plain.packed)


def _fewer(count: int) -> Callable[[IPv4Address], str]:
    def spelled(plain: IPv4Address) -> str:
        rest = int.from_bytes(plain.packed[count - 1 :])
        return ".".join([*map(str, plain.packed[: count - 1]), str(rest)])

    return spelled


def _v6(number: Callable[[int], int]) -> Callable[[IPv4Address], str]:
    return lambda plain: f"[{IPv6Address(number(int(plain)))}]"


WAYS: dict[str, Callable[[IPv4Address], str]] = {
    "dotted": str,
    "dot of the root": lambda plain: f"{plain}.",
    "whole number": lambda plain: str(int(plain)),
    "hexadecimal number": lambda plain: hex(int(plain)),
    "capital hexadecimal": lambda plain: f"0X{int(plain):08X}",
    "octal number": lambda plain: f"0{int(plain):o}",
    "hexadecimal parts": _parts("0x{:x}"),
    "octal parts": _parts("0{:o}"),
    "long octal parts": _parts("000{:o}"),
    "two parts": _fewer(2),
    "three parts": _fewer(3),
    "mixed parts": lambda plain: f"0x{plain.packed[0]:x}.0{plain.packed[1]:o}.{int(plain) & 0xFFFF}",
    "full-width": lambda plain: str(plain).translate(_WIDE),
    "circled": lambda plain: str(plain).translate(_CIRCLED),
    "bold": lambda plain: str(plain).translate(_BOLD),
    "raised": lambda plain: str(plain).translate(_RAISED),
    "ideographic dots": lambda plain: str(plain).replace(".", "。"),
    "halfwidth dots": lambda plain: str(plain).replace(".", "｡"),
    "soft hyphen": lambda plain: str(plain).replace(".", "\u00ad."),
    "percent signs": lambda plain: "".join(f"%{ord(each):02x}" for each in str(plain)),
    "mapped": lambda plain: f"[::ffff:{plain}]",
    "mapped in hexadecimal": lambda plain: f"[::ffff:{int(plain) >> 16:x}:{int(plain) & 0xFFFF:x}]",
    "mapped in full": lambda plain: (
        f"[0000:0000:0000:0000:0000:FFFF:{int(plain) >> 16:04X}:{int(plain) & 0xFFFF:04X}]"
    ),
    "compatible": lambda plain: f"[::{plain}]",
    "translated": lambda plain: f"[::ffff:0:{plain}]",
    "NAT64": lambda plain: f"[64:ff9b::{plain}]",
    "NAT64 of a network": lambda plain: f"[64:ff9b:1::{plain}]",
    "6to4": _v6(lambda number: 0x2002 << 112 | number << 80 | 1),
    "Teredo server": _v6(lambda number: 0x20010000 << 96 | number << 64 | 0x08080808 ^ 0xFFFFFFFF),
    "Teredo client": _v6(lambda number: 0x20010000 << 96 | 0x08080808 << 64 | number ^ 0xFFFFFFFF),
    "ISATAP": _v6(lambda number: 0x2A00 << 112 | 0x00005EFE << 32 | number),
}
"""How an address of IPv4 is written, or carried by one of IPv6."""

OTHERS = (
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "ip6-localhost", "ip6-loopback"),
    *("localhost.localdomain", "0", "127.1", "127.0.1", "0x7f.1", "metadata", "instance-data"),
    *("metadata.google.internal", "metadata.goog", "metadata.azure.internal", "metadata.tencentyun.com"),
    *("[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[fe80::1]", "[fe80::1%25eth0]", "[febf::1]"),
    *("[fc00::1]", "[fd00:ec2::254]", "[fd20:ce::254]", "[fec0::1]", "[ff02::1]", "[ff0e::1]", "[100::1]"),
    *("[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[4000::1]", "[2001:2::1]", "[2001:10::1]", "[1::1]"),
)

HOSTS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [*(spell(IPv4Address(each)) for spell in WAYS.values() for each in PLAIN), *OTHERS]
    )
)  # fmt: skip
"""All of them, about six hundred."""

SAMPLE: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(spell(IPv4Address(PLAIN[at % len(PLAIN)])) for at, spell in enumerate(WAYS.values())),
            *OTHERS[::3],
        ]
    )
)
"""Each way once, for what takes longer."""

LED_THERE: dict[str, tuple[str, ...]] = {
    "inside.example": ("127.0.0.1",),
    "both.example": ("93.184.216.34", "10.0.0.7"),
    "six.example": ("::1",),
    "mapped.example": ("::ffff:10.0.0.1",),
    "translated.example": ("64:ff9b::a9fe:a9fe",),
    "cloud.example": ("169.254.169.254",),
}
"""Names that lead to such addresses."""
