"""Program that reads the text in an image with rapidocr: it receives an image and prints lines as JSON.

It runs in a separate process, because its libraries are large and its input is untrusted. Models are not
downloaded; the installed ones are used.
"""

import json
import logging
import socket
import sys
from typing import Any


def no_network(*_given: object, **_named: object) -> None:
    """Refuse network access: only installed models are used."""
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
