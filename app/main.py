"""The `hermes` command: parses the command line and starts the right user interface.

Nothing heavy is imported here; a subcommand's module is loaded when it is named.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.errors import ConfigError, ExitCode, HermesError
from app.tui.startup import skeleton, startup_theme_read
from app.tui.startup.fast_args import FastOptions, fast_options
from tools.kit.umask import make_private

if TYPE_CHECKING:
    import argparse

OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""The errors raised by writing to stdout on a full or broken disk."""

FRAMES = "1000"
"""The frames per second that Textual may paint. A key press is painted at once, not with the next frame of a
stream; streams limit themselves to 30 per second. A shared frame would be costly: for two distant parts of
the screen it paints everything between them.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hermes` and return its exit code. An error is printed as one sentence, never as a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    make_private()
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
        _print_error(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return skeleton.let_end()
    except BrokenPipeError:
        # The reader of our output has closed the pipe; there is nobody to report to.
        _drop_output()
        return int(ExitCode.FAILED)
    except OSError as error:
        if error.errno == errno.ENOENT and error.filename is None:
            # Asking for the current folder is what names no file.
            _print_error("The current folder is gone; go to another one.")
            return int(ExitCode.USAGE)
        if error.errno not in OUTPUT_FAULTS:
            return _unexpected(error)
        # Only files opened by name have one; the standard streams do not.
        _print_error(f"{error.filename or 'The output'} cannot be written: {error.strerror}.")
        _drop_output()
        return int(ExitCode.FAILED)
    except Exception as error:
        return _unexpected(error)


def _complete_streams() -> None:
    """Replace standard streams that are missing, and make stdout and stderr replace characters that they
    cannot encode.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as we do
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        # In a locale with few characters, others are printed as `?` instead of failing.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Discard buffered output, so that exiting does not fail on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    args = _options(arguments)
    if args.version:
        from app.version import version

        print(f"hermes {version()}")
        return int(ExitCode.DONE)
    from app.tui.startup.logs import start_logging

    start_logging()
    if args.command != "doctor":  # which says what else is wrong with the home
        from agent.core.home import Home

        Home.locate().check()
    if args.command:
        return int(vars(args)["do"](args) or ExitCode.DONE)
    if args.resume is not None and args.resume_last:
        raise ConfigError("--resume and --continue exclude each other; give one of them.")
    if args.resume == "" and (args.prompt is not None or args.json or args.plain or args.reader):
        raise ConfigError("--resume needs the id of a session here; `hermes sessions list` shows them all.")
    if args.here and not args.resume:
        raise ConfigError("--here goes with --resume ID: it moves that session to this folder.")
    if args.attach is not None and (args.prompt is not None or args.json or args.plain):
        raise ConfigError("--attach opens the full screen; leave out -p, --json and --plain.")
    if args.reader and (args.prompt is not None or args.json):
        raise ConfigError("--reader opens a session line by line; leave out -p and --json.")
    if args.prompt is not None or args.json or not sys.stdin.isatty():
        from app.cli.sessions.oneshot import run

        return run(args)
    if args.image:
        raise ConfigError("--image goes with -p; in a session drop the image on the prompt or use /attach.")
    args.reader = args.reader or startup_theme_read.wants_reader(os.environ)
    if (
        args.reader
        or args.plain
        or skeleton.is_dumb(os.environ)
        or not sys.stdout.isatty()
        or not sys.stderr.isatty()
    ):
        from app.cli.sessions.loop import run as loop

        return loop(args)
    if skeleton.drawn_frame() is None:
        # The launcher left the line to the parser. Only with the frame do all signals restore the terminal.
        skeleton.show([])
    # Read when the library is imported.
    os.environ.setdefault("TEXTUAL_FPS", FRAMES)
    from app.cli.tui import run as show

    return show(args)


def _options(arguments: list[str]) -> FastOptions | argparse.Namespace:
    """Parse the command line; exit the program with a sentence if it is wrong."""
    options = fast_options(arguments)
    if options is not None and options.is_complete:
        return options
    from app.cli.command_line import build_parser

    return build_parser(arguments).parse_args(arguments)


def _print_error(sentence: str) -> None:
    from tools.command_name import as_called
    from tools.text.safe_text import clean

    print(f"hermes: {clean(as_called(sentence))}", file=sys.stderr)


def _unexpected(error: Exception) -> int:
    """Report an unexpected exception in a sentence and in detail in the log; return the exit code."""
    logging.getLogger("hermes").error("unexpected error", exc_info=error)
    _print_error(f"Internal error ({type(error).__name__}: {error}); the log file has the details.")
    return int(ExitCode.FAILED)


if __name__ == "__main__":
    sys.exit(main())
