"""The child process of `syntax`: reads a file from standard input, prints its errors as JSON.

It imports nothing of Hermes: it is started by path, with `-I`.
"""

from __future__ import annotations

import json
import sys
import warnings


def check(kind: str, data: bytes) -> dict[str, object]:
    """Return `{"status": "ok"}`, or `{"status": "error"}` with a message and, if known, the line from 1."""
    try:
        if kind == "python":
            warnings.simplefilter("ignore")
            compile(data, "file", "exec", dont_inherit=True)
        elif kind == "json":
            json.loads(data)
        elif kind == "toml":
            import tomllib

            tomllib.loads(data.decode("utf-8"))
        else:
            _parse_yaml(data)
    except SyntaxError as error:
        return _error(error.msg, error.lineno)
    except json.JSONDecodeError as error:
        return _error(error.msg, error.lineno)
    except Exception as error:
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or str(error) or type(error).__name__
        return _error(message, mark.line + 1 if mark else None)
    return {"status": "ok"}


def _parse_yaml(data: bytes) -> None:
    import yaml

    # Events only: tags of applications are fine, and aliases are not expanded.
    for _ in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass


def _error(message: str, line: int | None) -> dict[str, object]:
    found: dict[str, object] = {"status": "error", "message": message[:300]}
    if line is not None:
        found["line"] = line
    return found


if __name__ == "__main__":
    print(json.dumps(check(sys.argv[1], sys.stdin.buffer.read())))
