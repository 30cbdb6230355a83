"""Scripted tasks on pages of loopback, in a real Chromium behind the boundary, by the tools themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser_stage import MISSING, Asked, BrowserStage, Reply

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserStage]:
    made = BrowserStage(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _afresh(stage: BrowserStage) -> None:
    stage.fresh()
    stage.site.asked.clear()
    session = stage.browsers.running()
    if session is not None:
        for tab in session.tabs[1:]:
            stage.run(session.close_tab(tab))


def test_a_form_is_filled_and_sent(stage: BrowserStage) -> None:
    stage.site.pages["/sent"] = lambda asked: Reply(f"<h1>Thanks</h1><p>{asked.path}</p>")
    page = stage.open(
        "/form",
        "<form action=/sent><label>Name <input name=name></label><label>Born <input type=date name=born>"
        "</label><select name=size aria-label=Size><option>S<option>M<option>L</select>"
        "<label><input type=checkbox name=news>News</label><label><input type=radio name=pay value=card>"
        "Card</label><textarea name=note aria-label=Note></textarea><button>Send</button></form>",
    )
    assert stage.call("type", ref=stage.ref('"Name"', page), text="Ann Ö. <b>")["changed"]
    stage.call("type", ref=stage.ref('"Born"', page), text="2001-02-03")
    assert stage.call("select", ref=stage.ref('"Size"', page), values=["L"])["selected"] == ["L"]
    assert "[checked]" in stage.call("click", ref=stage.ref('"News"', page))["changed"]
    stage.call("click", ref=stage.ref('"Card"', page))
    stage.call("type", ref=stage.ref('"Note"', page), text="two\nlines")
    result = stage.click('button "Send"')
    assert 'heading "Thanks"' in result["page"]
    sent = next(each.path for each in stage.site.asked if each.path.startswith("/sent"))
    assert sent == (
        "/sent?name=Ann+%C3%96.+%3Cb%3E&born=2001-02-03&size=L&news=on&pay=card&note=two%0D%0Alines"
    )


def test_a_page_that_changes_by_itself_is_told_as_what_changed(stage: BrowserStage) -> None:
    stage.site.pages["/data"] = Reply('["Ada", "Grace"]', kind="application/json", slow=0.3)
    stage.open(
        "/app",
        "<button onclick=\"history.pushState(0,'','/app/people');"
        "fetch('/data').then(r=>r.json()).then(n=>{list.innerHTML=n.map(x=>`<li>${x}</li>`).join('')})\">"
        "People</button><ul id=list></ul><p>Footer that stays</p>",
    )
    result = stage.click("People")
    assert result["url"].endswith("/app/people")
    assert "+- Ada\n+- Grace" in result["changed"]
    assert "Footer" not in result["changed"]


def test_an_endless_list_is_scrolled_to_what_is_wanted(stage: BrowserStage) -> None:
    stage.open(
        "/endless",
        "<div id=all></div><script>let n=0;function more(){for(let i=0;i<30;i++){const p=document."
        "createElement('p');p.textContent='Item '+(++n)+'.';all.append(p)}};more();"
        "addEventListener('scroll',()=>{if(innerHeight+scrollY>document.body.scrollHeight-50)more()})</script>",
    )
    for _ in range(12):
        result = stage.call("scroll", direction="down", amount=1.5)
        if "Item 85." in json.dumps(result):
            break
    else:
        raise AssertionError("Item 85. never came into view")


def test_frames_of_other_sites_and_closed_shadow_roots_are_shown_and_used(stage: BrowserStage) -> None:
    stage.site.pages["/inner"] = "<button onclick=\"this.textContent='pressed inside'\">Inside</button>"
    stage.site.pages["/middle"] = (
        f"<p style='height:300px'>tall</p><iframe src='{stage.site.url('/inner')}' height=80></iframe>"
    )
    page = stage.open(
        "/outer",
        "<div id=h></div><div style='height:600px'>space</div>"
        f"<iframe style='border:7px solid;padding:9px;margin-left:50px' width=500 height=200 src='"
        f"{stage.site.url('/middle', 'localhost')}'></iframe><script>h.attachShadow({{mode:'closed'}})."
        "innerHTML=`<button onclick=\"this.textContent='pressed in shadow'\">Hidden away</button>`</script>",
    )
    assert '"Hidden away"' in page
    assert "pressed in shadow" in stage.click("Hidden away")["changed"]
    assert "pressed inside" in json.dumps(stage.click('"Inside"'))


@pytest.mark.parametrize(
    ("script", "kind", "action", "text", "said"),
    [
        ("alert('careful')", "alert", "accept", "", "undefined"),
        ("confirm('sure?')", "confirm", "accept", "", "true"),
        ("confirm('sure?')", "confirm", "dismiss", "", "false"),
        ("prompt('who?')", "prompt", "accept", "Bob", "Bob"),
    ],
)
def test_dialogs_hold_the_page_up_until_they_are_answered(
    stage: BrowserStage, script: str, kind: str, action: str, text: str, said: str
) -> None:
    stage.open("/dialog", f"<button onclick=\"out.textContent='got '+{script}\">Go</button><p id=out></p>")
    assert stage.click("Go")["dialog"]["kind"] == kind
    assert "browser_dialog" in stage.call("snapshot")["error"]
    assert f"got {said}" in json.dumps(stage.call("dialog", action=action, text=text))


def test_a_file_goes_up_and_another_comes_down(stage: BrowserStage) -> None:
    (stage.workspace / "report.txt").write_text("the report")
    stage.site.pages["/taken"] = lambda asked: Reply(f"<p>got {len(asked.body)} bytes</p>")
    stage.site.pages["/file"] = Reply(
        b"\x00\x01data", kind="application/octet-stream",
        headers={"content-disposition": 'attachment; filename="../../evil na\u0000me.bin"'.replace("\0", "")},
    )  # fmt: skip
    page = stage.open(
        "/files",
        "<form action=/taken method=post enctype=multipart/form-data>"
        "<input type=file name=f aria-label=Report><button>Upload</button></form><a href=/file>Get it</a>",
    )
    stage.call("upload", ref=stage.ref("Report", page), paths=["report.txt"])
    assert "got" in stage.click('"Upload"')["page"]
    posted = next(each.body for each in stage.site.asked if each.path == "/taken")
    assert b'filename="report.txt"' in posted
    assert b"the report" in posted
    stage.call("back")
    saved = stage.click("Get it")["downloads"]
    assert len(saved) == 1
    assert (stage.workspace / saved[0]).read_bytes() == b"\x00\x01data"
    assert (stage.workspace / saved[0]).parent == stage.workspace / "downloads"
    kinds = [type(action).__name__ for action in stage.context.actions]
    assert kinds.count("ReadPath") == 1
    assert kinds.count("WritePath") == 1
    opened = stage.call("navigate", url=stage.site.url("/file"))
    assert len(opened["downloads"]) == 1 and opened["url"] == stage.site.url("/files")


def test_signing_in_shows_no_password_and_keeps_the_cookie(stage: BrowserStage) -> None:
    def login(asked: Asked) -> Reply:
        if asked.method == "POST":
            return Reply("", 302, {"location": "/account", "set-cookie": "who=ann; Path=/; HttpOnly"})
        return Reply(
            "<form method=post><input name=u aria-label=User><input type=password name=p aria-label=Password>"
            "<button>Sign in</button></form>"
        )

    stage.site.pages["/login"] = login
    stage.site.pages["/account"] = lambda asked: Reply(f"<h1>Hello {asked.headers.get('cookie')}</h1>")
    page = stage.open("/login")
    stage.call("type", ref=stage.ref("User", page), text="ann")
    typed = stage.call("type", ref=stage.ref("Password", page), text="hunter2-hunter2")
    assert "hunter2" not in json.dumps(typed)
    assert "••••" in typed["changed"]
    assert not any("hunter2" in action.headline() for action in stage.context.actions)
    assert "Hello who=ann" in stage.click("Sign in")["page"]


def test_a_window_that_opens_comes_to_the_front_and_can_be_closed(stage: BrowserStage) -> None:
    stage.site.pages["/other"] = "<title>Other</title><h1>The other page</h1>"
    stage.open("/opener", "<title>First</title><a href=/other target=_blank>Open</a>")
    result = stage.click("Open")
    assert "The other page" in result["page"]
    assert len(stage.call("tabs")["tabs"]) == 2
    assert stage.call("tabs", action="close", index=2)["tabs"][0].startswith("* 1: First")


def test_slow_and_broken_pages_are_said_so(stage: BrowserStage) -> None:
    stage.site.pages["/slow"] = Reply("<h1>At last</h1>", slow=1.2)
    assert "At last" in stage.open("/slow")
    stage.site.pages["/broken"] = lambda asked: None
    said = stage.call("navigate", url=stage.site.url("/broken"))["error"]
    assert "could not be opened" in said
    assert "No page /none" in stage.call("navigate", url=stage.site.url("/none"))["page"]


def test_an_element_that_is_gone_fails_with_the_page_as_it_is(stage: BrowserStage) -> None:
    stage.site.pages["/next"] = "<button onclick=\"document.title='wrong'\">Next page</button>"
    page = stage.open("/first", "<a href=/next>On</a><button id=b>Delete me</button>")
    old, doomed = stage.ref('"On"', page), stage.ref("Delete me", page)
    stage.call("console", expression="b.remove()")
    assert "gone" in stage.call("click", ref=doomed)["error"]
    stage.call("click", ref=old)
    result = stage.call("click", ref=old)
    assert "gone" in result["error"]
    assert 'button "Next page"' in result["page"]
    assert "no element" in stage.call("click", ref="e99999")["error"]


def test_what_covers_an_element_is_named_and_nothing_is_clicked(stage: BrowserStage) -> None:
    page = stage.open(
        "/covered",
        "<button onclick='document.title=1'>Buy</button><button disabled>Off</button>"
        "<div id=veil style='position:fixed;inset:0;background:#0008' aria-label='Cookies'>x</div>",
    )
    result = stage.call("click", ref=stage.ref("Buy", page))
    assert result["covered_by"].startswith("div#veil")
    assert "disabled" in stage.call("click", ref=stage.ref("Off", page))["error"]
    assert stage.call("snapshot")["title"] != "1"


def test_an_element_that_is_covered_in_part_is_clicked_where_it_shows(stage: BrowserStage) -> None:
    stage.open(
        "/half",
        "<button onclick='document.title=\"bought\"' style='width:200px;height:40px'>Buy</button>"
        "<div style='position:fixed;left:60px;top:0;width:400px;height:99px;background:red'>Cookies</div>",
    )
    assert stage.click("Buy")["title"] == "bought"


def test_an_element_that_flees_from_the_pointer_is_never_missed_silently(stage: BrowserStage) -> None:
    page = stage.open(
        "/flees",
        "<button id=a onclick='hits.textContent+=1' onmouseover='this.remove()'>Good</button>"
        "<button style='position:absolute;left:8px;top:8px;z-index:-1' onclick=\"hits.textContent+='BAD'\">"
        "Bad</button><p id=hits>hits:</p>",
    )
    result = stage.call("click", ref=stage.ref("Good", page))
    assert "error" in result
    assert "hits:" in stage.call("snapshot", full=True)["page"]
    assert "BAD" not in stage.call("snapshot", full=True)["page"]


def test_a_field_that_scripts_watch_gets_every_event(stage: BrowserStage) -> None:
    page = stage.open(
        "/complete",
        "<input aria-label=City oninput=\"hints.innerHTML=['Bern','Berlin'].filter(x=>x.startsWith(this."
        "value)).map(x=>`<li onclick='picked.textContent=this.textContent'>${x}</li>`).join('')\">"
        "<ul id=hints></ul><p id=picked></p>",
    )
    result = stage.call("type", ref=stage.ref("City", page), text="Berl")
    assert "Berlin" in result["changed"]
    assert 'Bern"' not in result["changed"]
    assert "text: Berlin" in stage.click("Berlin")["changed"]


def test_what_a_menu_shows_under_the_pointer_can_be_clicked(stage: BrowserStage) -> None:
    page = stage.open(
        "/menu",
        "<style>ul{display:none}div:hover ul{display:block}</style><div tabindex=0>Menu<ul><li>"
        "<a href='#chosen'>Choice</a></ul></div>",
    )
    assert "Choice" in stage.call("hover", ref=stage.ref("Menu", page))["changed"]
    assert stage.click("Choice")["url"].endswith("#chosen")


def test_keys_move_the_focus_and_reach_scripts(stage: BrowserStage) -> None:
    stage.open("/keys", '<body onkeydown="out.textContent=event.key+event.ctrlKey"><p id=out></p>')
    assert "ArrowDownfalse" in stage.call("press", key="ArrowDown")["changed"]
    assert "ktrue" in stage.call("press", key="Control+k")["changed"]
    assert "not a key" in stage.call("press", key="Nonsense")["error"]


def test_waiting_ends_when_the_text_is_there(stage: BrowserStage) -> None:
    stage.open("/late", "<p id=p>working</p><script>setTimeout(()=>p.textContent='finished',900)</script>")
    assert "finished" in stage.call("wait", text="finished")["changed"]
    assert "still there" in stage.call("wait", gone="finished", seconds=0.2)["waited"]


def test_the_console_and_errors_of_scripts_are_told(stage: BrowserStage) -> None:
    result = stage.call("navigate", url=stage.site.url("/none"))
    stage.site.pages["/errors"] = "<script>console.warn('look',1);nothere()</script>ok"
    result = stage.call("navigate", url=stage.site.url("/errors"))
    assert result["console_errors"] == 1
    lines = stage.call("console")["console"]
    assert lines[0] == "warning: look 1"
    assert "nothere is not defined" in lines[1]
    assert stage.call("console", expression="({a: [1, 2]})")["value"] == '{"a": [1, 2]}'


def test_pictures_and_paper_are_kept_as_files(stage: BrowserStage) -> None:
    stage.open("/looks", "<h1>Look</h1><img alt='A red dot' width=20 height=20 src='/dot.png'>")
    assert stage.call("get_images")["images"][0]["alt"] == "A red dot"
    seen = stage.call("vision", question="what is it?")
    assert seen["screenshot"].endswith(".png") and "only kept" in seen["note"]
    assert stage.call("pdf", path="new one/look.pdf")["file"] == "new one/look.pdf"
    assert (stage.workspace / "new one" / "look.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.thorough
def test_a_long_page_is_shown_in_part_and_lies_whole_on_disk(stage: BrowserStage) -> None:
    rows = "".join(f"<tr><td>Row {n}<td>{n * n}</tr>" for n in range(2000))
    page = stage.open("/long", f"<table>{rows}</table><button>Last</button>")
    assert len(page) < 7_000
    assert "out of view" in page
    kept = (stage.context.scratch / "browser" / "page.txt").read_text()
    assert "Row 1999 3996001" in kept.replace(" | ", " ")
    assert 'button "Last"' in kept
    assert "row: Row 0 | 0" in page


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/", "http://localhost:9/", "http://0x7f000001:9/", "http://[::ffff:127.0.0.1]:9/",
        "http://169.254.169.254/latest/", "http://10.0.0.1/", "file:///etc/passwd", "javascript:alert(1)",
        "http://user:pw@example.org/", "https://example.org/?k=sk-very-secret-token-1", "chrome://settings",
    ],
)  # fmt: skip
def test_addresses_that_are_never_opened_are_refused_before_anybody_is_asked(
    stage: BrowserStage, url: str
) -> None:
    assert "error" in stage.call("navigate", url=url)
    assert stage.context.actions == []


def test_a_page_reaches_nothing_that_its_origin_may_not(stage: BrowserStage) -> None:
    from tests.support.browser_stage import Site

    other = Site({"/x": "secret", "/": "secret"})
    there = f"127.0.0.1:{other.port}"
    try:
        stage.site.pages["/sw.js"] = Reply(
            f"oninstall=()=>fetch('http://{there}/x');", kind="text/javascript"
        )
        stage.site.pages["/moved"] = Reply("", 302, {"location": f"http://{there}/x"})
        page = stage.open(
            "/tries",
            f"<img src='http://{there}/x'><script src='http://{there}/x'></script>"
            f"<iframe src='http://{there}/x'></iframe><iframe src='/moved'></iframe>"
            f"<link rel=stylesheet href='http://{there}/x'><a href='http://{there}/x'>Link</a>"
            f"<script>fetch('http://{there}/x',{{mode:'no-cors'}}).catch(()=>0);"
            f"new WebSocket('ws://{there}/x').onerror=()=>0;navigator.serviceWorker.register('/sw.js');"
            f"new EventSource('http://{there}/x');fetch('/moved').catch(()=>0)</script>",
        )
        stage.call("wait", seconds=1)
        result = stage.call("click", ref=stage.ref('"Link"', page))
        assert "never reached" in json.dumps(result)
        assert other.asked == []
    finally:
        other.close()


def test_going_elsewhere_by_a_click_is_asked_for(stage: BrowserStage) -> None:
    stage.site.pages["/there"] = "<h1>There</h1>"
    stage.open("/here", f"<a href='{stage.site.url('/there', 'localhost')}'>Away</a>")
    context = stage.fresh(verdict=lambda action: "localhost" not in action.headline() or "on http" in
                          action.headline())  # fmt: skip
    session = stage.browsers.running()
    assert session is not None
    session._origins.clear()
    result = stage.click("Away")
    assert "was not opened" in json.dumps(result)
    assert any(action.headline().startswith("fetch http://localhost") for action in context.actions)
    assert not any(each.path == "/there" for each in stage.site.asked)


def test_a_known_secret_in_a_form_is_asked_for(stage: BrowserStage) -> None:
    page = stage.open("/secret", "<input aria-label=Key>")
    stage.fresh(verdict=lambda action: type(action).__name__ != "GiveSecret")
    result: dict[str, Any] = stage.call(
        "type", ref=stage.ref("Key", page), text="token sk-very-secret-token-1 x"
    )
    assert "Not allowed" in result["error"]
    assert "sk-very" not in stage.call("snapshot")["page"]
