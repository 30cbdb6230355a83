"""Which programs want the network: other machines, or servers on this one."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from agent.safety.commands import network
from agent.safety.commands.call import Call
from agent.safety.shell.marks import words

_ALWAYS = (frozenset(network.RULES) - {"openssl"}) | words(
    "aws gcloud gsutil bq az doctl flyctl fly heroku vercel netlify wrangler firebase gh glab hub kubectl "
    "oc helm k9s eksctl argocd flux pulumi vault consul nomad apt apt-get aptitude dnf yum zypper pacman "
    "apk brew snap flatpak port mas npx bunx pnpx pipx uvx deno psql pg_dump pg_restore mysql mysqldump "
    "mongosh mongo mongodump redis-cli cqlsh influx snowsql twine rsync mvn gradle sbt lein nix nix-shell "
    "nix-env vagrant certbot rustup nvm pyenv rbenv asdf gem telnet"
)
_INSTALLS = (
    "install|i|ci|add|update|upgrade|up|publish|view|info|show|outdated|audit|exec|x|dlx|create|init|login"
)
_SOME = {
    "git": "push|fetch|pull|clone|ls-remote|submodule|lfs|svn|fetch-pack|send-pack|send-email",
    "npm": _INSTALLS + "|search|ping|whoami|fund|dedupe",
    "pnpm": _INSTALLS + "|fetch",
    "yarn": _INSTALLS,
    "bun": _INSTALLS + "|pm",
    "pip": "install|download|index|search|wheel",
    "uv": "add|sync|lock|pip|tool|publish|remove",
    "poetry": "add|install|update|lock|publish|search|self|remove|sync",
    "pdm": "add|install|update|lock|publish|sync|remove",
    "pipenv": "install|update|lock|sync|upgrade",
    "conda": "install|create|update|search|env",
    "mamba": "install|create|update|search|env",
    "cargo": "add|install|update|fetch|publish|search|login|generate-lockfile|vendor|audit",
    "go": "get|install|mod",
    "bundle": "install|update|add|outdated|lock",
    "composer": "install|update|require|create-project|search|outdated|global",
    "dotnet": "restore|add|tool|nuget|new",
    "terraform": "init|plan|apply|destroy|import|refresh|login|providers|get|state|workspace",
    "tofu": "init|plan|apply|destroy|import|refresh|login|providers|get|state|workspace",
    "docker": ".*",
    "podman": ".*",
    "nerdctl": ".*",
    "openssl": "s_client|s_server|ocsp",
    "ansible-galaxy": ".*",
}
_VERBS = {name: re.compile(verbs) for name, verbs in _SOME.items()}
_LOOKS = frozenset({"--version", "--help", "-V", "-h", "help", "version"})
_NAMED = re.compile(r"(pip|python|npm|go)[\d.]+")
_ADDRESS = re.compile(r"(?:https?|ftp|wss?|ssh|git)://", re.IGNORECASE)


def wants(call: Call) -> bool:
    """Whether the program reaches other machines, or servers outside of the sandbox on this one.

    A guess for the person's good: what is guessed wrong runs without the network, or asks in vain.
    """
    name = _without_version(call.name)
    if name == "python":
        return _by_module(call)
    if name in _ALWAYS:
        return not call.arguments or not _LOOKS.issuperset(call.arguments)
    if verbs := _VERBS.get(name):
        # The first operand may belong to an option before the verb.
        return any(verbs.fullmatch(operand) for operand in call.operands("cC")[:2])
    if "://" not in " ".join(call.arguments):
        return False
    return any(_ADDRESS.match(argument) for argument in call.arguments)


@lru_cache(maxsize=256)
def _without_version(name: str) -> str:
    named = _NAMED.fullmatch(name)
    return named[1] if named else name


def opens(path: str) -> bool:
    """Whether a shell that redirects to or from `path` opens a connection."""
    return path.startswith(("/dev/tcp/", "/dev/udp/"))


def _by_module(call: Call) -> bool:
    for number, argument in enumerate(call.arguments[:-1]):
        if argument == "-m":
            rest = tuple(call.arguments[number + 2 :])
            module = call.arguments[number + 1]
            return module == "http.server" or wants(replace(call, name=module, arguments=rest))
        if not argument.startswith("-"):
            return False
    return False
