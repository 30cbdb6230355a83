"""The tables of `agent.safety.guarded`: names in lower case, and their meaning."""

from __future__ import annotations

from agent.safety.reader.tree import words
from tools.secret_places import STORES, STORES_ANYWHERE, rows

_EDITOR = "settings of an editor, which can run programs"
_SHELL = "a start-up file of the shell or the session"
_CI = "what a CI service runs"
_HOOKS = "what a package manager or a Git hook runs"
_TOOL = "a start-up file of a program"
_GIT = "settings of Git, which can run programs"
_KEYS = "keys and logins"
_AGENT = "settings of an agent, which can run programs"
_PYTHON = "what Python runs whenever it starts"

_BY_PLACE = {
    _EDITOR: words(
        ".vscode .vscode-server .idea .fleet .zed .vs .theia .cursor .windsurf .sublime-project .helix "
        ".devcontainer .devcontainer.json .exrc .vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .vim .ideavimrc "
        ".emacs .emacs.d .spacemacs .doom.d .dir-locals.el .dir-locals-2.el .nanorc .kakrc"
    ),
    _SHELL: words(
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_functions .bash_completion "
        ".profile .login .logout .cshrc .tcshrc .kshrc .mkshrc .shrc .ashrc .envrc .direnv .direnvrc "
        ".zshrc .zshenv .zprofile .zlogin .zlogout .zsh .oh-my-zsh .zpreztorc .p10k.zsh .inputrc "
        ".xinitrc .xprofile .xsession .xsessionrc .xresources .pam_environment .xonshrc .crontab crontab "
        ".screenrc .tmux.conf"
    ),
    _CI: words(
        ".gitlab-ci.yml .gitlab-ci.yaml .gitlab-ci jenkinsfile .circleci .travis.yml .drone.yml "
        ".woodpecker .woodpecker.yml .woodpecker.yaml azure-pipelines.yml azure-pipelines.yaml "
        ".azure-pipelines .azuredevops bitbucket-pipelines.yml appveyor.yml .appveyor.yml .buildkite "
        ".teamcity .semaphore wercker.yml .cirrus.yml .cirrus.star codemagic.yaml bamboo-specs .build.yml "
        ".builds .tekton cloudbuild.yaml cloudbuild.yml buildspec.yml .cm .codefresh"
    ),
    _HOOKS: words(
        ".npmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.cjs .pnpmfile.js pnpmfile.js bunfig.toml .husky "
        ".githooks .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.yml "
        ".lefthook.yml lefthook-local.yml .overcommit.yml pip.conf .pydistutils.cfg .pypirc .condarc .gemrc "
        ".mvn .sbtopts .jvmopts .bazelrc .bazeliskrc nuget.config .mise.toml mise.toml .mise .rtx.toml "
        ".simple-git-hooks.json simple-git-hooks.json .simple-git-hooks.cjs"
    ),
    _TOOL: words(
        ".curlrc .wgetrc .gdbinit .lldbinit .pdbrc .pdbrc.py .pythonrc .pythonrc.py .pythonstartup .irbrc "
        ".pryrc .psqlrc .sqliterc .my.cnf .mylogin.cnf .rprofile .renviron .ghci .ripgreprc .lessfilter "
        ".lesskey .mailcap .forward .procmailrc .erlang .iex.exs .octaverc .perldb .guile .sbclrc "
        ".sudo_as_admin_successful .hgrc .ackrc .ctags.d"
    ),
    _GIT: words(".gitconfig .gitmodules .git-credentials .gittemplate"),
    _KEYS: words(
        ".ssh .gnupg .netrc .aws .kube .docker .azure .password-store authorized_keys authorized_keys2 "
        ".rhosts .shosts"
    ),
    _AGENT: words(".claude .claude.json .mcp.json .codex .gemini .aider.conf.yml .continue .opencode .kiro"),
    _PYTHON: words("sitecustomize.py usercustomize.py"),
}

ANYWHERE: dict[str, str] = {name: place for place, names in _BY_PLACE.items() for name in names}
"""Names that are guarded in any folder, with everything inside if they are folders."""

NESTED: tuple[tuple[tuple[str, ...], str], ...] = (
    ((".git", "hooks"), "Git's own folder, whose hooks and settings run programs"),
    ((".git", "config"), "Git's own folder, whose hooks and settings run programs"),
    ((".github", "workflows"), _CI),
    ((".github", "actions"), _CI),
    ((".gitea", "workflows"), _CI),
    ((".gitea", "actions"), _CI),
    ((".forgejo", "workflows"), _CI),
    ((".forgejo", "actions"), _CI),
    ((".gitlab", "ci"), _CI),
    ((".vscode", "tasks.json"), _EDITOR),
    ((".vscode", "settings.json"), _EDITOR),
    ((".vscode", "launch.json"), _EDITOR),
    ((".ssh", "authorized_keys"), _KEYS),
    ((".ssh", "config"), _KEYS),
    ((".cargo", "config"), _HOOKS),
    ((".cargo", "config.toml"), _HOOKS),
    ((".cargo", "credentials.toml"), _HOOKS),
    ((".cargo", "bin"), _HOOKS),
    ((".cargo", "env"), _SHELL),
    ((".bundle", "config"), _HOOKS),
    ((".gradle", "init.gradle"), _HOOKS),
    ((".gradle", "init.gradle.kts"), _HOOKS),
    ((".gradle", "init.d"), _HOOKS),
    ((".m2", "settings.xml"), _HOOKS),
    ((".pip", "pip.conf"), _HOOKS),
    ((".hg", "hgrc"), _HOOKS),
    ((".hg", "hgrc-not-shared"), _HOOKS),
    (("_darcs", "prefs", "defaults"), _HOOKS),
    (("_darcs", "prefs", "prefs"), _HOOKS),
    ((".jj", "repo", "config.toml"), _HOOKS),
    ((".composer", "config.json"), _HOOKS),
    ((".config", "fish"), _SHELL),
    ((".config", "autostart"), _SHELL),
    ((".config", "systemd"), _SHELL),
    ((".config", "git"), _GIT),
    ((".config", "pip"), _HOOKS),
    ((".local", "bin"), _SHELL),
)
"""Sequences of names guarded in any folder. One of them may be unknown, as in `$D/hooks/pre-commit`."""

GIT_HARMLESS = frozenset(
    {
        ("info", "exclude"),
        ("commit_editmsg",),
        ("merge_msg",),
        ("squash_msg",),
        ("description",),
        ("index.lock",),
        ("head.lock",),
        ("config.lock",),
    }
)
"""What may be written in `.git`: texts, and locks left by a dead process."""

HOME_OPEN: tuple[tuple[str, ...], ...] = (
    ("bin",),
    ("library", "launchagents"),
    ("library", "launchdaemons"),
    ("library", "preferences"),
    ("library", "application support"),
    ("go", "bin"),
    (".local", "bin"),
    (".local", "share", "applications"),
    (".local", "share", "systemd"),
    (".local", "share", "dbus-1"),
    (".local", "share", "nautilus", "scripts"),
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".config", "fish"),
    (".config", "nushell"),
    (".config", "powershell"),
    (".config", "git"),
    (".config", "nvim"),
    (".config", "vim"),
    (".config", "emacs"),
    (".config", "helix"),
    (".config", "zed"),
    (".config", "direnv"),
    (".config", "code"),
)
"""Places of the home folder that are guarded even if the workspace is inside them."""

HOME_STORES = tuple(tuple(row.lower().rstrip("*").split("/")) for row in rows(STORES_ANYWHERE + STORES))
"""Places of keys and logins below the home folder."""

HOME_FREE: tuple[tuple[str, ...], ...] = (
    (".cache",),
    (".local", "share"),
    (".local", "state"),
    (".trash",),
    (".npm", "_cacache"),
    (".m2", "repository"),
    (".gradle", "caches"),
    (".cargo", "registry"),
    (".cargo", "git"),
)
"""Hidden folders of the home that hold data and caches."""

SYSTEM: tuple[tuple[str, ...], ...] = (
    ("etc",),
    ("usr",),
    ("bin",),
    ("sbin",),
    ("lib",),
    ("lib32",),
    ("lib64",),
    ("boot",),
    ("sys",),
    ("opt",),
    ("nix",),
    ("proc", "sys"),
    ("run", "systemd"),
    ("var", "spool", "cron"),
    ("var", "spool", "at"),
    ("private", "etc"),
    ("library",),
    ("system",),
    ("applications",),
)
"""Folders of the system, free only if the workspace is inside them."""

START_UP = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".config/fish/config.fish",
    ".config/git/config",
    ".vimrc",
    ".netrc",
)
"""Files below the home folder that are recognised under another name of the same file."""

SHORT_NAMES = {
    "git~1": ".git",
    "gitmod~1": ".gitmodules",
    "vscode~1": ".vscode",
    "github~1": ".github",
    "hermes~1": ".hermes",
    "ssh~1": ".ssh",
}
"""Names as old Windows programs see them."""
