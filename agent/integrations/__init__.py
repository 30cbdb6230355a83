"""Connections to programs and services outside: MCP servers, plugins, hooks, web, messengers, media, other
agents.

Nothing here imports the session; callers pass in what is needed of it.
"""
