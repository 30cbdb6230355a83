"""`hermes sessions replay`: replay a session with its recorded answers, or continue it live from a step."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import say, say_json
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.store.nodes import Session
    from agent.core.store.store import Store
    from agent.session.replay.replaying import ReplayReport


def declare(replay: argparse.ArgumentParser) -> None:
    """Add the description and options of `hermes sessions replay` to its parser."""
    replay.description = (
        "Run a session again: no request leaves and no tool runs, recorded answers and results "
        "are fed through, and every request is compared with the one that left, byte for byte. With --from "
        "STEP --live, what comes before that answer is replayed and a new branch continues live from there."
    )
    replay.add_argument("session", metavar="SESSION")
    replay.add_argument("--branch", metavar="NAME", default="main", help="which branch (default: main)")
    replay.add_argument("--from", dest="step", type=int, metavar="STEP", help="where to continue live")
    replay.add_argument("--live", action="store_true", help="ask the model from that step on")
    replay.add_argument("--live-from", type=int, metavar="STEP", help="the same as --from STEP --live")
    replay.add_argument("--model", metavar="NAME", help="ask this model instead (with --live)")
    replay.add_argument(
        "--approve", choices=("ask", "all", "deny"), help="what becomes of live calls that would ask"
    )


async def run(store: Store, home: Home, args: argparse.Namespace) -> ExitCode:
    """Replay a session and print a report, or continue it live; return an exit code. Raises `HermesError`."""
    from agent.core.attachments import AttachmentStore
    from agent.session.replay.replaying import check_step, replay

    step = args.live_from if args.live_from is not None else args.step
    live = args.live or args.live_from is not None
    if live and step is None:
        raise ConfigError("Say from which step to continue live: --from STEP --live.")
    if step is not None and not live:
        raise ConfigError("--from says where to continue live; give --live too.")
    if not live and (args.model or args.approve):
        raise ConfigError("--model and --approve are for continuing live; give --from STEP --live too.")
    session = await store.find_session(args.session)
    path = await store.path(session.id, args.branch)
    if step is not None:
        check_step(path, args.branch, step)
    report = await replay(session, path, AttachmentStore(home.attachments), before=step)
    if report.difference is not None or not live:
        _print_result(report, args, len(path) if step is None else report.nodes)
        return ExitCode.DONE if report.difference is None else ExitCode.FAILED
    assert step is not None
    return await _continue_live(store, session, step, args)


def _print_result(report: ReplayReport, args: argparse.Namespace, nodes: int) -> None:
    compared, found = report.compared, report.difference
    if args.as_json:
        record = dataclasses.asdict(report) | {"branch": args.branch, "same": found is None}
        say_json(record, 2)
        return
    if found is not None:
        say(found.sentence() + _missing_images(report))
        return
    steps = f"{plural(report.steps, 'step')}, {plural(nodes, 'entry')}"
    whole = f"{plural(compared.whole, 'request')} byte for byte ({compared.bytes:,} bytes)"
    said = [whole] if compared.whole else []
    if compared.parts:
        said.append(f"{compared.parts} by their parts, as no bytes of them left")
    if compared.unrecorded:
        said.append(f"{compared.unrecorded} not compared: older than the record of requests")
    say(f"The same: {steps}; {'; '.join(said) or 'no requests'}." + _missing_images(report))


def _missing_images(report: ReplayReport) -> str:
    """Return a sentence about deleted images, which requests cannot include; empty if there are none."""
    if not report.images_gone:
        return ""
    names = ", ".join(clean(name) for name in report.images_gone[:5])
    return f" Images of the session are no longer kept, so requests differ where they were shown: {names}."


def _folder(session: Session) -> Path:
    folder = Path(session.workspace)
    if not folder.is_dir():
        raise ConfigError(f"The folder of the session is gone: {clean(session.workspace)}.")
    return folder


async def _continue_live(store: Store, session: Session, step: int, args: argparse.Namespace) -> ExitCode:
    from agent.api.opening import open_session
    from agent.session.options import Options
    from agent.session.replay.replaying import branch_before

    name = await branch_before(store, session.id, args.branch, step)
    options = Options(
        workspace=_folder(session),
        model=args.model or session.model or None,
        resume=session.id,
        approve=args.approve,
        surface="oneshot",
    )
    client = await open_session(options)
    try:
        ended = await client.go_on()
    finally:
        await client.aclose()
    text = ended.text if ended is not None else ""
    code = ended.exit_code if ended is not None else 0
    error = ended.error if ended is not None else ""
    if args.as_json:
        record = {"session": session.id, "branch": name, "step": step, "text": text, "error": error}
        say_json(record, 2)
    else:
        print(f"hermes: branch {clean(name)} of {session.id}", file=sys.stderr)
        say(clean(text) if text else clean(error))
    return ExitCode(code) if code in list(ExitCode) else ExitCode.FAILED
