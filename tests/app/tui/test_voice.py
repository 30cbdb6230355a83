"""Answers read aloud: real sentences by the real voice, into a program that stands in for a player."""

from __future__ import annotations

import asyncio
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.events import AssistantMessageAdded, TextAdded, TurnEnded, TurnStarted
from agent.integrations.senses.speaking import ReadingAloud, missing, player
from app.tui.commands.speech_command import AnswersAloud


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def plays(tmp_path: Path, script: str) -> tuple[str, ...]:
    path = tmp_path / "player"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(path),)


@pytest.mark.thorough
async def test_an_answer_is_read_sentence_by_sentence_without_its_code(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    heard.mkdir()
    failed: list[str] = []
    script = f'n=$(ls {heard} | wc -l); cp "$1" {heard}/$n.part; mv {heard}/$n.part {heard}/$n.wav'
    command = plays(tmp_path, script)
    aloud = AnswersAloud(ReadingAloud(command, "/usr/bin", failed.append))
    try:
        aloud(TurnStarted(turn=1))
        for piece in ("Two **files**", " changed. ```\nnot", " this\n```\nAll is", " well"):
            aloud(TextAdded(text=piece))
        aloud(AssistantMessageAdded(node=1, text="whole"))
        await until(lambda: len(list(heard.glob("*.wav"))) == 2)
    finally:
        await aloud.reading.close()
    for path in heard.iterdir():
        with wave.open(str(path)) as sound:
            assert sound.getnframes() > 6_000
    assert failed == []


@pytest.mark.thorough
async def test_a_turn_that_is_stopped_is_silent_at_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    aloud = AnswersAloud(ReadingAloud(plays(tmp_path, f"echo >>{begun}; exec sleep 600"), "", lambda _: None))
    try:
        aloud(TextAdded(text="One is heard. Two is not. Three neither. "))
        await until(begun.exists)
        aloud(TurnEnded(outcome="interrupted", text="", session="s", usage={}))
        await until(lambda: aloud.reading._player is None or aloud.reading._player.returncode is not None)
        await asyncio.sleep(0)
        assert begun.read_text() == "\n"
    finally:
        await aloud.reading.close()


def test_what_is_missing_is_said_with_the_mend(tmp_path: Path) -> None:
    assert "install alsa-utils" in missing("", {"PATH": str(tmp_path)})
    assert player("no-such-player -q", "/usr/bin") == ()
