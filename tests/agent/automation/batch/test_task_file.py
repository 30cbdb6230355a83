"""Task files in their three forms, and one sentence for each way of being wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.automation.batch.task import distribution_of, draw_toolsets, read_tasks
from agent.errors import ConfigError
from agent.session.spending.budget import Budget

LINE = {
    "prompt": "Do it",
    "id": "one",
    "files": {"a/b.txt": "x"},
    "budget": {"tokens": 9},
    "toolsets": ["file"],
}
CSV = 'prompt,id,files,budget,toolsets\nDo it,one,"{""a/b.txt"": ""x""}","{""tokens"": 9}",file\n'
YAML = "- prompt: Do it\n  id: one\n  files: {a/b.txt: x}\n  budget: {tokens: 9}\n  toolsets: [file]\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("t.jsonl", json.dumps(LINE) + "\n\n"), ("t.csv", CSV), ("t.yaml", YAML), ("t.yml", f"tasks:\n{YAML}")],
)
def test_the_forms_say_the_same(tmp_path: Path, name: str, text: str):
    path = tmp_path / name
    path.write_text(text)
    (numbered,) = read_tasks(path)
    task = numbered.task
    assert (task.prompt, task.id, task.files, task.toolsets) == ("Do it", "one", {"a/b.txt": "x"}, ("file",))
    assert task.budget == Budget(tokens=9) and numbered.name == task.key


def test_equal_tasks_are_numbered_and_the_id_does_not_count(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "a", "id": "x"}\n{"prompt": "b"}\n')
    first, second, third = read_tasks(path)
    assert second.name == f"{first.name}-2" and third.number == 1 and third.name != first.name


@pytest.mark.sample(22)
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.txt", "", "has to end in"),
        ("t.jsonl", "", "holds no task"),
        ("t.jsonl", '{"prompt": "a"}\n{', "line 2: is not JSON"),
        ("t.jsonl", "[1]", "line 1: a task is a mapping"),
        ("t.jsonl", '{"prompt": ""}', "`prompt` is missing"),
        ("t.jsonl", '{"prompt": "a", "promt": 1}', "`promt` is not part"),
        ("t.jsonl", '{"prompt": "a", "files": {"../x": ""}}', "not a path within"),
        ("t.jsonl", '{"prompt": "a", "files": {"/x": ""}}', "not a path within"),
        ("t.jsonl", '{"prompt": "a", "files": {"a": 1}}', "mapping of paths"),
        ("t.jsonl", '{"prompt": "a", "budget": {"tokens": 0}}', "above 0"),
        ("t.jsonl", '{"prompt": "a", "budget": {"tokens": true}}', "above 0"),
        ("t.jsonl", '{"prompt": "a", "budget": {"cents": 1}}', "is unknown"),
        ("t.jsonl", '{"prompt": "a", "toolsets": 3}', "list of names"),
        ("t.jsonl", '{"prompt": "a", "checks": [{"x": 1}]}', "a check has one kind"),
        ("t.jsonl", '{"prompt": "a", "files": {"a\\u0000b": ""}}', "not a path within"),
        (
            "t.jsonl",
            '{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}',
            r"line 2: the id 'x' is taken .*line 1",
        ),
        ("t.jsonl", '{"prompt": "a", "id": 2}\n{"prompt": "b"}', "line 2: the id '2' is taken"),
        ("t.jsonl", '{"prompt": "a", "image": "none.png"}', "line 1: `image`: .*none.png"),
        ("t.jsonl", '{"prompt": "a", "image": "t.jsonl"}', "line 1: `image`: t.jsonl is not a png"),
        ("t.jsonl", '{"prompt": "a", "image": "a\\u0000b"}', "line 1: `image`: "),
        ("t.jsonl", '{"prompt": "a", "distribution": {"file": 101}}', "at most 100"),
        ("t.jsonl", '{"prompt": "a", "distribution": "file"}', "chance of 'file'"),
        ("t.jsonl", '{"prompt": "a", "distribution": {"file": 1}, "toolsets": "web"}', "exclude each other"),
        ("t.jsonl", '{"prompt": "a", "files": {"a": "\\ud800"}}', "lone surrogate"),
        ("t.jsonl", '{"prompt": "a", "files": {"\\ud800": ""}}', "lone surrogate"),
        ("t.jsonl", '{"prompt": "a", "files": {"a": "", "a/b": ""}}', "'a/b', and a folder of it as a file"),
        (
            "t.jsonl",
            '{"prompt": "a", "files": {"a/b": "", "a/./b": ""}}',
            "one file twice, as 'a/b' and as 'a/./b'",
        ),
        ("t.jsonl", json.dumps({"prompt": "a", "files": {"x" * 256: ""}}), "more than 255 bytes"),
        ("t.jsonl", '{"prompt": "a", "budget": {"requests": 0.5}}', "1 or more"),
        ("t.jsonl", '{"prompt": "a", "id": 1' + "0" * 5000 + "}", "number too long"),
        ("t.yaml", "- &a {prompt: x, files: *a}", "cannot hold itself"),
        ("t.csv", "prompt,prompt\na,b\n", "appears twice"),
        ("t.jsonl", "[" * 100_000, "is not JSON"),
        ("t.csv", "prompt,colour\na,b\n", "'colour' is unknown"),
        ("t.csv", "prompt\na,b\n", "more values than columns"),
        ("t.csv", "prompt,budget\na,x\n", "`budget` has to be JSON"),
        ("t.jsonl", json.dumps({"prompt": "a", "files": {"d/" * 600 + "f": ""}}), "more than 1,024 bytes"),
        ("t.jsonl", '{"prompt": "a", "id": "x\\ny"}', "`id` holds characters that cannot"),
        ("t.jsonl", '{"prompt": "a", "id": "\\ud800"}', "`id` holds characters that cannot"),
        ("t.jsonl", '{"prompt": "a", "model": "\\u0000"}', "`model` holds characters that cannot"),
        ("t.jsonl", '{"prompt": "a", "checks": [{"command": "\\u0000"}]}', "`checks` hold a NUL"),
        ("t.jsonl", '{"prompt": "a", "checks": [{"file": {"path": "\\ud800"}}]}', "half of a character"),
        ("t.yaml", "- {prompt: x, files: {1: a, b: c}}", "task 1: a task holds text, .* and names"),
        ("t.yaml", "- {prompt: x, checks: [{json_schema: {const: 2026-01-02}}]}", "task 1: .* quote dates"),
        ("t.yaml", "- {prompt: x, id: 2026-13-45}", "cannot be read .*month.*; quote it"),
        ("t.yaml", "- {prompt: x, id: !!timestamp foo}", "cannot be read .*; quote it"),
        ("t.yaml", f"- {{prompt: x, id: 1{'0' * 5000}}}", "cannot be read .*; quote it"),
        ("t.yaml", "a: [", "is not YAML"),
        ("t.yaml", "a: 1", "list of tasks"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, name: str, text: str, said: str):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_tasks(path)


def test_an_image_counts_by_what_it_is(tmp_path: Path):
    path, image = tmp_path / "t.jsonl", tmp_path / "a.png"
    path.write_text('{"prompt": "a", "image": "a.png"}')
    names: list[str] = []
    for data in (b"one", b"two", b"one"):
        image.write_bytes(b"\x89PNG\r\n\x1a\n" + data)
        names.append(read_tasks(path)[0].name)
    assert names[0] == names[2] != names[1]


def test_lines_of_a_table_without_any_value_are_no_tasks(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("prompt,id\r\na,1\r\n,\r\n,\r\n", newline="")
    assert [each.label for each in read_tasks(path)] == ["1"]


def test_a_long_cell_of_a_table_is_taken(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text(f"prompt\n{'x' * 200_000}\n")
    assert len(read_tasks(path)[0].task.prompt) == 200_000


def test_equal_lines_with_one_id_are_two_tasks(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "a", "id": "x"}\n' * 2)
    first, second = read_tasks(path)
    assert (first.label, second.label, second.name) == ("x", "x", f"{first.name}-2")


def test_toolsets_are_drawn_by_their_chance_and_the_same_for_a_name():
    chances = distribution_of("file=100, web=25")
    draws = [draw_toolsets(chances, f"task {number}") for number in range(2000)]
    assert draws == [draw_toolsets(chances, f"task {number}") for number in range(2000)]
    assert all("file" in draw for draw in draws)
    assert 400 < sum("web" in draw for draw in draws) < 600
    assert {draw_toolsets({"rare": 0.001, "less": 0.0001}, str(number)) for number in range(50)} == {
        ("rare",)
    }


def test_bytes_that_are_no_text_are_refused(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_tasks(path)
