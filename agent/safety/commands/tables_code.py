"""Which names of pandas, NumPy and Polars a short program may use: those that only read and compute."""

from __future__ import annotations

import ast
import re

from agent.safety.commands.python_tree import Nodes
from agent.safety.shell.marks import words

_READERS = "read_csv read_json read_parquet read_excel read_table read_feather read_fwf read_ndjson scan_csv"
_FRAMES = words(
    f"{_READERS} scan_parquet DataFrame Series Index Timestamp Timedelta concat merge to_datetime to_numeric "
    "date_range cut qcut crosstab pivot_table isna notna unique value_counts get_dummies melt NA NaT "
    "col lit LazyFrame when all sum len count __version__ set_option options Categorical factorize"
)
_NUMBERS = words(
    "array asarray arange linspace zeros ones full eye mean median std var sum prod cumsum diff percentile "
    "quantile histogram unique where argmax argmin argsort sort min max abs sqrt exp log log2 log10 sin cos "
    "tan pi e inf nan isnan isfinite dot matmul linalg random round floor ceil clip concatenate stack "
    "vstack hstack reshape transpose float32 float64 int32 int64 uint8 bool_ allclose isclose corrcoef "
    "polyfit polyval bincount digitize any all count_nonzero nanmean nansum __version__"
)
_SETTINGS = words("safe_load safe_load_all safe_dump YAMLError __version__")
NAMES: dict[str, frozenset[str]] = {
    "pandas": _FRAMES,
    "polars": _FRAMES,
    "numpy": _NUMBERS,
    "yaml": _SETTINGS,
    "toml": words("load loads dumps __version__"),
    "torch": words(
        "__version__ cuda backends version tensor arange zeros ones randn float32 float16 bfloat16 "
        "get_num_threads"
    ),
    "tensorflow": words("__version__ config constant"),
    "django": words("__version__ VERSION get_version"),
    "jax": words("__version__ devices default_backend"),
}
"""The packages, and what of them is harmless."""

_WRITES = re.compile(
    r"to_(?!datetime$|numeric$|list$|dict$|numpy$|frame$|records$|period$|timestamp$|string$|markdown$|series$)\w+"
    r"|write_\w+|sink_\w+|savefig|dump|dumps|query|eval|pipe|map_batches|plot|hist|boxplot|style|read_\w+|scan_\w+"
    r"|ctypes|ctypeslib|tofile|memmap|save\w*|set_flags|sql|sql_expr|deserialize|serialize|io"
)
"""Methods of tables that write files, draw, or run text."""
_PLAIN = (ast.Constant, ast.Lambda, ast.List, ast.Dict, ast.Name, ast.Load, ast.Attribute)
_APPLIES = words("apply agg aggregate transform applymap")


def only_reads(nodes: Nodes, limited: dict[str, frozenset[str]]) -> bool:
    """Whether a program that uses such tables only reads local files by their plain names."""
    mine = {name for name, allowed in limited.items() if allowed in (_FRAMES, _NUMBERS)}
    if not mine:
        return True
    for node in nodes:
        if not isinstance(node, ast.Attribute):
            continue
        of_package = isinstance(node.value, ast.Name) and node.value.id in mine
        if not of_package and _WRITES.fullmatch(node.attr):
            return False
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    if any(_WRITES.fullmatch(text) for text in texts):
        return False  # `apply` and `agg` take methods by their names
    return all(_is_local(node) and _names_plainly(node) for node in nodes if isinstance(node, ast.Call))


def _names_plainly(call: ast.Call) -> bool:
    """Whether the functions a table is to apply are spelled out."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in _APPLIES):
        return True
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("func", None))]
    return all(
        isinstance(part, _PLAIN)
        for value in given
        for part in (ast.walk(value) if not isinstance(value, ast.Lambda) else [value])
    )


def _is_local(call: ast.Call) -> bool:
    """Whether a call that reads a table names a plain local file."""
    if not (isinstance(call.func, ast.Attribute) and re.match(r"(?:read|scan)_", call.func.attr)):
        return True
    odd = {keyword.arg for keyword in call.keywords} & {None, "storage_options", "engine"}
    if len(call.args) != 1 or odd:
        return False
    place = call.args[0]
    if not isinstance(place, ast.Constant) or not isinstance(place.value, str):
        return False
    return re.fullmatch(r"[\w./ -]+", place.value) is not None
