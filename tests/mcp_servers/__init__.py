"""Real MCP servers of npm and PyPI against Hermes, outside the suite."""
