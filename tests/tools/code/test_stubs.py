"""The generated module: what scripts see of the tools."""

from __future__ import annotations

import inspect
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.code.conftest import TOOLS, Scripts, tool
from tools.code.stubs import ALLOWED, EXCLUDED, Offer, annotation, first_sentence, generate


def load(*tools: dict[str, Any]) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """The module for these tools, and the list of calls that are made through it."""
    module = types.ModuleType("hermes_tools")
    calls: list[tuple[str, dict[str, Any]]] = []
    module.__dict__["_call"] = lambda name, arguments: calls.append((name, arguments))
    exec(generate(Offer.of(tools)), module.__dict__)
    return module, calls


def test_fourteen_tools_are_for_scripts_and_no_excluded_one_is_among_them() -> None:
    assert len(ALLOWED) == 14
    assert not ALLOWED & EXCLUDED


def test_only_allowed_tools_that_are_on_offer_get_a_function() -> None:
    module, _ = load(*TOOLS)
    tools = set(module.__all__) - {"parse_json", "shell_quote", "retry", "gather"}
    assert tools == {"read_file", "write_file", "terminal", "web_search"}


def test_functions_have_types_defaults_and_a_description() -> None:
    module, _ = load(*TOOLS)
    assert str(inspect.signature(module.read_file)) == "(path: 'str', offset: 'int' = 1) -> 'dict[str, Any]'"
    assert inspect.getdoc(module.read_file).startswith("The tool read_file.")
    assert "It has more" not in inspect.getdoc(module.read_file)
    assert "foreground" in module.terminal.__doc__


def test_arguments_left_out_are_not_sent() -> None:
    module, calls = load(*TOOLS)
    module.terminal("x")
    module.terminal(command="x", workdir="w", pty=True)
    assert calls == [("terminal", {"command": "x"}), ("terminal", {"command": "x", "workdir": "w"})]


def test_names_that_are_no_names_in_python_get_one() -> None:
    names = ("from", "class", "my-param", "3d", "_x", "", "my_param", "größe", "_call", "_arguments")
    module, calls = load(tool("mcp_server.get-it", names, **{name: {} for name in names}))
    module.mcp_server_get_it(*range(10))
    assert calls == [("mcp_server.get-it", dict(zip(names, range(10), strict=True)))]
    assert list(inspect.signature(module.mcp_server_get_it).parameters)[:4] == [
        "from_",
        "class_",
        "my_param",
        "n3d",
    ]


def test_tools_never_hide_helpers_or_each_other() -> None:
    module, calls = load(tool("mcp_a-b"), tool("mcp_a.b"), tool("mcp_a_b"))
    module.mcp_a_b()
    module.mcp_a_b_()
    module.mcp_a_b__()
    assert [name for name, _ in calls] == ["mcp_a-b", "mcp_a.b", "mcp_a_b"]
    assert module.parse_json('{"a": 1}') == {"a": 1}


@pytest.mark.thorough
@given(
    st.text(max_size=40),
    st.text(max_size=200),
    st.text(max_size=20),
    st.text(max_size=60),
    st.text(max_size=9),
)
def test_no_description_gets_out_of_its_docstring(
    name: str, description: str, parameter: str, described: str, default: str
) -> None:
    hostile = tool(
        "mcp_" + name, **{parameter: {"type": "string", "description": described, "default": default}}
    )
    hostile["description"] = description + '"""\nraise SystemExit("out")\n"""'
    module, calls = load(hostile)
    function = next(value for key, value in vars(module).items() if key.startswith("mcp_"))
    function()
    assert calls[0] == ("mcp_" + name, {parameter: default})


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"anyOf": [{"type": "number"}, {"type": "object"}]}, "float | dict[str, Any]"),
        ({"type": "array", "items": True}, "list[Any]"),
        ({"type": "strange"}, "Any"),
        ({"type": []}, "Any"),
        ({}, "Any"),
    ],
)
def test_types_are_shown_as_python_writes_them(schema: dict[str, Any], shown: str) -> None:
    assert annotation(schema) == shown


def test_a_sentence_does_not_end_at_an_abbreviation() -> None:
    assert (
        first_sentence("Searches e.g. files in a.py quickly. More.") == "Searches e.g. files in a.py quickly."
    )


async def test_the_module_can_be_read_in_its_folder(scripts: Scripts) -> None:
    out = await scripts.output(
        "import hermes_tools, os\nprint(oct(os.stat(hermes_tools.__file__).st_mode)[-3:])\n"
        "print(open(hermes_tools.__file__).read())"
    )
    assert out.startswith("600\n")
    assert "def read_file(path: str, offset: int = 1) -> dict[str, Any]:" in out


def test_parse_json_finds_json_in_text() -> None:
    module, _ = load()
    assert module.parse_json('```json\n{"a": "b\nc"}\n```') == {"a": "b\nc"}
    assert module.parse_json("\ufeff[1, 2]") == [1, 2]
    assert module.parse_json(b'{"a": 1} trailing') == {"a": 1}
    assert module.parse_json({"already": 1}) == {"already": 1}
    with pytest.raises(ValueError, match="No JSON"):
        module.parse_json("{nothing" * 1000)


def test_shell_quote_makes_one_word() -> None:
    module, _ = load()
    assert module.shell_quote("it's; rm -rf /") == "'it'\"'\"'s; rm -rf /'"


def test_retry_tries_until_it_works() -> None:
    module, _ = load()
    results = iter([{"error": "not yet"}, ValueError("no"), {"fine": 1}])

    def fn() -> Any:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert module.retry(fn, attempts=3, delay=0) == {"fine": 1}
    assert module.retry(lambda: {"error": "for ever"}, attempts=2, delay=0) == {"error": "for ever"}
    with pytest.raises(ZeroDivisionError):
        module.retry(lambda: 1 / 0, attempts=2, delay=0)


def test_gather_keeps_the_order_and_raises_the_first_failure() -> None:
    module, _ = load()
    assert module.gather(*[lambda n=n: n for n in range(50)]) == list(range(50))
    assert module.gather([lambda: 1, lambda: 2]) == [1, 2]
    assert module.gather() == []
    with pytest.raises(KeyError):
        module.gather(lambda: 1, lambda: {}["a"], lambda: 1 / 0)
