"""What a run refuses before it begins: nothing is asked, nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.automation.batch.run import refuse_unknown_toolsets
from agent.automation.batch.task import distribution_of, read_tasks
from agent.errors import ConfigError


@pytest.mark.parametrize(
    ("task", "distribution", "said"),
    [
        ('"toolsets": ["file", "nosuch"]', "", "Task 1: There is no toolset or tool named nosuch; known"),
        ('"distribution": {"flie": 50}', "", "Task 1: There is no toolset or tool named flie; known"),
        ('"id": "x"', "file=100,nosuch=1", "--distribution: There is no toolset or tool named nosuch; known"),
        ('"toolsets": ["\\u001b[31mred"]', "", "Task 1: There is no toolset or tool named red; known"),
    ],
)
def test_an_unknown_toolset_is_refused_with_those_there_are(
    tmp_path: Path, task: str, distribution: str, said: str
):
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"prompt": "a", {task}}}\n')
    with pytest.raises(ConfigError) as told:
        refuse_unknown_toolsets(read_tasks(path), distribution_of(distribution))
    assert said in str(told.value) and " terminal" in str(told.value) and "\n" not in str(told.value)


def test_toolsets_tools_old_names_and_those_of_servers_are_known(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "a", "toolsets": ["file", "read_file", "file_tools", "all", "mcp__box"]}\n')
    refuse_unknown_toolsets(read_tasks(path), distribution_of("safe=10"))
