"""Python programs given as text that change files: what they write, and what speaks against it.

Read as a syntax tree, never run. Editing a file is plain work, as it is with `sed -i`. Emptying
files, changing many that were never read, and putting text together so that nobody can read it is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.safety.commands.doubts import DEFINITION, DOUBTFUL, SYSTEM_PLACE
from agent.safety.commands.python_tree import nodes_of
from agent.safety.commands.python_values import Values, called
from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import GLOBS, words

LONGEST = 20_000
"""Characters of a program that are read."""

_TO_FIRST = words(
    "to_csv to_json to_parquet to_excel to_markdown to_html to_feather savefig imsave save savez savetxt "
    "makedirs"
)
"""What writes to the place it is given first, if it is given one."""
_TO_SECOND = words("copy2 copyfile copytree")
_TO_OWNER = words("write_text write_bytes touch mkdir")
_WRITERS = _TO_FIRST | _TO_SECOND | _TO_OWNER | words("open copy")
_UNSEEN = words("FileIO TextIOWrapper BufferedWriter BufferedRandom fdopen memmap open_code OpenWrapper")
_FILLS = words(
    "safe_dump safe_dump_all dump_all write writelines writerow writerows writeheader write_text "
    "write_bytes dump copyfileobj to_csv to_json"
)
_READS = words("read readlines readline read_text read_bytes load reader DictReader parse read_csv read_json")
_MODE = re.compile(r"[rwaxbtU+]{1,4}")
_OPENERS = words("io gzip bz2 lzma codecs")
_DECODES = words(
    "fromhex b64decode b32decode b16decode a85decode b85decode urlsafe_b64decode unhexlify a2b_hex "
    "a2b_base64 decompress maketrans translate"
)
_ODD_CODECS = re.compile(
    r"rot.?13|hex.*|base.?64.*|unicode.escape|raw.unicode.escape|uu.*|zlib.*|idna|utf.?7"
)
_ELSEWHERE = words("home expanduser environ getenv gettempdir mkdtemp mkstemp argv chdir FileHandler")


@dataclass(frozen=True, slots=True)
class Work:
    """What a program does to files."""

    places: tuple[str, ...]
    """Files and folders it writes, seen from its folder; stars in them are marks."""
    known: bool
    """Whether it writes nothing else."""
    wanders: bool
    """Whether it may read what lies outside of its folder."""


def work(code: str) -> Work | None:
    """What a program does to files; None when something in it speaks against running it, or it is no program.

    Says nothing of what else it does.
    """
    if len(code) > LONGEST:
        return None
    nodes = nodes_of(code)
    if nodes is None:
        return None
    values = Values(nodes)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if _hides(nodes, calls, values) or _hands_on(nodes, calls):
        return None
    wanders = any(map(_wanders, nodes))
    targets: list[ast.expr | None] = []
    for call in calls:
        if not _is_plain(call):
            return None
        targets += _targets(call)
    if not targets:
        return Work((), True, wanders)
    if any(map(_is_device, nodes)):
        return None
    names = {called(call)[0] for call in calls}
    if not (names & _FILLS or _prints_to_file(calls) or names & (_TO_FIRST | _TO_SECOND | _TO_OWNER)):
        return None  # opening a file for writing empties it
    found = [values.of(target) for target in targets]
    places = tuple(dict.fromkeys(place for each in found if each is not None for place in each))
    reads = bool(names & _READS) or any(_mode(call) == "r" for call in calls)
    if not reads and any(mark in place for place in places for mark in GLOBS):
        return None
    return Work(places, None not in found, wanders)


def _is_device(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith("/dev/")


def _hands_on(nodes: Sequence[ast.AST], calls: Sequence[ast.Call]) -> bool:
    """Whether what writes is used under another name, so that its places are not seen."""
    used = {id(call.func) for call in calls}
    for node in nodes:
        match node:
            case ast.Name(id=name):
                found = name in _WRITERS and id(node) not in used
            case ast.Attribute(attr=name):
                found = name in _UNSEEN or (name in _WRITERS and id(node) not in used)
            case ast.alias(name=name, asname=other):
                found = name in _UNSEEN or (other is not None and name in _WRITERS)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found = name in _WRITERS
            case ast.MatchClass(kwd_attrs=names):
                found = bool(_WRITERS.intersection(names))
            case _:
                found = False
        if found:
            return True
    return False


def _targets(call: ast.Call) -> list[ast.expr | None]:
    """The expressions for the places a call writes to; None for one that is not there."""
    name, owner = called(call)
    first = call.args[0] if call.args else None
    if name == "open":
        if _mode(call) in ("", "r"):
            return []
        return [first if owner is None or _is_opener(owner) else owner]
    if name in _TO_OWNER:
        return [owner]
    if name in _TO_FIRST:
        given = first or next((each.value for each in call.keywords if each.arg in _PLACE_NAMES), None)
        return [given] if given is not None else []
    if name in _TO_SECOND or (name == "copy" and len(call.args) == 2):
        return [call.args[1] if len(call.args) > 1 else None]
    if name == "write" and isinstance(first, ast.Constant) and owner is not None and len(call.args) == 1:
        # `ElementTree.write` takes a path, files take a text.
        return [first] if isinstance(first.value, str) and _IS_FILE.fullmatch(first.value) else []
    return []


_IS_CONDITION = re.compile(r"[\w\s<>=!.,'\"&|+*/%~-]*(?<!__)")
_PLACE_NAMES = ("path_or_buf", "path", "excel_writer", "fname", "file", "name")
_IS_FILE = re.compile(r"[\w./-]+\.(?:xml|svg|html|xhtml|xsd|plist|pom|csproj)")


def _mode(call: ast.Call) -> str:
    """How a call of `open` opens: `r`, `w`, or empty when it opens nothing."""
    name, owner = called(call)
    if name != "open":
        return ""
    place = 1 if owner is None or _is_opener(owner) else 0
    given: ast.expr | None = call.args[place] if len(call.args) > place else None
    given = next((each.value for each in call.keywords if each.arg == "mode"), given)
    if given is None:
        return "r"
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        return "w"
    return "r" if not set(given.value) & set("wax+") else "w"


def _is_opener(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in _OPENERS


def _is_plain(call: ast.Call) -> bool:
    """Whether a call neither moves a file over another nor empties one."""
    name, owner = called(call)
    if any(keyword.arg is None for keyword in call.keywords) and name in ("open", *_TO_FIRST, *_TO_OWNER):
        return False
    if any(keyword.arg == "opener" for keyword in call.keywords):
        return False
    if name == "replace" and owner is not None:
        return len(call.args) >= 2 or bool(call.keywords)
    if name in ("query", "filter") and owner is not None:
        # Tables read these as programs of their own.
        texts = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        return all(_IS_CONDITION.fullmatch(str(text)) for text in texts) and (
            name == "filter" or len(texts) == len(call.args)
        )
    if name == "truncate":
        return not call.args and not call.keywords
    if name in ("write_text", "write_bytes", "write"):
        return not (call.args and _is_empty(call.args[0]))
    if name == "writelines" or (name == "print" and any(each.arg == "file" for each in call.keywords)):
        return not call.args or not all(map(_is_empty, call.args))
    return True


def _is_empty(content: ast.expr) -> bool:
    """Whether what is written is plainly nothing."""
    match content:
        case ast.Constant(value=value):
            return not value
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return not parts
        case ast.Call(args=[]):
            return called(content) in (("str", None), ("bytes", None), ("bytearray", None))
        case ast.Call(args=[inner]):
            return called(content)[0] in ("join", "str", "bytes", "encode") and _is_empty(inner)
        case ast.BinOp(op=ast.Mult(), right=ast.Constant(value=0)):
            return True
        case _:
            return False


def _prints_to_file(calls: Sequence[ast.Call]) -> bool:
    return any(
        called(call) == ("print", None) and any(keyword.arg == "file" for keyword in call.keywords)
        for call in calls
    )


def _wanders(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in _ELSEWHERE
        case ast.Name(id=name) | ast.alias(name=name):
            return name in _ELSEWHERE
        case ast.Constant(value=str(text)):
            return len(text) < 256 and SYSTEM_PLACE.fullmatch(text) is not None
        case _:
            return False


def _hides(nodes: Sequence[ast.AST], calls: Sequence[ast.Call], values: Values) -> bool:
    """Whether text is put together, or decoded, so that it cannot be read in the program."""
    spelled = "\n".join(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for call in calls:
        name, owner = called(call)
        if name in _DECODES or (name in ("chr", "bytes", "bytearray") and owner is None and call.args):
            return True
        given = (argument.value for argument in call.args[:1] if isinstance(argument, ast.Constant))
        if name in ("decode", "encode") and any(_ODD_CODECS.fullmatch(str(each).lower()) for each in given):
            return True
        if name == "format" and isinstance(owner, ast.Constant):
            return _says_doubtful(str(owner.value).replace("{", "").replace("}", ""), spelled)
    for node in nodes:
        if isinstance(node, ast.Slice) and _is_nothing(node):
            return True
        if isinstance(node, ast.Slice) and _is_backwards(node):
            return any(isinstance(each, ast.Subscript) and _is_text(each, values) for each in nodes)
        if isinstance(node, _PUT_TOGETHER) and any(
            _says_doubtful(text, spelled) for text in values.of(node) or ()
        ):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _fills_itself(node):
            return True
    return False


_PUT_TOGETHER = (ast.BinOp, ast.JoinedStr, ast.Call)


def _fills_itself(node: ast.BinOp) -> bool:
    """Whether a text is filled in with texts that stand there as well: `'%s%s' % ('a', 'b')`."""
    if not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
        return False
    parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
    return all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)


def _is_nothing(node: ast.Slice) -> bool:
    return node.lower is None and isinstance(node.upper, ast.Constant) and node.upper.value == 0


def _is_backwards(node: ast.Slice) -> bool:
    return isinstance(node.step, ast.UnaryOp) and isinstance(node.step.op, ast.USub)


def _is_text(node: ast.Subscript, values: Values) -> bool:
    return isinstance(node.slice, ast.Slice) and values.of(node.value) is not None


def _says_doubtful(text: str, spelled: str) -> bool:
    """Whether a text that was put together says what would be shown, had it been `spelled` out."""
    if len(text) > 1_000:
        return False
    name = text.rpartition("/")[2]
    special = DEFINITION.fullmatch(name) is not None or is_secret(f"/{text.lstrip('/~')}")
    found = DOUBTFUL.search(text)
    return (special and name not in spelled) or (found is not None and found[0] not in spelled)
