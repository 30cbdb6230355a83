"""A small reader of shell commands: programs, arguments and files as far as they can be read off a text."""
