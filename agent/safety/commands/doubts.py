"""Words in programs, of whatever language, that a person sees before the program runs."""

from __future__ import annotations

import re

DEFINITION = re.compile(
    r"(?:GNU)?[Mm]akefile(?:\..+)?|.*\.mk|package\.json|conftest\.py|setup\.py"
    r"|setup\.cfg|pyproject\.toml|pytest\.ini|tox\.ini|noxfile\.py|build\.rs|Cargo\.toml|build\.gradle(?:\.kts)?"
    r"|settings\.gradle(?:\.kts)?|pom\.xml|CMakeLists\.txt|.*\.cmake|Rakefile|Gemfile|[Jj]ustfile|Taskfile\.ya?ml"
    r"|.*\.config\.[cm]?[jt]s|gulpfile\.js|Gruntfile\.js|mix\.exs|composer\.json|build\.xml|meson\.build|build\.zig"
)
"""Names of files that say what building and testing runs."""

DOUBTFUL = re.compile(
    r"rmtree|\brm[\s'\",]+-|\brimraf\b|\brm_rf?\b|\brm(?:dir)?(?:Sync)?\(|removedirs|remove_dir_all"
    r"|deleteRecursively|deleteDirectory|\bunlink|os\.remove\b|File\.delete|\bshred\b|\bmkfs|\btruncate\b"
    r"|\b(?:git|hg|svn)[\s'\",]+(?:push|reset|clean|checkout|restore|branch|config|filter)"
    r"|\b(?:DROP|TRUNCATE)\s+(?:TABLE|DATABASE|SCHEMA)|\bDELETE\s+FROM\b|FLUSHALL|FLUSHDB|dropDatabase"
    r"|\b(?:kubectl|terraform|tofu|pulumi|helm|gcloud|aws|az|docker|podman|heroku|ansible|sudo|doas|ssh|scp"
    r"|rsync|curl|wget|nc|ncat|socat|crontab|systemctl|launchctl|chattr|dd|chmod|chown|twine)[\s'\",]+[\w/-]"
    r"|\b(?:npm|pnpm|yarn|cargo|gem|hermes)[\s'\",]+(?:publish|login|push|permissions|config|unpublish)"
    r"|[/'\"~]\.(?:git|hermes|ssh|aws|gnupg|kube|env|npmrc|netrc|pypirc|bashrc|bash_profile|profile|zshrc"
    r"|github|gitlab|vscode|husky|envrc)\b"
    r"|id_rsa|/etc/|/proc/|/dev/(?:tcp|udp|sd|nvme)|\bb64decode\b|frombase64|fromCharCode|base64_decode"
    r"|unpack\(|\batob\(|\beval\b|\bexec\s*\(|\bexec\b[\s(]*['\"]|__import__|child_process|\bsystem\s*\(|\bpopen\b"
    r"|process::Command|getRuntime\(\)|ProcessBuilder|\bos/exec\b|shell\s*=\s*True|\bctypes\b|\bdlopen\b|\bfork\b|\bkill\b",
    re.IGNORECASE,
)
"""Words in a program that are shown to a person first, whatever the language."""


SYSTEM_PLACE = re.compile(
    r"/|~.*|(?:.*/)?\.\.(?:/.*)?"
    r"|/(?:bin|boot|dev|etc|home|lib\w*|proc|root|run|sbin|srv|sys|usr|var|opt|mnt|media|Users|Volumes)(?:/.*)?"
)
"""Paths that lead out of a workspace, as they are written in programs."""


PLANTS = re.compile(
    r"\bos\.(?:system|popen|exec\w+|spawn\w+)\s*\(|(?<![\w.])(?:system|popen|eval)\s*\(|shell\s*=\s*True"
    r"|child_process|exec\.Command\(\s*\"(?:/bin/)?(?:ba)?sh\b|Command::new\(\s*\"(?:/bin/)?(?:ba)?sh\b"
    r"|getRuntime\(\)\s*\.exec|shell_exec|passthru|proc_open|/dev/tcp/|__import__|Kernel\.(?:system|exec)"
    r"|\b(?:curl|wget)\b[^\n|]*\|\s*(?:\S*/)?(?:ba|z|da)?sh\b|\bb64decode\b|frombase64|base64_decode|\batob\("
    r"|fromCharCode|id_(?:rsa|ed25519)|[/~]\.(?:ssh|aws|gnupg|kube)\b|\brm\s+-\w+\s+[~/$]"
    r"|rmtree\(\s*['\"][~/]|\bnc\s+-e\b|['\"](?:/usr)?/bin/(?:ba|da|k|z)?sh\b(?!\S)|(?:FLUSH(?:ALL|DB)|dropDatabase)\b"
)
"""Words in code that is written and run at once which start other programs or reach for keys."""


_RECIPE = re.compile(
    r"(?:^\t[@+-]*|[;&|]\s*|\":\s*\")(?:rm|rmdir|unlink|srm|wipe|chattr|shutdown|reboot|halt|poweroff|killall|pkill|iptables|userdel"
    r"|passwd|mount|umount|swapoff|insmod|history|dropdb|psql|mysql|redis-cli|mongosh?|sqlite3|apt|apt-get|yum|dnf"
    r"|brew|visudo|launchctl|defaults|osascript|diskutil|tmutil|csrutil|chflags|vercel|firebase|fly|gh|at|install"
    r"|git\s+(?:stash|gc|reflog|update-ref|switch|worktree)|pip3?\s+uninstall|gem\s+yank)\s"
    r"|\s-delete\b|\s/dev/null\s+[\w.]|\bmv\s[^\n;&|]*\s/|\s\.env\b|^\t[@+-]*(?:reboot|halt|poweroff)\s*$"
    r"|\":\s*\"(?:reboot|halt|poweroff)\"",
    re.MULTILINE,
)
"""Command lines of a build that a person sees first, where the same command writes them."""


def builds_doubtful(text: str) -> bool:
    """Whether the definition of a build has lines in it that a person sees first."""
    return writes_doubtful(text) or _RECIPE.search(text) is not None


def writes_doubtful(text: str) -> bool:
    """Whether a shell text has doubtful words in it, also behind the escapes of `printf`, or hides some."""
    return DOUBTFUL.search(re.sub(r"\\[nrt]", " ", text)) is not None or "base64" in text
