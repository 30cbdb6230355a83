"""The hardline: commands that no mode and no permission allows.

The list is deliberately short: only what destroys the machine, the home folder or Hermes's protections. It is
applied after quoting, variables, wrappers and inner shells are resolved. So text that only mentions such a
command does not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.safety import rules
from agent.safety.places import Places, current, joined
from agent.safety.reader.expansion import Reading
from agent.safety.reader.script import LONGEST, read


class Hardline:
    """A check of commands against one set of paths that must not be lost."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def check(self, command: str, cwd: Path) -> tuple[str, ...]:
        """Return the first reason why the command may never run, as a clause; empty if it may."""
        if len(command) > LONGEST:
            return (f"it is longer than {LONGEST:,} characters; write its data to a file first",)
        reading = read(command, str(cwd), self._places.home)
        found = next(iter(forbidden(reading, self._places)), None)
        return () if found is None else (found[1],)


def forbidden(reading: Reading, places: Places) -> Sequence[tuple[str, str]]:
    """Return each part of a command that the hardline forbids, with the reason as a clause. Computed once per
    decision.
    """
    return current().once(("forbidden", reading, places), lambda: tuple(_forbidden(reading, places)))


def _forbidden(reading: Reading, places: Places) -> Iterator[tuple[str, str]]:
    if reading.bomb:
        yield reading.bomb, f"it is a fork bomb: {reading.bomb} starts itself without end"
    for command in reading.commands:
        for cwd in command.cwds:
            if loss := rules.forbidden(rules.ProgramCall(command.name, command.arguments, cwd, places)):
                yield f"{command.word} {' '.join(command.arguments)}".rstrip(), f"it would {loss}"
    for path, cwds in reading.writes:
        for cwd in cwds:
            if loss := places.wreck(joined(cwd, path)):
                yield f"> {path}", f"it would overwrite {loss}"
    for path, cwds in reading.reads:
        if any(places.hides(joined(cwd, path)) for cwd in cwds):
            yield f"< {path}", "it would read Hermes' keys or stored conversations"
