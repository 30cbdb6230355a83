from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.registry import check_arguments
from tools.results import ToolError


def schema(kind: str | list[str], required: bool = True, **extra: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"x": {"type": kind, **extra}},
        "required": ["x"] if required else [],
    }


TEXTS = {"type": "array", "items": {"type": "string"}}

REPAIRED = [
    ("integer", "5", 5),
    ("integer", " -5 ", -5),
    ("integer", "+7", 7),
    ("integer", 5.0, 5),
    ("integer", "5.0", 5),
    ("integer", "1e3", 1000),
    ("number", "2.5", 2.5),
    ("number", 3, 3),
    ("string", 5, "5"),
    ("string", 2.5, "2.5"),
    ("string", "", ""),
    ("boolean", "true", True),
    ("boolean", "False", False),
    ("boolean", 1, True),
    ("boolean", 0, False),
    ("boolean", "yes", True),
    ("boolean", "off", False),
    ("array", '["a", 1]', ["a", 1]),
    ("object", '{"a": 1}', {"a": 1}),
    (["integer", "null"], None, None),
    (["string", "integer"], "5", "5"),
]

REFUSED = [
    ("integer", True),
    ("integer", "five"),
    ("integer", 5.5),
    ("integer", "5.5"),
    ("integer", float("nan")),
    ("integer", float("inf")),
    ("integer", "9" * 30),
    ("integer", 10**5000),
    ("integer", 1e300),
    ("integer", None),
    ("number", "nan"),
    ("number", "Infinity"),
    ("number", False),
    ("number", ""),
    ("string", True),
    ("string", {"text": "a"}),
    ("string", ["a"]),
    ("string", 10**5000),
    ("boolean", "maybe"),
    ("boolean", 2),
    ("boolean", []),
    ("array", "[1, 2"),
    ("array", '{"a": 1}'),
    ("array", "[" * 100_000),
    ("object", "[1]"),
    ("object", 5),
]


@pytest.mark.parametrize(("kind", "given_value", "meant"), REPAIRED)
def test_what_has_one_sensible_reading_is_repaired(kind: Any, given_value: Any, meant: Any) -> None:
    repaired = check_arguments(schema(kind), {"x": given_value})["x"]
    assert repaired == meant
    assert type(repaired) is type(meant)


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=lambda value: type(value).__name__)
def test_what_has_no_sensible_reading_is_refused_by_name(kind: str, value: Any) -> None:
    with pytest.raises(ToolError) as error:
        check_arguments(schema(kind), {"x": value})
    assert "Parameter x must be" in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("value", [None, [], "x", 5, True])
def test_arguments_that_are_no_object_are_refused(value: Any) -> None:
    with pytest.raises(ToolError, match="must be a JSON object"):
        check_arguments(schema("string"), value)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_an_optional_parameter_left_open_takes_its_default(value: Any) -> None:
    assert check_arguments(schema("integer", required=False, default=3), {"x": value}) == {"x": 3}


def test_an_empty_text_stays_where_a_text_belongs() -> None:
    assert check_arguments(schema("string", required=False, default="d"), {"x": ""}) == {"x": ""}


def test_an_empty_text_for_an_optional_choice_takes_the_default() -> None:
    spec = schema("string", required=False, enum=["a", "b"], default="a")
    assert check_arguments(spec, {"x": ""}) == {"x": "a"}


def test_a_default_that_is_a_list_is_not_shared_between_calls() -> None:
    spec = schema("array", required=False, default=[])
    check_arguments(spec, {})["x"].append(1)
    assert check_arguments(spec, {}) == {"x": []}


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(ToolError, match="Missing parameter x"):
        check_arguments(schema("string"), {})


@pytest.mark.parametrize("written", ["oldString", "old-string", "OLD_STRING", "OldString"])
def test_a_name_in_another_spelling_is_understood(written: str) -> None:
    spec = {"type": "object", "properties": {"old_string": {"type": "string"}}, "required": ["old_string"]}
    assert check_arguments(spec, {written: "a"}) == {"old_string": "a"}


def test_a_parameter_that_is_given_rightly_is_not_overwritten_by_a_misspelled_one() -> None:
    spec = {"type": "object", "properties": {"old_string": {"type": "string"}}}
    clean = check_arguments(spec, {"oldString": "wrong", "old_string": "right"})
    assert clean["old_string"] == "right"


def test_an_unknown_parameter_is_refused_where_the_schema_is_closed() -> None:
    spec = {**schema("string"), "additionalProperties": False}
    with pytest.raises(ToolError, match=r"Unknown parameter y; this tool takes: x\."):
        check_arguments(spec, {"x": "a", "y": 1})


def test_an_unknown_parameter_passes_where_the_schema_is_open() -> None:
    assert check_arguments(schema("string"), {"x": "a", "y": 1}) == {"x": "a", "y": 1}


@pytest.mark.parametrize(("value", "meant"), [("CONTENT", "content"), (" files ", "files"), (1, 1)])
def test_a_choice_is_recognised_in_any_case(value: Any, meant: Any) -> None:
    assert check_arguments(schema([], enum=["content", "files", 1]), {"x": value}) == {"x": meant}


def test_true_is_not_taken_for_the_choice_1() -> None:
    with pytest.raises(ToolError, match="must be one of 1, 2, not True"):
        check_arguments(schema([], enum=[1, 2]), {"x": True})


def test_a_wrong_choice_is_told_the_right_ones() -> None:
    with pytest.raises(ToolError, match="must be one of content, files, not lines"):
        check_arguments(schema("string", enum=["content", "files"]), {"x": "lines"})


@pytest.mark.parametrize(
    ("kind", "limits", "value", "said"),
    [
        ("integer", {"minimum": 1}, 0, "at least 1"),
        ("integer", {"maximum": 9}, "10", "at most 9"),
        ("array", {"maxItems": 1}, [1, 2], "at most 1 item,"),
        ("array", {"minItems": 1}, [], "at least 1 item,"),
        ("string", {"maxLength": 2}, "abc", "at most 2 characters"),
        ("string", {"minLength": 1}, "", "at least 1 character,"),
    ],
)
def test_limits_are_kept(kind: str, limits: dict[str, int], value: Any, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        check_arguments(schema(kind, **limits), {"x": value})


def test_one_text_where_a_list_of_texts_belongs_becomes_a_list() -> None:
    assert check_arguments(schema(**_as_kwargs(TEXTS)), {"x": "error"}) == {"x": ["error"]}


def test_one_object_where_a_list_of_objects_belongs_becomes_a_list() -> None:
    spec = schema("array", items={"type": "object", "properties": {"id": {"type": "string"}}})
    assert check_arguments(spec, {"x": {"id": 1}}) == {"x": [{"id": "1"}]}


@pytest.mark.parametrize("field", ["label", "description", "text", "title"])
def test_an_object_for_one_item_of_a_list_of_texts_is_unwrapped(field: str) -> None:
    assert check_arguments(schema(**_as_kwargs(TEXTS)), {"x": [{field: "yes"}, "no"]}) == {"x": ["yes", "no"]}


def test_a_wrong_item_is_named_with_its_place() -> None:
    spec = schema("array", items={"type": "object", "properties": {"n": {"type": "integer"}}})
    with pytest.raises(ToolError, match=r"x\[1\]\.n must be an integer"):
        check_arguments(spec, {"x": [{"n": 1}, {"n": "two"}]})


def _as_kwargs(spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": spec["type"], "items": spec["items"]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)

PROPERTIES = {
    "a": {"type": "integer", "minimum": 0, "default": 1},
    "b": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    "c": {"type": "object", "properties": {"d": {"type": ["number", "null"]}}, "required": ["d"]},
    "e": {"type": "string", "enum": ["x", "y"]},
    "f": {"type": "boolean"},
}


@pytest.mark.thorough
@given(st.dictionaries(st.sampled_from([*PROPERTIES, "z", "A"]), json_values, max_size=5))
def test_any_arguments_are_either_refused_or_fit_the_schema(arguments: dict[str, Any]) -> None:
    before = copy.deepcopy(arguments)
    try:
        clean = check_arguments({"type": "object", "properties": PROPERTIES}, arguments)
    except ToolError as error:
        assert str(error).isprintable()
        return
    finally:
        assert repr(arguments) == repr(before)
    assert isinstance(clean["a"], int) and clean["a"] >= 0
    assert all(isinstance(item, str) for item in clean.get("b", []))
    assert clean.get("e", "x") in ("x", "y")
    assert isinstance(clean.get("f", True), bool)
    again = check_arguments({"type": "object", "properties": PROPERTIES}, clean)
    assert json.dumps(again, default=str) == json.dumps(clean, default=str)
