"""From `config.yaml` to the place commands run at."""

from __future__ import annotations

import pytest

from agent.core.config.schema import TerminalSettings
from agent.errors import ConfigError
from agent.session.wiring.terminal_backend import backend_options
from tools.terminal.backends.options import DockerOptions, SshOptions


def test_this_machine_is_no_place():
    assert backend_options(TerminalSettings(), {}) is None


@pytest.mark.parametrize("kind", ["docker", "singularity", "modal", "daytona"])
def test_every_backend_has_settings_that_work_as_they_are(kind: str):
    made = backend_options(TerminalSettings.model_validate({"backend": kind}), {"A": "b"})
    assert made is not None
    assert (made.kind, made.title, made.environ) == (kind, kind, {"A": "b"})


def test_settings_arrive():
    given = {
        "backend": "docker",
        "docker": {"image": "i", "mounts": ["/a:/b"]},
        "env": {"A": "1"},
        "workdir": "/w",
    }
    made = backend_options(TerminalSettings.model_validate(given), {})
    assert made is not None
    assert made.options == DockerOptions(image="i", mounts=("/a:/b",))
    assert (made.env, made.workdir, made.shares_files) == ({"A": "1"}, "/w", True)


def test_a_host_shares_files_only_when_a_person_says_so():
    given = {"backend": "ssh", "ssh": {"host": "h", "port": 22}}
    made = backend_options(TerminalSettings.model_validate(given), {})
    assert made is not None
    assert (made.options, made.shares_files, made.title) == (SshOptions(host="h", port=22), False, "ssh h")
    given["ssh"] = {"host": "h", "shared": True}
    shared = backend_options(TerminalSettings.model_validate(given), {})
    assert shared is not None
    assert shared.shares_files


def test_a_host_that_is_missing_is_said_so():
    with pytest.raises(ConfigError, match=r"terminal\.ssh\.host is empty"):
        backend_options(TerminalSettings.model_validate({"backend": "ssh"}), {})
