"""Packages whose names are imported at their first use, in interpreters of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.support.command import ROOT

DEFER = "from tools.kit.deferred_packages import defer_packages; defer_packages(); "
NAMES = """
import openai, pkgutil, importlib
found = pkgutil.walk_packages(openai.types.__path__, "openai.types.")
for package in ["openai.lib", "openai.types", *(each.name for each in found if each.ispkg)]:
    module = importlib.import_module(package)
    body = open(module.__file__).read()
    for line in importlib.import_module("ast").parse(body).body:
        for each in getattr(line, "names", ()) if getattr(line, "level", 0) == 1 else ():
            name = each.asname or each.name
            value = getattr(module, name)
            print(package, name, getattr(value, "__module__", value), getattr(value, "__qualname__", ""))
"""


def _output(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_name_of_a_deferred_package_is_what_it_would_be_otherwise() -> None:
    plain, deferred = _output(NAMES), _output(DEFER + NAMES)
    assert plain.count("\n") > 500
    assert deferred == plain


def test_a_client_of_openai_needs_next_to_none_of_its_types() -> None:
    code = (
        "import sys, openai; openai.AsyncOpenAI(api_key='x'); "
        "print(sum(name.startswith('openai.types.') for name in sys.modules), 'aiohttp' in sys.modules)"
    )
    count, aiohttp = _output(DEFER + code).split()
    assert int(count) < 20
    assert aiohttp == "False"


def test_a_client_over_http_needs_no_http2_and_none_of_the_blocking_connections() -> None:
    code = (
        "import sys, httpx2; httpx2.AsyncClient(); "
        "print([name for name in ('h2', 'httpcore2._sync', 'httpcore2._async.http2') if name in sys.modules])"
    )
    assert _output(DEFER + code) == "[]\n"


def test_each_name_of_the_connections_is_what_it_would_be_otherwise() -> None:
    # The others stand in for libraries that are not installed, or are no classes.
    code = """
import httpcore2
for name in ("AsyncConnectionPool", "AsyncHTTPProxy", "AsyncHTTP2Connection", "HTTP11Connection",
             "ConnectionPool", "AnyIOBackend", "SyncBackend", "Request", "Response", "URL", "ConnectError"):
    kind = getattr(httpcore2, name)
    names = sorted(vars(kind).keys() - {"__firstlineno__"})
    print(kind.__qualname__, [base.__name__ for base in kind.__mro__], names)
"""
    assert _output(DEFER + code) == _output(code)


def test_models_are_made_without_a_search_for_plugins() -> None:
    code = (
        "import sys, pydantic; Model = pydantic.create_model('Model', number=(int, 3)); "
        "print(Model.model_validate({}).number, 'importlib.metadata' in sys.modules)"
    )
    assert _output(DEFER + code) == "3 False\n"


def test_a_name_that_a_deferred_package_does_not_offer_is_named() -> None:
    code = "import openai\ntry: openai.types.Unknown\nexcept AttributeError as error: print(error)"
    assert _output(DEFER + code) == "module 'openai.types' has no attribute 'Unknown'\n"


def test_deferring_twice_adds_one_finder() -> None:
    code = "import sys; before = len(sys.meta_path); defer_packages(); print(len(sys.meta_path) - before)"
    assert _output(DEFER + code) == "0\n"
