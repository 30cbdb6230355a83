"""Hosts that may be read from and asked about unasked: documentation and the registries' own pages.

Nobody who could be told something by a request reads the logs of these hosts: the names
are whole, fixed and belong to publishers of documentation and to package registries. What
may be looked up also holds well-known sites and names reserved for examples. Names below a
foreign domain could carry data out, so no pattern is wide enough to hold one. Whether the
network is open is asked for on its own.
"""

from __future__ import annotations

import re

from agent.safety.shell.marks import UNKNOWN, words

_READ = words(
    "docs.python.org peps.python.org pypi.org docs.pytest.org packaging.python.org developer.mozilla.org "
    "nodejs.org registry.npmjs.org www.typescriptlang.org react.dev vuejs.org docs.npmjs.com "
    "doc.rust-lang.org "
    "docs.rs crates.io static.rust-lang.org go.dev pkg.go.dev docs.oracle.com "
    "repo1.maven.org repo.maven.apache.org search.maven.org kotlinlang.org docs.gradle.org rubygems.org "
    "ruby-doc.org packagist.org repo.packagist.org www.php.net hex.pm hexdocs.pm learn.microsoft.com "
    "api.nuget.org "
    "en.cppreference.com cmake.org git-scm.com docs.git-scm.com docs.github.com docs.gitlab.com "
    "docs.docker.com "
    "kubernetes.io helm.sh developer.hashicorp.com registry.terraform.io docs.aws.amazon.com "
    "cloud.google.com "
    "www.gnu.org www.kernel.org man7.org www.postgresql.org dev.mysql.com www.sqlite.org sqlite.org redis.io "
    "www.rfc-editor.org datatracker.ietf.org www.w3.org json-schema.org spec.openapis.org en.wikipedia.org "
    "api.github.com raw.githubusercontent.com docs.astral.sh www.python.org docs.djangoproject.com "
    "fastapi.tiangolo.com flask.palletsprojects.com numpy.org pandas.pydata.org nextjs.org svelte.dev "
    "angular.dev expressjs.com tailwindcss.com vite.dev vitest.dev jestjs.io eslint.org prettier.io "
    "www.rust-lang.org guides.rubyonrails.org api.rubyonrails.org laravel.com symfony.com elixir-lang.org "
    "docs.swift.org developer.apple.com developer.android.com docs.spring.io docs.sqlalchemy.org "
    "platform.openai.com docs.anthropic.com nginx.org httpd.apache.org www.php.net"
)
_LOOKED_UP = _READ | words(
    "github.com gitlab.com bitbucket.org google.com www.google.com cloudflare.com one.one.one.one dns.google "
    "python.org www.python.org rust-lang.org golang.org npmjs.com www.npmjs.com debian.org ubuntu.org "
    "ubuntu.com "
    "archive.ubuntu.com deb.debian.org kernel.org microsoft.com apple.com amazon.com wikipedia.org docker.io "
    "registry-1.docker.io quay.io ghcr.io files.pythonhosted.org index.crates.io raw.githubusercontent.com "
    "1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9 localhost ::1 example.com example.org example.net "
    "www.example.com"
)
_LOCAL = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1|0\.0\.0\.0")
_ADDRESS = re.compile(r"https://([a-z0-9.-]+)(?:/[\w./~%:+,;=@&?#!()*-]*)?", re.ASCII)
LONGEST_ADDRESS = 300
"""Characters of an address that is read from unasked."""


def is_documentation(address: str) -> bool:
    """Whether an address is a page of a host whose pages may be read."""
    match = _ADDRESS.fullmatch(address)
    return (
        match is not None and match[1] in _READ and UNKNOWN not in address and len(address) <= LONGEST_ADDRESS
    )


def is_known(host: str) -> bool:
    """Whether a name may be looked up: it is well known, or is this machine."""
    return host in _LOOKED_UP or _LOCAL.fullmatch(host) is not None


RESOLVERS = words("@1.1.1.1 @1.0.0.1 @8.8.8.8 @8.8.4.4 @9.9.9.9 @localhost @127.0.0.1 @127.0.0.53")
"""Servers that `dig` may ask, as it is told."""
