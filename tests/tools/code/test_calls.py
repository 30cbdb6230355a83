"""Tools called by scripts, over the socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from tests.tools.code.conftest import Scripts


async def test_a_call_reaches_the_tool_and_its_result_the_script(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        from hermes_tools import read_file
        result = read_file("größe 🎉.txt", offset=3)
        print(type(result).__name__, result["path"], result["offset"])
        """
    )
    assert out == "dict größe 🎉.txt 3\n"
    assert scripts.called == [("read_file", {"path": "größe 🎉.txt", "offset": 3})]


async def test_a_failing_tool_is_a_dict_with_an_error(scripts: Scripts) -> None:
    async def fail(arguments: dict[str, Any]) -> str:
        raise OSError("the disk is full")

    scripts.answers["write_file"] = fail
    out = await scripts.output("from hermes_tools import write_file\nprint(write_file('a', 'b'))")
    assert out == "{'error': 'Error executing write_file: OSError: the disk is full'}\n"


async def test_unknown_and_excluded_tools_say_so(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import hermes_tools
        from hermes_tools import vision_analyze
        print(vision_analyze(image="x")["error"])
        print(hermes_tools.clarify(question="x")["error"])
        print(hermes_tools.frobnicate()["error"])
        print(hermes_tools.foo(1)["error"])
        """
    )
    excluded = "Tool '{}' is not available in execute_code. Use it as a normal tool call instead."
    assert out.splitlines() == [
        excluded.format("vision_analyze"),
        excluded.format("clarify"),
        excluded.format("frobnicate"),
        "Unknown tool: foo. Available: read_file, write_file, terminal, web_search",
    ]
    assert scripts.called == []


async def test_commands_of_scripts_run_in_the_foreground(scripts: Scripts) -> None:
    await scripts.output(
        "from hermes_tools import terminal\nterminal('x', timeout=3, background=True, pty=True)"
    )
    assert scripts.called == [("terminal", {"command": "x", "timeout": 3})]


async def test_a_client_that_asks_for_the_background_itself_does_not_get_it(scripts: Scripts) -> None:
    script = "import hermes_tools\nhermes_tools._call('terminal', {'command': 'x', 'background': True})"
    await scripts.output(script)
    assert scripts.called == [("terminal", {"command": "x"})]


async def test_calls_above_the_limit_are_refused_and_the_script_goes_on(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        from hermes_tools import read_file
        results = [read_file(str(number)) for number in range(53)]
        print(sum("error" in result for result in results), results[-1]["error"])
        """
    )
    said = "Tool call limit reached: a script may make 50 calls. Print what you have."
    assert outcome.stdout == f"3 {said}\n"
    assert outcome.calls_made == len(outcome.calls) == len(scripts.called) == 50


async def test_two_hundred_calls_run_beside_each_other(scripts: Scripts) -> None:
    together = asyncio.Event()

    async def meet(arguments: dict[str, Any]) -> str:
        if len(scripts.called) == 200:
            together.set()
        await together.wait()
        return json.dumps({"path": arguments["path"]})

    scripts.answers["read_file"] = meet
    outcome = await scripts.run(
        """
        from hermes_tools import gather, read_file
        results = gather(*[lambda n=n: read_file(str(n)) for n in range(200)], workers=200)
        print([result["path"] for result in results] == [str(n) for n in range(200)])
        """,
        limits={"calls": 200},
    )
    assert (outcome.status, outcome.stdout) == ("ok", "True\n"), outcome
    assert [record.number for record in outcome.calls] == list(range(1, 201))


@pytest.mark.thorough
async def test_large_results_and_large_arguments_come_through_whole(scripts: Scripts) -> None:
    async def echo(arguments: dict[str, Any]) -> str:
        return json.dumps({"content": arguments["content"] * 2})

    scripts.answers["write_file"] = echo
    out = await scripts.output(
        """
        from hermes_tools import write_file
        text = 'ä"\\\\\\n\\t\\x00' * 400_000
        result = write_file("x", text)
        print(result["content"] == text * 2, len(text))
        """
    )
    assert out == "True 2400000\n"


async def test_half_a_character_in_an_argument_harms_nobody(scripts: Scripts) -> None:
    out = await scripts.output(
        r"from hermes_tools import read_file; print(ascii(read_file('a\ud800b')['path']))"
    )
    assert out == r"'a\ufffd\ufffd\ufffdb'" + "\n" or out == r"'a\ufffdb'" + "\n"
    scripts.called[0][1]["path"].encode()


async def test_results_that_are_no_json_are_an_error(scripts: Scripts) -> None:
    async def nonsense(arguments: dict[str, Any]) -> str:
        return '{"id": 1}\n{"id": 2, "resul'

    scripts.answers["read_file"] = nonsense
    out = await scripts.output(
        "from hermes_tools import read_file\nprint('error' in read_file('a'), 'and on')"
    )
    assert out == "True and on\n"


async def test_every_value_of_python_can_be_an_argument(scripts: Scripts) -> None:
    await scripts.output(
        """
        import pathlib
        from hermes_tools import read_file
        read_file(pathlib.Path("/a/b"), offset=float("nan"))
        read_file({"x": (1, 2.5, True, None), 3: b"bytes"}, offset=10**30)
        """
    )
    assert scripts.called[0][1] == {"path": "/a/b", "offset": None}
    assert scripts.called[1][1] == {"path": {"x": [1, 2.5, True, None], "3": "bytes"}, "offset": 10**30}


async def test_a_forked_process_has_a_connection_of_its_own(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import os, sys
        from hermes_tools import read_file
        read_file("before")
        if os.fork() == 0:
            for number in range(20):
                assert read_file(f"child {number}")["path"] == f"child {number}"
            os._exit(0)
        for number in range(20):
            assert read_file(f"parent {number}")["path"] == f"parent {number}"
        print(os.wait()[1])
        """
    )
    assert out == "0\n"


async def test_a_call_torn_off_by_an_exception_does_not_mix_up_the_next(scripts: Scripts) -> None:
    async def slow(arguments: dict[str, Any]) -> str:
        if arguments["path"].isdigit():
            os.kill(int(arguments["path"]), signal.SIGALRM)
            await asyncio.sleep(0.3)
        return json.dumps(arguments)

    scripts.answers["read_file"] = slow
    out = await scripts.output(
        """
        import os, signal
        from hermes_tools import read_file
        def ring(*_): raise TimeoutError
        signal.signal(signal.SIGALRM, ring)
        try:
            read_file(str(os.getpid()))
        except TimeoutError:
            print("torn")
        print(read_file("next")["path"])
        """
    )
    assert out == "torn\nnext\n"


async def test_an_exception_of_a_signal_handler_survives_an_import_of_the_runner(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import os, signal, sys
        from hermes_tools import read_file
        def ring(*_): raise TimeoutError
        signal.signal(signal.SIGALRM, ring)
        class Finder:
            # Those of Python, too, take an OSError for a file that is not there.
            def find_spec(self, name, path=None, target=None):
                if name == "json":
                    try:
                        os.kill(os.getpid(), signal.SIGALRM)
                    except OSError:
                        pass
        sys.meta_path.insert(0, Finder())
        sys.modules.pop("json", None)
        try:
            read_file("a")
        except TimeoutError:
            print("torn")
        """
    )
    assert out == "torn\n"


async def test_progress_tells_of_calls_and_output(scripts: Scripts) -> None:
    async def slow(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0.3)
        return '{"fine": 1}'

    scripts.answers["read_file"] = slow
    outcome = await scripts.run("from hermes_tools import read_file\nprint('hello')\nread_file('a')")
    running = [look.running[0] for look in scripts.progress if look.running]
    assert (running[0].tool, running[0].arguments) == ("read_file", '{"path": "a", "offset": 1}')
    ended = [call for look in scripts.progress for call in look.finished]
    assert ended == list(outcome.calls)
    assert (ended[0].ok, ended[0].preview, ended[0].result_size) == (True, '{"fine": 1}', 11)
    assert ended[0].duration >= 0.3
    assert scripts.progress[-1].output == "hello"
    assert scripts.progress[-1].calls == 1


async def test_previews_are_short_and_clean(scripts: Scripts) -> None:
    outcome = await scripts.run(r"from hermes_tools import read_file; read_file('\x1b[31m' + 'x' * 5000)")
    record = outcome.calls[0]
    assert len(record.arguments) <= 200
    assert len(record.preview) <= 200
    assert "\x1b" not in record.arguments + record.preview


async def test_a_watcher_that_fails_does_not_harm_the_script(scripts: Scripts) -> None:
    def fails(_: object) -> None:
        raise ValueError("no screen")

    job = scripts.job("from hermes_tools import read_file\nprint(read_file('a')['path'])")
    outcome = await scripts.runner.run(job, scripts.serve, fails)
    assert (outcome.status, outcome.stdout) == ("ok", "a\n")
