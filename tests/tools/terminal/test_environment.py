"""What commands inherit from Hermes, and what they do not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.tools.terminal.conftest import Task
from tools.terminal.environment import child_environment


def child(environ: dict[str, str], *passthrough: str, prefix: str = "/opt/hermes") -> dict[str, str]:
    return child_environment(environ, passthrough, prefix=prefix, base_prefix="/usr")


def test_secrets_stay_here_unless_they_are_let_through():
    environ = {
        "OPENAI_API_KEY": "1",
        "GH_TOKEN": "2",
        "DB_PASSWORD": "3",
        "HOME": "/h",
        "GIT_AUTHOR_NAME": "me",
    }
    environ |= {"SSH_AUTH_SOCK": "/s", "MY_CREDENTIALS": "4"}
    kept = child(environ, "GH_TOKEN")
    assert {name for name in environ if name in kept} == {
        "GH_TOKEN",
        "HOME",
        "GIT_AUTHOR_NAME",
        "SSH_AUTH_SOCK",
    }


def test_a_value_that_holds_a_secret_stays_here_whatever_its_name():
    environ = {
        "DATABASE_URL": "postgres://app:hunter22@db/shop",
        "PIP_INDEX_URL": "https://ci:Zk3mPq9xw@pypi.example/simple",
        "DEPLOY": "ghp_abcDEF1234567890ghiJKL0987654321mnoPQR",
        "LANG": "de_DE.UTF-8",
        "HTTPS_PROXY": "http://proxy:3128",
        "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33",
    }
    assert {name for name in environ if name in child(environ)} == {"LANG", "HTTPS_PROXY", "LS_COLORS"}
    assert "DATABASE_URL" in child(environ, "DATABASE_URL")


def test_files_a_shell_would_run_at_its_start_are_not_named():
    assert (
        not {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"}
        & child({"BASH_ENV": "/x", "ENV": "/y", "SHELLOPTS": "z"}).keys()
    )


def test_nothing_pages_prompts_or_draws():
    kept = child({"PAGER": "less", "TERM": "xterm-kitty", "GIT_PAGER": "delta"})
    assert (kept["PAGER"], kept["GIT_PAGER"], kept["TERM"], kept["GIT_TERMINAL_PROMPT"]) == (
        "cat",
        "cat",
        "dumb",
        "0",
    )


def test_our_virtual_environment_is_hidden_and_the_users_stays():
    path = "/home/me/venv/bin:/opt/hermes/bin:/usr/bin:/opt/hermes/bin/"
    ours = child(
        {
            "VIRTUAL_ENV": "/opt/hermes/",
            "PATH": path,
            "PYTHONPATH": "/opt/hermes/lib:/src",
            "PYTHONHOME": "/x",
        }
    )
    assert ours["PATH"] == "/home/me/venv/bin:/usr/bin"
    assert ours["PYTHONPATH"] == "/src"
    assert not {"VIRTUAL_ENV", "PYTHONHOME"} & ours.keys()
    assert child({"VIRTUAL_ENV": "/home/me/venv"})["VIRTUAL_ENV"] == "/home/me/venv"
    assert "PYTHONPATH" not in child({"PYTHONPATH": "/opt/hermes/lib"})


def test_without_a_virtual_environment_nothing_of_the_path_goes():
    kept = child_environment({"PATH": "/usr/bin:/bin"}, prefix="/usr", base_prefix="/usr")
    assert kept["PATH"] == "/usr/bin:/bin"


async def test_a_command_sees_that_environment_from_the_first_call_on(tmp_path: Path, terminals):
    environ = {
        **os.environ,
        "SOME_API_KEY": "k1",
        "LET_TOKEN": "t1",
        "odd-name": "o",
        "BASH_ENV": str(tmp_path / "rc"),
    }
    environ |= {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "VIRTUAL_ENV": sys.prefix}
    (tmp_path / "rc").write_text("echo sourced\n")
    task = Task(tmp_path, terminals(environ), options={"terminal.env_passthrough": ("LET_TOKEN",)})
    look = 'echo "[$SOME_API_KEY] [$LET_TOKEN] [$VIRTUAL_ENV] $TERM $PATH"; env | grep odd'
    for _ in range(2):
        assert await task.output(look) == "[] [t1] [] dumb /usr/bin:/bin\nodd-name=o\n"
