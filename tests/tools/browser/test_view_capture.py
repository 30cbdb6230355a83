"""What is read after an action, of what is in view only and in part kept, beside a look at the whole page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser_stage import MISSING, BrowserStage, Reply
from tools.browser.page_text import delta

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")

PAGE = """<title>All kinds</title><style>
.marked::before { content: "marked "; } .off { display: none; }
#veil:checked ~ #veiled { visibility: hidden; }
</style>
<h1 id=head>Things</h1><p id=said>A <b>plain</b> sentence.</p>
<p id=name>Outer name</p><button id=named aria-labelledby=name>x</button>
<label for=field id=caption>Caption</label><input id=field><input id=box type=checkbox aria-label=Box>
<input id=veil type=checkbox aria-label=Veil><p id=veiled>Veiled text <button>Below the veil</button></p>
<select id=list aria-label=List><option>One<option>Two</select>
<fieldset id=group><button id=inside>In the group</button></fieldset>
<details id=more><summary>More</summary><p>Hidden at first</p></details>
<div id=part><a href=#x>Link</a> <button id=press onclick="this.textContent='pressed'">Press</button></div>
<ul id=items><li>First</li><li>Second</li></ul>
<table id=table><tr><td>1<td>one</table>
<div role=listbox><div role=option tabindex=0 id=red>Red</div><div role=option tabindex=0>Blue</div></div>
<div id=editor contenteditable aria-label=Editor>written</div>
<div id=host><span slot=b>Slotted</span></div><div id=shut></div><own-thing id=own></own-thing>
<button popovertarget=hint>Hint</button><div id=hint popover>The hint</div>
<dialog id=ask><button>Answer</button></dialog><iframe id=frame src=/frame width=300 height=60></iframe>
<div style="height:3000px"></div><div id=many></div><button id=far>Far away</button>
<script>
many.innerHTML = "<p>out of <i>view</i></p>".repeat(200);
const root = host.attachShadow({mode: "open"});
root.innerHTML = "<i>before</i><slot name=a></slot><slot name=b></slot>";
globalThis.shutRoot = shut.attachShadow({mode: "closed"}); shutRoot.innerHTML = "<button>Shut in</button>";
customElements.define("own-thing", class extends HTMLElement {
  constructor() { super(); this.inner = this.attachInternals(); this.inner.role = "button"; }
});
own.inner.ariaLabel = "Own"; own.tabIndex = 0;
</script>"""
CHANGES = (
    "head.firstChild.data = 'Other things'",
    "said.className = 'marked'",
    "document.getElementById('name').textContent = 'New outer name'",
    "caption.textContent = 'New caption'",
    "field.value = 'set by a script'",
    "field.setCustomValidity('wrong')",
    "box.checked = true",
    "box.indeterminate = true",
    "veil.checked = true",
    "list.selectedIndex = 1",
    "group.disabled = true",
    "more.open = true",
    "part.inert = true",
    "part.inert = false",
    "part.setAttribute('aria-hidden', 'true')",
    "part.removeAttribute('aria-hidden')",
    "items.firstChild.remove()",
    "items.prepend('loose text')",
    "items.classList.add('off')",
    "items.classList.remove('off')",
    "for (let n = 2; n < 9; n++) table.insertRow().innerHTML = `<td>${n}<td>row ${n}`",
    "red.focus()",
    "red.setAttribute('aria-selected', 'true')",
    "editor.textContent = 'rewritten'",
    "host.firstChild.slot = 'a'",
    "root.firstChild.textContent = 'after'",
    "shutRoot.firstChild.textContent = 'Still shut in'",
    "own.inner.ariaLabel = 'Renamed'",
    "own.inner.ariaDisabled = 'true'",
    "hint.showPopover()",
    "hint.hidePopover()",
    "ask.showModal()",
    "ask.close()",
    "document.body.setAttribute('aria-owns', 'press')",
    "document.body.removeAttribute('aria-owns')",
    "frame.contentDocument.querySelector('button').textContent = 'Changed in the frame'",
    "press.outerHTML = '<button id=press>Another</button>'",
    "document.title = 'Renamed'",
    "scrollTo(0, 250)",
    "shutRoot.firstChild.textContent = 'Shut in for good'",
    "frame.contentDocument.querySelector('button').textContent = 'Changed again'",
    "red.textContent = 'Dark red'",
    "scrollTo(0, document.body.scrollHeight)",
    "scrollTo(0, 0)",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserStage]:
    made = BrowserStage(tmp_path_factory.mktemp("browser"))
    made.site.pages["/frame"] = Reply("<button>In the frame</button>")
    yield made
    made.close()


@pytest.mark.thorough
def test_after_any_change_it_says_what_a_look_at_everything_says(stage: BrowserStage) -> None:
    stage.open("/all", PAGE)
    session = stage.browsers.running()
    assert session is not None
    tab = session.tab()
    assert tab.view is not None
    before = tab.view
    for change in ("0", *CHANGES):
        assert "error" not in stage.call("console", expression=f"{change}; 0")
        seen = stage.run(tab.capture_in_view(before))
        look = stage.run(tab.capture())
        assert seen.in_view() == look.in_view(), change
        shown = {line.ref for line in before.lines if line.ref and line.seen}
        assert shown - seen.refs() == shown - look.refs(), change
        if before.in_view() != look.in_view():
            assert delta(before, seen) == delta(before, look), change
        before = seen
    asked = len(tab._kept._kept)
    assert asked, "nothing was kept, so nothing was tested"


def test_lines_are_found_by_their_words_and_used_where_they_are(stage: BrowserStage) -> None:
    rows = "".join(f"<p>Lamp {n} <button onclick='b.textContent=++n'>Add</button></p>" for n in range(90))
    stage.open("/lamps", f"<title>Lamps</title><p>In the cart: <b id=b>0</b></p><script>n=0</script>{rows}")
    found = stage.call("snapshot", query="lamp 77")["found"]
    assert found.splitlines()[0] == "text: Lamp 77"
    assert found.count("\n") == 1
    result = stage.call("click", ref=stage.ref("Add", found))
    assert result["scrolled"] == "to the element"
    assert result["changed"] == "(nothing in view has changed)", "what came into view was told as a change"
    assert (
        "found" in stage.call("snapshot", query="add")["found"]
        or "more; use more words" in stage.call("snapshot", query="add")["found"]
    )
    assert "no line" in stage.call("snapshot", query="lamp 1234")["found"]
    assert "In the cart: 1" in stage.call("snapshot", query="cart")["found"].replace("\n", " ")


def test_what_is_asked_of_the_gate_is_called_by_its_name_also_out_of_view(stage: BrowserStage) -> None:
    stage.open("/far", "<div style='height:4000px'>top</div><button>Buy everything</button>")
    ref = stage.ref("Buy everything")
    stage.call("press", key="Home")
    stage.call("click", ref=ref)
    assert 'click button "Buy everything" on' in stage.context.actions[-1].headline()
