"""Plugins: folders of other people that add skills, tools, commands, hooks and servers."""
