"""A quick parser of command lines that open a session.

Sessions are opened often, usually with few options. Parsing them here saves 40 ms for importing and building
the parser of `app.cli.command_line`. That parser handles all other lines and doubtful cases; options read
here mean the same as there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_RESUMED = {"--resume": "resume", "-r": "resume", "--cwd": "cwd"}
_AGAIN = {"--continue": "resume_last", "-c": "resume_last", "--here": "here"}
SWITCHES = {"--demo": "demo", "--json": "json"} | _AGAIN
WITH_VALUE = {"--model": "model", "-m": "model", "--prompt": "prompt", "-p": "prompt"} | _RESUMED
"""Options with a value that open a session, and the field that each sets."""
CHECKED_BY_PARSER = ("--approve", "--effort", "--tools", "--max-turns")
"""Options that also open a session, but whose values only the full parser checks."""


class FastOptions:
    """The options that the parser returns for a line that opens a session."""

    command: str | None = None
    attach: str | None = None
    version = plain = reader = False
    image: Sequence[str] = ()
    approve = effort = tools = max_turns = None

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.demo = self.json = False
        self.resume_last = self.here = False
        self.model: str | None = None
        self.cwd: str | None = None
        self.resume: str | None = None
        self.is_complete = True
        """True if the options are complete; false if the parser must check a value that is left out here."""

    @property
    def has_screen(self) -> bool:
        """True if the session opens the full screen, instead of answering one prompt and ending."""
        return self.prompt is None and not self.json


def fast_options(arguments: Sequence[str]) -> FastOptions | None:
    """Return the options of a line that seems to open a session; None for any other line."""
    options = FastOptions()
    left = iter(arguments)
    for word in left:
        name, equals, value = word.partition("=")
        if name in WITH_VALUE or name in CHECKED_BY_PARSER:
            if not equals and (value := next(left, "-")).startswith("-"):
                return None
            if name in CHECKED_BY_PARSER:
                options.is_complete = False
            else:
                setattr(options, WITH_VALUE[name], value)
        elif word in SWITCHES:
            setattr(options, SWITCHES[word], True)
        else:
            return None
    return options
