"""Markdown parsed with a part of the rules: the same as with all of them."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from widgets.transcript.links import BareLinks
from widgets.transcript.markdown import NESTING, parse, prepare_links

_TEXT = r"""
> - + * 1. 2) # | --- |--|:-:| === *** ``` ```py ~~~ ` `` \ \| ** _ __ ~ ~~ [ ] ]( ](b) ) ![ ! < > <b> </b>
<!-- & &amp; &#47; http:// https://x.y/z mailto: MAILTO:a@b.c // : [a]: word 7
"""
MARKS = _TEXT.split()
PIECES = [*MARKS, *(f"{mark} " for mark in MARKS), *(f"{mark}\n" for mark in MARKS), " ", "    ", "\t", "\n"]


@cache
def whole_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": NESTING + 10, "linkify": True})
    parser.enable(["table", "strikethrough", "linkify"]).disable("reference")
    parser.linkify = BareLinks()
    return parser


def assert_same(source: str) -> None:
    assert parse(source) == whole_parser().parse(source + "\n")


@pytest.mark.thorough
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=30).map("".join))
def test_no_token_is_another_than_with_all_rules(source: str) -> None:
    assert_same(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "plain words in one line",
        "two lines\nof them",
        "a hard  \nbreak and \n  a soft one",
        "a heading\n=",
        "a heading\n-",
        "-\n\n  an item without words first",
        "-     code in an item",
        ">\tcode in a quote?\n> \t\tthis is",
        "a|b\n-|-\n`c\\|d`|**e**",
        "see http://example.org/a_b_c*, MAILTO:a@example.org, ftp://x.y and //no.scheme",
        "http\\://example.org and http:&#47;/example.org",
        "[a ~~struck~~ ![image](i) and `](code)`](<u v> 'title')",
        "~one~ ~~two~~ ~~~three~~~",
        "1) one\n2) two\n\n10) ten",
        "*a **b* c** _d_e_",
        "<http://a.b> <i>c</i> &copy; &nosuch; \\& \\*",
        "<div>\n\n*a*\n\n</div>",
    ],
)
def test_each_rule_is_there_where_it_matters(source: str) -> None:
    assert_same(source)


def test_parsing_one_text_leaves_nothing_behind_for_the_next() -> None:
    first = parse("**a** and `b`")
    parse("| a |\n|---|\n| [b](c) |")
    parse("no marks at all")
    assert parse("**a** and `b`") == first


def test_what_bare_links_need_can_be_compiled_ahead() -> None:
    prepare_links()
    assert any(token.type == "link_open" for token in parse("http://a.b")[1].children or ())


AMID = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from widgets.transcript import markdown

class Amid:
    '''Stops the thread that reads the library in its middle, until another asks for what comes next.'''
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not reader:
            asked.set()
        elif name == "markdown_it.helpers":
            midway.set()
            if asked.wait(0.3):  # in vain, if the other one waits for the whole library
                time.sleep(0.1)

midway, asked = threading.Event(), threading.Event()
def read():
    import markdown_it
reader = threading.Thread(target=read)
sys.meta_path.insert(0, Amid())
reader.start()
assert midway.wait(60)
from widgets.transcript import links
tokens = markdown.parse("- *a*")
reader.join()
print(len(tokens), "markdown_it" in sys.modules)
"""


def test_a_library_that_another_thread_is_amid_is_waited_for() -> None:
    command = [sys.executable, "-I", "-c", AMID, str(Path(__file__).parents[3])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout.split(), done.stderr) == (["7", "True"], "")
