"""The `hermes` command: parses the command line and picks a surface.

Nothing heavy is imported here; a subcommand's module is loaded when it is named.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from agent.errors import ConfigError, ExitCode, HermesError
from agent.safety.permissions.modes import NAMES
from app import skeleton

OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""How writing to stdout fails when the disk behind it is full or broken."""

FRAMES = "1000"
"""Frames a second Textual may paint: a key is painted by itself, not with the next frame of a stream.

Whatever streams paints 30 times a second by itself. Waiting for each other is what costs: one frame
for two far parts of the screen paints everything between them.
"""

SUBCOMMANDS = {
    "sessions": "list, show, search, rename, export and delete sessions",
    "config": "show and change settings",
    "model": "fetch and list models that run on this machine",
    "audit": "show and check the log of what was allowed and refused",
    "skins": "list, show, check and begin skins",
    "permissions": "list, explain, test and change what may be done",
    "doctor": "check that everything Hermes needs is in order",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hermes` and return its exit code. Errors are one sentence, never a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    os.umask(0o077)
    logging.getLogger().addHandler(logging.NullHandler())
    _complete_streams()
    try:
        try:
            code = _run(arguments)
        finally:
            skeleton.leave()
        sys.stdout.flush()
        return code
    except HermesError as error:
        _complain(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left; there is nobody to tell.
        _drop_output()
        return int(ExitCode.FAILED)
    except OSError as error:
        if error.errno not in OUTPUT_FAULTS:
            return _unexpected(error)
        _complain(f"The output cannot be written: {error.strerror}.")
        _drop_output()
        return int(ExitCode.FAILED)
    except Exception as error:
        return _unexpected(error)


def _complete_streams() -> None:
    """Replace standard streams that the caller closed by ones that lead nowhere."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as we do
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _drop_output() -> None:
    """Let what is still buffered for stdout go nowhere, so that leaving does not fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    args = build_parser(arguments).parse_args(arguments)
    if args.version:
        print(f"hermes {version()}")
        return int(ExitCode.DONE)
    from app.logs import start_logging

    start_logging()
    if args.command:
        module = importlib.import_module(f"app.cli.{args.command}")
        return int(module.run(args))
    if args.resume and args.resume_last:
        raise ConfigError("--resume and --continue exclude each other; give one of them.")
    if args.prompt is not None or args.json or not sys.stdin.isatty():
        from app.cli.oneshot import run

        return run(args)
    if args.image:
        raise ConfigError("--image goes with -p; in a session drop the image on the prompt or use /attach.")
    if args.plain or not sys.stdout.isatty() or not sys.stderr.isatty():
        from app.cli.loop import run as loop

        return loop(args)
    # Read when the library is imported.
    os.environ.setdefault("TEXTUAL_FPS", FRAMES)
    # What is read now stays, so it is not searched for garbage; `app.beginning` ends this.
    gc.disable()
    from app.cli.tui import run as show

    return show(args)


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The whole command line; only the subcommand named in `arguments` is loaded in full."""
    parser = _Parser(prog="hermes", description="A tool-using agent that lives in your terminal.")
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        "-p", "--prompt", metavar="TEXT", help="work on TEXT and exit; '-' reads it from stdin"
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="PATH",
        help="send an image with the text of -p; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print every event as one line of JSON")
    parser.add_argument("--model", metavar="M", help="model to use: a name, provider/name, local or demo")
    parser.add_argument("--demo", action="store_true", help="tour the program with a scripted model")
    parser.add_argument("--cwd", metavar="D", help="folder to work in (default: the current one)")
    parser.add_argument("--resume", metavar="ID", help="go on with a session: id, start of an id, or title")
    parser.add_argument(
        "--continue",
        dest="resume_last",
        action="store_true",
        help="go on with the newest session of this folder",
    )
    parser.add_argument(
        "--approve",
        choices=NAMES,
        metavar="MODE",
        help="what happens to actions: normal (ask), careful, auto-edit, plan, yolo (all) or deny",
    )
    parser.add_argument("--max-turns", type=_positive, metavar="N", help="limit of requests to the model")
    parser.add_argument("--plain", action="store_true", help="a plain prompt instead of the full screen")
    named = next((word for word in arguments if word in SUBCOMMANDS), None)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, summary in SUBCOMMANDS.items():
        if name == named:
            importlib.import_module(f"app.cli.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        skeleton.leave()
        from tools.text import clean

        self.exit(int(ExitCode.USAGE), f"hermes: {clean(message)}. See `{self.prog} --help`.\n")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-tui")
    except PackageNotFoundError:
        return "(not installed)"


def _complain(sentence: str) -> None:
    from tools.text import clean

    print(f"hermes: {clean(sentence)}", file=sys.stderr)


def _unexpected(error: Exception) -> int:
    """A fault of ours: a sentence for the person, the details in the log."""
    logging.getLogger("hermes").error("unexpected error", exc_info=error)
    _complain(f"Internal error ({type(error).__name__}: {error}); the log file has the details.")
    return int(ExitCode.FAILED)


if __name__ == "__main__":
    sys.exit(main())
