"""Commands that certainly change no file, so that files need not be compared before and after them."""

from __future__ import annotations

from pathlib import Path

from agent.safety.assessor import Assessor, git_folder_option, names_programs
from agent.safety.places import absolute, cached_paths, joined
from agent.safety.reader.expansion import Command
from agent.safety.reader.script import read
from agent.safety.reader.tree import words
from tools.kit.lazy_pattern import lazy_pattern

_LOOKERS = words(
    "ls cat head tail wc nl grep egrep fgrep rg find sed stat du df file diff cmp sort uniq cut tr tac echo"
    " printf true false pwd cd basename dirname realpath readlink which git tree jq sha256sum md5sum sleep"
)
"""Programs that do not even leave a cache behind when the table classes them as only looking."""
_QUOTED = lazy_pattern(r"'[^']*'")
_EXPANDED = lazy_pattern(r"[$`]|\[\[|\(\(")


def programs_that_look(assessor: Assessor, command: str, cwd: Path, home: str) -> frozenset[str] | None:
    """Return the names of the programs in a command that certainly changes no file, as long as these names
    mean the usual programs; None if it may change one. Blocking.
    """
    with cached_paths():
        reading = read(command, str(cwd), home)
        names = frozenset(each.word for each in reading.commands)
        # The value of a variable may come from an earlier command, and may be run.
        if not names <= _LOOKERS or reading.assigned or _EXPANDED.search(_QUOTED.sub("", command)):
            return None
        found = assessor.assess(command, cwd)
        if found.verdict.kind != "allow" or not found.is_read_only:
            return None
        return None if any(map(_may_run_others, reading.commands)) else names


def _may_run_others(command: Command) -> bool:
    """Return whether the command is git in a repository whose settings may name programs to run."""
    folder = git_folder_option(command) or "."
    return command.name == "git" and any(
        names_programs(absolute(joined(joined(cwd, folder), "."))) for cwd in command.cwds
    )
