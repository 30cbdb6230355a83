"""`hermes memory`: list, show, add, edit and remove memory entries."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.frame import add_action, add_actions, answer, load_settings, say, say_json
from tools.text.safe_text import clean
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.knowledge.memory.files import MemoryContents, Origin
    from agent.knowledge.memory.scopes import Scope
    from agent.knowledge.memory.service import MemoryFiles

_SCOPES = ("memory", "user", "project")


DESCRIPTION = (
    "List, show, add, edit and remove what is remembered between sessions. ENTRY is a "
    "number of the list, or a part of the text that only it contains."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes memory` to its parser."""
    actions = add_actions(parser)
    _action(actions, "list", "all entries, numbered")
    _action(actions, "show", "one entry, and where it came from").add_argument("entry", metavar="ENTRY")
    add = _action(actions, "add", "add an entry")
    add.add_argument("text", nargs="+", metavar="TEXT")
    _action(actions, "edit", "open the file in $VISUAL or $EDITOR")
    _action(actions, "remove", "remove an entry").add_argument("entry", metavar="ENTRY")
    _action(actions, "path", "where the file is")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, text, run)
    parser.add_argument(
        "--scope",
        choices=_SCOPES,
        help="memory (this machine), user (who you are) or project (this project); list: all without it",
    )
    return parser


def run(args: argparse.Namespace) -> int | None:
    """Run the chosen action; return an exit code, or None if it succeeded. Raises `HermesError`."""
    from agent.session.conversation.session_prompt import memory_files
    from agent.session.wiring.plugin_memory import kept_elsewhere

    home, here = Home.locate(), Path.cwd()
    settings = load_settings(home).settings
    files = memory_files(home, here, settings)
    if keeper := kept_elsewhere(home, here, settings):
        say(
            f"The plugin service {keeper} keeps the notes of sessions here; these files are not used.",
            sys.stderr,
        )
    scope = cast("Scope", args.scope or "memory")
    match args.action:
        case "list":
            return _list(files, args)
        case "show":
            return _show(files, scope, args)
        case "add":
            return _write(files, scope, "add", " ".join(args.text), args)
        case "remove":
            return _write(files, scope, "remove", _entry_to_remove(files, scope, args), args)
        case "edit":
            return _edit(files, scope)
        case _:
            path = str(files.file(scope).path)
            return answer(args, {"scope": scope, "path": path}, path)


def _list(files: MemoryFiles, args: argparse.Namespace) -> int:
    from agent.knowledge.memory.files import MemoryFileError, usage
    from agent.knowledge.memory.scopes import SCOPES

    chosen = [args.scope] if args.scope else list(SCOPES)
    shown: list[dict[str, Any]] = []
    code = ExitCode.DONE
    for scope in chosen:
        file = files.file(scope)
        try:
            memory = file.read()
        except MemoryFileError as error:
            say(str(error), sys.stderr)
            code = error.exit_code
            continue
        entries = [_entry(memory, index) for index in range(len(memory.entries))]
        used = usage(memory.entries, memory.limit)
        shown.append({"scope": scope, "path": str(file.path), "usage": used, "entries": entries})
    if args.as_json:
        say_json({"memories": shown})
        return int(code)
    for memory in shown:
        say(f"{memory['scope']}  {memory['usage']} characters  {memory['path']}")
        for entry in memory["entries"]:
            held = "  (held back: reads like an instruction)" if entry["held_back"] else ""
            say(f"{entry['number']:>4}  {one_line(entry['text'])}{held}")
        if not memory["entries"]:
            say("      (nothing yet)")
    return int(code)


def _entry(memory: MemoryContents, index: int) -> dict[str, Any]:
    from agent.knowledge.memory.service import vet_entries

    text = memory.entries[index]
    origin = memory.origins.of(text)
    return {
        "number": index + 1,
        "text": text,
        "held_back": vet_entries(memory)[0][index] != text,
        "created": _time(origin),
        "session": origin.session if origin is not None else "",
        "node": origin.node if origin is not None else None,
        "by": origin.by if origin is not None else "unknown",
    }


def _show(files: MemoryFiles, scope: Scope, args: argparse.Namespace) -> None:
    memory = files.file(scope).read()
    entry = _entry(memory, memory.entries.index(_find(memory, args.entry)))
    if args.as_json:
        say_json(entry | {"scope": scope})
        return
    say(clean(entry["text"]))
    where = f"session {entry['session']}, message {entry['node']}" if entry["session"] else entry["by"]
    say(f"\nWritten {entry['created'] or 'at an unknown time'} by {where}.")


def _write(files: MemoryFiles, scope: Scope, action: Any, text: str, args: argparse.Namespace) -> None:
    from agent.knowledge.memory.files import MemoryOperation, MemoryWriteError, usage

    operation = MemoryOperation(action, text if action == "add" else "", "" if action == "add" else text)
    try:
        written = asyncio.run(files.write(scope, [operation], _origin()))
    except MemoryWriteError as error:
        if args.as_json:
            say_json(_refusal_record(files, scope, str(error)))
        raise ConfigError(str(error)) from None
    after = written.after
    used = usage(after.entries, after.limit)
    if args.as_json:
        result = {"scope": scope, "changed": written.changed, "usage": used, "entries": list(after.entries)}
        say_json(result | ({"note": after.note} if after.note else {}))
        return
    done = {"add": "Remembered", "remove": "Forgotten"}[action] if written.changed else "It is there already"
    say(f"{done}; {scope} now uses {used} characters.")
    if after.note:
        say(after.note)


def _refusal_record(files: MemoryFiles, scope: Scope, sentence: str) -> dict[str, Any]:
    """Return a refused change as the memory tool does: the sentence, all entries and the file's usage."""
    from agent.knowledge.memory.files import usage

    memory = files.file(scope).read()
    used = usage(memory.entries, memory.limit)
    return {"scope": scope, "error": sentence, "current_entries": list(memory.entries), "usage": used}


def _origin() -> Origin:
    from agent.knowledge.memory.files import Origin

    return Origin(time.time(), by="person")


def _entry_to_remove(files: MemoryFiles, scope: Scope, args: argparse.Namespace) -> str:
    """Return the entry to remove. Raises `HermesError`; with `--json` the refusal is printed first."""
    try:
        return _find(files.file(scope).read(), args.entry)
    except HermesError as error:
        if args.as_json:
            say_json(_refusal_record(files, scope, str(error)))
        raise


def _find(memory: MemoryContents, wanted: str) -> str:
    """Return the entry with a number, or the only one that contains a text. Raises `HermesError`."""
    entries = memory.entries
    if wanted.isascii() and wanted.isdigit() and 0 < int(wanted) <= len(entries):
        return entries[int(wanted) - 1]
    found = [entry for entry in entries if wanted and wanted in entry]
    if wanted in entries:
        return wanted
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{len(found)} entries contain {wanted[:60]!r}; give the number of one.")
    raise HermesError(f"There is no entry {wanted[:60]!r}; `hermes memory list` shows what there is.")


def _edit(files: MemoryFiles, scope: Scope) -> None:
    from agent.knowledge.memory.files import usage

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not editor.strip():
        raise ConfigError("No editor is set; set EDITOR to one, or use `hermes memory add` and `remove`.")
    file = files.file(scope)
    file.adopt(_origin(), make=True)
    try:
        done = subprocess.run([*shlex.split(editor), str(file.path)], check=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"The editor {editor!r} cannot be started: {error}.") from None
    if done.returncode:
        raise ConfigError(f"The editor ended with {done.returncode}; the file is as it left it.")
    memory = file.adopt(_origin())
    used = usage(memory.entries, memory.limit)
    say(f"{scope} now has {plural(len(memory.entries), 'entry')}, {used} characters.")


def _time(origin: Origin | None) -> str:
    return datetime.fromtimestamp(origin.created).isoformat(timespec="seconds") if origin is not None else ""
