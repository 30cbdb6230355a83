"""Text of a picture, read by rapidocr with the models that came with it: a picture in, JSON lines out.

A program of its own: its libraries are large, and what they read comes from outside.
"""

import json
import logging
import socket
import sys
from typing import Any


def no_network(*_given: object, **_named: object) -> None:
    """Nothing is fetched: the models are those that were installed."""
    raise OSError("this program has no network")


def main() -> None:
    data = sys.stdin.buffer.read()
    logging.disable(logging.CRITICAL)
    socket.socket.connect = no_network  # type: ignore[method-assign,assignment]
    output, sys.stdout = sys.stdout, sys.stderr
    from rapidocr import RapidOCR

    found: Any = RapidOCR()(data)
    lines = []
    if found.txts is not None and found.boxes is not None:
        for text, box in zip(found.txts, found.boxes, strict=True):
            left, top = (int(min(point[axis] for point in box)) for axis in (0, 1))
            right, bottom = (int(max(point[axis] for point in box)) for axis in (0, 1))
            lines.append({"text": str(text), "box": [left, top, right, bottom]})
    json.dump(lines, output)
    output.flush()


if __name__ == "__main__":
    main()
