"""Subcommands that run unattended."""
