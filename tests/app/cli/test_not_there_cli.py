"""Every action that names something says in a sentence that there is no such thing, and fails."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.command_line import SUBCOMMANDS, build_parser
from app.main import main

NAMES = {"CODE", "DEVICE", "ENTRY", "HASH", "ID", "JOB", "NAME", "NAME|PATH", "NAME|URL", "NUMBER",
         "PATH|NAME", "SESSION", "SKILL", "name"}  # fmt: skip
"""What the help calls the name of something that there may be."""
CREATING = {"agents new", "mcp add", "providers add", "skins new"}
CHOOSING = {"extras add", "extras remove", "gateway setup"}
"""Takes one of the names that the program knows; another one is a wrong command line."""
FURTHER = {"skills publish": ["--archive", "x.zip"], "sessions rename": ["title"], "mcp call": ["tool"]}
"""What an action needs beside the name."""


def _actions(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each action with the name of its first positional argument."""
    positional = [each for each in parser._actions if not each.option_strings]
    for each in positional:
        if isinstance(each, argparse._SubParsersAction):
            for word, child in each.choices.items():
                yield from _actions(child, (*words, word))
            return
    if positional:
        yield " ".join(words), str(positional[0].metavar or positional[0].dest)


def _cases() -> list[str]:
    found = [each for group in SUBCOMMANDS for each in _actions(build_parser([group]), ()) if
             each[0].split()[0] == group]  # fmt: skip
    return sorted({words for words, metavar in found if metavar in NAMES} - CREATING - CHOOSING)


def test_all_groups_that_keep_something_are_walked() -> None:
    groups = {each.split()[0] for each in _cases()}
    assert groups == {"agents", "context", "cron", "gateway", "learnings", "mcp", "memory", "model", "plugin",
                      "providers", "serve", "sessions", "skills", "skins", "trust"}  # fmt: skip


@pytest.mark.parametrize("action", _cases())
def test_the_name_of_nothing_is_one_sentence_and_a_failure(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    # No source is asked on the network.
    (home / "config.yaml").write_text(f"skills: {{sources: {{here: {{kind: folder, url: {tmp_path}}}}}}}\n")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    absent = "999999" if action.startswith("learnings") else "abcdef99"
    assert main([*action.split(), absent, *FURTHER.get(action, [])]) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("hermes: ") and said.count("\n") == 1
    assert absent in said or "code" in said
