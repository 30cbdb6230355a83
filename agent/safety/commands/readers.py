"""Programs that only look: at files, at text, at the system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.places import absolute
from agent.safety.shell.marks import UNKNOWN, words

LOOKS = fine("only looks")
PRINTS = fine("only prints text")

PRINTERS = words(
    "echo printf true false : test [ [[ pwd seq yes sleep dirname basename realpath readlink expr "
    "let wait jobs "
    "type which whereis hash times getopts shift return exit logout break continue set shopt unset export "
    "declare typeset local readonly read cd pushd popd dirs trap umask bg fg disown command builtin "
    "eval suspend tput clear "
    "reset cal factor numfmt tty locale arch nproc ulimit getconf help whatis apropos "
    "hostid logname sync chdir"
)
"""Builtins and programs whose arguments are text, or that only look at paths' names."""

LISTERS = words("ls ll la dir vdir tree stat file du df exa eza lsd fd fdfind pstree locate namei")
"""Programs that show names and sizes, never contents."""

VIEWERS = words(
    "cat tac cmp diff3 head tail wc nl fold fmt cut paste join comm tr column rev expand unexpand pr od xxd "
    "hexdump strings "
    "cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum md5 shasum sum base32 base64 "
    "jq yq xq gron "
    "grep egrep fgrep rgrep zgrep zcat bzcat xzcat zstdcat bat batcat ag ack less more most diff colordiff "
    "sdiff icdiff delta "
    "zipinfo uniq tsort iconv csvcut csvlook csvgrep csvstat xmllint htmlq pup dasel fx tokei cloc scc wdiff "
    "nm objdump readelf size otool lsof look hexyl glow mdcat zless zmore bzless xzless tidy pygmentize "
    "identify mediainfo ffprobe pdfinfo shellcheck javap ldd "
    " hadolint yamllint jsonlint markdownlint codespell"
)
"""Programs that print what is in files."""

SYSTEM = words(
    "whoami id groups users who w last uptime uname free vmstat iostat mpstat ps pgrep pidof lscpu "
    "lsblk lsusb "
    "lspci lsmod lsb_release netstat ss sw_vers system_profiler acpi sensors nvidia-smi rocm-smi finger "
    "findmnt getent printenv lsns lslocks ipcs vm_stat"
)
"""Programs that show the state of the system."""


@dataclass(frozen=True, slots=True)
class Danger:
    """An option that makes a looking program do more."""

    options: str
    reason: str

    def found(self, call: Call) -> bool:
        return bool(call.may_mean(*self.options.split()))


RUNS = "runs another program"
WRITES = "writes a file"

_DANGERS: dict[str, tuple[Danger, ...]] = {
    "rg": (Danger("--pre --hostname-bin", RUNS),),
    "fd": (Danger("-x -X --exec --exec-batch", RUNS),),
    "fdfind": (Danger("-x -X --exec --exec-batch", RUNS),),
    "bat": (Danger("--pager", RUNS),),
    "batcat": (Danger("--pager", RUNS),),
    "ag": (Danger("--pager", RUNS),),
    "ack": (Danger("--pager --output", RUNS),),
    "yq": (Danger("-s --split-exp --from-file", WRITES),),
    "xmllint": (Danger("--output -o", WRITES), Danger("--noent --loaddtd --net", "may reach the network")),
    "objdump": (Danger("--plugin", RUNS),),
    "nm": (Danger("--plugin", RUNS),),
    "javap": (Danger("-J", RUNS),),
    "diff": (Danger("--output", WRITES),),
    "tidy": (Danger("-m -modify -o -output -f", WRITES),),
    "codespell": (Danger("-w --write-changes -i", "changes files"),),
    "markdownlint": (Danger("-f --fix", "changes files"),),
    "less": (Danger("-o -O --log-file --LOG-FILE -k --lesskey-file", WRITES),),
    "pygmentize": (Danger("-o -x", RUNS),),
    "tree": (Danger("-o", WRITES),),
    "file": (Danger("-C --compile", WRITES),),
    "hostname": (Danger("-F --file -b", "changes the host name"),),
    "last": (),
    "sdiff": (Danger("-o --output --diff-program", WRITES),),
    "glow": (Danger("-p --pager", RUNS),),
    "iconv": (Danger("-o --output", WRITES),),
    "base64": (Danger("-o --output", WRITES),),
    "ffprobe": (Danger("-o -report", WRITES),),
    "mediainfo": (Danger("--LogFile", WRITES),),
    "identify": (Danger("-write", WRITES),),
    "cloc": (Danger("--out --report-file --sql --extract-with", WRITES),),
    "scc": (Danger("-o --output", WRITES),),
    "ss": (Danger("-K --kill -D --diag", "ends connections, or writes a file"),),
    "nvidia-smi": (Danger("-pm -pl -r -ac -rac -f --filename --gpu-reset -mig -c -e", "changes a device"),),
}


def prints(call: Call) -> Opinion:
    """Builtins whose text arguments may hide arithmetic that runs commands, and a few with side effects."""
    evaluates = call.name in (
        "let",
        "test",
        "[",
        "[[",
        "read",
        "declare",
        "typeset",
        "local",
        "export",
        "unset",
        "printf",
    )
    if (
        evaluates
        and call.name not in ("printf",)
        and any(re.search(r"\[[^\]]*(?:\$\(|`)", argument) for argument in call.arguments)
    ):
        return ask("hides a command in an index")
    if call.name == "printf" and call.arguments[:1] == ("-v",) and "[" in "".join(call.arguments[1:2]):
        return ask("sets a variable whose index may run a command")
    if call.name == "umask" and call.operands():
        return fine("sets the rights of new files")
    return PRINTS


def lists(call: Call) -> Opinion:
    return _dangerous(call) or LOOKS


def shows_state(call: Call) -> Opinion:
    """Programs that show the state of the system; what names a file has it shown instead."""
    return _dangerous(call) or call.revealed(_named(call)) or LOOKS


def _named(call: Call) -> list[str]:
    """All that an argument may name: itself, or what is attached to it as an option."""
    attached = (re.sub(r"^-\w+?(?=[/.~])|^--[\w-]+=", "", argument) for argument in call.arguments)
    return [name for name in attached if not name.startswith("-")]


def kinds(call: Call) -> Opinion:
    """file: it prints lists of names and of kinds that it is given."""
    lists_given = [value for value in (call.value("f", "files-from"), call.value("m", "magic-file")) if value]
    return _dangerous(call) or call.revealed(lists_given) or LOOKS


def asks_people(call: Call) -> Opinion:
    """finger: a name with an `@` is sent to another machine."""
    if any("@" in argument for argument in call.arguments):
        return ask("reaches the network")
    return LOOKS


_SHOWS_ENVIRONMENT = re.compile(r"\$ENV\b|(?:^|[|(,;\[])\s*(?:str)?env\b(?!\s*:)")


_OWN_WAYS = words("less more most zless zmore jq yq xq grep egrep fgrep rg ag ack tr") | _DANGERS.keys()
"""Of the viewers, those that do more than print the files they are given."""


def views(call: Call) -> Opinion:
    """Prints contents: secrets ask, and so does searching the whole home or system."""
    if call.name not in _OWN_WAYS and "-" not in [argument[:1] for argument in call.arguments]:
        return call.revealed(call.arguments) or LOOKS
    if danger := _dangerous(call):
        return danger
    if call.name in ("less", "more", "most", "zless", "zmore") and any(
        a.startswith("+") and a not in ("+F", "+G") for a in call.arguments
    ):
        return ask("runs commands of the pager")
    if call.name in ("ack", "ag", "rg", "grep", "egrep", "fgrep", "rgrep") and (far := _searches_home(call)):
        return far
    if call.name in ("jq", "yq", "xq") and any(_SHOWS_ENVIRONMENT.search(a) for a in call.arguments):
        return ask("shows the environment, which may hold secrets")
    if call.name == "yq" and any(re.search(r"\bload\w*\s*\(", a) for a in call.arguments):
        return ask("reads files that are not known here")
    if call.name == "yq" and call.has("i", "inplace", "in-place"):
        return call.revealed(_operands(call)) or call.changed(_operands(call)) or LOOKS
    return call.revealed(_operands(call)) or LOOKS


def _operands(call: Call) -> list[str]:
    """What may be a path: all arguments that are no options, and the values of those that are."""
    found = [argument for argument in call.arguments if not argument.startswith("-")]
    found += [
        argument.partition("=")[2]
        for argument in call.arguments
        if argument.startswith("--") and "=" in argument
    ]
    if call.name in ("jq", "xq", "grep", "egrep", "fgrep", "rg", "ag", "ack", "tr", "yq") and not call.flag(
        "-e", "-f", "--regexp", "--file"
    ):
        return found[1:]  # the first is a pattern or filter
    return found


def _searches_home(call: Call) -> Opinion | None:
    """Searching a whole home or system folder shows the secrets in it."""
    recursive = call.name in ("ack", "ag", "rg") or call.has("rR", "recursive", "dereference-recursive")
    if not recursive:
        return None
    for operand in _operands(call):
        path = absolute(call.path(operand))
        home = call.places.home
        if path in ("/", "/root", "/home", "/etc", "/proc", "/Users") or f"{home}/".startswith(
            f"{path.rstrip('/')}/"
        ):
            return ask(f"searches everything in {path}")
    return None


def _dangerous(call: Call) -> Opinion | None:
    for danger in _DANGERS.get(call.name, ()):
        if danger.found(call):
            return ask(danger.reason)
    return None


def finder(call: Call) -> Opinion:
    """fd: a program it starts on what it finds is judged on its own when it only looks."""
    place = next((at for at, a in enumerate(call.arguments) if a in _FD_STARTS), None)
    if place is None or place + 1 >= len(call.arguments):
        return lists(call)
    name, *rest = call.arguments[place + 1 :]
    inner = RULES.get(name)
    if inner is None or inner is find or name in ("fd", "fdfind") or {";", *_FD_STARTS} & set(rest):
        return ask(RUNS)
    chooses = replace(call, arguments=tuple(call.arguments[:place]))
    operands = chooses.operands("eEtdjSocC")
    if chooses.has("HuI", "hidden", "unrestricted", "no-ignore", "base-directory", "search-path"):
        return ask(RUNS)
    if not all(call.ground.inside(call.path(each)) for each in operands) or call.revealed(operands):
        return ask(RUNS)
    before = lists(chooses)
    return before or inner(replace(call, name=name, word=name, arguments=tuple(rest))) or LOOKS


_FD_STARTS = frozenset({"-x", "-X", "--exec", "--exec-batch"})


def dump_hex(call: Call) -> Opinion:
    """xxd: a second operand is written."""
    operands = call.operands("cgolsR")
    return call.changed(operands[1:2]) or call.revealed(operands[:1]) or LOOKS


def search(call: Call) -> Opinion:
    """rg: it runs a program only with `--pre`."""
    if call.may_hide_options and _is_unsure_first(call):
        return ask("may be given options that are not known here")
    return views(call)


def _is_unsure_first(call: Call) -> bool:
    return bool(call.arguments) and call.arguments[0] == UNKNOWN


def sort(call: Call) -> Opinion:
    if call.may_mean("--compress-program", "--files0-from"):
        return ask(RUNS)
    outputs = [value for value in (call.value("o", "output"),) if value]
    clustered = [o for o in call.options() if re.fullmatch(r"-[a-zA-Z]*o.*", o) and not o.startswith("--")]
    if clustered and not outputs:
        return ask(WRITES)
    if outputs and call.operands("okStT") == ["/dev/null"]:
        return ask("destroys the contents of files")
    return call.changed(outputs) or call.revealed(_operands(call)) or LOOKS


def uniq(call: Call) -> Opinion:
    """The second operand is written."""
    operands = call.operands("fsw")
    return call.changed(operands[1:2]) or call.revealed(operands[:1]) or LOOKS


def find(call: Call) -> Opinion:
    """What `-exec` runs and `-delete` deletes is judged on its own."""
    if call.flag("-ok", "-okdir"):
        return ask("waits for answers")
    for place, argument in enumerate(call.arguments):
        if argument == UNKNOWN or (argument.startswith(UNKNOWN) and "/" not in argument):
            return ask("may be given options that are not known here")
        if argument == "-delete":
            return _deletes(call, place)
        if argument == "-files0-from":
            return ask("searches places that are not known here")
    return LOOKS


def _deletes(call: Call, place: int) -> Opinion:
    """`find … -delete`: fine for build output that is named."""
    tests = call.arguments[:place]
    if {"-o", "-or", "!", "-not", ",", "-prune"} & set(tests):
        return ask("deletes what it finds")
    names = [tests[at + 1] for at, test in enumerate(tests[:-1]) if test == "-name"]
    roots = list(tests[: _first_test(tests)]) or ["."]
    if not names:
        reasons = [call.ground.delete(call.path(root), recursive=True) for root in roots]
        return ask(next(filter(None, reasons))) if any(reasons) else fine("deletes build output")
    for root in roots:
        if reason := call.ground.delete(call.path(f"{root}/{names[0]}"), recursive=False):
            return ask(reason)
    return fine("deletes build output")


def _first_test(tests: Sequence[str]) -> int:
    return next(
        (at for at, test in enumerate(tests) if test.startswith("-") or test in ("(", "!")), len(tests)
    )


def environment(call: Call) -> Opinion:
    """printenv NAME shows one value."""
    from agent.safety.commands.secrets import is_secret_variable

    if any(is_secret_variable(name) for name in call.operands()):
        return ask("shows a secret of the environment")
    return LOOKS


def hostname(call: Call) -> Opinion:
    return ask("changes the host name") if call.operands() or call.flag("-F", "--file", "-b") else LOOKS


def date(call: Call) -> Opinion:
    operands = [operand for operand in call.operands("drfI") if not operand.startswith("+")]
    changes = call.has("s", "set") or any(operand.isdigit() for operand in operands)
    return ask("sets the clock") if changes else call.revealed(_named(call)) or PRINTS


def manual(call: Call) -> Opinion:
    if call.may_mean("-P", "--pager", "-H", "--html", "-C", "--config-file", "-l") or any(
        option.startswith(("-P", "-H")) for option in call.options()
    ):
        return ask(RUNS)
    return call.revealed([name for name in call.operands() if "/" in name]) or LOOKS


def processes(call: Call) -> Opinion:
    """ps: the letter `e` without a dash shows what every program has in its environment."""
    shows = re.fullmatch(r"[a-z]*e[a-z]*", call.arguments[0]) if call.arguments else None
    return ask("shows the environment of programs") if shows else LOOKS


def databases(call: Call) -> Opinion:
    """getent: names and addresses, no passwords."""
    reveals = call.operands()[:1] in (["shadow"], ["gshadow"])
    return ask("reads secrets") if reveals else LOOKS


def top(call: Call) -> Opinion:
    return LOOKS if call.has("b", "batch") or call.flag("-l") else ask("is a program for the full screen")


def history(call: Call) -> Opinion:
    return ask("shows or changes the history of commands")


RULES: dict[str, Rule] = (
    dict.fromkeys(PRINTERS, prints)
    | dict.fromkeys(LISTERS, lists)
    | dict.fromkeys(VIEWERS, views)
    | dict.fromkeys(SYSTEM, shows_state)
    | {
        "file": kinds,
        "finger": asks_people,
        "rg": search,
        "fd": finder,
        "fdfind": finder,
        "xxd": dump_hex,
        "sort": sort,
        "uniq": uniq,
        "find": find,
        "printenv": environment,
        "hostname": hostname,
        "ps": processes,
        "getent": databases,
        "date": date,
        "man": manual,
        "info": manual,
        "top": top,
        "htop": top,
        "history": history,
        "fc": history,
    }
)
