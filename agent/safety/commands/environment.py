"""Variables that decide which programs run or what they load."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.safety.commands.call import Opinion, ask
from agent.safety.commands.program_folders import is_place_of_programs
from agent.safety.shell.marks import UNKNOWN

_PROGRAMS = re.compile(
    r"PATH|LD_\w+|DYLD_\w+|BASH_ENV|PROMPT_COMMAND|PS[0124]|IFS|PYTHON(?:STARTUP|HOME|PLATLIBDIR"
    r"|BREAKPOINT|INSPECT|USERBASE)|PERL5(?:LIB|OPT|DB)"
    r"|RUBY(?:OPT|LIB)|NODE_(?:PATH|REPL\w*)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|CLASSPATH|LESS(?:OPEN|CLOSE|EDIT|KEY\w*)|SHELL|HOME|MAKE(?:FLAGS|FILES)"
    r"|GNUMAKEFLAGS|RUSTFLAGS|RUSTC\w*|CARGO_\w*(?:RUNNER|LINKER|WRAPPER|RUSTC\w*)|CARGO_HOME|GOFLAGS"
    r"|GO(?:PROXY|TOOLCHAIN|PRIVATE|NOSUMDB|INSECURE|ROOT)|npm_config_\w+"
    r"|NPM_CONFIG_\w+|SSH_ASKPASS|SUDO_ASKPASS|XDG_(?:CONFIG|DATA)\w*|GCONV_PATH|CDPATH|SHELLOPTS"
    r"|BASHOPTS|FPATH|ZDOTDIR|PYTEST_(?:ADDOPTS|PLUGINS)"
    r"|TAR_OPTIONS|RSYNC_RSH|CVS_RSH|SVN_SSH|DOCKER_HOST|KUBECONFIG|EXINIT|VIMINIT|MAN(?:PAGER|OPT|ROFFOPT|PATH)|(?:JAVA|JDK|GRADLE_USER|GRADLE|M2|MAVEN)_HOME"
    r"|OPENSSL_CONF|OPENSSL_MODULES|GTK_\w*MODULES|QT_PLUGIN_PATH"
    r"|BROWSER|BASH_FUNC\w*|BASH_LOADABLES_PATH|HISTFILE|INPUTRC|TERMINFO|TERMCAP|GDBINIT|PHPRC"
    r"|PHP_INI_SCAN_DIR|ANSIBLE_\w+|TF_CLI_\w+"
    r"|AWS_CONFIG_FILE|SSL_CERT_\w+|CURL_HOME|WGETRC|NETRC|PIP_\w+|UV_\w+|CMAKE_\w*(?:COMPILER"
    r"|LAUNCHER)\w*|HERMES_\w+|GNUPGHOME|MALLOC_\w+|JAVA_OPTS"
    r"|(?:MAVEN|GRADLE|SBT|LEIN|ANT)_(?:OPTS|ARGS)|SYSTEMD_\w+|PKEXEC_UID|GIT_\w+|\w*PAGER|EDITOR"
    r"|VISUAL|\w+_EDITOR|PYTHONWARNINGS|AUTO(?:M4TE|CONF|HEADER|MAKE|POINT|RECONF)|ACLOCAL|LIBTOOLIZE|M4"
)
_LOADING = frozenset({"PYTHONPATH", "NODE_OPTIONS", "ENV"})
_HARMLESS: dict[str, str] = {
    "UV_PROJECT_ENVIRONMENT": r"\.?venv[\w.-]*",
    r"GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
    r"|GIT_TRACE\w*|GIT_MERGE_AUTOEDIT|GIT_CEILING_DIRECTORIES": r"(?!/).*",
    r"\w*PAGER": r"cat|less|more|",
    r"EDITOR|VISUAL|\w+_EDITOR": r"true|cat|:|",
    r"PIP_(?:DISABLE_PIP_VERSION_CHECK|NO_INPUT|NO_COLOR)": r".*",
    r"IFS": r"\s*|[,:;|/.\n\t -]{1,3}",
    r"MAKEFLAGS": r"-j ?\d*",
    r"PS[14]": r"[^$`\\]*",
    r"PYTEST_ADDOPTS": r"(?:-[qvxs]+|--color=\w+|--tb=\w+|--maxfail=\d+|\s)*",
    r"SHELL": r"/bin/(?:ba|da)?sh",
    r"HISTFILE|CDPATH|LD_PRELOAD|LD_LIBRARY_PATH": r"",
    r"RUSTFLAGS": r"(?!.*(?:linker|codegen-backend|link-arg|plugin)).*",
    r"(?:JAVA|JDK|GRADLE|M2|MAVEN)_HOME": r"(?:/usr/lib/jvm|/opt|/usr/share|/Library/Java|/usr/local"
    r"|/(?:home/[\w.-]+|root)/\.sdkman)/(?!.*\.\.)[\w./-]+",
    r"GOFLAGS": r"(?:-mod=(?:mod|vendor|readonly)|-v|-race|-count=1|-tags=[\w,]+|-trimpath"
    r"|-buildvcs=\w+|\s)*",
    r"PYTHONWARNINGS": r"[^.]*",
}
_COMPILERS = re.compile(r"CC|CXX|LD|AR|AS|CPP|FC|RANLIB|STRIP|NM|HOSTCC|CC_FOR_BUILD")
_KNOWN_COMPILERS = re.compile(
    r"(?:[\w]+-)*(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|ld|lld|gold|ar|as|cpp|gfortran|ranlib|strip|nm"
    r"|tcc|musl-gcc|icc)(?:-\d+)?"
)


def variable(
    name: str, values: Sequence[str | tuple[str, ...]], inside: Callable[[str], bool]
) -> Opinion | None:
    """What speaks against setting a variable; `inside` tells whether a path lies in the workspace."""
    everything = "\n".join([value if isinstance(value, str) else "\n".join(value) for value in values])
    # Arrays may be long, and most say nothing.
    if ("[" in everything or "() {" in everything) and (opinion := _hidden(_texts(values))):
        return opinion
    if name not in _LOADING and not _COMPILERS.fullmatch(name) and not _PROGRAMS.fullmatch(name):
        return None
    texts = _texts(values)
    if name == "PYTHONPATH":
        outside = [path for text in texts for path in text.split(":") if path and not _is_local(path, inside)]
        return ask("loads Python modules from outside of the workspace") if outside else None
    if name == "PATH" and all(_are_programs(text, inside) for text in texts):
        return None
    if name == "NODE_OPTIONS":
        fine = all(
            re.fullmatch(
                r"(?:\s*--(?:max[-_]old[-_]space[-_]size=\d+|no-warnings|enable-source-maps|trace-warnings"
                r"|openssl-legacy-provider|experimental-vm-modules|no-deprecation))*\s*",
                text,
            )
            for text in texts
        )
        return None if fine else ask("makes other programs load code (NODE_OPTIONS)")
    if _COMPILERS.fullmatch(name):
        fine = all(_KNOWN_COMPILERS.fullmatch(text) for text in texts)
        return None if fine else ask(f"decides which program runs ({name})")
    if name == "ENV":
        return (
            ask("decides which file a shell reads first (ENV)")
            if any("/" in t or UNKNOWN in t for t in texts)
            else None
        )
    for expression, harmless in _HARMLESS.items():
        if re.fullmatch(expression, name) and all(
            UNKNOWN not in t and re.fullmatch(harmless, t) for t in texts
        ):
            return None
    return ask(f"decides which programs run or what they load ({name})")


def _are_programs(text: str, inside: Callable[[str], bool]) -> bool:
    """Whether a value of `PATH` names only folders that installations fill, besides those it had."""
    return all(
        is_place_of_programs(path, not path.startswith("/") or inside(path)) for path in text.split(":")
    )


def _texts(values: Sequence[str | tuple[str, ...]]) -> list[str]:
    return [text for value in values for text in ((value,) if isinstance(value, str) else value)]


def _hidden(texts: Sequence[str]) -> Opinion | None:
    """What speaks against values in which a command may be hidden."""
    for text in texts:
        if re.search(r"\[[^\]]*(?:\$\(|`)", text) and not re.search(r"\s", text.partition("[")[0]):
            return ask("hides a command in the index of a variable")
        if "() {" in text and text.startswith("()"):
            return ask("hides a function in a variable")
    return None


def _is_local(path: str, inside: Callable[[str], bool]) -> bool:
    if UNKNOWN in path:
        return path == UNKNOWN  # the value it had before
    return inside(path) if path.startswith("/") else not path.startswith(("..", "~"))
