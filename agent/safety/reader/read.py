"""Reading a shell text: the entry point."""

from __future__ import annotations

from functools import lru_cache

from agent.safety.reader import marks
from agent.safety.reader.reading import Command, Reading, Touched
from agent.safety.reader.script import ScriptReader
from agent.safety.reader.state import TooMuchError
from agent.safety.reader.tree import rough_commands
from agent.safety.rules import is_ruled

LONGEST = 1_000_000
"""Characters of a text that are looked at."""


@lru_cache(maxsize=64)
def read(text: str, cwd: str, home: str) -> Reading:
    """What a shell text that starts in `cwd` would do. Never raises; its work is bounded.

    Says nothing about the disk, so a reading stays true. `cwd` and `home` are absolute.
    """
    text = marks.unmarked(text[:LONGEST])
    script = ScriptReader(home, cwd)
    try:
        script.run(text)
    except (TooMuchError, RecursionError):
        script.doubt("it is too long or too involved to be read")
        _add_ruled(script, text, cwd, home)
        return script.reading(complete=False)
    except Exception as error:
        # A mistake of ours must not let a command pass as understood.
        script.doubt(f"it could not be read ({type(error).__name__})")
        return script.reading(complete=False)
    return script.reading(complete=True)


def _add_ruled(script: ScriptReader, text: str, cwd: str, home: str) -> None:
    """Of a text that is not read to its end, what the hardline may have something against."""
    for rough in rough_commands(text):
        words = [f"{home}{word[1:]}" if word[:1] == "~" else word for word in rough.words]
        while words and words[0] in ("sudo", "env", "nohup", "time", "command", "exec"):
            words.pop(0)
        if words and is_ruled(name := words[0].rpartition("/")[2], ()):
            script.commands[Command(name, tuple(words[1:]), words[0], (cwd,))] = None
        script.writes.update(dict.fromkeys(Touched(path, (cwd,)) for path in rough.writes))
