"""Subcommands for extensions: models, servers, plugins, skills, notes."""
