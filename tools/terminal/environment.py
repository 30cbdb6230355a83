"""The environment variables that commands get."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.redact import is_secret_name, redact


@dataclass(frozen=True, slots=True)
class Group:
    """Variables of one purpose. `names` are separated by blanks; one that ends in `*` is a prefix."""

    reason: str
    names: str
    travels: bool = False
    """Whether they have the same meaning on another machine, and are passed there."""


GROUPS: tuple[Group, ...] = (
    Group(
        "who and where: without them no program finds its files",
        "PATH HOME USER LOGNAME SHELL PWD OLDPWD HOSTNAME TMPDIR TMP TEMP XDG_CACHE_HOME XDG_CONFIG_HOME "
        "XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME XDG_BIN_HOME MANPATH INFOPATH",
    ),
    Group("language and time", "LANG LANGUAGE LC_* TZ", travels=True),
    Group("whether to colour", "NO_COLOR", travels=True),
    Group("how to colour", "TERM COLORTERM FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS LINES"),
    Group(
        "the desktop and its sockets; the sandbox takes them away",
        "DISPLAY WAYLAND_DISPLAY XDG_RUNTIME_DIR XDG_SESSION_TYPE XDG_CURRENT_DESKTOP "
        "DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK XAUTHORITY PULSE_SERVER",
    ),
    Group(
        "the way to the network",
        "http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY "
        "NO_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE AWS_CA_BUNDLE "
        "GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS NIX_SSL_CERT_FILE",
    ),
    Group(
        "who signs a commit",
        "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL "
        "GIT_COMMITTER_DATE EMAIL",
    ),
    Group(
        "what automation tells programs",
        "CI DEBIAN_FRONTEND SOURCE_DATE_EPOCH DEBUG LOG_LEVEL VERBOSE PORT",
    ),
    Group(
        "Python",
        "VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE "
        "CONDA_SHLVL MAMBA_ROOT_PREFIX PYENV_* PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED "
        "PYTHONUTF8 PYTHONIOENCODING PYTHONHASHSEED PYTHONWARNINGS PYTHONPYCACHEPREFIX PYTHONNOUSERSITE "
        "PYTHONUSERBASE PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONTRACEMALLOC PIP_* PIPX_* PIPENV_* POETRY_* "
        "PDM_* HATCH_* UV_* WORKON_HOME TOX_* NOX_* PYTEST_* COVERAGE_* MYPYPATH MYPY_CACHE_DIR RUFF_* "
        "FLASK_APP FLASK_ENV FLASK_DEBUG DJANGO_SETTINGS_MODULE",
    ),
    Group(
        "JavaScript; NODE_OPTIONS holds the memory large builds need",
        "NODE_ENV NODE_OPTIONS NODE_PATH NVM_* FNM_* VOLTA_* ASDF_* MISE_* COREPACK_* PNPM_HOME YARN_* "
        "BUN_INSTALL DENO_DIR DENO_INSTALL npm_config_cache npm_config_prefix npm_config_registry "
        "NPM_CONFIG_CACHE NPM_CONFIG_PREFIX NPM_CONFIG_REGISTRY JEST_* VITE_* NEXT_TELEMETRY_DISABLED "
        "BROWSERSLIST ELECTRON_CACHE PLAYWRIGHT_BROWSERS_PATH PUPPETEER_EXECUTABLE_PATH CHROME_BIN",
    ),
    Group("Rust", "CARGO_* RUSTUP_* RUSTFLAGS RUSTDOCFLAGS RUSTC RUSTC_WRAPPER RUST_LOG RUST_BACKTRACE"),
    Group(
        "Go",
        "GOPATH GOROOT GOBIN GOFLAGS GOPROXY GONOPROXY GONOSUMDB GONOSUMCHECK GOPRIVATE GOSUMDB GOOS "
        "GOARCH GOARM GOAMD64 GOCACHE GOMODCACHE GOTOOLCHAIN GOEXPERIMENT GOMAXPROCS GOMEMLIMIT GOGC "
        "GO111MODULE GOWORK CGO_*",
    ),
    Group(
        "Java, Android and .NET",
        "JAVA_HOME JDK_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_HOME MAVEN_OPTS "
        "MAVEN_ARGS M2_HOME GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS KOTLIN_HOME SCALA_HOME SBT_OPTS "
        "COURSIER_CACHE SDKMAN_DIR ANDROID_* DOTNET_* NUGET_PACKAGES MSBUILD*",
    ),
    Group(
        "Ruby, PHP, Perl, Elixir, Haskell and others",
        "RBENV_* RUBYOPT RUBYLIB RVM_PATH GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT "
        "RAILS_ENV RACK_ENV COMPOSER_HOME COMPOSER_CACHE_DIR PERL5LIB PERL_LOCAL_LIB_ROOT PERL_MB_OPT "
        "PERL_MM_OPT MIX_ENV MIX_HOME HEX_HOME ERL_FLAGS STACK_ROOT CABAL_DIR GHCUP_* OPAM* OCAMLPATH "
        "LUA_PATH LUA_CPATH JULIA_* R_HOME R_LIBS R_LIBS_USER ZIG_* FLUTTER_ROOT PUB_CACHE SWIFT_* "
        "APP_ENV",
    ),
    Group(
        "compilers and what they link",
        "CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY OBJDUMP FC F77 CFLAGS CXXFLAGS CPPFLAGS LDFLAGS "
        "LDLIBS FFLAGS ARFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH "
        "LD_RUN_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH PKG_CONFIG PKG_CONFIG_PATH "
        "PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR ACLOCAL_PATH CMAKE_* CTEST_* NINJA_STATUS NINJAFLAGS "
        "MAKE MAKEFLAGS MAKEFILES MAKELEVEL MFLAGS MESON_* AUTOMAKE AUTOCONF LIBTOOL CCACHE_* SCCACHE_DIR "
        "DISTCC_HOSTS VCPKG_ROOT CONAN_HOME BAZELISK_* CROSS_COMPILE ARCH SYSROOT SDKROOT DEVELOPER_DIR "
        "MACOSX_DEPLOYMENT_TARGET ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LSAN_OPTIONS MSAN_OPTIONS "
        "PREFIX DESTDIR",
    ),
    Group(
        "package systems of the machine",
        "HOMEBREW_* NIX_PATH NIX_PROFILES NIX_REMOTE NIX_STORE IN_NIX_SHELL GUIX_PROFILE GUIX_LOCPATH "
        "FLATPAK_ID SNAP WSL_DISTRO_NAME MODULEPATH LOADEDMODULES",
    ),
    Group(
        "processors and models",
        "CUDA_* CUDNN_* NVIDIA_VISIBLE_DEVICES ROCM_PATH HIP_* HSA_OVERRIDE_GFX_VERSION OMP_* MKL_* "
        "OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS KMP_* TOKENIZERS_PARALLELISM "
        "HF_HOME HF_HUB_OFFLINE HF_DATASETS_CACHE TRANSFORMERS_CACHE TORCH_HOME XLA_FLAGS JAX_PLATFORMS",
    ),
    Group(
        "which service, account or cluster is meant; never its keys",
        "DOCKER_HOST DOCKER_CONTEXT DOCKER_BUILDKIT BUILDKIT_PROGRESS CONTAINER_HOST COMPOSE_FILE "
        "COMPOSE_PROFILES COMPOSE_PROJECT_NAME KUBECONFIG KUBE_CONTEXT AWS_PROFILE AWS_REGION "
        "AWS_DEFAULT_REGION AWS_ENDPOINT_URL GOOGLE_CLOUD_PROJECT CLOUDSDK_ACTIVE_CONFIG_NAME "
        "CLOUDSDK_CORE_PROJECT TF_WORKSPACE TF_DATA_DIR TF_LOG PGHOST PGPORT PGDATABASE PGUSER MYSQL_HOST "
        "REDIS_HOST REDIS_PORT",
    ),
)


def _split(names: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    listed = list(names)
    exact = frozenset(name for name in listed if not name.endswith("*"))
    return exact, tuple(name[:-1] for name in listed if name.endswith("*"))


class NameList:
    """Names of variables, some of them prefixes that end in `*`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.exact, self.prefixes = _split(names)

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self.prefixes)


INHERITED = NameList(chain.from_iterable(group.names.split() for group in GROUPS))
"""The variables of commands and scripts on this machine."""

TRAVELLING = NameList(chain.from_iterable(group.names.split() for group in GROUPS if group.travels))
"""The variables of commands on another machine."""


# Files that a shell would run at its start, and options it would take over.
_SHELL_STARTUP = frozenset({"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"})
_OUR_PYTHON = frozenset({"PYTHONHOME", "__PYVENV_LAUNCHER__"})
_NEVER = _SHELL_STARTUP | _OUR_PYTHON
# Nobody sits at the terminal of a command: nothing may page, prompt or draw.
_FIXED = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat"),
    # A message is taken as it stands, and an empty one refused; a list of commits that nobody read is not.
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "HGEDITOR", "JJ_EDITOR", "SVN_EDITOR"), "true"),
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}

_SAYS_MISSING = lazy_pattern(
    r"unbound variable|parameter (?:null or )?not set|KeyError|missing"
    r"|(?:not|n't|never|un) ?(?:set|defined|found|exist)|required|must be|is empty|undefined|provide",
    re.IGNORECASE,
)
_WORD = lazy_pattern(r"[A-Za-z_]\w*")
_LOOKED_AT = 20_000
"""Characters at the end of a failed command's output searched for a missing variable."""
_SHORTEST = 3
"""The length from which a name is recognised anywhere."""


def child_environment(
    environ: Mapping[str, str],
    passthrough: Collection[str] = (),
    *,
    prefix: str = sys.prefix,
    base_prefix: str = sys.base_prefix,
) -> dict[str, str]:
    """Return the environment for a command: the variables in `INHERITED`, and those that `passthrough` names.

    A name in `passthrough` is passed unchanged. A pattern there (`FOO_*`) adds names to the list. Variables
    from the list are left out if their name suggests a secret, or if their value contains one, such as the
    password in a database address. `prefix` and `base_prefix` are those of the Python that runs Hermes. If
    they differ, Hermes has a virtual environment of its own, which is removed from the paths; the user's is
    kept.
    """
    child = _choose_variables(environ, passthrough, INHERITED)
    if prefix != base_prefix:
        _forget_venv(child, Path(prefix))
    return child | _FIXED


def remote_environment(
    environ: Mapping[str, str], passthrough: Collection[str], own: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that are added to the remote machine's environment for a command.

    These are variables with the same meaning there, those that `passthrough` names, and `own`.
    """
    return _choose_variables(environ, passthrough, TRAVELLING) | _FIXED | dict(own)


def missing_hint(output: str, withheld: Collection[str]) -> tuple[str, str]:
    """Return the variable that a failed command seems to lack, and a hint; both are empty if there is none.

    `withheld` are the variables kept from it. Checks lines at the end of `output` that name one of them and
    say that something is missing.
    """
    if not withheld:
        return "", ""
    for line in output[-_LOOKED_AT:].splitlines():
        if _SAYS_MISSING.search(line) is None:
            continue
        for word in _WORD.findall(line):
            if len(word) >= _SHORTEST and word in withheld:
                return word, (
                    f"{word} is set, but kept from commands; the user can add it to terminal.env_passthrough "
                    "in config.yaml."
                )
    return "", ""


def _choose_variables(
    environ: Mapping[str, str], passthrough: Collection[str], listed: NameList
) -> dict[str, str]:
    asked = NameList(passthrough)
    return {
        name: value
        for name, value in environ.items()
        if name not in _NEVER
        and (name in asked.exact or ((name in listed or name in asked) and _is_open(name, value)))
    }


@lru_cache(maxsize=512)
def _is_open(name: str, value: str) -> bool:
    return not is_secret_name(name) and redact(value) == value


def _forget_venv(child: dict[str, str], prefix: Path) -> None:
    if "VIRTUAL_ENV" in child and _same(Path(child["VIRTUAL_ENV"]), prefix):
        del child["VIRTUAL_ENV"]
        child.pop("VIRTUAL_ENV_PROMPT", None)
    _drop_entries(child, "PATH", lambda path: _same(path, prefix / "bin"))
    _drop_entries(child, "PYTHONPATH", lambda path: path.is_relative_to(prefix))


def _drop_entries(child: dict[str, str], name: str, ours: Callable[[Path], bool]) -> None:
    """Remove the paths for which `ours` is true from a list variable, and the variable if it gets empty."""
    entries = child.pop(name, "").split(os.pathsep)
    kept = [entry for entry in entries if not entry or not ours(Path(entry))]
    if any(kept):
        child[name] = os.pathsep.join(kept)


def _same(one: Path, two: Path) -> bool:
    return os.path.normpath(one) == os.path.normpath(two)
