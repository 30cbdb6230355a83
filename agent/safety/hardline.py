"""The hardline: commands that no mode and no yes lets through.

The list is short on purpose: only what destroys the machine, the home folder
or the guard rails themselves. It is applied to what a command would do after
quoting, variables, wrappers and inner shells are resolved, so text that only
mentions such a command is no reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.safety import rules
from agent.safety.look import current
from agent.safety.places import Places, joined
from agent.safety.shell import marks
from agent.safety.shell.recording import Recording, Start, record

TANGLED = "it is too involved to be checked; split it into simple commands"


@dataclass(frozen=True, slots=True)
class Findings:
    """What reading a command brought to light."""

    forbidden: tuple[str, ...] = ()
    """Why no mode lets it pass; empty when nothing speaks against it."""
    doubts: tuple[str, ...] = ()
    """What could not be known, for the person who is asked."""


class _ForbiddenError(Exception):
    """Stops the reading of a command at the first reason."""


class Hardline:
    """Reads commands for one set of places that must not be lost."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def check(self, command: str, cwd: Path) -> tuple[str, ...]:
        """Why the command may never run; empty when it may."""
        return self.examine(command, cwd).forbidden

    def doubts(self, command: str, cwd: Path) -> tuple[str, ...]:
        """What about the command is not known before it runs."""
        return self.examine(command, cwd).doubts

    def examine(self, command: str, cwd: Path) -> Findings:
        """Everything there is to say about a command. Takes time in proportion to its length."""
        return examined(record(command, str(cwd), self._places.home), self._places)


def examined(recording: Recording, places: Places) -> Findings:
    """What the hardline says of a recording; found out once for a whole decision."""
    return current().once((examined, recording, places), lambda: _examined(recording, places))


def _examined(recording: Recording, places: Places) -> Findings:
    if recording.tangled or recording.fault:
        return Findings((TANGLED,))
    judge = _Judge(places, hidden=_may_hide(recording, places))
    try:
        recording.show(judge)
    except _ForbiddenError as error:
        return Findings((str(error),), tuple(judge.doubts))
    return Findings((), tuple(judge.doubts))


def _may_hide(recording: Recording, places: Places) -> bool:
    """Whether any word or folder of a recording can lead to what must not be read."""
    started = [event for event in recording.events if isinstance(event, Start)]
    cwds = {cwd for event in started for cwd in event.cwds}
    return places.may_hide("/".join([*cwds, *("/".join(event.arguments) for event in started)]))


class _Judge:
    """Compares every command line and every written file with the rules.

    Without `hidden` no command can lead to what must not be read.
    """

    def __init__(self, places: Places, *, hidden: bool) -> None:
        self._places = places
        self._hidden = hidden
        self.doubts: dict[str, None] = {}

    def command(
        self,
        name: str,
        arguments: Sequence[str],
        cwds: Sequence[str],
        *,
        word: str = "",
        stdin: Sequence[str] | None = None,
    ) -> None:
        if not (self._hidden or rules.is_ruled(name, arguments)):
            return  # like most
        for cwd in cwds:
            if reason := rules.forbidden(rules.Line(name, arguments, cwd, self._places)):
                raise _ForbiddenError(f"it would {reason}")

    def written(self, path: str, cwds: Sequence[str], texts: Sequence[str] | None = None) -> None:
        for cwd in cwds:
            if loss := self._places.wreck(joined(cwd, path)):
                raise _ForbiddenError(f"it would overwrite {loss}")

    def unsettled(self, path: str, cwds: Sequence[str]) -> None:
        """What a file holds forbids nothing."""

    def read(self, path: str, cwds: Sequence[str]) -> None:
        for cwd in cwds:
            if self._places.hides(joined(cwd, path)):
                raise _ForbiddenError("it would read Hermes' keys or stored conversations")

    def assigned(self, name: str, values: Sequence[str | tuple[str, ...]]) -> None:
        """Setting a variable loses nothing."""

    def consulted(self, name: str) -> None:
        """Using a variable loses nothing."""

    def foreign(self, name: str) -> None:
        self.doubt(f"it runs a {name} program, which is not read")

    def bomb(self, name: str) -> None:
        raise _ForbiddenError(f"it is a fork bomb: {marks.literal(name)} starts itself without end")

    def doubt(self, sentence: str) -> None:
        self.doubts[sentence] = None
