"""Subcommands of `hermes`, by group; `command_line.py` lists them."""
