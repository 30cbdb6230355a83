"""Subcommands about what may be done."""
