"""Subcommands for permissions, hooks, trust and the audit log."""
