"""Paths of secrets: one table for all code that protects, hides or asks about them.

Users of the table:

- The file tools (`tools.files.access`) refuse stores, names of credentials and what the system protects.
- The gate (`agent.safety.scope`) asks before any of these is read or changed, also for likely names.
- The boundary (`agent.safety.sandbox.secrets`) hides all of it from commands, and what only commands misuse.
- The guard (`agent.safety.guarded`) asks in every mode before a store or a part of the system is changed.

A star matches anything within a name. A folder covers everything in it. Case does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

STORES_ANYWHERE = """
.ssh .gnupg .aws .azure .kube .password-store .docker/config.json
.config/gcloud .config/gh .config/hub .config/op .config/rclone .config/doctl .config/sops .config/age
.config/configstore .local/share/keyrings .local/share/kwalletd .mozilla/firefox
.config/google-chrome* .config/chromium .config/BraveSoftware .config/microsoft-edge* .thunderbird
Library/Keychains Library/Cookies Library/Safari Library/Messages Library/Mail
Library/Application%Support/Google/Chrome* Library/Application%Support/Firefox
Library/Application%Support/com.apple.TCC Library/Application%Support/BraveSoftware
Library/Application%Support/Microsoft%Edge*
.electrum .bitcoin .ethereum .config/solana .terraform.d/credentials.tfrc.json .oci .config/hcloud
.databrickscfg .snowflake .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml
.m2/settings-security.xml .gradle/gradle.properties .composer/auth.json .nuget/NuGet.Config
"""
"""Files and folders with keys and logins in any place with this path ending."""

STORES = """
.terraform.d .vault-token .docker/contexts .config/glab-cli .config/git/credentials .config/helm
.config/containers/auth.json .config/flyctl .config/github-copilot .config/Bitwarden .config/1Password
.config/keepassxc .config/heroku .config/composer/auth.json .config/vivaldi* .config/opera* .config/Signal
.config/Slack .config/discord .mozilla .pki .fly .heroku .nuget/NuGet .bundle/config .huggingface/token
.cache/huggingface/token snap/firefox snap/chromium
.claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json
"""
"""Files and folders with keys and logins below a home folder only."""

NAMES = """
.env .env.* .env-* .env_* .envrc .netrc _netrc .npmrc .pypirc .pgpass .my.cnf .mylogin.cnf .git-credentials
.vault-token .dockercfg .s3cfg .boto .htpasswd id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk
"""
"""Files that hold credentials in any folder."""

LIKELY_NAMES = """
id_rsa_* id_dsa_* id_ecdsa_* id_ed25519_* *.pem *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.asc
*.gpg *.ovpn *.key
credentials credentials.json credentials.yaml credentials.yml credentials.toml credentials.ini credentials.db
secret secrets client_secret client_secrets secret.json secrets.json client_secret.json client_secrets.json
secret.yaml secrets.yaml client_secret.yaml client_secrets.yaml secret.yml secrets.yml client_secret.yml
client_secrets.yml secret.toml secrets.toml client_secret.toml client_secrets.toml secret.env secrets.env
client_secret.env client_secrets.env secret.txt secrets.txt client_secret.txt client_secrets.txt
service-account*.json service_account*.json serviceaccount*.json terraform.tfstate terraform.tfstate.backup
*.tfvars kubeconfig wallet.dat logins.json com.apple.LaunchServices.QuarantineEvents* key3.db
key4.db auth.json .yarnrc.yml known_tokens .wgetrc .curlrc master.key .Xauthority .ICEauthority
.bash_history .zsh_history .zhistory .sh_history .psql_history .mysql_history .python_history
.node_repl_history .sqlite_history .rediscli_history .irb_history .lesshst .viminfo fish_history
"""
"""Files that probably hold credentials or typed text: the user is asked, access is not refused."""

PUBLIC_NAMES = """
.env*.example .env*.sample .env*.template .env*.dist .env*.default .env*.defaults .env*.tpl
known_hosts *.pub config.example
"""
"""Names that only look like credentials."""

READABLE = ".ssh/config .ssh/known_hosts .ssh/*.pub"
"""Exceptions that the file tools may read below a home folder."""

SYSTEM = """
/etc/shadow* /etc/gshadow* /etc/sudoers* /etc/master.passwd /etc/ssh/*_key /etc/ssl/private /etc/krb5.keytab
/run/secrets /var/run/secrets /etc/NetworkManager/system-connections
"""
"""Protected files and folders of the operating system."""

COMMANDS_ONLY = """
.docker/run .docker/desktop .colima .orbstack .rd .lima .config/Code/User/globalStorage .claude .codex .gemini
.history .local/share/fish/fish_history .local/share/nvim/shada
"""
"""Below a home folder, hidden from commands: sockets of container engines, other agents, typed text."""


def rows(table: str) -> tuple[str, ...]:
    """Return the rows of a part of the table. Pure."""
    return tuple(each.replace("%", " ") for each in table.split())


def any_of(patterns: Iterable[str]) -> str:
    """Return one regular expression that matches any of the patterns. Pure."""
    return "|".join(re.escape(each).replace(r"\*", "[^/]*") for each in patterns)
