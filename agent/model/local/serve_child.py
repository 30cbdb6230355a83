"""The process that holds the weights: llama.cpp's server, started with a line of JSON on standard input.

It runs as a script and is never imported: it must start without any package of Hermes. The first input line
holds `library` (xllamacpp) and `folder` (where to import it from), `model`, `threads`, `context`, `token` and
`parent` (a process id). One line of JSON is returned on standard output: `{"address": "http://127.0.0.1:…"}`
once the model answers, or `{"missing": "…"}` when the library cannot be imported. All other output of the
library goes to standard error. The process ends when standard input ends, and on Linux also when its parent
dies for any reason.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let the kernel end this process with its parent, on Linux; elsewhere, the end of input ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the kernel was asked
            os._exit(0)


def end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def reserve_output() -> int:
    """Return a copy of the descriptor of standard output, and send the library's output to standard error."""
    channel = os.dup(1)
    os.dup2(2, 1)
    return channel


def read_line() -> bytes:
    """Return the first line of standard input. It is read unbuffered, so that the rest stays readable."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            os._exit(0)
        line += piece
    return line


def parameters(library, order):
    """Return llama.cpp's parameters for one user on a machine that also runs other programs."""
    params = library.CommonParams()
    params.model.path = order["model"]
    params.n_ctx = order["context"]
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["token"]]
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.cache_ram_mib = 0  # the slot itself keeps the only prefix
    params.verbosity = 2
    params.warmup = False
    params.fit_params = False
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = order["threads"]
        threads.poll = 0  # spinning threads starve each other on busy cores
    return params


def main() -> None:
    channel = reserve_output()
    order = json.loads(read_line())
    die_with(order["parent"])
    threading.Thread(target=end_with_input, daemon=True).start()
    sys.path.append(order["folder"])
    try:
        library = importlib.import_module(order["library"])
    except ImportError as error:
        report = {"missing": str(error)}
    else:
        server = library.Server(parameters(library, order))
        report = {"address": server.listening_address}
    os.write(channel, json.dumps(report).encode() + b"\n")
    os.close(channel)
    threading.Event().wait()


if __name__ == "__main__":
    main()
