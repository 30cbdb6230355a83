"""Subcommands about what can be added: models, servers, plugins, skills, notes."""
