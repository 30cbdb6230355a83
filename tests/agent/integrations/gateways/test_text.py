"""Messages as platforms take them: cut at their limits, and in their own form of markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.integrations.gateways.chat_questions import match_answer
from agent.integrations.gateways.markup import chunks, length, translate_markdown

LINES = st.lists(
    st.sampled_from(["word " * 7, "", "```py", "```", "~~~", "- item", "x" * 130, "𝄞é" * 20, "## head"]),
    max_size=25,
).map("\n".join)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(LINES, st.sampled_from(["characters", "utf16", "bytes"]), st.sampled_from([60, 200]))
def test_each_chunk_fits_and_no_word_is_lost(text, unit, limit):
    found = chunks(text, limit, unit)
    assert all(0 < length(each, unit) <= limit for each in found)
    words = re.sub(r"[`~\s]|py", "", text)
    assert re.sub(r"[`~\s]|py", "", "".join(found)) == words


def test_a_fence_that_fits_stays_whole_and_a_longer_one_is_opened_again():
    small = "```py\n" + "a = 1\n" * 10 + "```"
    assert small in chunks("words " * 10 + "\n\n" + small, 100)
    long = "```py\n" + "a = 1\n" * 60 + "```"
    pieces = chunks(long, 100)
    assert len(pieces) > 3
    assert all(each.startswith("```py\n") and each.endswith("\n```") for each in pieces)
    assert sum(each.count("a = 1") for each in pieces) == 60


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("telegram", "<b>a</b> &lt;b&gt; <code>x&lt;y</code> <i>c</i> <a href=\"https://e.org\">l</a> bad"),
        ("slack", "*a* &lt;b&gt; `x&lt;y` _c_ <https://e.org|l> bad"),
        ("whatsapp", "*a* <b> `x<y` _c_ l (https://e.org) bad"),
        ("plain", "a <b> `x<y` c l (https://e.org) bad"),
    ],
)  # fmt: skip
def test_markdown_is_written_in_the_form_of_the_platform(form, expected):
    text = "**a** <b> `x<y` *c* [l](https://e.org) [bad](ssh://e.org)"
    assert translate_markdown(text, form) == expected


@pytest.mark.parametrize("form", ["telegram", "slack", "whatsapp", "plain"])
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("2*3*4 is 24", "2*3*4 is 24"),
        ("a*b and c*d", "a*b and c*d"),
        ("f(x)*g(x)*2", "f(x)*g(x)*2"),
        ("`2*3*4`", "2*3*4"),
        ("```\n2*3*4\n```", "2*3*4"),
    ],
)
def test_a_star_within_a_word_is_a_star(form, text, plain):
    found = re.sub(r"<[^>]+>|`", "", translate_markdown(text, form)).strip()
    assert found == plain


def test_raw_html_and_lists_and_tables_are_shown_as_text():
    told = translate_markdown("<script>x</script>\n\n1. a\n2. b\n\n|h|i|\n|-|-|\n|1|2|", "telegram")
    assert told.splitlines()[0] == "&lt;script&gt;x&lt;/script&gt;"
    assert "1. a\n2. b" in told
    assert "<pre>h  i\n1  2</pre>" in told


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", "once"),
        (" YES ", "once"),
        ("no", "deny"),
        ("2", "deny"),
        ("2.", "deny"),
        ("yes, please", None),
    ],
)
def test_an_approval_takes_the_words_yes_and_no(text: str, answer: str | None) -> None:
    options = [["Yes, once", "once"], ["No", "deny"]]
    assert match_answer({"options": options, "free": False, "scope": "approve"}, text) == answer
    # A question of the model means its own words.
    asked = {"options": [["once", "once"], ["No", "No"]], "free": True, "scope": "talk"}
    assert match_answer(asked, "yes") == "yes"
