"""Text read aloud by hibari with the voice that came with it: lines of JSON in, sound out.

A program of its own: its libraries are large. Each line is `{"text": …}`; for each, four bytes of length
and so many bytes of 16-bit samples are written, as soon as they are there.
"""

import json
import socket
import sys


def no_network(*_given: object, **_named: object) -> None:
    """Nothing is fetched: the voice is the one that was installed."""
    raise OSError("this program has no network")


def main() -> None:
    socket.socket.connect = no_network  # type: ignore[method-assign,assignment]
    output, sys.stdout = sys.stdout.buffer, sys.stderr
    import numpy
    from hibari import Hibari

    voice = Hibari()
    for line in sys.stdin:
        samples = voice(json.loads(line)["text"])
        data = (numpy.clip(samples, -1.0, 1.0) * 32_767).astype("<i2").tobytes()
        output.write(len(data).to_bytes(4, "little") + data)
        output.flush()


if __name__ == "__main__":
    main()
