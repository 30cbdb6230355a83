"""Places of secrets on a developer's disk: names below the home, and sockets of the session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.safety.reader.marks import words
from agent.safety.secrets import is_secret

_IN_HOME = """
.ssh .aws .gnupg .azure .kube .oci .terraform.d .vault-token .password-store .netrc .git-credentials
.docker/config.json .docker/run .docker/desktop .docker/contexts .colima .orbstack .rd .lima
.config/gh .config/glab-cli .config/hub .config/gcloud .config/doctl .config/op .config/rclone .config/sops
.config/age .config/git/credentials .config/helm .config/containers/auth.json .config/hcloud .config/flyctl
.config/github-copilot .config/Bitwarden .config/1Password .config/keepassxc .config/heroku
.boto .s3cfg .pgpass .my.cnf .mylogin.cnf .pypirc .npmrc .yarnrc.yml .gem/credentials .cargo/credentials
.cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .nuget/NuGet
.composer/auth.json .config/composer/auth.json .bundle/config .htpasswd .fly .heroku .databrickscfg
.config/google-chrome .config/chromium .config/BraveSoftware .config/microsoft-edge .config/vivaldi
.config/opera .mozilla .thunderbird .local/share/keyrings .local/share/kwalletd .pki
.config/Signal .config/Slack .config/discord .config/Code/User/globalStorage .claude .claude.json .codex
.gemini
.bash_history .zsh_history .zhistory .sh_history .history .python_history .node_repl_history .psql_history
.mysql_history .sqlite_history .rediscli_history .lesshst .viminfo .local/share/fish/fish_history
.local/share/nvim/shada .Xauthority .ICEauthority
Library/Keychains Library/Cookies
"""
_STARTUP = """
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
.zlogout .config/fish .config/autostart .config/systemd .config/environment.d .gitconfig .config/git
.inputrc .pam_environment .xprofile .xinitrc .xsessionrc .local/bin bin .local/share/applications .pythonrc
"""
_DEPTH = 2
"""Folders below the workspace down to which files are looked for."""
_FOLDERS = 64
"""Folders that are looked into."""
_UNINTERESTING = words(".git .hg .svn node_modules .venv venv __pycache__ target dist build .tox .mypy_cache")
_SOCKETS = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "TMUX")
_ADDRESSES = ("DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "PULSE_SERVER")
_SYSTEM = ("/var/lib/docker", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d")


def in_home(home: Path) -> tuple[Path, ...]:
    """Files and folders below `home` that hold secrets, whether they exist or not."""
    return tuple(home / name for name in _IN_HOME.split())


def start_up(home: Path) -> tuple[Path, ...]:
    """Files and folders below `home` that run when the person logs in or starts a shell."""
    return tuple(home / name for name in _STARTUP.split())


def of_session(environ: Mapping[str, str]) -> Iterator[Path]:
    """Sockets the host's session names in its environment."""
    for name in _SOCKETS:
        value = environ.get(name, "").partition(",")[0].partition(":")[0]
        if value.startswith("/"):
            yield Path(value)
    for name in _ADDRESSES:
        _, found, rest = environ.get(name, "").partition("unix:")
        path = rest.removeprefix("path=").partition(",")[0]
        path = "/" + path.lstrip("/") if path.startswith("/") else ""
        if found and path:
            yield Path(path)


def in_workspace(workspace: Path) -> Iterator[Path]:
    """Files of a project that hold secrets, such as `.env`, as far as they lie near its top."""
    folders = [(workspace, 0)]
    for folder, depth in folders:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and entry.name not in _UNINTERESTING and len(folders) < _FOLDERS:
                    folders.append((Path(entry.path), depth + 1))
            elif is_secret(f"/{entry.name}"):
                yield Path(entry.path)


def of_system() -> tuple[Path, ...]:
    """What root could read on the machine and no command of a developer needs."""
    return tuple(Path(name) for name in _SYSTEM)
