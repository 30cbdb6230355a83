"""Program that reads text aloud with hibari and its installed voice: it receives JSON lines and sends sound.

It runs in a separate process, because its libraries are large. Each input line is `{"text": …}`. For each,
the output has a length of four bytes and that many bytes of 16-bit samples, as soon as they are ready.
"""

import json
import socket
import sys


def no_network(*_given: object, **_named: object) -> None:
    """Refuse network access: only the installed voice is used."""
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
