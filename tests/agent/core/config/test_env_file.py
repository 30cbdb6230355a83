"""Keeping keys in `.env`: the line of the variable changes and nothing else, and nobody else may read it."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config.env_file import keep_key
from agent.core.config.environment import env_file_problems, environment
from agent.core.home import Home
from agent.errors import ConfigError

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)


@pytest.mark.thorough
@given(key=KEYS, other=KEYS)
def test_what_is_kept_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, key: str, other: str) -> None:
    home = Home(tmp_path_factory.mktemp("home") / "new")
    keep_key(home, "FIRST_KEY", other)
    keep_key(home, "OTHER_KEY", other)
    keep_key(home, "FIRST_KEY", key)
    assert environment(home, {}) == {"FIRST_KEY": key, "OTHER_KEY": other}
    assert env_file_problems(home) == ()


def test_keys_kept_at_once_are_all_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda each: keep_key(home, f"KEY_{each}", f"secret{each}"), range(40)))
    assert {f"KEY_{each}": f"secret{each}" for each in range(40)}.items() <= environment(home, {}).items()


def test_other_lines_stay_and_the_file_becomes_private(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.env.write_text("# mine\nexport A_KEY=old\nB=1\n A_KEY = older\nA_KEYS=stay")
    home.env.chmod(0o644)
    keep_key(home, "A_KEY", "new")
    assert home.env.read_text() == "# mine\nA_KEY=new\nB=1\nA_KEYS=stay"
    keep_key(home, "C_KEY", "added")
    assert home.env.read_text().endswith("A_KEYS=stay\nC_KEY=added\n")
    assert stat.S_IMODE(home.env.stat().st_mode) == 0o600


@pytest.mark.parametrize("key", ["", "two words", "line\nfeed", "ключ", "x" * 5_000, "nul\0"])
def test_what_no_key_is_like_is_refused_and_never_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keep_key(Home(tmp_path), "A_KEY", key)
    assert not (tmp_path / ".env").exists()
    assert key[:4] == "" or key[:4] not in str(caught.value)
