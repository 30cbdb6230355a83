"""Subcommands about sessions and what they did."""
