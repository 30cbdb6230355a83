"""The first line of a shell, which reads the prologue and runs the command."""

from __future__ import annotations

# The command stands on the first line, so that line numbers in errors are those of the command.
START = {
    "bash": '. "$1"; builtin eval "$__hermes_options$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
    "sh": '. "$1"; eval "$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
}
