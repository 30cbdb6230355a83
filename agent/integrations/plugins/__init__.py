"""Plugins: folders from other people that add skills, tools, commands, hooks and MCP servers."""
