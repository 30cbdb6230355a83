"""Beginning a plugin: a folder that works, with cases by which it is tested."""

from __future__ import annotations

from pathlib import Path

from agent.integrations.plugins.manifest import is_name
from agent.integrations.plugins.problem import PluginError
from tools.text.words import brief

_YAML = """\
name: {name}
version: 0.1.0
description: Counts the words of a text.

# What is not declared is not granted. Each list may be left out.
capabilities:
  tools: [{tool}]
  paths: {{read: [], write: []}}   # as in: read: [., ~/notes]
  hosts: []                       # as in: [api.example.org]
  events: []                      # as in: [before_tool]
  env: []                         # as in: [EXAMPLE_API_KEY]
"""
_HANDLER = '''\
"""A plugin for Hermes. It runs in a process of its own, behind what `plugin.yaml` declares."""


def count_words(arguments):
    """The tool: gets its arguments, gives back a text or anything JSON can hold."""
    words = arguments["text"].split()
    return {{"words": len(words), "characters": len(arguments["text"])}}


def count_command(text):
    """The slash command: gets what was typed behind its name, gives back what is shown."""
    return f"{{len(text.split())}} words"


def register(ctx):
    """Called once, when the process begins."""
    ctx.register_tool(
        "{tool}",
        "Count the words and characters of a text.",
        {{
            "type": "object",
            "properties": {{"text": {{"type": "string", "description": "The text."}}}},
            "required": ["text"],
        }},
        count_words,
    )
    ctx.register_command("{name}", "Count the words behind it.", count_command)
'''
_CASES = """\
# Run by `hermes plugin test`. Each case calls one thing and says what has to come back.
- name: words are counted
  tool: {tool}
  given: {{text: one two three}}
  result: {{words: 3, characters: 13}}
- name: the command counts as well
  command: {name}
  given: one two
  result: 2 words
- name: without a text there is an error
  tool: {tool}
  given: {{}}
  error: KeyError
"""


def create(folder: Path) -> tuple[str, ...]:
    """Begin a plugin named as its folder, which must not exist; the files that were made.

    Raises `PluginError`.
    """
    name = folder.name
    if not is_name(name):
        raise PluginError(
            f"{brief(name)} is no name for a plugin; use a-z, 0-9, - and ., a letter or digit at both ends."
        )
    tool = name.replace("-", "_").replace(".", "_")
    tool = f"{tool}_count" if tool[0].isalpha() else f"count_{tool}"
    files = {"plugin.yaml": _YAML, "handler.py": _HANDLER, "cases.yaml": _CASES}
    try:
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text.format(name=name, tool=tool), "utf-8")
    except FileExistsError:
        raise PluginError(f"{brief(folder, 300)} exists already; choose another name.") from None
    except OSError as error:
        raise PluginError(f"{brief(folder, 300)} cannot be made: {error.strerror or error}.") from error
    return tuple(files)
