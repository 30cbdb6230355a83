"""What commands inherit from Hermes, and what they do not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.terminal.conftest import Task
from tools.terminal.environment import GROUPS, INHERITED, child_environment, missing_hint, remote_environment


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
        "NODE_OPTIONS": "--require /x --token=ghp_abcDEF1234567890ghiJKL0987654321mnoPQR",
        "all_proxy": "socks5://me:Zk3mPq9xw@proxy:1080",
        "LANG": "de_DE.UTF-8",
        "HTTPS_PROXY": "http://proxy:3128",
    }
    assert {name for name in environ if name in child(environ)} == {"LANG", "HTTPS_PROXY"}
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
        "COVERAGE_odd-name": "o",
        "BASH_ENV": str(tmp_path / "rc"),
    }
    environ |= {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "VIRTUAL_ENV": sys.prefix}
    (tmp_path / "rc").write_text("echo sourced\n")
    task = Task(tmp_path, terminals(environ), options={"terminal.env_passthrough": ("LET_TOKEN",)})
    look = 'echo "[$SOME_API_KEY] [$LET_TOKEN] [$VIRTUAL_ENV] $TERM $PATH"; env | grep odd'
    for _ in range(2):
        assert await task.output(look) == "[] [t1] [] dumb /usr/bin:/bin\nCOVERAGE_odd-name=o\n"


def test_what_is_on_no_list_stays_here():
    environ = {"PATH": "/bin", "COMPANY_PIN": "1234", "LD_PRELOAD": "/x.so", "LESSOPEN": "x", "PS1": "$ "}
    assert {name for name in environ if name in child(environ)} == {"PATH"}


def test_a_builder_finds_its_toolchain():
    names = """
        HOME USER LC_ALL TZ TMPDIR VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT PYTHONPATH UV_CACHE_DIR NVM_DIR
        NODE_OPTIONS CARGO_HOME RUSTFLAGS GOPATH GOPROXY JAVA_HOME ANDROID_HOME SDKROOT DOTNET_ROOT
        GEM_HOME CC CXXFLAGS PKG_CONFIG_PATH CMAKE_PREFIX_PATH MAKEFLAGS LD_LIBRARY_PATH DISPLAY
        SSH_AUTH_SOCK GIT_COMMITTER_EMAIL CI DEBIAN_FRONTEND XDG_CACHE_HOME no_proxy
    """
    environ: dict[str, str] = dict.fromkeys(names.split(), "/opt/x")
    assert environ.items() <= child(environ).items()


@pytest.mark.parametrize(
    "name", ["UV_PUBLISH_TOKEN", "CARGO_REGISTRY_TOKEN", "HOMEBREW_GITHUB_API_TOKEN", "PIP_PASSWORD"]
)
def test_a_prefix_of_the_list_lets_no_secret_through(name: str):
    assert name in INHERITED
    assert name not in child({name: "x"})


def test_a_pattern_adds_names_but_no_secrets():
    environ = {"FOO_HOME": "/f", "FOO_TOKEN": "1", "FOO_URL": "https://a:Zk3mPq9xw@b", "FOOD": "f"}
    assert {name for name in environ if name in child(environ, "FOO_*")} == {"FOO_HOME"}
    assert {name for name in environ if name in child(environ, "FOO_*", "FOO_TOKEN")} == {
        "FOO_HOME",
        "FOO_TOKEN",
    }


def test_nothing_lets_start_up_files_through():
    assert "BASH_ENV" not in child({"BASH_ENV": "/x"}, "BASH_ENV", "*")


@pytest.mark.thorough
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=20)))
def test_nothing_comes_in_that_is_not_listed_or_fixed(environ: dict[str, str]):
    fixed = child({})
    assert all(name in INHERITED or name in fixed for name in child(environ))


def test_no_name_is_listed_twice():
    names = [name for group in GROUPS for name in group.names.split()]
    assert len(names) == len(set(names))


def test_only_what_means_the_same_elsewhere_travels():
    environ = {"LANG": "C", "LC_ALL": "C", "TZ": "UTC", "PATH": "/bin", "FOO_A": "1", "FOO_TOKEN": "2"}
    kept = remote_environment(environ, ("FOO_*",), {"OWN": "o"})
    assert {name for name in kept if name in environ} == {"LANG", "LC_ALL", "TZ", "FOO_A"}
    assert kept["OWN"] == "o"


@pytest.mark.parametrize(
    "line",
    [
        "bash: line 1: FOO_PIN: unbound variable",
        "sh: 1: FOO_PIN: parameter not set",
        "KeyError: 'FOO_PIN'",
        "Error: environment variable FOO_PIN is required",
        "panic: FOO_PIN must be set: NotPresent",
        "Missing env FOO_PIN",
    ],
)
def test_a_variable_a_command_misses_is_named(line: str):
    name, hint = missing_hint(f"one\n{line}\n", {"FOO_PIN", "OTHER"})
    assert name == "FOO_PIN"
    assert "terminal.env_passthrough" in hint


def test_other_failures_bring_no_hint():
    assert missing_hint("KeyError: 'FOO_PINS'\nFOO_PIN all right\n", {"FOO_PIN"}) == ("", "")
    assert missing_hint("PATH: unbound variable", set()) == ("", "")


async def test_a_failed_command_is_told_once_what_was_kept_from_it(tmp_path: Path, terminals):
    task = Task(tmp_path, terminals({**os.environ, "FOO_PIN": "1"}))
    first = await task.run("set -u; echo $FOO_PIN")
    assert "FOO_PIN is set, but kept from commands" in first["note"]
    assert "FOO_PIN" not in (await task.run("bash -uc 'echo $FOO_PIN'")).get("note", "")
