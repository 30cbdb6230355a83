"""Files of consents: changed by one at a time, and believed only where nobody else could have written."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.core.consents import ConsentFile
from agent.errors import ConfigError


def test_changes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def agree(number: int) -> None:
        with ConsentFile(tmp_path / "home" / "agreed.json").change() as data:
            data[str(number)] = True

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(agree, range(40)))
    kept = ConsentFile(tmp_path / "home" / "agreed.json").data()
    assert kept == {"version": 1} | {str(number): True for number in range(40)}
    assert (tmp_path / "home" / "agreed.json").stat().st_mode & 0o777 == 0o600


def test_what_did_not_change_is_not_written(tmp_path: Path) -> None:
    file = ConsentFile(tmp_path / "agreed.json")
    with file.change():
        pass
    assert not file.path.exists()


def test_a_link_and_a_file_that_others_may_write_agree_to_nothing(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text('{"hooks": ["x"]}')
    target.chmod(0o600)
    (tmp_path / "link.json").symlink_to(target)
    assert ConsentFile(target).data() == {"hooks": ["x"]}
    assert ConsentFile(tmp_path / "link.json").data() == {}
    target.chmod(0o622)
    assert ConsentFile(target).data() == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_takes_nothing_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Cannot"), ConsentFile(tmp_path / "agreed.json").change() as data:
        data["x"] = 1
