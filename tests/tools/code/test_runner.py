"""One script, one child: what it prints, how it ends, what is said about it."""

from __future__ import annotations

import sys

import pytest

from tests.tools.code.conftest import Scripts


async def test_what_a_script_prints_is_its_output(scripts: Scripts) -> None:
    outcome = await scripts.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (outcome.status, outcome.stdout, outcome.stderr) == ("ok", "out\n", "err\n")
    assert outcome.exit_code == 0
    assert outcome.message == ""


async def test_a_syntax_error_names_the_line_of_the_script(scripts: Scripts) -> None:
    outcome = await scripts.run("a = 1\nb = (\n")
    assert outcome.status == "error"
    assert outcome.exit_code == 1
    assert 'File "script.py", line 2' in outcome.stderr
    assert "SyntaxError" in outcome.stderr


async def test_a_traceback_shows_the_script_and_nothing_else(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        def inner():
            raise ValueError("not good")

        print("before")
        inner()
        """
    )
    assert outcome.status == "error"
    assert outcome.stdout == "before\n"
    # Newer interpreters underline the part of a line that failed.
    lines = [line for line in outcome.stderr.splitlines(keepends=True) if line.strip(" ~^\n")]
    assert "".join(lines) == (
        "Traceback (most recent call last):\n"
        '  File "script.py", line 6, in <module>\n'
        "    inner()\n"
        '  File "script.py", line 3, in inner\n'
        '    raise ValueError("not good")\n'
        "ValueError: not good\n"
    )


async def test_chained_exceptions_are_trimmed_too(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        from hermes_tools import retry
        def fails():
            raise KeyError("first")
        try:
            retry(fails, attempts=1)
        except KeyError as error:
            raise RuntimeError("second") from error
        """
    )
    assert "direct cause" in outcome.stderr
    assert "line 4, in fails" in outcome.stderr
    assert "hermes_child" not in outcome.stderr
    assert "hermes_tools" not in outcome.stderr.replace("from hermes_tools", "")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("leave", "status", "code", "said"),
    [
        ("sys.exit()", "ok", 0, ""),
        ("sys.exit(0)", "ok", 0, ""),
        ("sys.exit(3)", "error", 3, ""),
        ("sys.exit(-1)", "error", 255, ""),
        ("sys.exit('enough')", "error", 1, "enough\n"),
        ("exit(4)", "error", 4, ""),
        ("raise SystemExit(5)", "error", 5, ""),
        ("os._exit(6)", "error", 6, ""),
        ("raise KeyboardInterrupt", "error", 130, None),
    ],
)
async def test_leaving_gives_the_exit_code(
    scripts: Scripts, leave: str, status: str, code: int, said: str | None
) -> None:
    outcome = await scripts.run(f"import os, sys\nprint('seen', flush=True)\n{leave}\nprint('unseen')")
    assert (outcome.status, outcome.exit_code, outcome.stdout) == (status, code, "seen\n")
    assert said is None or outcome.stderr == said


async def test_leaving_a_thread_leaves_only_the_thread(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        import sys, threading
        thread = threading.Thread(target=lambda: sys.exit(9))
        thread.start(); thread.join()
        print("still here")
        """
    )
    assert (outcome.status, outcome.stdout, outcome.stderr) == ("ok", "still here\n", "")


async def test_threads_that_still_run_are_waited_for(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.2), print("late"))).start()
        print("early")
        """
    )
    assert out == "early\nlate\n"


async def test_what_is_registered_for_the_exit_runs(scripts: Scripts) -> None:
    assert await scripts.output("import atexit\natexit.register(print, 'bye')") == "bye\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", ["SIGSEGV", "SIGKILL", "SIGABRT"])
async def test_a_child_that_dies_of_a_signal_has_crashed(scripts: Scripts, number: str) -> None:
    outcome = await scripts.run(f"import os, signal\nprint('partial')\nos.kill(os.getpid(), signal.{number})")
    assert outcome.status == "crashed"
    assert outcome.stdout == "partial\n"
    assert number in outcome.message


async def test_endless_recursion_is_an_ordinary_exception(scripts: Scripts) -> None:
    outcome = await scripts.run("def f(n):\n    return f(n + 1)\nf(0)")
    assert outcome.status == "error"
    assert "RecursionError" in outcome.stderr
    assert len(outcome.stderr) < 5_000


async def test_recursion_that_breaks_the_interpreter_is_a_crash(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        import sys
        sys.setrecursionlimit(10**9)
        class Deep:
            def __getattr__(self, name): return getattr(self, name + "x"[:0])
        Deep().anything
        """
    )
    assert outcome.status in ("crashed", "error")
    assert outcome.message


async def test_input_is_empty(scripts: Scripts) -> None:
    outcome = await scripts.run("import sys\nprint(repr(sys.stdin.read()))\ninput()")
    assert outcome.stdout == "''\n"
    assert "EOFError" in outcome.stderr


async def test_every_character_can_be_printed(scripts: Scripts) -> None:
    out = await scripts.output(r"print('größe 🎉 \ud800 \udcff'); print('日本')")
    assert out == "größe 🎉 \\ud800 \\udcff\n日本\n"


async def test_a_script_with_half_a_character_is_an_error_not_a_hang(scripts: Scripts) -> None:
    outcome = await scripts.run("x = '\ud800'")
    assert outcome.status == "error"
    assert "UnicodeEncodeError" in outcome.stderr


async def test_escape_sequences_do_not_get_out(scripts: Scripts) -> None:
    out = await scripts.output(r"print('\x1b[31mred\x1b[0m \x1b]52;c;AAAA\x07done')")
    assert out == "red done\n"


async def test_bytes_that_are_no_text_are_replaced(scripts: Scripts) -> None:
    out = await scripts.output(r"import sys; sys.stdout.buffer.write(b'\xff\xfeab\n')")
    assert out == "\ufffd\ufffdab\n"


async def test_a_flood_of_output_is_cut_in_the_middle(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        import sys
        print("the first line")
        for number in range(3000):
            sys.stdout.write("x" * 999 + "\\n")
        print("the last line")
        print("e" * 100_000, file=sys.stderr)
        """
    )
    assert outcome.status == "ok"
    assert outcome.stdout.startswith("the first line\n")
    assert outcome.stdout.endswith("the last line\n")
    assert "[output truncated at 50KB" in outcome.stdout
    assert len(outcome.stdout) <= 50_000
    assert "[output truncated at 10KB" in outcome.stderr
    assert len(outcome.stderr) <= 10_000
    assert outcome.metadata["stdout_bytes"] == 3_000_029


async def test_a_script_is_the_main_module(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import dataclasses, inspect, pickle, sys
        @dataclasses.dataclass
        class Point:
            x: int
        assert __name__ == "__main__" and sys.modules["__main__"].Point is Point
        assert pickle.loads(pickle.dumps(Point(3))) == Point(3)
        print("class Point" in inspect.getsource(Point) if hasattr(inspect, "getsource") else True)
        """
    )
    assert out


async def test_strict_scripts_see_the_standard_library_only(scripts: Scripts) -> None:
    (scripts.folder / "json.py").write_text("raise SystemExit('shadowed')")
    (scripts.folder / "local.py").write_text("")
    out = await scripts.output(
        """
        import json, importlib.util, sys
        for name in ("pytest", "textual", "tools", "agent", "local", "hermes_child.main"):
            found = name.partition(".")[0] in sys.modules or importlib.util.find_spec(name.partition(".")[0])
            print(name, bool(found))
        """
    )
    assert "local False" in out
    assert "pytest False" in out
    assert "tools False" in out


async def test_the_script_runs_in_its_folder(scripts: Scripts) -> None:
    assert await scripts.output("import os; print(os.getcwd())") == f"{scripts.folder.resolve()}\n"


async def test_the_environment_holds_no_secrets(scripts: Scripts) -> None:
    environ = {"PATH": "/usr/bin:/bin", "GITHUB_TOKEN": "ghp_secret", "CI": "yes", "OTHER": "no"}
    out = await scripts.output("import os; print(sorted(os.environ), os.environ['CI'])", environ=environ)
    assert "GITHUB_TOKEN" not in out
    assert "OTHER" not in out
    assert "'CI'" in out


async def test_the_token_stands_neither_in_environment_nor_arguments(scripts: Scripts) -> None:
    out = await scripts.output(
        """
        import hermes_tools
        token = hermes_tools._call.__self__._token
        for name in ("environ", "cmdline"):
            print(token.encode() in open(f"/proc/self/{name}", "rb").read())
        """
    )
    assert out == "False\nFalse\n"


async def test_project_mode_takes_the_interpreter_and_modules_of_the_project(scripts: Scripts) -> None:
    bin_folder = scripts.folder / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder.parent / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n")
    (bin_folder / "python").symlink_to(f"{sys.base_prefix}/bin/python3")
    (scripts.folder / "mine.py").write_text("VALUE = 42")
    script = """
        import mine, sys
        from hermes_tools import read_file
        print(mine.VALUE, sys.prefix, read_file("a")["path"])
    """
    outcome = await scripts.run(script, mode="project")
    assert outcome.stdout == f"42 {scripts.folder.resolve()}/.venv a\n"
    assert outcome.metadata["interpreter"] == str(scripts.folder.resolve() / ".venv/bin/python")


async def test_project_mode_without_any_python_says_what_to_do(scripts: Scripts) -> None:
    outcome = await scripts.run("print(1)", mode="project", environ={"PATH": "/nonexistent"})
    assert outcome.status == "error"
    assert "python3 -m venv .venv" in outcome.message


async def test_a_folder_that_is_gone_is_an_error(scripts: Scripts) -> None:
    outcome = await scripts.run("print(1)", folder=scripts.folder / "gone")
    assert outcome.status == "error"
    assert "No such file or directory" in outcome.message


async def test_windows_is_told_to_use_normal_calls(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.code.runner.AVAILABLE", False)
    outcome = await scripts.run("print(1)")
    assert outcome.message == "execute_code is not available on Windows. Use normal tool calls instead."
