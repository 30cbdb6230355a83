"""Helper functions for scripts. This text becomes part of the module that scripts import."""


def parse_json(text):
    """Read JSON out of the text of a model or a program; data that is parsed already is returned as it is.

    Control characters inside strings are taken, and so is text around the JSON,
    such as a code fence. Raises ValueError when there is none.
    """
    import json

    if not isinstance(text, (str, bytes, bytearray)):
        return text
    if not isinstance(text, str):
        text = bytes(text).decode("utf-8", "replace")
    text = text.strip().lstrip("\ufeff")
    decoder = json.JSONDecoder(strict=False)
    try:
        return decoder.decode(text)
    except ValueError:
        pass
    starts = (at for at, character in enumerate(text) if character in "{[")
    # Each start may be read to the end of the text: bound how many are tried.
    for _, start in zip(range(100), starts):  # noqa: B905 older interpreters lack strict
        try:
            return decoder.raw_decode(text, start)[0]
        except ValueError:
            continue
    shown = text if len(text) <= 80 else text[:80] + "…"
    raise ValueError(f"No JSON in this text: {shown!r}")


def shell_quote(text):
    """Quote a value so that a shell takes it as one word, whatever it holds."""
    import shlex

    return shlex.quote(str(text))


def retry(fn, attempts=3, delay=1.0):
    """Call `fn()` until it succeeds, at most `attempts` times, and return its result.

    It has failed when it raises, or returns a dict with "error". Waits `delay`
    seconds after the first failure and twice as long after each further one. The
    last failure is raised or returned.
    """
    import time

    if attempts < 1:
        raise ValueError("attempts must be at least 1")
    attempt = 0
    while True:
        attempt += 1
        is_last = attempt >= attempts
        try:
            result = fn()
        except Exception:
            if is_last:
                raise
        else:
            if is_last or not (isinstance(result, dict) and result.get("error")):
                return result
        time.sleep(delay * 2 ** (attempt - 1))


def gather(*callables, workers=16):
    """Call all `callables` at the same time, in threads, and return their results in the order given.

    Each is a function without arguments, or all are given as one list. If some
    raise, the exception of the first of them is raised once all have ended.
    """
    import threading

    if len(callables) == 1 and not callable(callables[0]):
        callables = tuple(callables[0])
    results = [None] * len(callables)
    failures = {}
    waiting = iter(enumerate(callables))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                item = next(waiting, None)
            if item is None:
                return
            position, function = item
            try:
                results[position] = function()
            except BaseException as error:
                failures[position] = error

    threads = [threading.Thread(target=work) for _ in range(min(workers, len(callables)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[min(failures)]
    return results


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module 'hermes_tools' has no attribute {name!r}")
    # The agent knows why a tool is not here, and says so when it is called.
    return lambda *arguments, **named: _call_by_name(name, arguments, named)


def _call_by_name(name, arguments, named):
    if arguments:
        named["arguments"] = list(arguments)
    return globals()["_call"](name, named)
