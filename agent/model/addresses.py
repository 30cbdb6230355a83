"""Recognises addresses of this machine."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an address stays on this machine, where no key is ever asked for."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
