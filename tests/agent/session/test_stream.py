"""Who hears of what happens in a session."""

from __future__ import annotations

from agent.events import Event, Noticed, TextAdded
from agent.session.stream import EventStream


def test_a_listener_of_some_types_hears_no_others_and_ends_when_it_wants() -> None:
    stream, everything, notices = EventStream(), list[Event](), list[Event]()
    stream.subscribe(everything.append)
    leave = stream.subscribe(notices.append, Noticed)
    text, notice = TextAdded(text="a"), Noticed(kind="info", text="b")
    for event in (text, notice, text):
        stream.emit(event)
    leave()
    stream.emit(notice)
    assert everything == [text, notice, text, notice] and notices == [notice]
