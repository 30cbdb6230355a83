"""Which places are left alone, and which only look like them."""

from pathlib import Path

import pytest

from tools.files.access import PROTECTED_OPTION, CredentialGuard
from tools.results import ToolError

SECRETS = [
    ".ssh/id_ed25519", ".ssh/work_key", ".aws/credentials", ".gnupg/private-keys-v1.d/x.key", ".kube/config",
    ".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".netrc", ".npmrc",
    ".pypirc", ".pgpass", ".git-credentials", ".mozilla/firefox/a.default/logins.json",
    ".config/google-chrome/Default/Cookies", "project/.env", "project/.env.local", "project/.ENV",
    "project/.env.production", "project/.envrc", "backup/id_rsa",
]  # fmt: skip
OPEN = [
    ".ssh/config", ".ssh/known_hosts", ".ssh/id_ed25519.pub", "project/.env.example", "project/.env.sample",
    "project/.env.template", "project/.env.local.example", "project/environment.py", "project/env",
    ".docker/daemon.json", ".bashrc", "project/aws/credentials.py", "project/.aws/config",
    "project/.environment",
]  # fmt: skip


@pytest.mark.parametrize("place", SECRETS)
def test_a_credential_store_is_neither_read_nor_written(home: Path, place: str) -> None:
    guard = CredentialGuard({})
    with pytest.raises(ToolError, match="credentials"):
        guard.check_read(home / place, place)
    with pytest.raises(ToolError, match="credentials"):
        guard.check_write(home / place, place)


@pytest.mark.parametrize("place", OPEN)
def test_what_only_looks_like_a_store_is_read(home: Path, place: str) -> None:
    CredentialGuard({}).check_read(home / place, place)


@pytest.mark.parametrize(
    "place", ["/home/other/.ssh/id_rsa", "/Users/other/.aws/credentials", "/etc/shadow", "/etc/sudoers.d/x"]
)
def test_stores_of_others_and_of_the_system_are_covered(home: Path, place: str) -> None:
    assert CredentialGuard({}).hides(Path(place))


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "/etc/sudoers", "/etc/systemd/system/x.service", "/etc/cron.d/x", "/etc/crontab"]
)
def test_guards_of_the_system_are_not_written(home: Path, place: str) -> None:
    with pytest.raises(ToolError, match=r"user to edit it|user"):
        CredentialGuard({}).check_write(Path(place), place)


def test_passwd_may_be_read(home: Path) -> None:
    CredentialGuard({}).check_read(Path("/etc/passwd"), "/etc/passwd")


def test_services_of_the_user_and_ssh_settings_are_not_written(home: Path) -> None:
    for place in (".config/systemd/user/x.service", ".ssh/config", ".ssh/authorized_keys"):
        with pytest.raises(ToolError):
            CredentialGuard({}).check_write(home / place, place)


def test_startup_files_of_the_shell_are_left_to_the_gate(home: Path) -> None:
    CredentialGuard({}).check_write(home / ".bashrc", ".bashrc")


def test_protected_files_and_folders_come_from_the_options(home: Path, tmp_path: Path) -> None:
    folder, file = tmp_path / "own", tmp_path / "state.db"
    guard = CredentialGuard({PROTECTED_OPTION: [str(folder), str(file)]})
    assert guard.hides(folder / "deep" / "x") and guard.hides(file) and guard.hides(folder)
    assert not guard.hides(tmp_path / "own2") and not guard.hides(tmp_path / "state.db2")


def test_a_store_behind_a_link_is_found_by_its_real_place(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "synced" / "aws"
    real.mkdir(parents=True)
    (home / ".aws").symlink_to(real)
    assert CredentialGuard({}).hides(real / "credentials")


def test_a_protected_place_behind_a_link_is_found(home: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert CredentialGuard({PROTECTED_OPTION: [str(tmp_path / "link")]}).hides(tmp_path / "real" / "x")
