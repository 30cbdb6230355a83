"""Subcommands that work with nobody there."""
