"""Speaking to the prompt: a program that stands in for the recorder, a real service on loopback."""

from __future__ import annotations

import asyncio
import io
import wave
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.errors import HermesError
from agent.integrations.senses.hearing import Recording, RecordingError, fix_wav_size, recorder
from agent.session.wiring.outside_services import begin_dictation
from tests.app.tui.skin_stage import dressed, running
from tests.support.services import KEYS, Services
from tests.support.waiting import until

BEGUN = """#!/bin/sh
for file; do :; done
"""


def sound(seconds: float = 1.0) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16_000)
        written.writeframes(b"\1\0" * int(16_000 * seconds))
    return file.getvalue()


def program(folder: Path, script: str) -> str:
    """A recorder of the machine; its path is found in `PATH`."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "said.wav").write_bytes(sound())
    path = folder / "bin" / "arecord"
    path.write_text(BEGUN + script.replace("SOUND", f"'{folder / 'said.wav'}'"))
    path.chmod(0o755)
    return f"{folder / 'bin'}:/usr/bin:/bin"


RECORDS = 'cat SOUND > "$file"; touch "$file.begun"; trap "exit 0" TERM; while :; do sleep 0.02; done'


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            'echo "arecord: main:831: audio open error: No such device" >&2; exit 1',
            "audio open error: No such",
        ),
        ("exit 3", "it ended with 3"),
        (': > "$file"', "Nothing was recorded"),
    ],
)
async def test_without_a_microphone_the_reason_is_told(tmp_path: Path, script: str, words: str) -> None:
    path = program(tmp_path, script)
    recording = Recording(recorder("", path), path)
    await recording.start()
    await recording.wait()
    with pytest.raises(RecordingError, match=words):
        await recording.finish()


async def test_a_recording_ends_when_told_and_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    path = program(tmp_path, RECORDS)
    recording = Recording(recorder("", path), path)
    await recording.start()
    folder = recording._file.parent
    async with asyncio.timeout(10):
        while not (folder / "said.wav.begun").exists():
            await asyncio.sleep(0.01)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert await recording.finish() == sound()
    assert not folder.exists()


def test_a_head_that_was_never_finished_is_mended() -> None:
    whole = sound()
    assert fix_wav_size(whole[:4] + b"\0\0\0\0" + whole[8:40] + b"\xff\xff\xff\x7f" + whole[44:]) == whole
    assert fix_wav_size(b"ID3 something else") == b"ID3 something else"


@pytest.mark.parametrize(
    ("settings", "has_recorder", "words"),
    [
        ("", True, "nothing that listens is set up or installed; hermes config set transcribe.base_url"),
        ("transcribe: {backend: off}", True, "switched off"),
        ("transcribe: {base_url: 'http://127.0.0.1:9/v1'}", False, "Nothing here records sound"),
        ("transcribe: {base_url: 'http://127.0.0.1:9/v1', recorder: gone}", True, "gone is not installed"),
    ],
)
def test_what_is_missing_is_said_with_its_mend(
    tmp_path: Path, settings: str, has_recorder: bool, words: str
) -> None:
    path = program(tmp_path, RECORDS) if has_recorder else str(tmp_path)
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.config.write_text(settings)
    with pytest.raises(HermesError, match=words):
        begin_dictation(home, {"PATH": path}, tmp_path)


@pytest.mark.thorough
async def test_what_is_said_comes_into_the_prompt_and_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(dressed(tmp_path)):
        """One before, which has found the command already."""
    with Services() as services:
        home = Home(tmp_path / "home")
        home.root.mkdir(mode=0o700)
        home.config.write_text(f"transcribe: {{base_url: '{services.url}/v1', api_key_env: HEARS}}")
        monkeypatch.setenv("HERMES_HOME", str(home.root))
        monkeypatch.setenv("HEARS", KEYS["openai"])
        monkeypatch.setenv("PATH", program(tmp_path, RECORDS))
        (tmp_path / "sound").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "sound"))
        app = dressed(tmp_path)
        async with running(app) as pilot:
            app.session.prompt.set_text("Please: ")
            await pilot.press("alt+v")
            await until(pilot, lambda: any(tmp_path.glob("sound/*/said.wav.begun")), "it records")
            await pilot.press("alt+v")
            await until(pilot, lambda: app.session.prompt.text != "Please: ", "the words")
            assert app.session.prompt.text == "Please: Hello there."
        assert [asked.path for asked in services.asked] == ["/v1/audio/transcriptions"]
        assert [part[1] for part in services.asked[0].form["file"]] == [sound()]
