"""`hermes rollback`: list the steps of a session and their changes, and restore files to one of them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, StoreError
from app.cli.frame import add_json, agrees, answer, minute_of, say, say_json
from tools.command_name import as_called
from tools.text.safe_text import clean
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.core.store.store import Store
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice, PlanItem
    from agent.workspace.checkpoints.step_log import StepLog
    from agent.workspace.checkpoints.store import CheckpointStore

NAMED = 20
"""The number of skipped paths that are listed; the others are counted."""
CHOICES = ("mine", "checkpoint", "merge")


@dataclass(frozen=True, slots=True)
class _Session:
    """The session whose steps are shown."""

    id: str
    root: Path
    """The session's folder, or the current folder if the session worked here before."""
    is_left: bool
    """True if the session works in another folder by now, so that its later steps do not concern `root`."""
    names: dict[str, int]
    """The positions in the history that have labels in the session, by label."""
    running: bool
    """True if another process is working on the session."""


DESCRIPTION = (
    "Show the steps of a session, what changed in files since one of them, or take files "
    "back to how they stood after it. N is the number of a step (0: before the first) or the name of a "
    "checkpoint. Files that somebody else changed since stay as they are unless --conflicts says "
    "otherwise. Exits with 1 when something stays that nobody chose to keep, with 4 when you said no."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes rollback` to its parser."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="the steps (the default)")
    what.add_argument("--to", metavar="N", help="take files back to how they stood after step N")
    what.add_argument("--diff", metavar="N", help="what changed in files since step N")
    parser.add_argument(
        "--file", action="append", metavar="P", help="only this file or folder; may be given several times"
    )
    parser.add_argument(
        "--hunks", metavar="1,3", help="with --to and one --file: only these hunks, as --diff numbers them"
    )
    parser.add_argument("--session", metavar="ID", help="which session (default: the newest of this folder)")
    parser.add_argument(
        "--conflicts", choices=CHOICES, help="what becomes of files that others changed since (default: mine)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)
    parser.set_defaults(do=run)


def run(args: argparse.Namespace) -> int | None:
    """List steps, print a diff or restore files; return an exit code. Raises `HermesError`."""
    from agent.workspace.checkpoints.store import CheckpointStore

    home = Home.locate()
    if args.conflicts and args.to is None:
        raise ConfigError("--conflicts goes with --to.")
    hunks = _hunks(args)
    if not home.checkpoints.exists() or not home.keeps_sessions():
        raise StoreError("No checkpoints are kept yet, so there is nothing to go back to.")
    store = CheckpointStore(home.checkpoints)
    finished = _finish(store, as_json=args.as_json)
    session = asyncio.run(_session(home, store, args.session))
    line = store.line(session.id)
    if args.to is not None:
        return _restore(home, store, line, session, args, finished, hunks)
    if args.diff is not None:
        return _diff(home, store, line, session, args)
    return _list(line, session, args)


def _hunks(args: argparse.Namespace) -> frozenset[int] | None:
    """Return the numbers of the chosen hunks; None means all. Raises `ConfigError`."""
    from agent.workspace.checkpoints.restore.hunks import numbers

    if args.hunks is None:
        return None
    if args.to is None or len(args.file or ()) != 1:
        raise ConfigError("--hunks goes with --to and one --file.")
    if args.conflicts == "merge":
        raise ConfigError("--hunks are those of the checkpoint, so they do not go with --conflicts merge.")
    try:
        return numbers(args.hunks)
    except ValueError:
        raise ConfigError(f"--hunks takes numbers such as 1,3 or 2-4, not {args.hunks}.") from None


def _finish(store: CheckpointStore, *, as_json: bool) -> tuple[str, ...]:
    """Finish restores that were interrupted; return and print a sentence for each."""
    from agent.workspace.checkpoints.restore.apply import finish_abandoned

    finished = finish_abandoned(store)
    for sentence in finished if not as_json else ():
        say(sentence, sys.stderr)
    return finished


async def _session(home: Home, checkpoints: CheckpointStore, wanted: str | None) -> _Session:
    """Return the named session, else the newest of this folder; of a subagent's session, the root session."""
    from agent.core.store.locks import SessionLock
    from agent.core.store.store import Store
    from agent.session.conversation.session_folder import renamed_session, worked_in

    kept = checkpoints.sessions()
    async with await Store.open(home.database) as store:
        if wanted is not None:
            found = await store.find_session(wanted)
            while found.parent is not None:
                found = await store.session(found.parent)
        else:
            here = Path.cwd()
            sessions = await store.list_sessions(200, workspace=str(here), archived=True)
            found = next((session for session in sessions if session.id in kept), None)
            found = found or await renamed_session(store, home, here)
            if found is None:
                raise StoreError(f"No session in {here} has steps; name one with --session.")
        if found.id not in kept:
            raise StoreError(f"No steps of session {found.id} are kept.")
        names = await _names(store, found.id)
    lock = SessionLock(home.run, found.id)
    running = not lock.acquire()
    lock.release()
    here, root = Path.cwd(), Path(found.workspace)
    is_left = here != root and await asyncio.to_thread(worked_in, home, found.id, here)
    return _Session(found.id, here if is_left else root, is_left, names, running)


async def _names(store: Store, session: str) -> dict[str, int]:
    """Return history positions by label: the step of the labelled node, or of the nearest node above it."""
    marks = {mark.node: mark.label for mark in await store.marks(session) if mark.label}
    if not marks:
        return {}
    rows = {row.id: row for row in await store.outline(session)}
    found: dict[str, int] = {}
    for node, label in marks.items():
        row = rows.get(node)
        while row is not None and row.step is None:
            row = None if row.parent is None else rows.get(row.parent)
        found[label] = 0 if row is None or row.step is None else row.step
    return found


def _position(text: str, line: StepLog, session: _Session) -> int:
    from agent.workspace.checkpoints.restore.plan import check_position

    if text.isascii() and text.isdigit() and len(text) < 12:
        position = int(text)
    else:
        named = {name.casefold(): position for name, position in session.names.items()}
        if text.casefold() not in named:
            known = ", ".join(session.names) or "none has a name"
            there = f"a checkpoint ({known}); `hermes rollback` lists them"
            raise ConfigError(f"{text} is neither the number of a step nor {there}.")
        position = named[text.casefold()]
    check_position(line, position)
    return position


def _paths(files: Sequence[str] | None, root: Path) -> tuple[str, ...] | None:
    """Return paths as steps record them, relative ones from the current folder. Raises `ConfigError`."""
    from agent.workspace.checkpoints.restore.plan import inside

    try:
        return tuple(inside(root, each, Path.cwd()) for each in files) if files else None
    except StoreError as error:
        raise ConfigError(str(error)) from None


def _plan(
    home: Home,
    store: CheckpointStore,
    line: StepLog,
    session: _Session,
    position: int,
    args: argparse.Namespace,
) -> RestorePlan:
    from agent.core.config.loader import load
    from agent.session.history.session_checkpoints import limits, steps_of_all
    from agent.workspace.checkpoints.restore.plan import plan_back

    if not session.root.is_dir():
        raise StoreError(f"The folder {session.root}, where the session worked, is gone.")
    most = limits(load(home).settings.checkpoints)
    paths = _paths(args.file, session.root)
    others = asyncio.run(steps_of_all(store, line.session, session.root, most))
    with store.sharing():
        return plan_back(
            line,
            session.root,
            position,
            store.objects,
            limit=most.file,
            paths=paths,
            others=others,
            only_there=session.is_left,
        )


def _list(line: StepLog, session: _Session, args: argparse.Namespace) -> None:
    from agent.workspace.checkpoints.git_words import step_apart

    wanted = _paths(args.file, session.root)
    steps = [step for step in line.steps() if wanted is None or _touches(step, wanted)]
    if args.as_json:
        record = {
            "session": session.id,
            "workspace": str(session.root),
            "first": line.floor,
            "last": line.last,
            "checkpoints": session.names,
            "steps": [_step_record(step) for step in steps],
        }
        say_json(record)
        return
    names: dict[int, list[str]] = {}
    for name, position in session.names.items():
        names.setdefault(position, []).append(name)
    say(f"Session {session.id} in {one_line(str(session.root))}")
    width = len(str(line.last))
    for step in steps:
        count = len(step_apart(step).files)
        files = plural(count, "file")
        mark = "".join(f"  ⚑ {one_line(name)}" for name in names.get(step.number, ()))
        say(f"{step.number:>{width}}  {minute_of(step.created)}  {files:>9}  {one_line(step.label)}{mark}")
        if step.git:
            say(f"{'':>{width}}  {'':>16}  {'':>9}  {one_line(step.git)}")
    if not steps:
        say("No step changed anything." if wanted is None else "No step changed that.")
    if line.floor:
        say(f"Steps up to {line.floor} are no longer kept.")


def _touches(step: Step, wanted: Sequence[str]) -> bool:
    return any(
        not path or change.path == path or change.path.startswith(f"{path}/")
        for change in step.changes
        for path in wanted
    )


def _diff(
    home: Home, store: CheckpointStore, line: StepLog, session: _Session, args: argparse.Namespace
) -> None:
    from agent.session.export.patch import patch_between
    from agent.workspace.checkpoints.entries import PathChange
    from agent.workspace.checkpoints.restore.hunk_restore import numbered

    position = _position(args.diff, line, session)
    plan = _plan(home, store, line, session, position, args)
    patch = patch_between(
        (PathChange(item.path, item.target, item.now) for item in plan.items),
        store.objects,
        text=True,
        units=plan.units,
    )
    items = {item.path: item for item in plan.items}
    body = b"".join(numbered(items[file.path], file.data, store.objects) for file in patch.files)
    text = clean(body.decode("utf-8", "replace"))
    if args.as_json:
        say_json(_plan_record(session, plan) | {"diff": text})
        return
    if text:
        say(text.removesuffix("\n"))
    git = {item.path: _change_of_git(item) for item in plan.shown_items}
    for item in patch.left_out:
        say(f"· {one_line(item.path)}: {git.get(item.path) or one_line(item.reason)}")
    if not plan.items:
        say(f"All files are as they were after step {position}.")


def _restore(
    home: Home,
    store: CheckpointStore,
    line: StepLog,
    session: _Session,
    args: argparse.Namespace,
    finished: Sequence[str],
    hunks: frozenset[int] | None,
) -> ExitCode:
    from agent.workspace.checkpoints.restore.apply import apply_restore

    position = _position(args.to, line, session)
    plan = _plan(home, store, line, session, position, args)
    told = {"finished_before": list(finished)}
    if not plan.items:
        record = _plan_record(session, plan) | told | {"units": [], "coverage": "full"}
        answer(args, record, f"All files are as they were after step {position}.")
        return ExitCode.DONE
    choice = args.conflicts or "mine"
    choices: dict[str, Choice] = {item.path: choice for item in plan.having("conflict")}
    if hunks is not None:
        choices |= _parts(plan, store, hunks, args)
    shown = {item.path: item.state for item in plan.shown_items}
    for path, state in shown.items():
        if state == "conflict":
            choices.setdefault(path, choice)
    stays = all(state == "lost" or choices.get(path) == "mine" for path, state in shown.items())
    if not args.yes and not stays:
        if args.as_json or not sys.stdin.isatty():
            raise ConfigError("Taking files back asks first, and there is nobody to answer; give --yes.")
        _preview(plan, store, choices, session)
        if not _confirm(plan, choices):
            say("Nothing was changed.")
            return ExitCode.DENIED
    restored = apply_restore(
        plan,
        choices,
        store,
        session.id,
        session=session.id,
        label=f"back to step {position}",
    )
    record = _plan_record(session, plan) | _outcome_record(restored, plan) | told
    answer(args, record, _outcome(restored, f" --session {session.id}" if args.session else ""))
    conflicts = (*plan.having("conflict"), *(item for item in plan.shown_items if item.state == "conflict"))
    chosen = {item.path for item in conflicts} if args.conflicts == "mine" else set()
    missed = [item for item in restored.skipped if item.path not in chosen]
    return ExitCode.FAILED if missed else ExitCode.DONE


def _parts(
    plan: RestorePlan, store: CheckpointStore, hunks: frozenset[int], args: argparse.Namespace
) -> dict[str, Choice]:
    """Return the choice of hunks for a plan with one file; a conflict is skipped unless overruled."""
    from agent.workspace.checkpoints.restore.hunk_restore import divide_path

    item = plan.items[0]
    if len(plan.items) > 1:
        raise ConfigError(f"{args.file[0]} is a folder; --hunks are those of one file.")
    if item.state == "lost":
        return {}
    part = divide_path(item, store.objects).part(hunks)
    return {} if item.state == "conflict" and args.conflicts != "checkpoint" else {item.path: part}


def _preview(
    plan: RestorePlan, store: CheckpointStore, choices: Mapping[str, Choice], session: _Session
) -> None:
    """Print the planned change to each path; of chosen hunks only these are shown."""
    from agent.session.export.patch import patch_between
    from agent.workspace.checkpoints.entries import PathChange
    from agent.workspace.checkpoints.restore.hunk_restore import part_entry
    from agent.workspace.checkpoints.restore.ref_plan import PartialRestore

    for item in plan.shown_items:
        choice = choices.get(item.path, "checkpoint")
        part = part_entry(item, choice, store.objects) if isinstance(choice, PartialRestore) else None
        patch = patch_between(
            [PathChange(item.path, item.now, part or item.target)], store.objects, text=True
        )
        about = _change_of_git(item)
        lines = f"+{patch.added} −{patch.removed}" if patch.added or patch.removed else ""
        say(f"  {one_line(item.path)}  {_what_happens(item, choice)}  {lines}{about}".rstrip())
        if part is not None:
            say(clean(patch.body.decode("utf-8", "replace")).removesuffix("\n"))
    if session.running:
        say("A Hermes works on this session right now; it will find the files changed.")


def _confirm(plan: RestorePlan, choices: Mapping[str, Choice]) -> bool:
    stay = sum(item.state == "lost" or choices.get(item.path) == "mine" for item in plan.shown_items)
    count = len(plan.shown_items) - stay
    also = f", leave {stay:,} as {'they are' if stay != 1 else 'it is'}" if stay else ""
    return agrees(f"Take {count:,} {'path' if count == 1 else 'paths'} back to step {plan.position}{also}?")


def _plan_record(session: _Session, plan: RestorePlan) -> dict[str, Any]:
    items = [{"path": item.path, "state": item.state, "reason": item.reason} for item in plan.items]
    return {"session": session.id, "workspace": plan.root, "position": plan.position, "items": items}


def _what_happens(item: PlanItem, choice: Choice) -> str:
    """Return a description of the planned change to one path."""
    if item.state == "lost":
        return f"stays: {one_line(item.reason)}"
    what = "changes back" if item.now is not None else "comes back"
    if item.target is None:
        what = "goes away"
    if not isinstance(choice, str):
        what = f"changes back in {len(choice.hunks):,} hunk{'s' * (len(choice.hunks) != 1)}"
    if item.state == "change":
        return f"{what}; changed while a command ran, perhaps by you" if item.unnamed else what
    stays = {"mine": "stays", "merge": "is merged"}.get(str(choice), f"{what} all the same")
    return f"▲ {item.reason}; {stays}"


def _change_of_git(item: PlanItem) -> str:
    """Return the planned change to a git repository; empty for other items."""
    return one_line(item.now.reason) if item.is_repository and item.now is not None else ""


def _outcome(restored: Restored, chosen: str) -> str:
    """Return the result of a restore as lines; `chosen` are the options that name its session."""
    lines = []
    if restored.step is not None:
        number = restored.step.number
        lines.append(f"{one_line(restored.what('taken back'))}; this is step {number}.")
        lines.append(as_called(f"To undo it: hermes rollback --to {number - 1}{chosen}"))
        if along := one_line(restored.taken_along()):
            lines.append(f"▲ {along[0].upper()}{along[1:]}")
    else:
        lines.append("Nothing was changed.")
    lines += [f"▲ {each[0].upper()}{each[1:]}" for each in map(one_line, restored.remarks)]
    named = restored.skipped[:NAMED]
    lines += [f"▲ {one_line(item.path)} stays as it is: {one_line(item.reason)}" for item in named]
    if more := len(restored.skipped) - len(named):
        lines.append(f"▲ {more:,} more stay as they are")
    return "\n".join(lines)


def _step_record(step: Step) -> dict[str, Any]:
    """Return a step as JSON data."""
    return {
        "step": step.number,
        "kind": step.kind,
        "label": step.label,
        "created": step.created,
        "paths": [change.path for change in step.changes],
        "git": step.git,
        "coverage": step.coverage.sentence(),
    }


def _outcome_record(restored: Restored, plan: RestorePlan) -> dict[str, Any]:
    """Return the result of a restore as JSON data."""
    changes = restored.step.changes if restored.step else ()
    whole = plan.whole and not plan.having("lost")
    return {
        "units": [
            {
                "path": each.path,
                "kind": each.kind,
                "state": "left" if each.reason else "restored",
                "reason": each.reason,
            }
            for each in restored.units
        ],
        "coverage": "full" if whole else "partial",
        "step": restored.step.number if restored.step else None,
        "restored": [change.path for change in changes],
        "unnamed": list(restored.unnamed),
        "remarks": list(restored.remarks),
        "left": [{"path": item.path, "reason": item.reason} for item in restored.skipped],
    }
