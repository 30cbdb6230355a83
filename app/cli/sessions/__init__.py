"""Subcommands for sessions and their history."""
