"""Services that tools ask for by their type, and the table that holds those of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from tools.results import ToolError


class Caller(Protocol):
    """The call that asks for a service; `tools.context` describes the members."""

    @property
    def task(self) -> str: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def scratch(self) -> Path: ...

    @property
    def options(self) -> Mapping[str, Any]: ...


class Service:
    """Base class of what a tool asks for by its type, as in `context.service(JobKeeper)`.

    The engine adds the services that it implements to the table. A service that needs only what `Caller`
    offers can create itself: it overrides `open`, and then needs no entry in the table.
    """

    absent: ClassVar[str] = "This is not available in this session."
    """The text for the model if a session does not have the service."""

    @classmethod
    def open(cls, caller: Caller) -> Self:
        """Return a new service for an agent, at the first call that asks for it.

        Raises `ToolError` if the session cannot have it.
        """
        raise ToolError(cls.absent)

    async def aclose(self) -> None:
        """Close the service at the end of the session. It is called only for services created by `open`."""


S = TypeVar("S", bound=Service)
C = TypeVar("C", bound=Caller)


class ServiceTable(Generic[C]):
    """The services of one agent by type. `closers` receives the functions that close those made by `open`."""

    def __init__(self, closers: list[Callable[[], Awaitable[None]]]) -> None:
        self._makers: dict[type[Service], Callable[[C], Service]] = {}
        self._closers = closers

    def add(self, kind: type[S], service: S | None) -> None:
        """Add one service for all calls; None means that the session does not have it."""
        if service is not None:
            self._makers[kind] = lambda _: service

    def add_for_call(self, kind: type[S], make: Callable[[C], S] | None) -> None:
        """Add a function that makes the service for each call."""
        if make is not None:
            self._makers[kind] = make

    def get(self, kind: type[S], caller: C) -> S:
        """Return the service of type `kind` for a call.

        Raises `ToolError` if the session does not have it.
        """
        make = self._makers.get(kind)
        if make is None:
            opened = kind.open(caller)
            self.add(kind, opened)
            self._closers.append(opened.aclose)
            return opened
        return make(caller)  # pyright: ignore[reportReturnType] - `add` puts each under its own type
