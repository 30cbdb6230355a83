"""Programs and services outside: MCP servers, plugins, hooks, the web, messengers, devices, other agents.

It knows no session; what it needs of one is handed in.
"""
