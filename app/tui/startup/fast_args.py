"""A quick reading of the command line: whether it opens the full screen, and with which options.

The full screen is opened often, usually with few options. Reading them here saves building the parser of
`app.cli.command_line`. That parser handles all other lines and doubtful cases; options read here mean the
same as there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SWITCHES = {"--demo": "demo", "--continue": "resume_last", "-c": "resume_last", "--here": "here"}
WITH_VALUE = {"--model": "model", "-m": "model", "--cwd": "cwd", "--resume": "resume", "-r": "resume"}
"""Options that open the full screen, and the field each sets."""
JUDGED = ("--approve", "--effort", "--tools", "--max-turns")
"""Options that also open the full screen, but whose values may be wrong."""


class FastOptions:
    """The options that the parser returns for a line that opens the full screen."""

    command: str | None = None
    attach: str | None = None
    prompt: str | None = None
    version = json = plain = reader = False
    image: Sequence[str] = ()
    approve = effort = tools = max_turns = None

    def __init__(self) -> None:
        self.demo = False
        self.resume_last = self.here = False
        self.model: str | None = None
        self.cwd: str | None = None
        self.resume: str | None = None
        self.sound = True
        """True if the options are complete; false if the parser must check a value that is left out here."""


def fast_options(arguments: Sequence[str]) -> FastOptions | None:
    """Return the options of a line that seems to open the full screen; None for any other."""
    options = FastOptions()
    left = iter(arguments)
    for word in left:
        name, equals, value = word.partition("=")
        if name in WITH_VALUE or name in JUDGED:
            if not equals and (value := next(left, "-")).startswith("-"):
                return None
            if name in JUDGED:
                options.sound = False
            else:
                setattr(options, WITH_VALUE[name], value)
        elif word in SWITCHES:
            setattr(options, SWITCHES[word], True)
        else:
            return None
    return options
