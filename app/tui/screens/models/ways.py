"""The ways to get a model, which the first dialog and `hermes setup` offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from agent.model.key_check import KeyProvider
    from agent.model.local.sources import Weights
    from agent.model.providers import NoModelError
    from app.tui.screens.models.model_menu import Offers

TOUR = "Take the tour with a scripted model; it runs right away"
NAME_ONE = "Name a model: provider/name …"
SERVER = "Name a server: its address, and its key if it wants one …"
KEY = "Enter a key of a provider: "
MODELS_SHOWN = 4
"""Models offered of each server that runs here."""
PROVIDERS_NAMED = 3


class Way(NamedTuple):
    """One way to get a model."""

    title: str
    act: Literal["use", "key", "models", "fetch", "name", "server"]
    model: str = ""
    weights: Weights | None = None
    provider: KeyProvider | None = None
    stands: bool = False
    """True if the cursor may start on it."""


def ways(problem: NoModelError, offers: Offers) -> list[Way]:
    """Return the ways to get a model, the most reliable first. Pure."""
    found = [
        Way(f"{server.name}/{model} – runs on this machine", "use", f"{server.name}/{model}", stands=True)
        for server in problem.servers
        for model in server.models[:MODELS_SHOWN]
    ]
    for each in offers.providers:
        if each.is_set:
            found.append(
                Way(f"Choose a model of {each.name}; its key is set", "models", provider=each, stands=True)
            )
    found += _local(offers)
    if offers.providers:
        named = ", ".join(each.name for each in offers.providers[:PROVIDERS_NAMED])
        found += [Way(f"{KEY}{named}, …", "key"), Way(SERVER, "server")]
    return [*found, Way(NAME_ONE, "name"), Way(TOUR, "use", "demo")]


def _local(offers: Offers) -> list[Way]:
    if offers.local:
        return [Way("Use the local model; it is here", "use", "local", stands=True)]
    if offers.weights is None:
        return []
    titles = ("Fetch the local model{} and use it", "Fetch a smaller one{}, for machines with little memory")
    return [
        Way(title.format(_size(each)), "fetch", weights=each, stands=at == 0)
        for at, (title, each) in enumerate(zip(titles, (offers.weights, offers.small), strict=True))
        if each is not None
    ]


def gigabytes(size: int) -> str:
    """Return a size as `1.1 GB`. Pure."""
    return f"{size / 1e9:.1f} GB"


def _size(weights: Weights) -> str:
    return f" ({gigabytes(weights.size)})" if weights.size else f" {weights.title}"
