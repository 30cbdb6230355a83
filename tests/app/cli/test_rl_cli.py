"""`hermes rl` as a command: what is wrong is said in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.main import main

WRONG = (
    ("train", "--group 99999999999", "--group has to be 256 or less."),
    ("train", "--jobs 9999999", "--jobs has to be 256 or less."),
    ("train", "--group 0", "--group has to be 1 or more."),
    ("train", "--rate nan", "--rate has to be a number above 0, at most 1,000."),
    ("train", "--rate inf", "--rate has to be a number above 0, at most 1,000."),
    ("train", "--model nosuch", "No provider is configured for the model nosuch; set OPENAI_BASE_URL"),
    ("atropos --api http://127.0.0.1:9", "--group 257", "--group has to be 256 or less."),
    ("tinker --base-model m", "--jobs 257", "--jobs has to be 256 or less."),
)


def test_wrong_options_are_refused_in_a_sentence_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HERMES_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.txt").write_text("Be brief.\nBe sure.\n")
    for action, option, said in WRONG:
        given = ["--prompts", "prompts.txt"] if action == "train" else []
        try:
            code: object = main(["rl", *action.split(), *given, *option.split(), "-o", "out"])
        except SystemExit as ended:
            code = ended.code
        assert code == 2
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith(f"hermes: {said}") and told.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
