"""Python programs in files: whether they, and the modules beside them, reach nothing but files.

Read as syntax trees, never run. Modules are listed, and attributes that lead out of them are refused;
other modules of the project are read as well. Meant for programs inside a boundary that keeps their
writing to the workspace, so reading and writing files is no reason to refuse.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from agent.safety.commands import python_calls
from agent.safety.commands.doubts import DOUBTFUL
from agent.safety.commands.python_tree import Nodes, nodes_of
from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import words

MOST_FILES = 24
"""Modules of the project that are read for one program."""
LARGEST = 100_000
"""Bytes of one of them."""

_MODULES = words(
    "__future__ abc argparse array ast base64 binascii bisect calendar cmath collections collections.abc "
    "colorsys concurrent.futures configparser contextlib contextvars copy csv dataclasses datetime decimal "
    "difflib enum errno fnmatch fractions functools getopt glob graphlib gzip hashlib heapq hmac html "
    "html.parser io itertools json keyword locale logging math mimetypes numbers pathlib platform pprint "
    "queue random re reprlib secrets statistics string stringprep struct tempfile textwrap threading time "
    "token tokenize tomllib traceback typing unicodedata urllib.parse uuid warnings weakref "
    "xml.etree.ElementTree zlib zoneinfo bz2 lzma"
)
_PACKAGES = words(
    "PIL PIL.Image pandas polars matplotlib matplotlib.pyplot seaborn scipy scipy.stats "
    "numpy click rich attr attrs tqdm tabulate colorama more_itertools typing_extensions pytz toml tomli "
    "tomli_w orjson rich.console rich.table rich.progress"
)
"""Packages that reach nothing by themselves, but for the attributes that are refused."""
_FETCHING = words("pandas polars matplotlib seaborn scipy numpy")
_LIMITED = {
    "urllib": words("parse"),
    "xml": words("etree"),
    "concurrent": words("futures"),
    "html": words("escape unescape parser entities"),
    "asyncio": words(
        "run sleep gather Queue Semaphore create_task wait_for wait Lock Event TimeoutError CancelledError "
        "timeout TaskGroup as_completed"
    ),
    "yaml": words("safe_load safe_load_all safe_dump dump SafeLoader YAMLError"),
    "os": words(
        "path getcwd listdir walk scandir makedirs mkdir getenv environ sep linesep pathsep name cpu_count "
        "getpid stat fspath PathLike access R_OK W_OK X_OK F_OK devnull get_terminal_size curdir extsep utime"
    ),
    "os.path": words(
        "join exists isfile isdir islink basename dirname abspath realpath normpath relpath splitext split "
        "getsize getmtime sep commonpath isabs samefile expanduser"
    ),
    "sys": words(
        "argv stdin stdout stderr exit version version_info platform executable maxsize byteorder getsizeof "
        "setrecursionlimit getrecursionlimit exc_info float_info implementation prefix getdefaultencoding "
        "flags"
    ),
    "shutil": words("copy copy2 copyfile copytree which get_terminal_size disk_usage copyfileobj"),
    "operator": words("add sub mul truediv floordiv mod itemgetter eq ne lt le gt ge and_ or_ xor neg"),
    "string": words(
        "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation whitespace "
        "printable Template"
    ),
}
_NAMES = words(
    "eval exec compile globals locals vars setattr delattr breakpoint help memoryview license credits "
    "copyright"
)
_DUNDERS = words("__name__ __file__ __doc__ __all__ __version__ __author__ __init__ __class__ __debug__")
_ATTRIBUTES = re.compile(
    r"(?:f|gi|cr|ag|tb|co|func)_\w+|system|popen|\w*spawn\w*|fork\w*|exec\w*|eval|compile|modules|settrace|setprofile"
    r"|meta_path|path_hooks|path_importer_cache|unlink|rmdir|rename|chmod|lchmod|symlink_to|hardlink_to"
    r"|link_to|move|rmtree|remove_tree|\w*pickle\w*|builtins|mro|get_field|vformat|attrgetter|methodcaller"
    r"|get_type_hints|ForwardRef|evaluate_\w+|singledispatch\w*|resolve_types|unsafe_\w*|Unsafe\w*"
    r"|ctypeslib|f2py|distutils|testing|loadtxt|genfromtxt|fromregex|DataSource|launch|edit|pager|echo_via_pager"
    r"|SocketHandler|HTTPHandler|SMTPHandler|SysLogHandler|DatagramHandler|dictConfig|fileConfig|handlers"
    r"|fetch_\w+|load_dataset|read_html|read_gbq|read_clipboard|to_gbq|to_clipboard|read_sql_table|pipe|inputhook|get_loop|get_(?:running|event)_loop"
    r"|create_connection|create_server|ImageShow|ImageGrab|grab\w*"
    r"|ProcessPoolExecutor|excepthook|displayhook|addaudithook|urlopen|urlretrieve|lib|compat"
)
_OWN = words("edit lib compat move rename handlers launch pager")
"""Of these, those that a class of the program may have as its own."""
_ENCODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8\b)", re.IGNORECASE)


def only_handles_files(path: Path, held: bytes, cwd: Path, changed: Set[str]) -> bool:
    """Whether the program at `path`, which holds `held`, reaches nothing but files.

    Modules are looked for beside the program and in `cwd`. `changed` are names of files that the
    same command may have changed before. Looks at the disk.
    """
    return _is_understood(path, held, tuple(dict.fromkeys((path.parent, cwd))), changed)


def text_only_handles_files(
    code: str, path: Path, cwd: Path, changed: Set[str], *, alone: bool, followed: bool
) -> bool:
    """The same of a program of which only the text is there, run as if it were at `path`.

    Texts with blanks in them are what it writes or prints; they may say anything. `alone` means
    that it imports nothing of the project, `followed` that the programs it starts are judged as well.
    """
    nodes = nodes_of(code)
    if nodes is None:
        return False
    if stands_in_for_library(changed):
        return False
    if not python_calls.are_plain(code, nodes, followed=followed):
        return False
    added = _added_folders(nodes, cwd)
    if added is None:
        return False
    folders = tuple(dict.fromkeys((path.parent, cwd, *added)))
    return _is_understood(path, code.encode(), folders, changed, _Text(alone))


def _added_folders(nodes: Sequence[ast.AST], cwd: Path) -> list[Path] | None:
    """The folders below `cwd` that a program adds to where modules are looked for; None when it does more."""
    found: list[Path] = []
    uses = 0
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="path"):
                uses += 1
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="path"), attr=name),
                args=[*_, ast.Constant(value=str(folder))],
            ) if name in ("insert", "append") and re.fullmatch(r"\.|(?:\./)?\w[\w/-]*", folder):
                found.append(cwd / folder)
            case _:
                pass
    return found if uses == len(found) else None


def stands_in_for_library(names: Set[str]) -> bool:
    """Whether a file of one of these names would be taken for a module of the library."""
    return any(name.endswith(".py") and name[:-3] in _TAKEN for name in names)


_TAKEN = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}


@dataclass(frozen=True, slots=True)
class _Text:
    """How a program that is no file is read."""

    alone: bool


def _is_understood(
    path: Path, held: bytes, folders: Sequence[Path], changed: Set[str], given: _Text | None = None
) -> bool:
    if any(map(_shadows_library, folders)):
        return False
    seen, waiting = {path}, [(path, held)]
    while waiting:
        at, text = waiting.pop()
        nodes = _nodes(text)
        if nodes is None:
            return False
        reader = _Reader(folders, at, as_text=given is not None and at == path)
        if not all(map(reader.is_fine, nodes)) or not reader.keeps_modules(nodes):
            return False
        if given is not None and given.alone and reader.beside:
            return False
        for file in reader.beside:
            if file in seen:
                continue
            seen.add(file)
            inner = _content(file)
            if inner is None or file.name in changed or len(seen) > MOST_FILES:
                return False
            waiting.append((file, inner))
    return True


def _shadows_library(folder: Path) -> bool:
    """Whether a file beside a program would be taken for a module of the library, or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return any(_is_taken_for_library(entry) for entry in entries)
    except OSError:
        return True


def _is_taken_for_library(entry: os.DirEntry[str]) -> bool:
    stem, dot, suffix = entry.name.partition(".")
    if not dot:
        return stem in sys.stdlib_module_names and Path(entry.path, "__init__.py").exists()
    if suffix == "py":
        return stem in sys.stdlib_module_names
    return suffix == "pyc" or suffix.endswith(("so", "pyd"))


def _nodes(held: bytes) -> Nodes | None:
    if any(map(_ENCODING.match, held.split(b"\n", 2)[:2])):
        return None  # what is read here need not be what Python reads
    try:
        return nodes_of(held.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return None


def _content(file: Path) -> bytes | None:
    try:
        held = file.read_bytes() if file.stat().st_size <= LARGEST else None
    except OSError:
        return None
    return None if held is None or DOUBTFUL.search(held.decode("utf-8", "replace")) else held


def _is_place(text: str) -> bool:
    """Whether a text may be a path or an address, rather than something that is written or printed."""
    return ("/" in text or text.startswith((".", "~"))) and " " not in text and "\n" not in text


def _texts(nodes: Nodes) -> list[str]:
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return [text for text in constants if isinstance(text, str)]


class _Reader:
    """One file: what it imports, and whether each node of its tree is harmless."""

    def __init__(self, folders: Sequence[Path], at: Path, *, as_text: bool = False) -> None:
        self._folders = folders
        self._at = at
        self._as_text = as_text
        self._limited: dict[str, frozenset[str]] = {}
        self._held = {"getattr"}
        self._fetches = False
        """Whether it imports a package that takes an address in the place of a file."""
        self.beside: list[Path] = []
        """Files of the project that it imports."""

    def is_fine(self, node: ast.AST) -> bool:
        match node:
            case ast.Import():
                return all(self._imports(alias.name, alias.asname) for alias in node.names)
            case ast.ImportFrom():
                return self._imports_from(node)
            case ast.Attribute():
                return self._is_attribute(node.attr, node.value)
            case ast.MatchClass():
                return all(self._is_attribute(name, None) for name in node.kwd_attrs)
            case ast.Name():
                return node.id not in _NAMES and (not node.id.startswith("__") or node.id in _DUNDERS)
            case ast.Call(func=ast.Name(id="getattr")):
                return len(node.args) in (2, 3) and self._is_written_out(node.args[1])
            case ast.keyword(arg="allow_pickle" | "engine"):
                return False
            case ast.Constant(value=str(text)):
                return self._is_harmless_text(text)
            case _:
                return True

    def _is_harmless_text(self, text: str) -> bool:
        if len(text) < 256 and is_secret("/" + text.lstrip("/~")):
            return False
        if self._as_text and (not _is_place(text) or python_calls.is_own_address(text)):
            return True
        return "://" not in text and DOUBTFUL.search(text) is None

    def keeps_modules(self, nodes: Nodes) -> bool:
        """Whether modules and `getattr` are only used on the spot, never handed on."""
        used = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        used |= {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        if self._fetches and any("://" in text for text in _texts(nodes)):
            return False
        names = (node for node in nodes if isinstance(node, ast.Name) and node.id in self._held)
        return all(id(node) in used for node in names) and self._limited_hold(nodes)

    def _limited_hold(self, nodes: Nodes) -> bool:
        # An import may stand behind the first use, so this is looked at when all are known.
        return all(
            node.attr in self._limited[node.value.id]
            for node in nodes
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in self._limited
        )

    def _is_written_out(self, name: ast.expr) -> bool:
        return (
            isinstance(name, ast.Constant)
            and isinstance(name.value, str)
            and self._is_attribute(name.value, None)
        )

    def _is_attribute(self, name: str, owner: ast.expr | None) -> bool:
        own = isinstance(owner, ast.Name) and owner.id in ("self", "cls", "args")
        if name.startswith("_") and name not in _DUNDERS and (name.startswith("__") or not own):
            return False
        if _ATTRIBUTES.fullmatch(name) and not (own and name in _OWN) and not self._may_reach(name):
            return False
        return name not in sys.stdlib_module_names or name in _MODULES or name in ("path", "stat")

    def _may_reach(self, name: str) -> bool:
        # Calls that go there were looked at beforehand.
        return self._as_text and name in python_calls.REACHING

    def _limits(self, module: str) -> frozenset[str] | None:
        """What of a module may be used; None when that is not limited."""
        known = _LIMITED.get(module)
        if self._as_text and module == "sys":
            return _LIMITED["sys"] | {"path"}
        if self._as_text and module in python_calls.MODULES:
            return python_calls.MODULES[module] | (known or frozenset())
        return known

    def _imports(self, name: str, alias: str | None) -> bool:
        self._held.add(alias or name.partition(".")[0])
        self._fetches |= name.partition(".")[0] in _FETCHING
        if self._find(name):
            return True
        top = name.partition(".")[0]
        limits = self._limits(name if alias else top)
        if limits is not None:
            self._limited[alias or top] = limits
        return name in _MODULES or name in _PACKAGES or self._limits(name) is not None

    def _imports_from(self, node: ast.ImportFrom) -> bool:
        module = node.module or ""
        self._fetches |= module.partition(".")[0] in _FETCHING
        names = [alias.name for alias in node.names]
        if "*" in names:
            return False
        if node.level or self._find(module):
            # A name may be a module of the package.
            inner = [self._find(f"{module}.{name}" if module else name, node.level) for name in names]
            plain = all(
                found or self._is_attribute(name, None) for found, name in zip(inner, names, strict=True)
            )
            return plain and (all(inner) if not module else self._find(module, node.level))
        if (limits := self._limits(module)) is not None:
            return all(name in limits for name in names)
        known = module in _MODULES or module.partition(".")[0] in _PACKAGES
        return known and all(self._is_attribute(name, None) for name in names)

    def _find(self, name: str, level: int = 0) -> bool:
        """Whether a module name stands for files of the project, which are read as well."""
        there = False
        steps = name.split(".") if name else []
        roots = [self._at.parents[level - 1]] if level else [*self._folders]
        if not level and (self._at.parent / "__init__.py").exists():
            roots.append(self._at.parent.parent)
        for root in roots:
            place = root.joinpath(*steps)
            found = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
            if not found and place.is_dir() and place != root:
                found = [place]
            for file in found:
                there = True
                if file.is_file():
                    self.beside.append(file)
                inits = (parent / "__init__.py" for parent in file.parents if root in parent.parents)
                self.beside += [init for init in inits if init.exists()]
        return there
