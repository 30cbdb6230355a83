"""Changes of a plugin since a person agreed to it, line by line. Touches the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.core.home import Home
from agent.integrations.plugins.agreed_files import AgreedFile
from agent.integrations.plugins.consent import ConsentFile
from agent.integrations.plugins.files import read_file
from agent.integrations.plugins.shelf import ShelvedPlugin
from tools.files.diffs import diff_texts, shorten_diff
from tools.text.safe_text import reveal
from tools.text.words import brief

MOST_SHOWN = 200_000
"""Characters of all differences of a plugin together."""
LONGEST_LINE = 2_000
"""Characters of a line that are shown."""
MARKS = {"added": "+", "removed": "-", "changed": "~"}

PluginChange = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDifference:
    """One file that is not as it was agreed to. Its texts hold nothing that steers a terminal."""

    path: str
    change: PluginChange
    facts: tuple[str, ...] = ()
    """What the lines do not say, a clause each, such as that it is a program now."""
    diff: str = ""
    """A unified diff; empty where no text was kept, or there is none."""
    added: int = 0
    removed: int = 0

    @property
    def title(self) -> str:
        """One line: mark, path, how many lines changed, and what else is to be said."""
        counts = [f"+{self.added:,}"] * bool(self.added) + [f"-{self.removed:,}"] * bool(self.removed)
        words = [f"{MARKS[self.change]} {self.path}", *([f"({' '.join(counts)})"] if counts else [])]
        return " ".join(words) + "".join(f"; {fact}" for fact in self.facts)

    def to_json(self) -> dict[str, Any]:
        """What `--json` shows of it."""
        return {"path": self.path, "change": self.change, "facts": list(self.facts), "diff": self.diff}


def differences(home: Home, shelved: ShelvedPlugin) -> tuple[PluginDifference, ...]:
    """All files that changed since the person agreed; none where nobody agreed to any."""
    if shelved.consent is None or shelved.hashes is None or shelved.plugin is None:
        return ()
    before, now = shelved.consent.files, shelved.hashes
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return ()
    kept = ConsentFile(home.plugin_consent).texts.read(shelved.consent.digest, before)
    found: list[PluginDifference] = []
    room = MOST_SHOWN
    for name in changed:
        found.append(_difference(shelved.plugin.root, name, kept.get(name), before, now, room))
        room -= len(found[-1].diff)
    return tuple(found)


def lines_of(found: Iterable[PluginDifference]) -> list[str]:
    """The lines of all differences, one file after the other."""
    return [line for each in found for line in each.diff.splitlines()]


def _difference(
    root: Path,
    name: str,
    old: AgreedFile | None,
    before: Mapping[str, str],
    now: Mapping[str, str],
    room: int,
) -> PluginDifference:
    change: PluginChange = "added" if name not in before else "removed" if name not in now else "changed"
    shown = brief(reveal(name), 200)
    facts: list[str] = []
    new: AgreedFile | None = None
    if change != "removed":
        try:
            file = read_file(root, root / name)
        except OSError as error:
            facts.append(f"it cannot be read now: {error.strerror or error}")
        else:
            new = AgreedFile.of(file)
            if file.digest != now[name]:
                return PluginDifference(path=shown, change=change, facts=("it is being changed right now",))
    if change != "added" and old is None:
        facts.append("its text was not kept when you agreed")
    facts += _facts(change, old, new)
    sides = ("" if change == "added" else _text(old), "" if change == "removed" else _text(new))
    if None in sides:
        return PluginDifference(path=shown, change=change, facts=tuple(facts))
    text = diff_texts(sides[0] or "", sides[1] or "", *_names(shown, change))
    diff = "\n".join(_short(line) for line in text.text.split("\n"))
    if len(diff) > room:
        diff = shorten_diff(diff, max(room, 0))
    return PluginDifference(
        path=shown, change=change, facts=tuple(facts), diff=diff, added=text.added, removed=text.removed
    )


def _names(shown: str, change: PluginChange) -> tuple[str, str]:
    old = "/dev/null" if change == "added" else f"agreed/{shown}"
    return old, "/dev/null" if change == "removed" else f"now/{shown}"


def _text(file: AgreedFile | None) -> str | None:
    return None if file is None else file.text


def _facts(change: PluginChange, old: AgreedFile | None, new: AgreedFile | None) -> list[str]:
    """What is to be said besides lines: kinds that changed, and size and hash where there are no lines."""
    facts: list[str] = []
    if new is not None and (old is None or old.kind != new.kind) and (kind := _kind(new, change)):
        facts.append(kind)
    for file, when in ((old, "agreed to"), (new, "now")):
        if file is not None and file.text is None:
            facts.append(f"{when}: {file.lacks}, {file.size:,} bytes, SHA-256 {file.sha256}")
    return facts


def _kind(file: AgreedFile, change: PluginChange) -> str:
    kind, _, leads_to = file.kind.partition("\0")
    match kind:
        case "program":
            return "a program" if change == "added" else "it can be run as a program now"
        case "link":
            return f"a link within the plugin, to {brief(reveal(leads_to), 200)}"
        case "outside":
            return "a link out of the plugin, which is not followed"
        case "special":
            return "no plain file, which is not read"
    return "" if change == "added" else "a plain file now"


def _short(line: str) -> str:
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]} … {len(line) - LONGEST_LINE:,} more characters"
    return reveal(line)
