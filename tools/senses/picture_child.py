"""The process that decodes one untrusted picture: the picture in, a JSON line and bytes out.

It is a separate program with limits on memory and time, because picture decoders have faults that a picture
can exploit. It writes no file, and exceeding a limit ends only this process. The first line is the request:
`fit`, or `draw COLUMNS ROWS FORM WIDTH HEIGHT`.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from typing import Any

MEMORY = 1_500_000_000
"""The limit of address space in bytes."""
SECONDS = 30
"""The limit of computing time in seconds."""
LARGEST_ORDER = 200


def main() -> None:
    """Read the request and the picture from standard input, and write the answer."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: 0,
    }
    for kind, most in limits.items():
        with suppress(ValueError, OSError):  # a limit that is lower already stays
            resource.setrlimit(kind, (most, most))
    order = sys.stdin.buffer.readline(LARGEST_ORDER).decode("ascii", "replace").split()
    data = sys.stdin.buffer.read()
    answer, made = _answer(order, data)
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + made)
    sys.stdout.buffer.flush()


def _answer(order: list[str], data: bytes) -> tuple[dict[str, Any], bytes]:
    from tools.results import ToolError

    try:
        if order[0] == "fit":
            from tools.senses.pictures import fit

            picture = fit(data)
            told = {
                "media_type": picture.media_type,
                "width": picture.width,
                "height": picture.height,
                "original": picture.original,
                "frames": picture.frames,
            }
            return told, picture.data
        from tools.senses.pictures import Form, draw_thumbnail

        columns, rows, across, down = map(int, (*order[1:3], *order[4:6]))
        forms: dict[str, Form] = {"png": "png", "sixel": "sixel"}
        small = draw_thumbnail(data, columns, rows, forms.get(order[3], "blocks"), (across, down))
        return {"columns": small.columns, "rows": small.rows, "form": small.form}, small.data
    except ToolError as error:
        return {"problem": str(error)}, b""
    except MemoryError:
        return {"problem": "The picture takes more memory to read than it may; scale it down."}, b""
    except Exception as error:  # decoders raise whatever they stumble over
        return {"problem": f"The picture cannot be read ({type(error).__name__})."}, b""


if __name__ == "__main__":
    main()
