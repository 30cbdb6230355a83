"""The comparison with other agents: what its server says, what it computes, what its command line takes."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from benchmarks.peers.__main__ import BEGIN, END, PAGE, Comparison, install, read_arguments, write_docs
from benchmarks.peers.catalogue import OURS, Missing, Peer, Shelf, choose, read_peers
from benchmarks.peers.figures import Results, percentile, ratio, reasons, table
from benchmarks.peers.measures import Log
from benchmarks.peers.screen import Screen, end_all, plain, relatives, reply
from benchmarks.peers.wire import TASK, Answer, Ask, end_mark, events, fill, plan, read_ask, start_mark, whole

SHELL = {"tool": "bash", "arguments": {"commands": ["COMMAND"], "why": "a step"}}
TEXT = "go stream 3 0 2"
BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chat": (
        {
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": TEXT}]},
            ]
        },
        {
            "messages": [
                {"role": "user", "content": TEXT},
                {"role": "tool", "tool_call_id": "a", "content": "x"},
            ]
        },
    ),
    "responses": (
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}]},
        {
            "input": [
                {"role": "user", "content": TEXT},
                {"type": "function_call_output", "call_id": "a", "output": "x"},
            ]
        },
    ),
    "messages": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "<note>"}, {"type": "text", "text": TEXT}],
                }
            ]
        },
        {
            "messages": [
                {"role": "user", "content": TEXT},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "a"},
                        {"type": "text", "text": "go on"},
                    ],
                },
            ]
        },
    ),
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "context"}, {"text": TEXT}]}]},
        {
            "contents": [
                {"role": "user", "parts": [{"text": TEXT}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "a"}}]},
            ]
        },
    ),
}


@pytest.mark.parametrize("form", BODIES)
def test_a_request_of_each_form_says_what_is_asked_for_and_how_many_results_came(form: str) -> None:
    first, second = (read_ask(form, body, stream=True) for body in BODIES[form])
    assert TEXT in first.text
    assert (first.results, second.results) == (0, 1)


def test_a_later_message_without_a_play_does_not_hide_the_play() -> None:
    body = {"messages": [{"role": "user", "content": TEXT}, {"role": "user", "content": "a reminder"}]}
    assert read_ask("chat", body).text == TEXT


def test_a_task_is_played_call_by_call_and_then_answered() -> None:
    for at, command in enumerate(TASK):
        answer = plan(Ask("chat", "go task 6 0 1", at, 3, True), SHELL)
        assert answer.call == ("bash", {"commands": [command], "why": "a step"})
    assert plan(Ask("chat", "go task 6 0 1", len(TASK), 3, True), SHELL).pieces[-1] == end_mark(1)


def test_a_request_for_a_title_gets_neither_the_play_nor_its_marks() -> None:
    text = "".join(plan(Ask("chat", TEXT, 0, 0, True), SHELL).pieces)
    assert text
    assert start_mark(2) not in text
    assert end_mark(2) not in text


def test_filling_leaves_what_was_given_as_it_was() -> None:
    assert fill(SHELL["arguments"], "ls") == {"commands": ["ls"], "why": "a step"}
    assert SHELL["arguments"] == {"commands": ["COMMAND"], "why": "a step"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    folder = tmp_path_factory.mktemp("log")
    command = [sys.executable, "-m", "benchmarks.peers.server", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), folder
        process.terminate()


def test_the_openai_client_reads_text_and_calls_over_chat_and_responses(port: tuple[int, Path]) -> None:
    number, folder = port
    client = OpenAI(base_url=f"http://127.0.0.1:{number}/codex/v1", api_key="k", max_retries=0)
    tools: Any = [{"type": "function", "function": {"name": "exec_command", "parameters": {}}}]
    ask: Any = [{"role": "user", "content": TEXT}]
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(model="m", messages=ask, tools=tools, stream=True)
        if chunk.choices
    ]
    text = "".join(pieces)
    assert (text[0], text[-1]) == (start_mark(2), end_mark(2))
    call: Any = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "go task 6 0 1"}], tools=tools
    )
    assert json.loads(call.choices[0].message.tool_calls[0].function.arguments) == {"cmd": TASK[0]}

    flat: Any = [{"type": "function", "name": "exec_command", "parameters": {}, "strict": False}]
    with client.responses.stream(model="m", input=TEXT, tools=flat) as stream:
        assert stream.until_done().get_final_response().output_text == text
    with client.responses.stream(model="m", input="go task 6 0 1", tools=flat) as stream:
        made: Any = stream.until_done().get_final_response().output[0]
    assert (made.name, json.loads(made.arguments)) == ("exec_command", {"cmd": TASK[0]})

    log = Log(folder)
    assert len(log.since(0, "request", "go task")) == 2
    assert {each["number"] for each in log.since(0, "answer")} <= {
        each["number"] for each in log.since(0, "request")
    }
    assert log.since(len(log.read()), "request") == []


@pytest.mark.parametrize("call", [None, ("bash", {"command": "ls"})])
def test_messages_come_in_the_order_that_clients_expect(call: tuple[str, dict[str, Any]] | None) -> None:
    answer = Answer(() if call else ("a", "b"), call=call)
    ask = Ask("messages", TEXT, 0, 1, True)
    lines = b"".join(event.data for event in events(ask, "m", answer, 7)).decode().split("\n\n")[:-1]
    values = [json.loads(line.partition("data: ")[2]) for line in lines]
    assert all(
        line.startswith(f"event: {value['type']}\n") for line, value in zip(lines, values, strict=True)
    )
    kinds = [value["type"].removeprefix("content_block_") for value in values]
    deltas = ["delta"] * (1 if call else 2)
    assert kinds == ["message_start", "start", *deltas, "stop", "message_delta", "message_stop"]
    assert values[-2]["delta"]["stop_reason"] == ("tool_use" if call else "end_turn")
    block = json.loads(whole(ask, "m", answer, 7))["content"][0]
    assert block["type"] == ("tool_use" if call else "text")


def test_gemini_ends_with_its_reason_and_only_text_is_paced() -> None:
    ask = Ask("gemini", TEXT, 0, 1, True)
    made = list(events(ask, "m", Answer(("a", "b")), 1))
    values = [json.loads(event.data.partition(b"data: ")[2]) for event in made]
    assert [value["candidates"][0].get("finishReason") for value in values] == [None, "STOP"]
    assert [event.paced for event in made] == [True, True]


def test_answers_without_a_stream_have_the_shape_of_the_client() -> None:
    answer = Answer(("a", "b"))
    ChatCompletion.model_validate_json(whole(Ask("chat", "", 0, 0, False), "m", answer, 1), strict=True)
    made = Response.model_validate_json(whole(Ask("responses", "", 0, 0, False), "m", answer, 1))
    assert made.output_text == "ab"


@pytest.mark.parametrize(
    ("part", "expected"), [(0.5, 2.0), (0.95, 4.0), (0.0, 1.0), (1.0, 4.0), (0.25, 1.0), (0.51, 3.0)]
)
def test_a_percentile_is_one_of_the_values(part: float, expected: float) -> None:
    assert percentile([3.0, 1.0, 4.0, 2.0], part) == expected


def test_a_ratio_is_of_pairs_and_not_of_medians() -> None:
    assert ratio([(1.0, 2.0), (10.0, 10.0), (3.0, 1.0)]) == 1.0
    assert ratio([(1.0, 0.0)]) is None


def results() -> Results:
    made = Results()
    for theirs in (0.4, 0.2, 0.9):
        made.add(OURS, {"paint": 0.3, "kill_part": "yes"})
        made.add("codex", {"paint": theirs})
        made.pair("codex", {"paint": 0.3, "kill_part": "yes"}, {"paint": theirs, "kill_part": "no"})
    made.fail("codex", "undo", "no command for it")
    made.fail("codex", "kill", "no command for it")
    return made


def test_the_table_marks_the_best_ranks_ours_and_says_what_is_missing() -> None:
    lines = table(results(), [OURS, "codex", "pi"])
    assert "| exec to the first paint, s | **0.300** | 0.400 | – | 1 of 2 |" in lines
    assert "| the part of the answer there | yes | – | – |  |" in lines
    assert reasons(results()) == ["- **codex**, undo, kill: no command for it."]


def test_the_json_has_every_value_and_the_ratios_of_pairs() -> None:
    made = results().as_json({"cores": 2}, [OURS, "codex"])
    paint = made["rows"]["paint"]
    assert paint["values"]["codex"] == [0.4, 0.2, 0.9]
    assert paint["ours_to_theirs"] == {"codex": pytest.approx(0.75)}
    assert "kill_part" not in results().pairs
    json.dumps(made)


def test_the_command_line_takes_lists_and_refuses_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    args = read_arguments(["--only", "start,task", "--peers", "codex, pi,codex"])
    assert args.only == ["start", "task"]
    assert [peer.name for peer in args.peers] == ["codex", "pi"]
    assert OURS not in [peer.name for peer in read_arguments([]).peers]
    for wrong, named in ((["--only", "stert"], "start"), (["--peers", "codx"], "claude-code")):
        with pytest.raises(SystemExit):
            read_arguments(wrong)
        assert named in capsys.readouterr().err


def test_every_program_of_the_list_is_whole() -> None:
    peers = read_peers()
    assert peers[0].name == OURS
    assert choose("", peers) == peers[1:]
    for peer in peers[1:]:
        assert bool(peer.npm) != bool(peer.pip), peer.name
        assert "COMMAND" in json.dumps(peer.shell), peer.name
        assert peer.undo or "undo" in peer.lacks, peer.name
        told = json.dumps([peer.files, peer.env])
        assert "@URL@" in told, peer.name


def test_the_page_has_the_place_for_the_table_and_only_that_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write_docs("| new |", page)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert page.read_text(encoding="utf-8") == f"{before}{BEGIN}\n| new |\n{END}{rest.partition(END)[2]}"
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the line"):
        write_docs("| new |", page)


def script(folder: Path, text: str, **more: Any) -> tuple[Shelf, Peer]:
    """A program of a few lines in place of an agent."""
    program = folder / "fake" / "program" / "bin" / "fake"
    program.parent.mkdir(parents=True)
    # A path with a blank cannot stand behind `#!`.
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(f"{program}.py")} "$@"\n')
    program.with_name(f"{program.name}.py").write_text(text)
    program.chmod(0o700)
    peer = Peer(name="fake", version="1", pip="fake", shell=SHELL, command=("fake",), **more)
    return Shelf(folder), peer


ECHO = """
import os, subprocess, sys, tty
tty.setraw(0)
subprocess.Popen(["sleep", "600"], start_new_session=True)
os.write(1, b"\\x1b[6nready ")
while data := os.read(0, 100):
    os.write(1, data)
"""


def test_a_screen_answers_questions_and_ends_what_a_program_left_behind(tmp_path: Path) -> None:
    shelf, peer = script(tmp_path, ECHO)
    with shelf.home(peer) as home:
        with Screen(home) as screen:
            screen.until("[1;1R")
            pressed = screen.press("一")
            screen.until("一")
            assert screen.moment("一") >= pressed
            assert screen.first_paint() > screen.began
            assert len(relatives(screen.process.pid, home.token)) == 2
        assert relatives(screen.process.pid, home.token) == set()
        assert (home.work / "kept.txt").read_text() == "first\n"
    assert not home.folder.exists()
    end_all(0, home.token)


def test_a_program_that_fails_costs_only_its_own_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf, peer = script(tmp_path, "print('no model')", lacks={"undo": "no command for it"}, once=("hi",))
    (tmp_path / "requests.jsonl").touch()
    comparison = Comparison(shelf, Log(tmp_path), read_peers()[0], Results())
    assert comparison.once("undo", peer) == {}
    assert comparison.once("once", peer) == {}
    assert comparison.results.missing["fake"] == {
        "undo": "no command for it",
        "once": "exit 0 without the answer: 'no model'",
    }
    shutil.rmtree(tmp_path / "fake")
    with shelf.home(peer) as home, pytest.raises(Missing, match="not in its folder"):
        home.command()
    wanting = Peer(name="late", version="1", pip="late", shell=SHELL, command=("late",), python=(3, 99))
    assert install(shelf, [wanting], comparison.results) == []
    assert comparison.results.missing["late"] == {"all": "needs Python 3.99 or later"}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"\x1b[6n", b"\x1b[1;1R"),
        (b"\x1b]11;?\x07", b"\x1b]11;rgb:1010/1010/1010\x1b\\"),
        (b"\x1b[c", b"\x1b[?62;22c"),
        (b"\x1b[?2026$p", b"\x1b[?2026;0$y"),
        (b"\x1b[?u", b""),
    ],
)
def test_the_terminal_answers_as_a_plain_one(question: bytes, answer: bytes) -> None:
    assert reply(question) == answer


def test_a_message_shows_what_was_painted_without_its_sequences() -> None:
    assert plain(b"\x1b[1mone\x1b[0m\x1b]8;;http://x\x1b\\ two\r\n\x07") == "one two"
