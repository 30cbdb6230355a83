"""Recognition of addresses on this machine, and construction of addresses from a base address."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
"""Endings of Azure's host names; these servers expect the key in a header of their own."""


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine. Servers there usually need no key."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def below(base_url: str, path: str) -> str:
    """Return an address with `path` appended to its path. The query is kept, as some gateways require it."""
    parts = urlsplit(base_url.strip())
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{path}", parts.query, ""))


def list_of_models(base_url: str, path: str = "models") -> str:
    """Return the address that lists the models of an API.

    On Azure the list belongs to the resource, and not to a single deployment.
    """
    parts = urlsplit(base_url.strip())
    root = re.sub(r"/deployments/[^/]+/?$", "", parts.path)
    return below(urlunsplit(parts._replace(path=root)), path)


def is_azure(url: str) -> bool:
    """Return whether an address belongs to Azure, which expects the key in a header of its own."""
    return (urlsplit(url).hostname or "").lower().endswith(AZURE_HOSTS)


def root_of(base_url: str) -> str:
    """Return the address of a server, without the path `/v1` of its API."""
    parts = urlsplit(base_url.strip())
    return urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix("/v1")))


def plain_address(url: str) -> str:
    """Return an address without user name, password, query and fragment, any of which may contain a key."""
    try:
        parts = urlsplit(url.strip())
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(malformed address)"
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else f"{host}{parts.path}"
